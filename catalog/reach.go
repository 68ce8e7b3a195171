package catalog

import (
	"maps"
	"slices"
	"strings"
)

// Reach is all that may happen when code stored in the schema runs: what the code
// does itself, what the functions, operators and types in it do, what the relations
// it names set off (views, policies, triggers, defaults, checks, rules, actions of
// foreign keys), and so on to the end. Reach is a union: Opaque, for example, does
// not empty Reads.
type Reach struct {
	// Reads are the relations that the code may read or write. Writes are the
	// relations among Reads that it may write.
	Reads, Writes []Name
	// Notifies: the code may call NOTIFY.
	Notifies bool
	// Locks: the code may take advisory locks.
	Locks bool
	// DDL: the code may change the schema, beyond temporary tables.
	DDL bool
	// Opaque: the code may do anything else, because it runs texts that are put
	// together at run time, or is written in a language that weft does not read.
	Opaque bool
}

// Pure reports whether the code does nothing but compute its result: it touches no
// relation and has no other effect.
func (r *Reach) Pure() bool {
	return r == nil || len(r.Reads) == 0 && len(r.Writes) == 0 && !r.Notifies && !r.Locks && !r.DDL && !r.Opaque
}

// Run is code that PostgreSQL runs by itself when a relation is written.
type Run struct {
	Kind RunKind
	// Name is the name of the column, constraint, index, trigger or rule.
	Name string
	Reach
}

// RunKind says what kind of code a Run is, and so which statements set it off.
type RunKind byte

// The kinds of Run.
const (
	RunDefault   RunKind = 'd' // a default: INSERT without a value, or SET DEFAULT
	RunGenerated RunKind = 'g' // a generated column: any statement that stores a row
	RunCheck     RunKind = 'c' // a CHECK constraint: any statement that stores a row
	RunType      RunKind = 'y' // a column's domain or range type: any statement that stores a row
	RunIndex     RunKind = 'x' // an index, exclusion or partition key: any statement that stores a row
	RunTrigger   RunKind = 't' // a trigger: its function and its WHEN
	RunWhen      RunKind = 'w' // the WHEN of a trigger, without the function
	RunRule      RunKind = 'r' // a rewrite rule
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
	// Permissive says that a row passes which any permissive policy lets pass. A row has to pass all
	// policies that are not permissive.
	Permissive bool
	// Using is USING as text, all names qualified. Empty if there is none, or if one of Relations is
	// Busy.
	Using string
	// Roles are the roles that the policy applies to. Empty means all roles.
	Roles []string
	// Relations are the relations that the policy's expressions read. The policy's
	// own table is among them only if a subquery reads it.
	Relations []Name
	// Expressions are USING and WITH CHECK as text, all names qualified; without WITH CHECK if
	// Relations is empty. Empty if one of Relations is Busy.
	Expressions []string
	// Calls is what the functions, operators and types in the expressions reach.
	Calls Reach
}

// Named is an operator, a type or an event trigger, with what it reaches.
type Named struct {
	Name
	Reach
}

// Operators returns the user's operators of that name, in any schema, that are not
// pure.
func (s *Schema) Operators(name string) []*Named { return s.operators[name] }

// Types returns the user's types of that name, in any schema, whose values are
// checked or made by code that is not pure.
func (s *Schema) Types(name string) []*Named { return s.reaching[name] }

// Casts returns the casts by functions that are not pure, and the support functions
// of operator classes that are not pure. Any statement may use them, because no
// statement names them.
func (s *Schema) Casts() []*Cast { return s.casts }

// EventTriggers returns the event triggers, with what their functions reach.
func (s *Schema) EventTriggers() []*Named { return s.events }

// Cast is a cast by a function, or a support function of an operator class.
type Cast struct {
	// What describes the cast or support function in messages.
	What string
	Reach
}

// vertex is a piece of code stored in the schema: a function, an operator, a type,
// a default, a trigger and so on.
type vertex struct {
	schema        string    // the schema of an operator or a type
	next          []*vertex // the code that this code runs
	reads, writes []Name
	// unsure: the code may write every relation in reads.
	unsure bool

	changes, notifies, locks, ddl, opaque bool
}

// graph is all code that a database stores. Its edges lead from code to the code
// that it runs.
type graph struct {
	// reading has the code that runs when a relation is read, writing the code that
	// runs when it is written.
	reading, writing map[Name]*vertex
}

func newGraph() *graph { return &graph{reading: map[Name]*vertex{}, writing: map[Name]*vertex{}} }

// at returns the vertex of a relation in m, which is graph.reading or graph.writing,
// and makes it if there is none.
func at(m map[Name]*vertex, n Name) *vertex {
	v := m[n]
	if v == nil {
		v = &vertex{}
		m[n] = v
	}
	return v
}

// close computes what a vertex reaches. shallow leaves out what relations set off:
// views, policies, triggers and the like.
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

// follow adds the writes that a write of one relation may cause in another: by
// actions of foreign keys, and in partitions and inheriting tables, where a row may
// be stored.
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
// they reference are updated or deleted.
func (fk *ForeignKey) Acts() bool {
	return strings.Contains(fk.Definition, " CASCADE") || strings.Contains(fk.Definition, " SET NULL") || strings.Contains(fk.Definition, " SET DEFAULT")
}
