package survey

import (
	"regexp"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/directory"
	"weft/executor"
	"weft/parser"
	"weft/plan"
	"weft/planner"
)

// Class is what becomes of a statement.
type Class string

// The classes, the best first.
const (
	// Free statements name no table of the application: SET, BEGIN, SELECT 1.
	Free Class = "no table"
	// One is a shard that the key of the rows names, or any shard.
	One Class = "one shard"
	// Home is the home shard, because it has tables that are not declared.
	Home Class = "home shard"
	// Several is more than one shard.
	Several Class = "several shards"
	// Refused statements get an error from weft.
	Refused Class = "refused"
	// Missing statements name a table that does not exist.
	Missing Class = "no such table"
	// Unread statements do not parse.
	Unread Class = "not parsed"
)

// classes lists all classes, the best first.
var classes = []Class{Free, One, Home, Several, Refused, Missing, Unread}

// Statement is a statement with what becomes of its executions.
type Statement struct {
	// Text is the statement, with parameters in the place of literals.
	Text string `json:"statement"`
	// Class is what becomes of its executions, the worst if they differ.
	Class Class `json:"class"`
	// Shards is the largest number of shards that an execution may visit.
	Shards int     `json:"shards,omitempty"`
	Calls  int64   `json:"calls"`
	Time   float64 `json:"total_ms,omitempty"`
	// Reason says why the statement is refused or visits several shards, and Hint what helps.
	Code   string `json:"sqlstate,omitempty"`
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`

	plan  *plan.Plan
	lists []int // parameters that stand for lists of constants
	// catalogs: no table is named but those of PostgreSQL itself.
	catalogs bool
	rank     int // of Class in classes
	calls    [7]int64
	times    [7]float64
}

// Survey collects statements.
type Survey struct {
	env  *planner.Env
	snap *directory.Snapshot

	statements []*Statement
	index      map[string]*Statement // by what all texts of a statement have in common
	created    map[string]bool       // names of the relations that statements create
	timed      bool
	scan       parser.Scanner
	binder     executor.Binder
}

// New returns a survey of a cluster without statements.
func New(env *planner.Env, snap *directory.Snapshot) *Survey {
	return &Survey{env: env, snap: snap, index: map[string]*Statement{}, created: map[string]bool{}}
}

// Execution is a text that was run.
type Execution struct {
	Text string
	// Params are the values of $1, $2, … as text, nil for NULL. Without Params the values are not
	// known.
	Params [][]byte
	Calls  int64
	Time   float64 // of all calls, in milliseconds
}

// Add takes an execution.
func (s *Survey) Add(x Execution) {
	s.timed = s.timed || x.Time > 0
	text := []byte(x.Text)
	key, shown := x.Text, x.Text
	if s.scan.Scan(text, s.env.Options) {
		key = string(s.scan.Norm)
		shown = strings.TrimSuffix(parser.Statement(key), ";")
	}
	st := s.index[key]
	if st == nil {
		st = &Statement{Text: shown, lists: listParams(x.Text)}
		s.index[key] = st
		s.statements = append(s.statements, st)
	}
	var f fate
	if st.plan == nil || st.plan.Exact {
		f = s.plan(st, x.Text)
	}
	if f.class == "" {
		f = s.place(st, x, text)
	}
	st.note(f, x)
}

// note counts an execution.
func (st *Statement) note(f fate, x Execution) {
	rank := 0
	for i, c := range classes {
		if c == f.class {
			rank = i
		}
	}
	st.Calls += x.Calls
	st.Time += x.Time
	st.calls[rank] += x.Calls
	st.times[rank] += x.Time
	st.Shards = max(st.Shards, f.shards)
	if st.Class == "" || rank > st.rank {
		st.rank, st.Class, st.Code, st.Reason, st.Hint = rank, f.class, f.code, f.reason, f.hint
	}
}

// fate is what becomes of one execution.
type fate struct {
	class              Class
	shards             int
	code, reason, hint string
}

// squashed is how pg_stat_statements writes a list of constants from PostgreSQL 18 on.
var squashed = regexp.MustCompile(`\$(\d+) /\*, \.\.\. \*/`)

func listParams(text string) []int {
	var out []int
	for _, m := range squashed.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			out = append(out, n-1)
		}
	}
	return out
}

// plan plans a text. It returns a fate if the text alone decides.
func (s *Survey) plan(st *Statement, text string) fate {
	tree, err := parser.ParseTree(text, s.env.Options)
	if err != nil {
		st.plan = &plan.Plan{Exact: true}
		return fate{class: Unread, reason: err.Error()}
	}
	for _, raw := range tree.Statements {
		s.creates(raw.Stmt)
	}
	st.catalogs = s.readsCatalogs(tree)
	planned := planner.Plan
	if len(st.lists) > 0 {
		planned = planner.PlanGathered // the planner takes a list of one value for one shard
	}
	st.plan = planned(s.env, text, s.scan.Literals, nil)
	return fate{}
}

// readsCatalogs reports whether statements name tables, and these are PostgreSQL's own.
func (s *Survey) readsCatalogs(tree *parser.Tree) bool {
	system, others := false, false
	ctes := map[string]bool{}
	for _, raw := range tree.Statements {
		parser.Walk(raw.Stmt, func(m any) bool {
			if c, ok := m.(*pg.CommonTableExpr); ok {
				ctes[c.Ctename] = true
			}
			return true
		})
		parser.Walk(raw.Stmt, func(m any) bool {
			rv, ok := m.(*pg.RangeVar)
			if !ok || rv.Schemaname == "" && ctes[rv.Relname] {
				return true
			}
			if rv.Schemaname == "pg_catalog" || rv.Schemaname == "information_schema" || rv.Schemaname == "" && strings.HasPrefix(rv.Relname, "pg_") {
				system = true
			} else {
				others = true
			}
			return true
		})
	}
	return system && !others
}

// creates notes the relations that a statement creates: those that follow may use them.
func (s *Survey) creates(n *pg.Node) {
	note := func(rv *pg.RangeVar) {
		if rv != nil {
			s.created[rv.Relname] = true
		}
	}
	note(n.GetCreateStmt().GetRelation())
	note(n.GetViewStmt().GetView())
	note(n.GetCreateTableAsStmt().GetInto().GetRel())
	note(n.GetSelectStmt().GetIntoClause().GetRel())
	note(n.GetCreateForeignTableStmt().GetBaseStmt().GetRelation())
}

// place finds the shards of an execution.
func (s *Survey) place(st *Statement, x Execution, text []byte) fate {
	p := st.plan
	refused := func() fate {
		f := fate{class: Refused, reason: "weft cannot run it"}
		if p.Refusal != nil {
			f.code, f.reason, f.hint = p.Refusal.Code, p.Refusal.Message, p.Refusal.Hint
		}
		return f
	}
	switch {
	case p.Unread:
		return fate{class: Unread, reason: p.Refusal.Message}
	case p.Missing != "" && !s.created[lastName(p.Missing)]:
		return fate{class: Missing, code: "42P01", reason: "relation \"" + p.Missing + "\" does not exist"}
	case p.Missing != "":
		return fate{class: Home, shards: 1}
	}
	switch {
	case p.Route == plan.Refused:
		return refused()
	case st.catalogs:
		return fate{class: Free}
	}
	switch p.Route {
	case plan.Any, plan.Call:
		return fate{class: Free}
	case plan.AnyCopy:
		return fate{class: One, shards: 1}
	case plan.Home:
		return fate{class: Home, shards: 1}
	case plan.Every:
		return fate{class: Several, shards: len(s.snap.Shards), reason: "it runs on every shard"}
	case plan.Program:
		return fate{class: Several, shards: len(s.snap.Shards), reason: "weft runs its statements one by one"}
	case plan.Gathered:
		if p.Across == nil {
			return refused()
		}
		return fate{class: Several, shards: len(s.snap.Shards), reason: "it names tables whose rows are not together on one shard"}
	}
	n, why, err := s.visits(st, x, text)
	switch {
	case err != nil:
		return fate{class: Refused, reason: err.Error()}
	case n <= 1:
		return fate{class: One, shards: 1}
	case p.Across == nil && p.Refusal != nil:
		return refused()
	}
	return fate{class: Several, shards: n, reason: why}
}

func lastName(written string) string {
	return written[strings.LastIndexByte(written, '.')+1:]
}

// visits returns on how many shards an execution may have rows.
func (s *Survey) visits(st *Statement, x Execution, text []byte) (n int, why string, err error) {
	p := st.plan
	if p.Looks || len(p.Params) > len(x.Params) || len(st.lists) > 0 {
		k := keys{text: text, literals: s.scan.Literals, options: s.env.Options, lists: st.lists, shards: len(s.snap.Shards)}
		n, why = k.instances(p.Instances)
		return n, why, nil
	}
	shards, err := s.binder.Bind(p, s.snap, &executor.Args{
		Text: text, Literals: s.scan.Literals, Options: s.env.Options,
		Params: executor.TextParams(x.Params), Generated: Samples(p),
	})
	if err != nil {
		return 0, "", err
	}
	if shards.Len() > 1 {
		k := keys{text: text, literals: s.scan.Literals, options: s.env.Options, shards: len(s.snap.Shards)}
		_, why = k.instances(p.Instances)
	}
	return shards.Len(), why, nil
}

// Samples stand for the values that weft would supply to an execution of a plan.
func Samples(p *plan.Plan) [][]byte {
	if p.Generate == nil {
		return nil
	}
	var out [][]byte
	for i, v := range p.Generate.Values {
		if v.Sequence == "" {
			out = append(out, []byte("00000000-0000-4000-8000-"+pad(i+1)))
			continue
		}
		out = append(out, strconv.AppendInt(nil, int64(i+1), 10))
	}
	return out
}

func pad(n int) string {
	digits := strconv.Itoa(n)
	return strings.Repeat("0", max(0, 12-len(digits))) + digits
}
