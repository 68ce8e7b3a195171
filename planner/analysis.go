package planner

import (
	"fmt"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/vindex"
)

// analysis is the work on one text: what is given, what the statements were found to touch, and the
// plan that is made of it. Its methods are in parts: see parts.go.
type analysis struct {
	// What is given.

	env    *Env
	text   text // the text at hand: the client's, or a view's while that is looked into
	client text // the text of the client
	params *params
	when   gathering
	// probe is what a look at one block of a statement notes. Nil in the analysis of a whole
	// statement.
	probe   *probe
	view    viewing
	insert  insertion
	inlined inlining
	// keeping: calls of routines that keep to an argument go to its shard. unkept: they must not. keepers is what has been proved of routines.
	keeping, unkept bool
	keepers         map[*catalog.Function]*keeper

	// What has been found.

	// recalled are the calls of currval and lastval whose values weft supplies.
	recalled map[*pg.FuncCall]bool

	instances []*instance
	touched   touched
	functions []*catalog.Function
	judged    []*catalog.Relation // tables whose policies are being judged
	reads     map[*catalog.Relation]reads
	copies    []*catalog.Relation // reference tables that are written
	notes     *notes
	classes   map[*scope]*classes
	drawn     bool // the statement gives rows that are there values of sequences

	// What is made of it.

	out       *plan.Plan
	held      map[int]bool // the literals that are holes of a Text
	edits     []textEdit
	conflicts [][]*plan.LookupKey // by row: the values that ON CONFLICT asks lookups for
	timed     bool                // texts have the time of the transaction as a hole
	scattered *pgerr.Error        // why a query is not gathered
	single    bool                // queries are cut into single tables
}

// tablesOnly reports whether queries are cut into single tables.
func (a *analysis) tablesOnly() bool { return a.single || a.env.tablesOnly }

// viewing is how an analysis looks into views.
type viewing struct {
	depth    int    // how many views the text at hand is inside
	expanded int    // how many views have been looked into in all
	owner    string // the role whose rights count in the view at hand; empty for the session's
	written  map[*catalog.Relation]*writable
}

// insertion is how an analysis treats the INSERT that the statement is.
type insertion struct {
	writer  *writer
	apart   bool // leave out what cannot be evaluated where the rows go
	aside   bool // leave out everything that is inserted
	stepped bool // look at what is stored when the rows are known
}

// text is where constants stand: the client's text, or a view's definition.
type text struct {
	sql      string
	tree     *parser.Tree
	literals []parser.Literal
	options  parser.Options
	path     []string
	stored   bool // the text is in the schema: constants are told by value
}

// touched collects what a statement names, in the statement's own words.
type touched struct {
	sharded, reference, home []string
	missing                  []*pg.RangeVar
	waits                    []string
	// Functions of the session run on the home shard; functions of the catalog look at it.
	homely     []string // functions that belong to the home shard
	temporary  string   // a function or type in pg_temp
	sequences  []string // nextval and the like
	advisory   bool
	catalog    bool // names of objects are looked up
	writesHome bool
	system     string // a system column: ctid, xmin, …
	placed     string // a function that runs on the shard of an argument
	guarded    string // a table whose policies read parameters of the session, or call functions that may
	// sizes are the calls of functions that tell sizes of relations and databases, estimates and
	// statistics are columns of pg_class and views that do.
	sizes       []*pg.FuncCall
	estimates   []estimate
	statistics  []*pg.RangeVar
	sizesInView bool
}

// instance is an appearance of a sharded table.
type instance struct {
	table  *table
	name   string
	rv     *pg.RangeVar // nil for a row that is stored
	rel    *catalog.Relation
	scope  *scope
	cols   map[string]*column
	stored bool
	// semi is set in a subquery whose rows are asked for and not used (EXISTS).
	semi bool
	// policy is what row security says of the key. Nil for nothing.
	policy *plan.Policy
	// keys is what is known of each key column of a stored row: values, or a column whose facts
	// hold.
	keys []storedKey
}

// storedKey is what is known of one key column of a stored row.
type storedKey struct {
	known  bool
	set    plan.Set
	column *column
}

// solve returns what the plan says of an instance.
func (x *instance) solve(cl *classes) plan.Instance {
	out := plan.Instance{Table: &x.table.Table, Name: x.name, Stored: x.stored}
	for i, k := range x.table.keys {
		var sets []plan.Set
		switch {
		case !x.stored:
			if c := x.cols[k.Name]; c != nil {
				sets = cl.sets(c)
			}
		case x.keys[i].column != nil:
			// The key takes the column's value. A value of another type may change on the way.
			if c := x.keys[i].column; class(datum.Type(k.Type)) == c.class() && c.class() != 0 {
				for _, s := range cl.sets(c) {
					sets = append(sets, typed(s, c, &column{typ: datum.Type(k.Type)}))
				}
			}
		case x.keys[i].known:
			sets = []plan.Set{x.keys[i].set}
		}
		out.Keys = append(out.Keys, sets)
	}
	if !x.stored {
		out.Lookup = cl.lookup(x)
	}
	if x.policy != nil && !fixed(out.Keys[0]) {
		out.Policy = x.policy
	}
	if ids := x.table.IDs; ids != nil && !x.stored {
		// If the type is another one, the column is not a bigint any more.
		if c := x.cols[ids.Column]; c != nil && c.typ == datum.Int8 {
			out.IDs = cl.sets(c)
		}
	}
	if _, ordered := x.table.Vindex.(vindex.Ordered); ordered && !x.stored && len(x.table.keys) == 1 && len(out.Keys[0]) == 0 {
		if c := x.cols[x.table.keys[0].Name]; c != nil {
			out.Bounds = cl.bounds(c)
		}
	}
	return out
}

// refuse makes the plan a refusal. The first reason stays.
func (a *analysis) refuse(code, hint, format string, args ...any) {
	if a.out.Refusal != nil && a.out.Route == plan.Refused {
		return
	}
	a.out.Route = plan.Refused
	a.out.Refusal = pgerr.New(code, format, args...)
	if hint != "" {
		a.out.Refusal.Hint = hint
	}
}

func (a *analysis) unsupported(hint, format string, args ...any) {
	a.refuse(pgerr.FeatureNotSupported, hint, format, args...)
}

func (a *analysis) refused() bool { return a.out.Route == plan.Refused }

// relation returns the relation that a name means, and its declaration. Both may be nil.
func (a *analysis) relation(rv *pg.RangeVar) (*catalog.Relation, *table) {
	rel := a.find(rv.Schemaname, rv.Relname)
	return rel, a.declared(rel)
}

func (a *analysis) find(schema, name string) *catalog.Relation {
	a.env.asked.note(name)
	switch {
	case a.env.Schema == nil:
		return nil
	case schema != "":
		return a.env.Schema.Relation(catalog.Name{Schema: schema, Name: name})
	}
	return a.env.Schema.Resolve(a.text.path, name)
}

// declared returns a relation's declaration. A partition has that of its parent.
func (a *analysis) declared(rel *catalog.Relation) *table {
	for ; rel != nil; rel = rel.Parent {
		a.env.asked.note(rel.Name.Name)
		if t := a.env.Tables.find(rel.Name); t != nil {
			return t
		}
		if rel.Inherited {
			break
		}
	}
	return nil
}

// temporary reports whether a name means a temporary relation of the session, which come first in
// the search path.
func (a *analysis) temporary(rv *pg.RangeVar) bool {
	if rv.Schemaname != "" {
		return isTemporary(rv.Schemaname)
	}
	return !a.text.stored && a.env.Temporary[rv.Relname]
}

func isTemporary(schema string) bool {
	return schema == "pg_temp" || strings.HasPrefix(schema, "pg_temp_")
}

// columns makes the columns of a relation.
func columns(rel *catalog.Relation, x *instance) []output {
	var out []output
	for i := range rel.Columns {
		c := newColumn(&rel.Columns[i], x)
		out = append(out, output{c.name, c})
		if x != nil {
			x.cols[c.name] = c
		}
	}
	return out
}

// appear notes an appearance of a sharded table.
func (a *analysis) appear(t *table, name string, s *scope) *instance {
	x := &instance{table: t, name: name, scope: s, cols: map[string]*column{}}
	if a.env.Schema != nil && len(a.env.Schema.LookedUp()) > 0 {
		x.rel = a.env.Schema.Relation(t.name())
	}
	x.semi = a.probe != nil && a.probe.semi > 0
	a.instances = append(a.instances, x)
	return x
}

// touch notes that a declared table is named, and refuses a table whose declaration is broken.
func (a *analysis) touch(t *table, name string) {
	a.reach().locksInPolicies(t)
	switch {
	case t.broken != nil:
		a.refuse(pgerr.ObjectNotInPrerequisiteState, "", "%s", t.broken.Error())
	case t.state != "":
		a.touched.waits = append(a.touched.waits, name)
	}
	if t.Reference {
		a.touched.reference = append(a.touched.reference, name)
	} else {
		a.touched.sharded = append(a.touched.sharded, name)
	}
}

// why adds a line that explains the plan to people.
func (a *analysis) why(format string, args ...any) {
	a.out.Why = append(a.out.Why, fmt.Sprintf(format, args...))
}
