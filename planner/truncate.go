package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/pgerr"
	"weft/plan"
)

// truncate returns the route of TRUNCATE, of tables in any places. The home shard runs TRUNCATE
// first: it has all foreign keys except those that a declaration dropped, and so reports the errors
// that PostgreSQL would. The other shards run TRUNCATE for the tables that they have.
func (cm commands) truncate(n *pg.TruncateStmt) plan.Route {
	cm.a.out.Writes = true
	var home, every []*catalog.Relation
	var have []*pg.Node
	for _, x := range n.Relations {
		rel := cm.named(rangeVar(x.GetRangeVar()))
		if rel == nil {
			continue // the home shard has the table, or reports that it does not exist
		}
		if cm.placeOf(rel) != onEvery {
			home = append(home, rel)
			continue
		}
		every, have = append(every, rel), append(have, x)
	}
	cascade := n.Behavior == pg.DropBehavior_DROP_CASCADE
	all, beside := cm.emptied(slices.Concat(home, every), cascade, false), cm.emptied(every, cascade, true)
	for _, rel := range all {
		cm.mayTruncate(rel, all, cascade)
		if cm.isEvery(rel) && !slices.Contains(beside, rel) {
			// The table is reached through a home table, which the other shards lack.
			have = append(have, &pg.Node{Node: &pg.Node_RangeVar{RangeVar: &pg.RangeVar{
				Schemaname: rel.Schema, Relname: rel.Name.Name, Inh: true, Relpersistence: "p",
			}}})
		}
	}
	switch {
	case cm.a.refused():
		return plan.Refused
	case len(have) == 0:
		return plan.Home
	case len(have) == len(n.Relations) && len(home) == 0 && !n.RestartSeqs:
		return cm.everywhere()
	}
	fewer := proto.Clone(n).(*pg.TruncateStmt)
	fewer.Relations, fewer.RestartSeqs = have, false // only the home shard's sequences count on
	if r := cm.a.definitions().elsewhere(&pg.Node{Node: &pg.Node_TruncateStmt{TruncateStmt: fewer}}); r != plan.Every {
		return r
	}
	return cm.everywhere()
}

func (cm commands) isEvery(rel *catalog.Relation) bool { return cm.placeOf(rel) == onEvery }

// emptied lists the tables that TRUNCATE of some tables empties: their children, and with CASCADE
// the tables that reference them. If beside is set, only tables that are on every shard count.
func (cm commands) emptied(list []*catalog.Relation, cascade, beside bool) []*catalog.Relation {
	var out []*catalog.Relation
	todo := slices.Clone(list)
	for len(todo) > 0 {
		rel := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if rel == nil || slices.Contains(out, rel) || beside && !cm.isEvery(rel) {
			continue
		}
		out = append(out, rel)
		todo = append(todo, rel.Children...)
		// A foreign key on a partitioned table is one on its partitions.
		for up := rel; cascade && up != nil; up = up.Parent {
			for _, fk := range up.Referenced {
				todo = append(todo, cm.a.env.Schema.Relation(fk.Table))
			}
			if up.Inherited {
				break
			}
		}
	}
	return out
}

// mayTruncate refuses a TRUNCATE whose triggers or foreign keys would not see it.
func (cm commands) mayTruncate(rel *catalog.Relation, all []*catalog.Relation, cascade bool) {
	t := cm.a.declared(rel)
	if t != nil {
		cm.truncatesPart(rel, all)
		if !t.Reference {
			cm.a.reach().fires(rel, catalog.OnTruncate, nil)
		}
		for _, fk := range t.foreignKeys {
			// The foreign key went with the declaration: the home shard does not know it any more.
			if slices.ContainsFunc(all, func(o *catalog.Relation) bool { return o.Schema == fk.Schema && o.Name.Name == fk.Table }) {
				continue
			}
			if cascade {
				cm.a.unsupported("Name it in the command, too, or declare it.", "%q is referenced by %q, which is on the home shard alone", rel.Name.Name, fk.Table)
				continue
			}
			cm.a.refuse(pgerr.FeatureNotSupported, "Truncate table \""+fk.Table+"\" at the same time, or use TRUNCATE ... CASCADE.", "cannot truncate a table referenced in a foreign key constraint")
		}
	}
	for _, tr := range rel.Triggers {
		if !tr.Truncate {
			continue
		}
		for _, f := range cm.a.reach().userFunctions(tr.Function.Schema, tr.Function.Name) {
			r := cm.a.reach().reached(&f.Reach)
			switch {
			case t != nil && (cm.a.reach().beyond(&f.Reach) != "" || f.Changes):
				cm.a.unsupported("Drop the trigger, or use DELETE.", "trigger %q of %q would run on every shard", tr.Name, rel.Name.Name)
			case t == nil && (r.sharded != "" || r.copied != "" || r.opaque):
				cm.a.unsupported("Drop the trigger, or use DELETE.", "trigger %q of %q runs on the home shard, and may touch rows of other shards", tr.Name, rel.Name.Name)
			}
		}
	}
}

// truncatesPart refuses TRUNCATE of a partition whose table has lookups: the lookups would keep its
// entries.
func (cm commands) truncatesPart(rel *catalog.Relation, all []*catalog.Relation) {
	for r := rel.Parent; r != nil && !rel.Inherited; r = r.Parent {
		if len(r.Lookups) > 0 && !slices.Contains(all, r) {
			cm.a.unsupported("Use DELETE, or TRUNCATE "+r.Name.Name+".", "%q has lookups, and a partition of it cannot be truncated by itself", r.Name.Name)
		}
	}
}
