package catalog

import (
	"maps"
	"slices"
	"strings"
)

// Reach is all that may happen when something stored in the schema runs: what it
// does itself, what the functions, operators and types in it run, what stands
// behind the relations it names (views, policies, triggers, defaults, checks,
// rules, foreign keys' actions), and so on to the end. It is a union: one thing
// in it hides no other.
type Reach struct {
	// Reads are the relations that it may read or write. Writes are those of
	// them that it may write.
	Reads, Writes []Name
	// Notifies: it may call NOTIFY.
	Notifies bool
	// Locks: it may take advisory locks.
	Locks bool
	// DDL: it may change the schema (temporary tables apart).
	DDL bool
	// Opaque: it may do anything else: it runs texts that are put together at
	// run time, or is written in a language that is not read.
	Opaque bool
}

// Pure reports whether nothing beyond its own result is to be told.
func (r *Reach) Pure() bool {
	return r == nil || len(r.Reads) == 0 && len(r.Writes) == 0 && !r.Notifies && !r.Locks && !r.DDL && !r.Opaque
}

// Run is something that PostgreSQL runs by itself when rows of a relation are
// read or stored.
type Run struct {
	Kind RunKind
	// Name is that of the column, constraint, index, trigger or rule.
	Name string
	Reach
}

// RunKind is what sets it off.
type RunKind byte

// The kinds of Run.
const (
	RunDefault   RunKind = 'd' // INSERT without a value, SET DEFAULT
	RunGenerated RunKind = 'g' // whatever stores a row
	RunCheck     RunKind = 'c' // the same
	RunType      RunKind = 'y' // the same, by the domain or range of a column
	RunIndex     RunKind = 'x' // the same, by an index, an exclusion constraint or a partition key
	RunTrigger   RunKind = 't' // its function, and WHEN
	RunWhen      RunKind = 'w' // WHEN of a trigger alone
	RunRule      RunKind = 'r'
)

// String names what runs, for messages.
func (r *Run) String() string {
	name := `"` + r.Name + `"`
	switch r.Kind {
	case RunDefault:
		return "the default of column " + name
	case RunGenerated:
		return "generated column " + name
	case RunCheck:
		return "constraint " + name
	case RunType:
		return "the type of column " + name
	case RunIndex:
		return "index " + name
	case RunTrigger:
		return "trigger " + name
	case RunWhen:
		return "the condition of trigger " + name
	}
	return "rule " + name
}

// Policy is a row-security policy.
type Policy struct {
	Name string
	// Command is pg_policy.polcmd: r, a, w, d, or * for all.
	Command byte
	// Roles are those it is for; none: all.
	Roles []string
	// Relations are those that its expressions read, the table's own only if a
	// subquery reads it.
	Relations []Name
	// Expressions are USING and WITH CHECK as text, all names qualified. They are
	// there only if there are Relations, and not while one of those is Busy.
	Expressions []string
	// Calls is what the functions, operators and types in it reach.
	Calls Reach
}

// Named is what a name in a text may run beside functions: an operator or a type.
type Named struct {
	Name
	Reach
}

// Operators are the users' operators of that name, in whatever schema, that are
// not pure.
func (s *Schema) Operators(name string) []*Named { return s.operators[name] }

// Types are the users' types of that name, in whatever schema, whose values are
// checked or made by something that is not pure.
func (s *Schema) Types(name string) []*Named { return s.reaching[name] }

// Casts are the casts by functions that are not pure, and the support functions
// of operator classes that are not: no text names them.
func (s *Schema) Casts() []*Cast { return s.casts }

// EventTriggers are the functions of event triggers.
func (s *Schema) EventTriggers() []*Named { return s.events }

// Cast is a cast by a function, or a support function of an operator class.
type Cast struct {
	// What is how messages call it.
	What string
	Reach
}

// vertex is something that runs.
type vertex struct {
	schema        string // of an operator or a type
	next          []*vertex
	reads, writes []Name
	// unsure: it may write what it reads.
	unsure bool

	changes, notifies, locks, ddl, opaque bool
}

// graph is all that runs in a database.
type graph struct {
	// reading and writing are what runs when rows of a relation are read and
	// stored.
	reading, writing map[Name]*vertex
}

func newGraph() *graph { return &graph{reading: map[Name]*vertex{}, writing: map[Name]*vertex{}} }

// at returns what runs with a relation.
func at(m map[Name]*vertex, n Name) *vertex {
	v := m[n]
	if v == nil {
		v = &vertex{}
		m[n] = v
	}
	return v
}

// close finds what a vertex reaches. shallow: what stands behind relations does
// not count.
func (g *graph) close(start *vertex, shallow bool) Reach {
	var out Reach
	reads, writes := map[Name]bool{}, map[Name]bool{}
	seen := map[*vertex]bool{start: true}
	todo := []*vertex{start}
	visit := func(v *vertex) {
		if v != nil && !seen[v] {
			seen[v] = true
			todo = append(todo, v)
		}
	}
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		out.Notifies = out.Notifies || v.notifies
		out.Locks = out.Locks || v.locks
		out.DDL = out.DDL || v.ddl
		out.Opaque = out.Opaque || v.opaque
		for _, next := range v.next {
			visit(next)
		}
		for _, n := range v.reads {
			reads[n] = true
			if v.unsure {
				writes[n] = true
			}
			if !shallow {
				visit(g.reading[n])
			}
			if !shallow && v.unsure {
				visit(g.writing[n])
			}
		}
		for _, n := range v.writes {
			reads[n], writes[n] = true, true
			if !shallow {
				visit(g.reading[n])
				visit(g.writing[n])
			}
		}
	}
	out.Reads = slices.SortedFunc(maps.Keys(reads), Name.compare)
	out.Writes = slices.SortedFunc(maps.Keys(writes), Name.compare)
	return out
}

// follow adds what relations set off in each other: foreign keys' actions, and the
// partitions and heirs that a row may be stored in.
func (g *graph) follow(relations []*Relation) {
	for _, r := range relations {
		for _, fk := range r.ForeignKeys {
			if fk.Acts() {
				v := at(g.writing, fk.References)
				v.writes = append(v.writes, r.Name)
			}
		}
		if r.Parent != nil {
			v := at(g.writing, r.Parent.Name)
			v.writes = append(v.writes, r.Name)
		}
	}
}

// Acts reports whether a foreign key changes rows of its table when the rows that
// they reference change or go.
func (fk *ForeignKey) Acts() bool {
	return strings.Contains(fk.Definition, " CASCADE") || strings.Contains(fk.Definition, " SET NULL") || strings.Contains(fk.Definition, " SET DEFAULT")
}
