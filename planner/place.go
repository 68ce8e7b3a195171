package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// place says on which shards something is.
type place uint8

const (
	onHome  place = iota // on the home shard alone
	onEvery              // on all shards, because it belongs to declared tables
)

// named is a relation that a command names.
type named struct{ schema, name string }

func rangeVar(rv *pg.RangeVar) named { return named{rv.GetSchemaname(), rv.GetRelname()} }

func rangeVars(nodes []*pg.Node) []named {
	var out []named
	for _, n := range nodes {
		if rv := n.GetRangeVar(); rv != nil {
			out = append(out, rangeVar(rv))
		}
	}
	return out
}

// dotted makes a name of a list of names, without the last drop ones.
func dotted(n *pg.Node, drop int) (named, bool) {
	names := nameList(n.GetList().GetItems())
	if len(names) <= drop {
		return named{}, false
	}
	names = names[:len(names)-drop]
	out := named{name: names[len(names)-1]}
	if len(names) > 1 {
		out.schema = names[len(names)-2]
	}
	return out, true
}

// named finds a relation that a command names.
func (cm commands) named(n named) *catalog.Relation {
	if n.schema == "" && cm.a.env.Temporary[n.name] || isTemporary(n.schema) {
		return nil
	}
	return cm.a.find(n.schema, n.name)
}

// placeOf returns where a relation is: a table by its declaration, an object of a table with the
// table, a view by what it reads.
func (cm commands) placeOf(rel *catalog.Relation) place {
	switch {
	case rel == nil:
		return onHome
	case rel.Kind == catalog.Composite:
		if cm.a.env.Tables.Empty() || rel.System() {
			return onHome
		}
		return onEvery
	case rel.Kind == catalog.Sequence && cm.a.objects().feeds(rel.Name):
		return onEvery
	case rel.Kind == catalog.Index || rel.Kind == catalog.PartitionedIndex || rel.Kind == catalog.Sequence:
		if rel.OwnedBy.Name == "" {
			return onHome
		}
		rel = cm.a.env.Schema.Relation(rel.OwnedBy)
	case rel.Kind == catalog.View:
		if r := cm.viewReads(rel); r.home == "" && (r.sharded != "" || r.reference != "") {
			return onEvery
		}
		return onHome
	}
	if t := cm.a.declared(rel); t != nil {
		if t.state != "" {
			cm.a.touched.waits = append(cm.a.touched.waits, t.Name)
		}
		return onEvery
	}
	return onHome
}

// across returns the route of a command on relations, which must all be in one place.
func (cm commands) across(list ...named) plan.Route {
	cm.a.out.Writes = true
	var home, every string
	for _, n := range list {
		if cm.placeOf(cm.named(n)) == onEvery {
			every = n.name
		} else {
			home = n.name
		}
	}
	switch {
	case every == "":
		return plan.Home
	case home != "":
		cm.a.unsupported("Use a command for each.", "%q is on all shards and %q on the home shard alone: one command cannot change both", every, home)
		return plan.Refused
	}
	return cm.everywhere()
}

// everywhere returns the route of a command on objects that all shards have.
func (cm commands) everywhere() plan.Route {
	cm.a.out.Writes = true
	if len(cm.a.touched.waits) > 0 {
		cm.wait()
		return plan.Refused
	}
	return plan.Every
}

func (cm commands) wait() {
	cm.a.out.Waits = true
	cm.a.refuse(pgerr.ObjectInUse, "Try again when that is done.", "rows of table %q are being moved between shards", cm.a.touched.waits[0])
}

// global returns the route of a command on objects that belong to no table: types, functions,
// roles. All shards have them once a table is declared.
func (cm commands) global() plan.Route {
	cm.a.out.Writes = true
	if cm.a.env.Tables.Empty() {
		return plan.Home
	}
	return plan.Every
}

// change returns the plan's change of declarations.
func (cm commands) change() *plan.Change {
	if cm.a.out.Change == nil {
		cm.a.out.Change = &plan.Change{}
	}
	return cm.a.out.Change
}

// allTables lists the declared tables in a fixed order.
func (cm commands) allTables() []*table {
	cm.a.env.asked.noteAny()
	return cm.a.env.Tables.sorted()
}

// sorted lists the tables in a fixed order.
func (ts *Tables) sorted() []*table {
	if ts == nil {
		return nil
	}
	var out []*table
	for _, t := range ts.byName {
		out = append(out, t)
	}
	slices.SortFunc(out, func(x, y *table) int {
		if x.Schema+"\x00"+x.Name < y.Schema+"\x00"+y.Name {
			return -1
		}
		return 1
	})
	return out
}

// reads is what an object reads: one name of each kind.
type reads struct{ sharded, reference, home string }

func (r *reads) add(o reads) {
	if o.sharded != "" {
		r.sharded = o.sharded
	}
	if o.reference != "" {
		r.reference = o.reference
	}
	if o.home != "" {
		r.home = o.home
	}
}

// viewReads returns what a view reads. A view that cannot be looked into counts as reading
// everything.
func (cm commands) viewReads(rel *catalog.Relation) reads { return cm.readsOf(rel, 0) }

func (cm commands) readsOf(rel *catalog.Relation, depth int) (out reads) {
	name := rel.Name.Name
	if r, ok := cm.a.reads[rel]; ok {
		return r
	}
	if cm.a.reads == nil {
		cm.a.reads = map[*catalog.Relation]reads{}
	}
	defer func() { cm.a.reads[rel] = out }()
	tree, err := parser.ParseTree(rel.Definition, parser.Options{})
	if err != nil || depth > maxViews || rel.Definition == "" {
		return reads{name, name, name}
	}
	for _, s := range tree.Statements {
		parser.Walk(s, func(m any) bool {
			rv, ok := m.(*pg.RangeVar)
			if !ok {
				return true
			}
			n := catalog.Name{Schema: rv.Schemaname, Name: rv.Relname}
			if n.Schema == "" {
				n.Schema = "pg_catalog"
			}
			r := cm.a.env.Schema.Relation(n)
			switch t := cm.a.declared(r); {
			case r == nil && rv.Schemaname == "": // a CTE
			case t != nil && t.Reference:
				out.reference = t.Name
			case t != nil:
				out.sharded = t.Name
			case r != nil && r.Kind == catalog.View && !r.System() && r.Schema != ownSchema:
				out.add(cm.readsOf(r, depth+1))
			default:
				out.home = rv.Relname
			}
			return true
		})
	}
	return out
}
