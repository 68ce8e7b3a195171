package routine

import (
	"strconv"

	"weft/pgerr"
	"weft/program"
)

// Room keeps what the runs of a session have learnt. It is empty at first.
type Room struct {
	// under names what the rest was learnt under: schema, search_path and role.
	under    string
	cache    *program.Cache
	made     map[string]*program.Prepared // by text and types
	compiled map[string]*program.Program  // by text
	// opened are the names of prepared statements that the session has.
	opened map[string]bool
	last   uint64
	// depth is how many runs are under way, one inside the other. points is how many savepoints they have open.
	depth, points int
	// changed says that statements of the present run may have changed what names mean.
	changed bool
	// loose says that the innermost run may end the transaction.
	loose bool
	// held are the parameters that SET clauses of the routines under way have set, and definers is how many of the routines are SECURITY
	// DEFINER. locally are parameters that statements have set for the transaction.
	held     []string
	definers int
	locally  map[string]bool
}

const (
	// deepest bounds how many runs there may be one inside the other.
	deepest = 50
	// most bounds how many texts are remembered.
	most = 500
)

// enter makes the room fit what a run begins under. An empty name fits nothing.
func (r *Room) enter(under string) error {
	if r.depth >= deepest {
		e := pgerr.New("54001", "stack depth limit exceeded")
		e.Hint = "Programs that weft runs may call each other " + strconv.Itoa(deepest) + " deep."
		return &refusal{e}
	}
	if r.cache == nil || r.depth == 0 && (under == "" || r.under != under || r.changed || len(r.made) > most) {
		r.cache, r.made, r.under = program.NewCache(), map[string]*program.Prepared{}, under
	}
	if r.depth == 0 {
		r.changed, r.locally = false, map[string]bool{}
	}
	if r.compiled == nil || r.depth == 0 && len(r.compiled) > most {
		r.compiled = map[string]*program.Program{}
	}
	if r.opened == nil {
		r.opened = map[string]bool{}
	}
	r.depth++
	return nil
}

// forget drops what names meant before the schema or the search_path changed.
func (r *Room) forget() {
	r.cache.Forget()
	clear(r.made)
}

// name returns a name that no client uses and that is new.
func (r *Room) name(kind string) string {
	r.last++
	return "\x02" + kind + strconv.FormatUint(r.last, 36)
}

// compile compiles a program, once.
func (r *Room) compile(key string, source func() (program.Source, error)) (*program.Program, error) {
	if p := r.compiled[key]; p != nil {
		return p, nil
	}
	src, err := source()
	if err != nil {
		return nil, err
	}
	p, err := program.Compile(src)
	if err != nil {
		return nil, err
	}
	r.compiled[key] = p
	return p, nil
}
