package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/pgerr"
	"weft/plan"
)

// A function sees only the shard that it runs on. A function that is declared to run on the shard
// of one of its arguments is like a row whose key is that argument: a statement that calls it goes
// to that shard, or is refused.

// placed is a function that is declared to run on the shard of an argument.
type placed struct {
	argument int
	table    *table
}

// place adds the declared functions of a database.
func (ts *Tables) place(snap *directory.Snapshot, database string) {
	for _, f := range snap.Placed(database) {
		d := f.Table()
		t := &table{Table: plan.Table{Schema: d.Schema, Name: d.Name, Lookup: d.Vindex.Name, Colocation: d.Colocation()}, keys: d.Columns, vindex: d.Vindex}
		t.Vindex, t.broken = makeVindex(&d, snap.BucketCount)
		if ts.functions == nil {
			ts.functions = map[catalog.Name]*placed{}
		}
		ts.functions[catalog.Name{Schema: f.Schema, Name: f.Name}] = &placed{f.Argument, t}
	}
}

// placed returns the declaration of a function, or nil.
func (cm commands) placed(f *catalog.Function) *placed {
	if cm.a.env.Tables == nil {
		return nil
	}
	return cm.a.env.Tables.functions[f.Name]
}

// placedCall notes the call of a declared function. It reports false if the function is not
// declared.
func (l *level) placedCall(users []*catalog.Function, call *pg.FuncCall) bool {
	if len(users) != 1 {
		return false
	}
	f, p := users[0], l.a.commands().placed(users[0])
	if p == nil {
		k := l.keeps(f, call)
		if k == nil {
			return false
		}
		l.keptCall(k, f.Name.Name)
		p = &k.placed
	}
	if p.table.broken != nil {
		l.a.refuse(pgerr.ObjectNotInPrerequisiteState, "", "%s", p.table.broken.Error())
		return true
	}
	x := l.a.appear(p.table, f.Name.Name, l.scope)
	x.stored = true
	key := storedKey{}
	column := &catalog.Column{Name: p.table.keys[0].Name, Type: p.table.keys[0].Type, Base: p.table.keys[0].Type, Mod: -1}
	for i, arg := range call.Args {
		at := i
		if named := arg.GetNamedArgExpr(); named != nil {
			if at = -1; named.Name == column.Name {
				at = p.argument
			}
			arg = named.Arg
		}
		if at == p.argument {
			l.a.params.infer(arg, datum.Type(column.Base))
			if key = l.modification().stored(arg, column); key.column != nil {
				key = storedKey{} // a column has several values
			}
		}
	}
	x.keys = append(x.keys, key)
	l.a.touched.sharded = append(l.a.touched.sharded, f.Name.Name)
	l.a.touched.placed = f.Name.Name
	if f.Volatility == 'v' {
		l.a.out.Writes = true
	}
	return true
}

// onlyThere refuses to gather from several shards a statement that calls a declared function.
func (cm commands) onlyThere() *pgerr.Error {
	if cm.a.touched.placed == "" {
		return cm.a.oneShard()
	}
	return cannot("Give the argument as a constant or a parameter, and read only rows of the same key beside it.",
		"function %q runs on the shard of its argument, and this statement needs others as well", cm.a.touched.placed)
}

// kept returns the route of a statement. If the statement calls a declared function, it goes to one
// shard or is refused.
func (cm commands) kept(r plan.Route) plan.Route {
	refusal := cm.onlyThere()
	if refusal == nil || cm.a.refused() {
		return r
	}
	cm.a.out.Across, cm.a.scattered = nil, refusal
	if r != plan.Keyed {
		cm.a.out.Route, cm.a.out.Refusal = plan.Refused, refusal
		return plan.Refused
	}
	return r
}

// CheckPlaced returns the reason why a function cannot run on the shard of an argument, or nil.
func CheckPlaced(env *Env, d *directory.Function, buckets int) *pgerr.Error {
	a := &analysis{env: env, out: &plan.Plan{}}
	dt := d.Table()
	t := &table{keys: dt.Columns, vindex: dt.Vindex}
	if t.Vindex, t.broken = makeVindex(&dt, buckets); t.broken != nil {
		return pgerr.New(pgerr.InvalidParameterValue, "%s", t.broken.Error())
	}
	var found []*catalog.Function
	for _, f := range env.Schema.Functions(d.Name) {
		if f.Schema == d.Schema {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		return cannot("Give them different names.", "there are %d functions %s.%s", len(found), d.Schema, d.Name)
	}
	for _, n := range found[0].Reach.Reads {
		rel := env.Schema.Relation(n)
		if rel == nil || rel.System() || rel.Kind != catalog.Table && rel.Kind != catalog.PartitionedTable && rel.Kind != catalog.View && rel.Kind != catalog.MaterializedView {
			continue
		}
		other := a.declared(rel)
		switch {
		case rel.Kind == catalog.View && a.definitions().relationReads(rel).home == "":
		case other == nil:
			return cannot(a.reachHint(n.Name), "function %q touches %q, which is on the home shard alone", d.Name, n.Name)
		case !other.Reference && !colocated(other, t):
			return cannot("Its argument must be a key of the same kind: use colocate_with.", "function %q touches %q, whose rows are not where the argument's are", d.Name, n.Name)
		}
	}
	for _, n := range found[0].Reach.Writes {
		if other := a.declared(env.Schema.Relation(n)); other != nil && other.Reference {
			return cannot("Write it in a statement of its own.", "function %q writes reference table %q, which all shards have", d.Name, n.Name)
		}
	}
	return nil
}

// unplace notes that the declarations of dropped functions go with them.
func (cm commands) unplace(n *pg.DropStmt) {
	switch n.RemoveType {
	case pg.ObjectType_OBJECT_FUNCTION, pg.ObjectType_OBJECT_PROCEDURE, pg.ObjectType_OBJECT_ROUTINE:
	default:
		return
	}
	for _, o := range n.Objects {
		names := nameList(o.GetObjectWithArgs().GetObjname())
		if len(names) == 0 {
			continue
		}
		schema := ""
		if len(names) > 1 {
			schema = names[len(names)-2]
		}
		for _, f := range cm.a.reach().userFunctions(schema, names[len(names)-1]) {
			if cm.placed(f) != nil {
				cm.change().Functions = append(cm.change().Functions, nameOf(f.Name))
			}
		}
	}
}
