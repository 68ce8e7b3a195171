package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/plan"
)

// Partitions of a declared table are on the same shards as the table: rows are placed by the key of
// the table, and PostgreSQL finds the partition there.

// partition is the route of ATTACH and DETACH PARTITION.
func (df definitions) partition(n *pg.AlterTableStmt, kind pg.AlterTableType, d *pg.PartitionCmd) plan.Route {
	whole, part := df.a.commands().named(rangeVar(n.Relation)), df.a.commands().named(rangeVar(d.Name))
	t := df.a.declared(whole)
	if whole != nil && (whole.Kind == catalog.Index || whole.Kind == catalog.PartitionedIndex) {
		return df.a.commands().across(rangeVar(n.Relation))
	}
	if t == nil {
		if other := df.a.declared(part); other != nil && kind == pg.AlterTableType_AT_AttachPartition {
			df.a.unsupported(declareHint(n.Relation.Relname, nil), "%q is declared, and %q is on the home shard alone", other.Name, n.Relation.Relname)
			return plan.Refused
		}
		return plan.Home
	}
	if part == nil {
		return plan.Home // the home shard says so
	}
	if r := df.a.commands().across(rangeVar(n.Relation)); r != plan.Every {
		return r
	}
	if kind == pg.AlterTableType_AT_AttachPartition {
		return df.attach(t, whole, part)
	}
	if d.Concurrent && lookedUp(whole) {
		df.a.unsupported("Use DETACH PARTITION without CONCURRENTLY.", "%q has lookups, and they cannot follow DETACH PARTITION CONCURRENTLY", whole.Name.Name)
		return plan.Refused
	}
	df.detached(part, true)
	df.a.commands().change().Adds = append(df.a.commands().change().Adds, plan.Addition{Table: nameOf(part.Name), Like: plan.Name{Schema: t.Schema, Table: t.Name}})
	if d.Concurrent || kind == pg.AlterTableType_AT_DetachPartitionFinalize {
		df.a.commands().change().Again = &plan.Again{Kind: plan.Detaches, Name: nameOf(part.Name), Table: nameOf(whole.Name)}
		return df.a.commands().alone(plan.Every)
	}
	return plan.Every
}

// attach returns the route of ATTACH PARTITION. A table that becomes a partition must have its rows
// where the whole table has them. A table without rows is made on the other shards first.
func (df definitions) attach(t *table, whole, part *catalog.Relation) plan.Route {
	own := df.a.declared(part)
	switch {
	case part.Parent != nil:
		return plan.Home // the home shard says that it is a partition already
	case own == nil:
		return df.adopt(t, part)
	case own.state != "":
		df.a.touched.waits = append(df.a.touched.waits, own.Name)
		return df.a.commands().everywhere()
	case own.Reference != t.Reference, !t.Reference && !sameKeys(own, t):
		df.a.unsupported("Declare both by the same vindex and the same columns.",
			"%q cannot become a partition of %q: its rows are on other shards", part.Name.Name, whole.Name.Name)
		return plan.Refused
	}
	if len(part.Lookups) > 0 {
		df.a.unsupported("Drop them first, with the constraints that have them: "+whole.Name.Name+" brings its own.",
			"%q has lookups of its own and cannot become a partition of %q", part.Name.Name, whole.Name.Name)
		return plan.Refused
	}
	df.a.commands().change().Drops = append(df.a.commands().change().Drops, nameOf(part.Name))
	if lookedUp(whole) {
		df.a.commands().change().Lookups = append(df.a.commands().change().Lookups, plan.LookupChange{Kind: plan.Attached, Table: nameOf(whole.Name), Part: nameOf(part.Name)})
	}
	return plan.Every
}

// lookedUp reports whether rows of a table are in lookups.
func lookedUp(rel *catalog.Relation) bool {
	for ; rel != nil; rel = rel.Parent {
		if len(rel.Lookups) > 0 {
			return true
		}
	}
	return false
}

// detached makes lookups forget the rows of a partition that goes. A partition that stays as a
// table has unique indexes of its own.
func (df definitions) detached(part *catalog.Relation, stays bool) {
	if part == nil || part.Parent == nil || !lookedUp(part.Parent) {
		return
	}
	df.a.commands().change().Lookups = append(df.a.commands().change().Lookups, plan.LookupChange{Kind: plan.Detaching, Table: nameOf(part.Parent.Name), Part: nameOf(part.Name)})
	if stays {
		df.a.commands().change().Lookups = append(df.a.commands().change().Lookups, plan.LookupChange{Kind: plan.Uniques, Table: nameOf(part.Name)})
	}
}

// sameKeys reports whether rows of two tables with equal keys are on the same shard.
func sameKeys(x, y *table) bool {
	if !colocated(x, y) || len(x.keys) != len(y.keys) {
		return false
	}
	for i := range x.keys {
		if x.keys[i].Name != y.keys[i].Name {
			return false
		}
	}
	return true
}

// adopt checks a home table that is to become a partition of a declared table.
func (df definitions) adopt(t *table, part *catalog.Relation) plan.Route {
	for _, u := range part.Unique {
		df.uniqueness(part, t, uniqueKey{what: "unique index", columns: u.Columns, beyond: "a partition by itself"}, nil)
	}
	for _, fk := range part.ForeignKeys {
		df.adoptedKey(t, part, &fk)
	}
	for _, fk := range part.Referenced {
		df.a.unsupported(declareHint(fk.Table.Name, fk.Columns), "%q is referenced by %q, which is on the home shard alone", part.Name.Name, fk.Table.Name)
	}
	for i := range part.Triggers {
		tr := &part.Triggers[i]
		for _, f := range df.a.reach().userFunctions(tr.Function.Schema, tr.Function.Name) {
			df.a.reach().mayTrigger(part, t, tr, f)
		}
	}
	if len(part.Children) > 0 {
		df.a.unsupported("Attach its partitions after it, one by one.", "%q has partitions of its own", part.Name.Name)
	}
	if df.a.refused() {
		return plan.Refused
	}
	df.a.commands().change().Adopts = append(df.a.commands().change().Adopts, nameOf(part.Name))
	return plan.Every
}

// adoptedKey refuses a foreign key that would cross shards.
func (df definitions) adoptedKey(t *table, part *catalog.Relation, fk *catalog.ForeignKey) {
	c := &pg.Constraint{
		Contype: pg.ConstrType_CONSTR_FOREIGN, Pktable: &pg.RangeVar{Schemaname: fk.References.Schema, Relname: fk.References.Name},
		FkAttrs: stringNodes(fk.Columns), PkAttrs: stringNodes(fk.RefColumns),
	}
	update, del, set := fk.Actions()
	c.FkUpdAction, c.FkDelAction, c.FkDelSetCols = string(update), string(del), stringNodes(set)
	df.foreignKey(part, t, c, nil)
}

func stringNodes(names []string) []*pg.Node {
	var out []*pg.Node
	for _, n := range names {
		out = append(out, pg.MakeStrNode(n))
	}
	return out
}
