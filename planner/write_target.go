package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/pgerr"
	"weft/plan"
)

// target is the table that a statement writes.
type target struct {
	rv    *pg.RangeVar
	rel   *catalog.Relation
	table *table // nil if the table is on the home shard alone
	name  string
	// shown is rel without the columns that a view does not show. through describes the view, nil
	// for a table.
	shown   *catalog.Relation
	through *writable
}

// target finds the written table, and refuses one that cannot be written.
func (mo modification) target(rv *pg.RangeVar, c *changes) *target {
	mo.l.a.out.Writes = true
	if mo.l.a.temporary(rv) {
		mo.l.a.touched.home = append(mo.l.a.touched.home, rv.Relname)
		return &target{rv: rv, name: rv.Relname}
	}
	rel, t := mo.l.a.relation(rv)
	if rel == nil {
		mo.l.a.touched.missing = append(mo.l.a.touched.missing, rv)
		return &target{rv: rv, name: rv.Relname}
	}
	out := &target{rv: rv, rel: rel, shown: rel, table: t, name: rel.Name.Name}
	if rel.Schema == ownSchema {
		mo.l.a.refuse(pgerr.InsufficientPrivilege, "", "permission denied for schema %s: what it holds is weft's own", ownSchema)
	}
	switch {
	case t == nil && rel.Kind == catalog.View && !rel.System():
		return mo.viewTarget(rv, rel, c)
	case t == nil:
		mo.l.a.touched.home = append(mo.l.a.touched.home, rel.Name.Name)
		mo.l.a.touched.writesHome = true
		mo.homeTarget(rel, c)
	case t.Reference:
		mo.referenceTarget(rel, t, c)
		mo.cascading(rel, c)
		mo.l.a.writes().follows(rel)
	default:
		mo.l.a.touch(t, rel.Name.Name)
		mo.written(rel, t, c)
		mo.cascading(rel, c)
		mo.l.a.writes().follows(rel)
	}
	return out
}

// homeTarget refuses writes to a home table that would have to change rows of other shards.
func (mo modification) homeTarget(rel *catalog.Relation, c *changes) {
	mo.homeForeignKeys(rel)
	mo.policed(rel, nil, true)
	for _, r := range mo.l.a.reach().followers(rel, c) {
		if mo.l.a.declared(r) != nil {
			continue
		}
		mo.l.a.reach().storing(r, nil, c.of(r == rel))
		for i := range r.Runs {
			if run := &r.Runs[i]; run.Kind == catalog.RunTrigger || run.Kind == catalog.RunRule {
				mo.l.a.reach().runsWith(r, nil, run)
			}
		}
	}
}

// homeForeignKeys refuses writes to a home table that references a table whose rows are elsewhere:
// no shard could check the foreign key.
func (mo modification) homeForeignKeys(rel *catalog.Relation) {
	for _, fk := range rel.ForeignKeys {
		mo.l.a.env.asked.note(fk.References.Name)
		if t := mo.l.a.env.Tables.find(fk.References); t != nil && !t.Reference {
			mo.l.a.unsupported(linkHint(mo.l.a.env.Schema, &fk, t),
				"%q has a foreign key to sharded table %q, which cannot be checked from the home shard", rel.Name.Name, t.Name)
		}
	}
	for _, t := range mo.l.a.env.Tables.sorted() {
		for _, fk := range t.foreignKeys {
			if fk.Schema == rel.Schema && fk.Table == rel.Name.Name {
				mo.l.a.env.asked.note(t.Name)
				mo.l.a.unsupported("Declare it: SELECT weft.shard_table('"+rel.Name.Name+"', …), by the column that references the shard key of "+t.Name+".",
					"%q has a foreign key to %q, whose rows are on other shards", rel.Name.Name, t.Name)
			}
		}
	}
}

func declareHint(name string, columns []string) string {
	column := "…"
	if len(columns) > 0 {
		column = strings.Join(columns, ", ")
	}
	return "Declare it: SELECT weft.shard_table('" + name + "', '" + column + "')."
}

// linkHint tells how a home table that references a sharded table can be declared beside it.
func linkHint(schema *catalog.Schema, fk *catalog.ForeignKey, to *table) string {
	keys := keyNames(to)
	var columns []string
	for _, k := range keys {
		if i := slices.Index(fk.RefColumns, k); i >= 0 && i < len(fk.Columns) {
			columns = append(columns, fk.Columns[i])
		}
	}
	rel := schema.Relation(fk.Table)
	switch missing := rel == nil || slices.ContainsFunc(keys, func(k string) bool { return rel.Column(k) == nil }); {
	case len(columns) < len(keys) && missing:
		return "The foreign key does not contain the shard key (" + strings.Join(keys, ", ") + ") of " + to.Name + ": give " + fk.Table.Name +
			" columns for it, let the foreign key contain them, and declare it; or drop the foreign key."
	case len(columns) < len(keys):
		return OptionHint(schema, fk, keys, keys)
	}
	return declareHint(fk.Table.Name, columns)
}

// written refuses writes to a sharded table that would have to change something else, and cannot.
func (mo modification) written(rel *catalog.Relation, t *table, changes *changes) {
	mo.l.a.reach().locksInStored(rel)
	mo.policed(rel, t, true)
	for _, r := range mo.l.a.reach().followers(rel, changes) {
		own := mo.l.a.declared(r)
		if own == nil {
			continue // see below
		}
		mo.l.a.reach().storing(r, own, changes.of(r == rel))
		if r == rel {
			continue
		}
		for i := range r.Triggers {
			tr := &r.Triggers[i]
			for _, f := range mo.l.a.reach().userFunctions(tr.Function.Schema, tr.Function.Name) {
				mo.l.a.reach().mayTrigger(r, own, tr, f)
			}
		}
	}
	if rel.Rules {
		mo.l.a.unsupported("Drop its rules.", "sharded table %q has rewrite rules", rel.Name.Name)
	}
	for _, part := range withParts(rel) {
		for i := range part.Triggers {
			tr := &part.Triggers[i]
			for _, f := range mo.l.a.reach().userFunctions(tr.Function.Schema, tr.Function.Name) {
				mo.l.a.reach().mayTrigger(part, t, tr, f)
			}
			mo.l.a.reach().guarded(part, *tr)
		}
	}
	if changes == nil {
		return
	}
	for _, fk := range t.foreignKeys {
		for _, u := range rel.Unique {
			if changes.any(u.Columns) {
				mo.l.a.unsupported(declareHint(fk.Table, nil), "%q is referenced by %q, which is on the home shard alone", rel.Name.Name, fk.Table)
			}
		}
	}
	for _, fk := range rel.Referenced {
		if changes.any(fk.RefColumns) && mo.l.a.declared(mo.l.a.env.Schema.Relation(fk.Table)) == nil {
			mo.l.a.unsupported(declareHint(fk.Table.Name, fk.Columns), "%q is referenced by %q, which is on the home shard alone", rel.Name.Name, fk.Table.Name)
		}
	}
}

// changes is what a statement changes in existing rows: some columns, or all with the row itself.
type changes struct {
	all     bool
	gone    bool // the row goes, and none is stored
	columns []string
}

func (c *changes) any(columns []string) bool {
	return c.all || slices.ContainsFunc(columns, func(name string) bool { return slices.Contains(c.columns, name) })
}

// of returns the changes to the named table, or to another table whose rows follow: those may be
// stored again.
func (c *changes) of(itself bool) *changes {
	if itself {
		return c
	}
	return nil
}

// setting lists the columns that SET changes.
func setting(list []*pg.Node) *changes {
	c := &changes{}
	for _, n := range list {
		c.columns = append(c.columns, n.GetResTarget().GetName())
	}
	return c
}

// targetSource makes the written table an item of FROM.
func (mo modification) targetSource(tg *target, rv *pg.RangeVar) *source {
	if tg.rel == nil {
		return simple(rv.Relname, "", rv.Alias, nil, true)
	}
	var x *instance
	if tg.through != nil && !tg.table.Reference {
		return mo.viewSource(tg, rv)
	}
	if tg.table != nil && !tg.table.Reference {
		x = mo.l.a.appear(tg.table, called(rv), mo.l.scope)
		x.rv = rv
	}
	return simple(rv.Relname, tg.rel.Schema, rv.Alias, columns(tg.shown, x), len(tg.rel.Columns) == 0)
}

// update analyses UPDATE. Its FROM is joined with the target.
func (mo modification) update(n *pg.UpdateStmt) []output {
	mo.l.withClause(n.WithClause, n)
	tg := mo.target(n.Relation, setting(n.TargetList))
	mo.firing(tg, catalog.OnUpdate, setting(n.TargetList))
	src := mo.targetSource(tg, n.Relation)
	mo.l.sources = append(mo.l.sources, src)
	mo.guarded(tg, 'w')
	mo.l.fromClause().from(n.FromClause)
	mo.l.predicates().condition(n.WhereClause)
	mo.drawsSometimes(tg, n)
	if mo.l.a.writes().draws(tg, n) {
		mo.l.a.drawn = true
	}
	mo.assignments(tg, n.TargetList, called(n.Relation), nil)
	cols := mo.returning(n.ReturningList)
	set := setting(n.TargetList)
	if tg.through != nil {
		set = tg.through.changes(set)
	}
	row := mo.targetInstance(tg)
	for i, o := range cols {
		if x := o.column.instance; row == nil || x == row && slices.Contains(set.columns, o.column.name) {
			cols[i] = fresh(cols[i : i+1])[0] // the old value is gone
		}
	}
	return cols
}

// remove analyses DELETE.
func (mo modification) remove(n *pg.DeleteStmt) []output {
	mo.l.withClause(n.WithClause, n)
	tg := mo.target(n.Relation, &changes{all: true, gone: true})
	mo.firing(tg, catalog.OnDelete, nil)
	mo.l.sources = append(mo.l.sources, mo.targetSource(tg, n.Relation))
	mo.guarded(tg, 'd')
	mo.l.fromClause().from(n.UsingClause)
	mo.l.predicates().condition(n.WhereClause)
	return mo.returning(n.ReturningList)
}

func (mo modification) returning(list []*pg.Node) []output {
	mo.l.expressions(list)
	cols, opaque := mo.l.outputs(&pg.SelectStmt{TargetList: list}, plainShape)
	if opaque {
		return nil
	}
	return cols
}

// assignments analyses SET. A new key makes the row a stored one: the statement can run on one
// shard only if the row belongs there. unchanged reports whether a column holds a value of the
// row's own shard.
func (mo modification) assignments(tg *target, list []*pg.Node, name string, unchanged func(key string, n *pg.Node) bool) {
	stored := map[string]storedKey{}
	for _, n := range list {
		t := n.GetResTarget()
		if t == nil {
			continue
		}
		val := t.Val
		if m := val.GetMultiAssignRef(); m != nil {
			val = nil
			if row := m.Source.GetRowExpr(); row != nil && int(m.Colno) <= len(row.Args) {
				val = row.Args[m.Colno-1]
			}
			if m.Colno == 1 && !mo.l.a.drawn {
				mo.l.expression(m.Source)
			} else if mo.l.a.drawn && val != nil {
				mo.l.expression(mo.l.a.writes().beforeDraw(tg, t, val))
			}
		} else if !mo.l.a.drawn {
			mo.l.expression(val)
		} else {
			mo.l.expression(mo.l.a.writes().beforeDraw(tg, t, val))
		}
		if tg.rel == nil {
			continue
		}
		if val.GetSetToDefault() != nil {
			mo.l.a.reach().defaulting(tg.rel, func(column string) bool { return tg.through == nil && column != t.Name })
		}
		c := findColumn(tg.rel, t.Name)
		if val.GetSetToDefault() != nil && !mo.l.a.drawn && tg.table != nil && !tg.table.Reference && !mo.l.a.text.stored &&
			(mo.l.a.writes().drawnFrom(tg.writable(), t) != "" || mo.l.a.writes().drawnAmid(tg.writable(), t) != nil) {
			// The shard's own sequence is used up.
			mo.l.a.refuse(pgerr.FeatureNotSupported, "Draw the value first, and give it in the statement.",
				"SET %q = DEFAULT is not supported in ON CONFLICT, MERGE and WITH: its values are the home shard's", t.Name)
		}
		if c != nil && val != nil && len(t.Indirection) == 0 {
			mo.l.a.params.infer(val, datum.Type(c.Base))
		}
		if tg.table == nil || c == nil || !isKey(tg.table, t.Name) {
			continue
		}
		if x := mo.l.column(val); x != nil && x.instance != nil && x.instance == mo.targetInstance(tg) && x == only(mo.l.sources[0], t.Name) {
			continue // the column is set to itself
		}
		if unchanged != nil && unchanged(t.Name, val) {
			continue
		}
		k := storedKey{}
		if own := tg.through; own != nil && val.GetSetToDefault() != nil && own.updated(t.Name) != nil {
			c = own.updated(t.Name)
		}
		if len(t.Indirection) == 0 {
			k = mo.stored(val, c)
		}
		stored[t.Name] = k
	}
	if len(stored) == 0 || tg.table == nil || tg.table.Reference {
		return
	}
	own := tg.ownTable()
	x := mo.l.a.appear(own, name, mo.l.scope)
	x.stored, x.rv = true, tg.rv
	row := mo.targetInstance(tg)
	for i, k := range tg.table.keys {
		if s, ok := stored[k.Name]; ok {
			x.keys = append(x.keys, s)
		} else if row != nil {
			x.keys = append(x.keys, storedKey{column: row.cols[own.keys[i].Name]})
		} else {
			x.keys = append(x.keys, storedKey{})
		}
	}
}

// targetInstance returns the instance of the written table, as its rows are read.
func (mo modification) targetInstance(tg *target) *instance {
	if len(mo.l.sources) > 0 {
		for _, o := range mo.l.sources[0].cols {
			// A column of a view may be an expression.
			if x := o.column.instance; tg.through == nil || x != nil && x.rv == tg.rv {
				return x
			}
		}
	}
	return nil
}

// stored returns what is known of a value that is assigned to a key column.
func (mo modification) stored(n *pg.Node, c *catalog.Column) storedKey {
	if n == nil {
		return storedKey{}
	}
	if n.GetSetToDefault() != nil {
		return mo.l.a.writes().defaultKey(c)
	}
	if x := mo.l.column(n); x != nil {
		return storedKey{column: x}
	}
	src, ok := mo.l.predicates().constant(n)
	if !ok {
		return storedKey{}
	}
	return storedKey{known: true, set: plan.Set{src}}
}

func findColumn(rel *catalog.Relation, name string) *catalog.Column {
	for i := range rel.Columns {
		if rel.Columns[i].Name == name {
			return &rel.Columns[i]
		}
	}
	return nil
}

func isKey(t *table, name string) bool {
	for _, k := range t.keys {
		if k.Name == name {
			return true
		}
	}
	return false
}

// modifying analyses INSERT, UPDATE or DELETE in WITH. Its rows are changed whether or not its
// result is used, so no condition reaches into it.
func (mo modification) modifying(c *cte) {
	switch n := c.node.Ctequery.GetNode().(type) {
	case *pg.Node_InsertStmt:
		c.cols = mo.insert(n.InsertStmt)
	case *pg.Node_UpdateStmt:
		c.cols = mo.update(n.UpdateStmt)
	case *pg.Node_DeleteStmt:
		c.cols = mo.remove(n.DeleteStmt)
	case *pg.Node_MergeStmt:
		mo.merge(n.MergeStmt)
	default:
		mo.l.a.unsupported("Send what is inside WITH as a statement of its own.", "this form of WITH is not supported")
	}
	c.opaque = len(c.cols) == 0
}
