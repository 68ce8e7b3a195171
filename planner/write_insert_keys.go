package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/parser"
	"weft/plan"
)

// insert analyses INSERT. Each row of VALUES is an instance: it goes to the shard that its key
// names.
func (mo modification) insert(n *pg.InsertStmt) []output {
	if !mo.l.a.insert.apart && !mo.l.a.insert.aside {
		mo.l.withClause(n.WithClause, n)
	}
	var c *changes
	if n.OnConflictClause != nil {
		c = setting(n.OnConflictClause.TargetList)
	}
	tg := mo.target(n.Relation, c)
	mo.firing(tg, catalog.OnInsert, nil)
	if n.OnConflictClause.GetAction() == pg.OnConflictAction_ONCONFLICT_UPDATE {
		mo.firing(tg, catalog.OnUpdate, c)
	}
	var names []string
	for _, c := range n.Cols {
		t := c.GetResTarget()
		names = append(names, t.GetName())
		if len(t.GetIndirection()) > 0 {
			names[len(names)-1] = "" // a part of a column
		}
	}
	sel := n.SelectStmt.GetSelectStmt()
	mo.l.a.reach().defaulting(tg.rel, tg.takes(names, sel))
	mo.l.viewDefaults(tg)
	switch {
	case mo.l.a.insert.aside: // the inserted rows are analysed elsewhere
	case mo.l.a.insert.stepped && sel != nil:
		mo.l.beside(mo.l.fromClause().outside()).query(sel)
	case tg.rel == nil || tg.table == nil || tg.table.Reference:
		mo.inserted(tg, n, names, sel)
	default:
		mo.sharded(tg, n, names, sel)
	}
	if c := n.OnConflictClause; c != nil {
		mo.conflict(tg, n, c)
		mo.conflictsElsewhere(tg, n)
	}
	at := mo.l.beside(mo.l.fromClause().outside())
	at.sources = []*source{mo.plainTarget(tg, n.Relation)}
	return at.modification().returning(n.ReturningList)
}

// takes returns a function that reports whether an INSERT gives a column a value.
func (tg *target) takes(names []string, sel *pg.SelectStmt) func(column string) bool {
	count := 0
	if sel != nil && plainValues(sel) {
		count = len(sel.ValuesLists[0].GetList().GetItems())
	}
	defaults := sel == nil
	parser.Walk(selectNode(sel), func(m any) bool {
		_, is := m.(*pg.SetToDefault)
		defaults = defaults || is
		return !defaults
	})
	return func(column string) bool {
		switch {
		case defaults || tg.through != nil:
			return false
		case len(names) > 0:
			return slices.Contains(names, column)
		}
		for i := range tg.shown.Columns {
			if tg.shown.Columns[i].Name == column {
				return i < count
			}
		}
		return false
	}
}

// plainTarget returns the written table for names in RETURNING and ON CONFLICT: its rows are read
// only where they are written.
func (mo modification) plainTarget(tg *target, rv *pg.RangeVar) *source {
	if tg.rel == nil {
		return simple(rv.Relname, "", rv.Alias, nil, true)
	}
	return simple(rv.Relname, tg.rel.Schema, rv.Alias, columns(tg.shown, nil), len(tg.rel.Columns) == 0)
}

// inserted analyses what an INSERT stores in a table that needs no key.
func (mo modification) inserted(tg *target, n *pg.InsertStmt, names []string, sel *pg.SelectStmt) {
	if sel == nil {
		return
	}
	if plainValues(sel) && tg.rel != nil {
		cols := insertColumns(tg.shown, names)
		w := &writer{level: mo.l, target: tg, stmt: n, cols: cols, listed: len(names) > 0, name: called(n.Relation), lists: sel.ValuesLists}
		mo.l.a.insert.writer = w
		for _, row := range sel.ValuesLists {
			for i, v := range row.GetList().GetItems() {
				if w.goesAway(v) {
					continue
				}
				mo.l.expression(v)
				if i < len(cols) && cols[i] != nil {
					mo.l.a.params.infer(v, datum.Type(cols[i].Base))
				}
			}
		}
		return
	}
	mo.l.beside(mo.l.fromClause().outside()).query(sel)
}

// insertColumns returns the columns that the values are for, in order; nil for names that are not
// columns.
func insertColumns(rel *catalog.Relation, names []string) []*catalog.Column {
	var out []*catalog.Column
	if len(names) == 0 {
		for i := range rel.Columns {
			out = append(out, &rel.Columns[i])
		}
		return out
	}
	for _, name := range names {
		out = append(out, findColumn(rel, name))
	}
	return out
}

// sharded analyses what an INSERT stores in a sharded table.
func (mo modification) sharded(tg *target, n *pg.InsertStmt, names []string, sel *pg.SelectStmt) {
	if tg.through != nil && tg.through.beside != "" {
		mo.l.a.unsupported("Insert into the table itself.", "view %q reads sharded table %q beside its rows", tg.name, tg.through.beside)
		return
	}
	cols := insertColumns(tg.shown, names)
	if n.Override == pg.OverridingKind_OVERRIDING_USER_VALUE && sel != nil && !plainValues(sel) {
		// Each shard would draw from a sequence of its own.
		mo.l.a.unsupported("Leave OVERRIDING USER VALUE out.", "OVERRIDING USER VALUE is not supported for sharded table %q", tg.name)
		return
	}
	w := &writer{level: mo.l, target: tg, stmt: n, cols: cols, listed: len(names) > 0, name: called(n.Relation)}
	mo.l.a.insert.writer = w
	switch {
	case sel == nil:
		w.defaultValues()
	case plainValues(sel):
		w.lists = sel.ValuesLists
		w.rows(sel.ValuesLists)
	default:
		w.query(sel)
	}
}

// plainValues reports whether a query is only a list of rows, in which DEFAULT may stand.
func plainValues(sel *pg.SelectStmt) bool {
	return len(sel.ValuesLists) > 0 && sel.WithClause == nil && len(sel.SortClause) == 0 && sel.LimitCount == nil && sel.LimitOffset == nil
}

// writer analyses the rows of an INSERT into a sharded table.
type writer struct {
	*level
	target *target
	stmt   *pg.InsertStmt
	cols   []*catalog.Column
	listed bool
	name   string

	lists []*pg.Node // the rows of VALUES
	gen   *generator
	// stored are the rows; away are the values that cannot be evaluated where the rows go.
	stored []*instance
	away   map[*pg.Node]bool
	// awayDefaults are the defaults that cannot be evaluated where the rows go.
	awayDefaults map[*catalog.Column]bool
}

// row starts a stored row.
func (w *writer) row(s *scope) *instance {
	x := w.a.appear(w.target.ownTable(), w.name, s)
	x.stored = true
	x.keys = make([]storedKey, len(w.target.table.keys))
	w.stored = append(w.stored, x)
	return x
}

// set notes the value of a column, if it is a key column.
func (w *writer) set(x *instance, c *catalog.Column, k storedKey) {
	for i, key := range w.target.table.keys {
		if c != nil && key.Name == c.Name {
			x.keys[i] = k
		}
	}
}

// position returns the position of a column in the list of values, or -1.
func (w *writer) position(name string, count int) int {
	for i, c := range w.cols {
		if c != nil && c.Name == name && i < count {
			return i
		}
	}
	return -1
}

// rows analyses VALUES.
func (w *writer) rows(lists []*pg.Node) {
	g := w.generator(len(lists[0].GetList().GetItems()))
	for r, row := range lists {
		x := w.row(w.scope)
		items := row.GetList().GetItems()
		for i, v := range items {
			var c *catalog.Column
			if i < len(w.cols) {
				c = w.cols[i]
			}
			if c != nil && g.forbids(c, v) {
				return
			}
			if c != nil && g.replaces(c, v) {
				w.set(x, c, g.replace(r, c, v))
				continue
			}
			if from, ok := g.remembers(c, v); ok {
				w.set(x, c, g.recall(c, v, from))
				continue
			}
			if c != nil && g.ignores(c) {
				w.set(x, c, g.replaceCell(r, i, c))
				continue
			}
			if w.goesAway(v) {
				w.set(x, c, storedKey{})
				continue
			}
			if c != nil && v.GetSetToDefault() != nil && !w.defaultAway(c) {
				w.modification().calledBy(c)
			}
			w.expression(v)
			if c != nil {
				w.a.params.infer(v, datum.Type(c.Base))
				w.set(x, c, w.level.modification().stored(v, c))
			}
		}
		w.missing(x, len(items), g, r)
	}
	g.finish(lists)
}

// missing notes the key columns that a row leaves to their defaults.
func (w *writer) missing(x *instance, count int, g *generator, r int) {
	for i := range w.target.rel.Columns {
		c := &w.target.rel.Columns[i]
		if w.position(c.Name, count) >= 0 {
			continue
		}
		if g.generates(c) {
			if hidden(c) {
				w.a.writes().unseen(c, w.target.name)
				return
			}
			w.set(x, c, g.add(r, c))
			continue
		}
		if isKey(w.target.table, c.Name) {
			w.set(x, c, w.a.writes().defaultKey(c))
		}
		if r == 0 && !w.defaultAway(c) {
			w.modification().calledBy(c)
		}
	}
}

func (w *writer) defaultValues() {
	g := w.generator(0)
	x := w.row(w.scope)
	w.cols = nil
	w.missing(x, 0, g, 0)
	g.finish(nil)
}

// query analyses INSERT … SELECT: the key is an output column.
func (w *writer) query(sel *pg.SelectStmt) {
	in := w.beside(w.fromClause().outside())
	cols, opaque := in.query(sel)
	x := w.row(in.scope)
	for i, o := range cols {
		if opaque || i >= len(w.cols) {
			break
		}
		if w.cols[i] != nil {
			w.set(x, w.cols[i], storedKey{column: o.column})
		}
	}
	count := len(cols)
	if opaque {
		count = len(w.cols) // at most as many as the table has
	}
	g := w.generator(count)
	for i := range w.target.rel.Columns {
		c := &w.target.rel.Columns[i]
		if w.position(c.Name, count) >= 0 {
			continue
		}
		switch {
		case g.generates(c):
			w.a.unsupported("Name the column "+c.Name+" in the INSERT, and give it a value.",
				"INSERT … SELECT into sharded table %q would take %q from a sequence of each shard", w.target.name, c.Name)
		case isKey(w.target.table, c.Name):
			w.set(x, c, w.a.writes().defaultKey(c))
			fallthrough
		default:
			w.modification().calledBy(c)
		}
	}
}

// calledBy notes the functions that a column's default calls.
func (mo modification) calledBy(c *catalog.Column) {
	mo.l.a.writes().withDefault(c, func(n *pg.Node) { (&level{a: mo.l.a, scope: &scope{}}).expression(n) })
}

// withDefault calls use with a column's default, parsed in the schema's own text.
func (wr writes) withDefault(c *catalog.Column, use func(*pg.Node)) {
	if c.Default == "" || c.Generated {
		return
	}
	sql := "SELECT " + c.Default
	tree, err := parser.ParseTree(sql, parser.Options{})
	if err != nil || len(tree.Statements) != 1 || len(tree.Statements[0].Stmt.GetSelectStmt().GetTargetList()) != 1 {
		wr.a.unsupported("Give the column a value.", "weft cannot read the default of column %q", c.Name)
		return
	}
	outer := wr.a.text
	wr.a.text = text{sql: sql, tree: tree, path: []string{"pg_catalog"}, stored: true}
	defer func() { wr.a.text = outer }()
	use(tree.Statements[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget().GetVal())
}

// defaultKey returns what is known of a key column's default.
func (wr writes) defaultKey(c *catalog.Column) storedKey {
	if c.Default == "" {
		return storedKey{known: true, set: plan.Set{{Kind: plan.Null}}}
	}
	var k storedKey
	wr.withDefault(c, func(n *pg.Node) {
		if src, ok := (&level{a: wr.a}).predicates().constant(n); ok && (src.Kind == plan.Null || src.Kind == plan.Constant) {
			k = storedKey{known: true, set: plan.Set{src}}
		}
	})
	return k
}

// conflict analyses ON CONFLICT.
func (mo modification) conflict(tg *target, n *pg.InsertStmt, c *pg.OnConflictClause) {
	at := mo.l.beside(mo.l.fromClause().outside())
	at.sources = []*source{mo.plainTarget(tg, n.Relation)}
	var excluded []output
	if tg.rel != nil {
		excluded = columns(tg.shown, nil)
	}
	// The item can be named by its qualifier only.
	at.sources = append(at.sources, &source{items: []*item{{name: "excluded", cols: excluded}}})
	if c.Infer != nil {
		at.expressions(c.Infer.IndexElems)
		at.expression(c.Infer.WhereClause)
	}
	at.expression(c.WhereClause)
	own := at.sources[0]
	elsewhere := tg.rel != nil && tg.table != nil && len(arbiters(tg.rel, c)) > 0
	at.modification().assignments(tg, c.TargetList, called(n.Relation), func(key string, v *pg.Node) bool {
		x := at.column(v)
		switch {
		case x != nil && x.name == key && x == only(own, key):
			return true
		case elsewhere:
			// The existing row stays on its shard, and any key but its own may belong to another.
			mo.l.a.unsupported("Leave the shard key out of SET.",
				"ON CONFLICT DO UPDATE by a unique index without the shard key cannot change the key of sharded table %q", tg.name)
			return true
		}
		// Both the existing row and the row that was to be inserted are on the shard where the
		// statement runs.
		return x != nil && x.name == key && x == only(&source{cols: excluded}, key)
	})
}

// drawsFrom reports whether a default takes its value from a sequence.
func drawsFrom(c *catalog.Column) bool { return c.Sequence.Name != "" }

// randomUUID reports whether a default is a random uuid.
func randomUUID(c *catalog.Column) bool {
	d := strings.TrimSuffix(c.Default, "()")
	if i := strings.LastIndexByte(d, '.'); i >= 0 {
		d = d[i+1:]
	}
	return d != c.Default && (d == "gen_random_uuid" || d == "uuid_generate_v4")
}
