package planner

import (
	"slices"

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
	table *table // nil if it is on the home shard alone
	name  string
	// shown is rel without the columns that a view does not show. through is what
	// the view is of, nil for a table.
	shown   *catalog.Relation
	through *writable
}

// target finds the table that is written, and refuses what cannot be written.
func (l *level) target(rv *pg.RangeVar, c *changes) *target {
	l.a.out.Writes = true
	if l.a.temporary(rv) {
		l.a.touched.home = append(l.a.touched.home, rv.Relname)
		return &target{rv: rv, name: rv.Relname}
	}
	rel, t := l.a.relation(rv)
	if rel == nil {
		l.a.touched.missing = append(l.a.touched.missing, rv)
		return &target{rv: rv, name: rv.Relname}
	}
	out := &target{rv: rv, rel: rel, shown: rel, table: t, name: rel.Name.Name}
	if rel.Schema == ownSchema {
		l.a.refuse(pgerr.InsufficientPrivilege, "", "permission denied for schema %s: what it holds is weft's own", ownSchema)
	}
	switch {
	case t == nil && rel.Kind == catalog.View && !rel.System():
		return l.viewTarget(rv, rel, c)
	case t == nil:
		l.a.touched.home = append(l.a.touched.home, rel.Name.Name)
		l.a.touched.writesHome = true
		l.homeTarget(rel, c)
	case t.Reference:
		l.referenceTarget(rel, t, c)
		l.cascading(rel, c)
		l.a.follows(rel)
	default:
		l.a.touch(t, rel.Name.Name)
		l.written(rel, t, c)
		l.cascading(rel, c)
		l.a.follows(rel)
	}
	return out
}

// homeTarget refuses writes to a home table that something would follow which
// belongs on other shards.
func (l *level) homeTarget(rel *catalog.Relation, c *changes) {
	l.homeForeignKeys(rel)
	l.policed(rel, nil, true)
	for _, r := range l.a.followers(rel, c) {
		if l.a.declared(r) != nil {
			continue
		}
		l.a.storing(r, nil, c.of(r == rel))
		for i := range r.Runs {
			if run := &r.Runs[i]; run.Kind == catalog.RunTrigger || run.Kind == catalog.RunRule {
				l.a.runsWith(r, nil, run)
			}
		}
	}
}

// homeForeignKeys refuses writes to a home table that references a table whose
// rows are elsewhere: nobody could check them.
func (l *level) homeForeignKeys(rel *catalog.Relation) {
	for _, fk := range rel.ForeignKeys {
		l.a.env.asked.note(fk.References.Name)
		if t := l.a.env.Tables.find(fk.References); t != nil && !t.Reference {
			l.a.unsupported(declareHint(rel.Name.Name, fk.Columns),
				"%q has a foreign key to sharded table %q, which cannot be checked from the home shard", rel.Name.Name, t.Name)
		}
	}
	for _, t := range l.a.env.Tables.sorted() {
		for _, fk := range t.foreignKeys {
			if fk.Schema == rel.Schema && fk.Table == rel.Name.Name {
				l.a.env.asked.note(t.Name)
				l.a.unsupported(declareHint(rel.Name.Name, nil),
					"%q has a foreign key to %q, whose rows are on other shards", rel.Name.Name, t.Name)
			}
		}
	}
}

func declareHint(name string, columns []string) string {
	column := "…"
	if len(columns) > 0 {
		column = columns[0]
	}
	return "Declare it: SELECT weft.shard_table('" + name + "', '" + column + "')."
}

// written refuses writes to a sharded table that something else would have to
// follow, and cannot.
func (l *level) written(rel *catalog.Relation, t *table, changes *changes) {
	l.a.locksInStored(rel)
	l.policed(rel, t, true)
	for _, r := range l.a.followers(rel, changes) {
		own := l.a.declared(r)
		if own == nil {
			continue // see below
		}
		l.a.storing(r, own, changes.of(r == rel))
		if r == rel {
			continue
		}
		for _, tr := range r.Triggers {
			for _, f := range l.a.userFunctions(tr.Function.Schema, tr.Function.Name) {
				l.a.mayTrigger(r.Name.Name, own, f)
			}
		}
	}
	if rel.Rules {
		l.a.unsupported("Drop its rules.", "sharded table %q has rewrite rules", rel.Name.Name)
	}
	for _, part := range withParts(rel) {
		for _, tr := range part.Triggers {
			for _, f := range l.a.userFunctions(tr.Function.Schema, tr.Function.Name) {
				l.a.mayTrigger(part.Name.Name, t, f)
			}
			l.a.guarded(part, tr)
		}
	}
	if changes == nil {
		return
	}
	for _, fk := range t.foreignKeys {
		for _, u := range rel.Unique {
			if changes.any(u.Columns) {
				l.a.unsupported(declareHint(fk.Table, nil), "%q is referenced by %q, which is on the home shard alone", rel.Name.Name, fk.Table)
			}
		}
	}
	for _, fk := range rel.Referenced {
		if changes.any(fk.RefColumns) && l.a.declared(l.a.env.Schema.Relation(fk.Table)) == nil {
			l.a.unsupported(declareHint(fk.Table.Name, fk.Columns), "%q is referenced by %q, which is on the home shard alone", rel.Name.Name, fk.Table.Name)
		}
	}
}

// changes is what a statement changes in rows that are there: some columns, or
// all with the row itself.
type changes struct {
	all     bool
	gone    bool // and no row is stored
	columns []string
}

func (c *changes) any(columns []string) bool {
	return c.all || slices.ContainsFunc(columns, func(name string) bool { return slices.Contains(c.columns, name) })
}

// of is what a statement's changes are to the table that it names, or to another whose
// rows follow: these may be stored anew.
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

// targetSource makes the written table an element of FROM.
func (l *level) targetSource(tg *target, rv *pg.RangeVar) *source {
	if tg.rel == nil {
		return simple(rv.Relname, "", rv.Alias, nil, true)
	}
	var x *instance
	if tg.through != nil && !tg.table.Reference {
		return l.viewSource(tg, rv)
	}
	if tg.table != nil && !tg.table.Reference {
		x = l.a.appear(tg.table, called(rv), l.scope)
		x.rv = rv
	}
	return simple(rv.Relname, tg.rel.Schema, rv.Alias, columns(tg.shown, x), len(tg.rel.Columns) == 0)
}

// update analyses UPDATE. Its FROM is joined with the target.
func (l *level) update(n *pg.UpdateStmt) []output {
	l.withClause(n.WithClause, n)
	tg := l.target(n.Relation, setting(n.TargetList))
	l.firing(tg, catalog.OnUpdate, setting(n.TargetList))
	src := l.targetSource(tg, n.Relation)
	l.sources = append(l.sources, src)
	l.from(n.FromClause)
	l.condition(n.WhereClause)
	if l.a.draws(tg, n) {
		l.a.drawn = true
	}
	l.assignments(tg, n.TargetList, called(n.Relation), nil)
	cols := l.returning(n.ReturningList)
	set := setting(n.TargetList)
	if tg.through != nil {
		set = tg.through.changes(set)
	}
	row := l.targetInstance(tg)
	for i, o := range cols {
		if x := o.column.instance; row == nil || x == row && slices.Contains(set.columns, o.column.name) {
			cols[i] = fresh(cols[i : i+1])[0] // what was found there is gone
		}
	}
	return cols
}

// remove analyses DELETE.
func (l *level) remove(n *pg.DeleteStmt) []output {
	l.withClause(n.WithClause, n)
	tg := l.target(n.Relation, &changes{all: true, gone: true})
	l.firing(tg, catalog.OnDelete, nil)
	l.sources = append(l.sources, l.targetSource(tg, n.Relation))
	l.from(n.UsingClause)
	l.condition(n.WhereClause)
	return l.returning(n.ReturningList)
}

func (l *level) returning(list []*pg.Node) []output {
	l.expressions(list)
	cols, opaque := l.outputs(&pg.SelectStmt{TargetList: list}, plainShape)
	if opaque {
		return nil
	}
	return cols
}

// assignments analyses SET. A new key is a row that is stored: the statement can
// run on one shard only if it belongs there. unchanged tells which columns hold
// a value of the row's own shard.
func (l *level) assignments(tg *target, list []*pg.Node, name string, unchanged func(key string, n *pg.Node) bool) {
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
			if m.Colno == 1 && !l.a.drawn {
				l.expression(m.Source)
			} else if l.a.drawn && val != nil && l.a.drawnFrom(tg.writable(), t) == "" {
				l.expression(val)
			}
		} else if !l.a.drawn || l.a.drawnFrom(tg.writable(), t) == "" {
			l.expression(val)
		}
		if tg.rel == nil {
			continue
		}
		if val.GetSetToDefault() != nil {
			l.a.defaulting(tg.rel, func(column string) bool { return tg.through == nil && column != t.Name })
		}
		c := findColumn(tg.rel, t.Name)
		if val.GetSetToDefault() != nil && !l.a.drawn && tg.table != nil && !tg.table.Reference && !l.a.text.stored && l.a.drawnFrom(tg.writable(), t) != "" {
			// The shard's own sequence gives nothing.
			l.a.refuse(pgerr.FeatureNotSupported, "Draw the value first, and give it in the statement.",
				"SET %q = DEFAULT is not supported in ON CONFLICT, MERGE and WITH: its values are the home shard's", t.Name)
		}
		if c != nil && val != nil && len(t.Indirection) == 0 {
			l.a.params.infer(val, datum.Type(c.Base))
		}
		if tg.table == nil || c == nil || !isKey(tg.table, t.Name) {
			continue
		}
		if x := l.column(val); x != nil && x.instance != nil && x.instance == l.targetInstance(tg) && x == only(l.sources[0], t.Name) {
			continue // to itself
		}
		if unchanged != nil && unchanged(t.Name, val) {
			continue
		}
		k := storedKey{}
		if own := tg.through; own != nil && val.GetSetToDefault() != nil && own.updated(t.Name) != nil {
			c = own.updated(t.Name)
		}
		if len(t.Indirection) == 0 {
			k = l.stored(val, c)
		}
		stored[t.Name] = k
	}
	if len(stored) == 0 || tg.table == nil || tg.table.Reference {
		return
	}
	own := tg.ownTable()
	x := l.a.appear(own, name, l.scope)
	x.stored, x.rv = true, tg.rv
	row := l.targetInstance(tg)
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

// targetInstance is the instance of the table that is written, as its rows are
// read.
func (l *level) targetInstance(tg *target) *instance {
	if len(l.sources) > 0 {
		for _, o := range l.sources[0].cols {
			// A column of a view may be an expression.
			if x := o.column.instance; tg.through == nil || x != nil && x.rv == tg.rv {
				return x
			}
		}
	}
	return nil
}

// stored is what is known of a value that is assigned to a key column.
func (l *level) stored(n *pg.Node, c *catalog.Column) storedKey {
	if n == nil {
		return storedKey{}
	}
	if n.GetSetToDefault() != nil {
		return l.a.defaultKey(c)
	}
	if x := l.column(n); x != nil {
		return storedKey{column: x}
	}
	src, ok := l.constant(n)
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

// modifying analyses INSERT, UPDATE or DELETE in WITH. Its rows are changed
// whatever becomes of what it returns, so no condition reaches into it.
func (l *level) modifying(c *cte) {
	switch n := c.node.Ctequery.GetNode().(type) {
	case *pg.Node_InsertStmt:
		c.cols = l.insert(n.InsertStmt)
	case *pg.Node_UpdateStmt:
		c.cols = l.update(n.UpdateStmt)
	case *pg.Node_DeleteStmt:
		c.cols = l.remove(n.DeleteStmt)
	case *pg.Node_MergeStmt:
		l.merge(n.MergeStmt)
	default:
		l.a.unsupported("", "this form of WITH is not supported")
	}
	c.opaque = len(c.cols) == 0
}
