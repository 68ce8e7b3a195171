package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
)

// PostgreSQL lets writes through a view that shows columns of one table, or of
// another such view, and at most leaves out rows. Its rows are the table's: they
// are on the shard that the table's key says, under whatever name the view shows
// it. So such a view is planned as if it were the table, with the names of the
// view, and the shards are sent the view's own name: whose rights count, which rows
// are hidden and which may not be stored is theirs to know, as every shard has the
// view.

// writable is what a statement writes: a table, or a view that lets writes through.
type writable struct {
	// rel is the table. For a view it is the table under the view's name, with the columns that the
	// view shows first; the others have names that no statement can write (see hidden). shown is
	// rel without these.
	rel, shown *catalog.Relation
	// table is the declaration with the names of rel; nil at home.
	table *table
	// base is the table itself, own its declaration.
	base *catalog.Relation
	own  *table
	// views are the view and those below it; empty for a table. names are the table's names for the
	// columns of rel.
	views []*catalog.Relation
	names map[string]string
	// stuck is set if PostgreSQL itself refuses to write the view.
	stuck bool
	// twice is a key column that the view shows under two names, beside a sharded
	// table that a subquery in it reads.
	twice, beside string
}

// hiddenMark begins the names of columns that a view does not show.
const hiddenMark = "\x00"

// hidden reports whether the view does not show the column.
func hidden(c *catalog.Column) bool { return c != nil && c.Name != "" && c.Name[:1] == hiddenMark }

// shownName returns a column's name for people.
func shownName(c *catalog.Column) string {
	name := c.Name
	for name != "" && name[:1] == hiddenMark {
		name = name[1:]
	}
	return name
}

// writable finds what a written name means. It returns nil if the name is not known, or a view that
// cannot be looked into.
func (wr writes) writable(rv *pg.RangeVar) *writable {
	rel, t := wr.a.relation(rv)
	if rel == nil {
		return nil
	}
	if t == nil && rel.Kind == catalog.View && !rel.System() {
		return wr.writableView(rel)
	}
	return &writable{rel: rel, shown: rel, table: t, base: rel, own: t}
}

func (wr writes) writableView(rel *catalog.Relation) *writable {
	if wr.a.view.written == nil {
		wr.a.view.written = map[*catalog.Relation]*writable{}
	}
	w, known := wr.a.view.written[rel]
	if !known {
		w = wr.lookThrough(rel, 0)
		wr.a.view.written[rel] = w
	}
	return w
}

// lookThrough finds the table that a view lets writes through to.
func (wr writes) lookThrough(view *catalog.Relation, depth int) *writable {
	tree, err := parser.ParseTree(view.Definition, parser.Options{})
	if err != nil || len(tree.Statements) != 1 || tree.Statements[0].Stmt.GetSelectStmt() == nil || depth > maxViews {
		return nil
	}
	sel := tree.Statements[0].Stmt.GetSelectStmt()
	rv := soleTable(sel)
	stuck := &writable{rel: view, shown: view, base: view, views: []*catalog.Relation{view}, stuck: true}
	if rv == nil {
		return stuck
	}
	n := catalog.Name{Schema: rv.Schemaname, Name: rv.Relname}
	if n.Schema == "" {
		n.Schema = "pg_catalog"
	}
	rel := wr.a.env.Schema.Relation(n)
	var below *writable
	switch {
	case rel == nil:
		return nil
	case rel.Kind == catalog.View && !rel.System():
		below = wr.lookThrough(rel, depth+1)
	case rel.Kind == catalog.Table || rel.Kind == catalog.PartitionedTable || rel.Kind == catalog.ForeignTable:
		t := wr.a.declared(rel)
		below = &writable{rel: rel, shown: rel, table: t, base: rel, own: t}
	default:
		return stuck
	}
	if below == nil || below.stuck {
		return below
	}
	out := wr.show(view, below, shownColumns(view, sel, rv, below))
	parser.Walk(tree.Statements[0], func(m any) bool {
		if at, ok := m.(*pg.RangeVar); ok && at != rv {
			if r := wr.a.env.Schema.Relation(catalog.Name{Schema: at.Schemaname, Name: at.Relname}); r != nil && wr.a.definitions().relationReads(r).sharded != "" {
				out.beside = r.Name.Name
			}
		}
		return true
	})
	return out
}

// soleTable returns the one relation whose rows a query shows unchanged, or nil if the query does
// more.
func soleTable(sel *pg.SelectStmt) *pg.RangeVar {
	if sel.Op != pg.SetOperation_SETOP_NONE || sel.WithClause != nil || len(sel.ValuesLists) > 0 || len(sel.DistinctClause) > 0 || len(sel.GroupClause) > 0 ||
		sel.HavingClause != nil || sel.LimitCount != nil || sel.LimitOffset != nil || len(sel.FromClause) != 1 {
		return nil
	}
	return sel.FromClause[0].GetRangeVar()
}

// shownColumns returns for each column of a view the column below it, nil for an expression.
func shownColumns(view *catalog.Relation, sel *pg.SelectStmt, rv *pg.RangeVar, below *writable) []*catalog.Column {
	out := make([]*catalog.Column, len(view.Columns))
	renamed := nameList(rv.Alias.GetColnames())
	find := func(name string) *catalog.Column {
		for i := range below.shown.Columns {
			c := &below.shown.Columns[i]
			if i < len(renamed) && renamed[i] == name || i >= len(renamed) && c.Name == name {
				return c
			}
		}
		return nil
	}
	if len(sel.TargetList) == 1 && isStar(sel.TargetList[0].GetResTarget().GetVal()) {
		for i := range min(len(out), len(below.shown.Columns)) {
			out[i] = &below.shown.Columns[i]
		}
		return out
	}
	for i, n := range sel.TargetList {
		ref := n.GetResTarget().GetVal().GetColumnRef()
		if names := nameList(ref.GetFields()); i < len(out) && len(names) > 0 && len(names) == len(ref.Fields) {
			out[i] = find(names[len(names)-1])
		}
	}
	return out
}

// show returns the relation below under the names of a view.
func (wr writes) show(view *catalog.Relation, below *writable, columns []*catalog.Column) *writable {
	out := &writable{base: below.base, own: below.own, views: append([]*catalog.Relation{view}, below.views...), names: map[string]string{}, twice: below.twice, beside: below.beside}
	rel := *below.rel
	rel.Name, rel.OID, rel.Owner = view.Name, view.OID, view.Owner
	rel.Parent, rel.Columns = nil, nil
	as := map[string]string{}
	for i := range view.Columns {
		c, own := view.Columns[i], columns[i]
		if own == nil {
			c.Generated = true // nothing can be stored in it
			rel.Columns = append(rel.Columns, c)
			continue
		}
		shown := *own
		shown.Name = c.Name
		if c.Default != "" {
			shown.Default, shown.Sequence = c.Default, c.Sequence
		}
		if _, again := as[own.Name]; again {
			if below.table != nil && (isKey(below.table, own.Name) || below.table.IDs != nil && below.table.IDs.Column == own.Name) {
				out.twice = own.Name
			}
		} else {
			as[own.Name] = c.Name
		}
		rel.Columns = append(rel.Columns, shown)
		out.names[c.Name] = below.name(own.Name)
	}
	count := len(rel.Columns)
	for i := range below.rel.Columns {
		c := below.rel.Columns[i]
		if _, is := as[c.Name]; !is {
			base := below.name(c.Name)
			as[c.Name] = hiddenMark + c.Name
			c.Name = as[c.Name]
			rel.Columns = append(rel.Columns, c)
			out.names[c.Name] = base
		}
	}
	rel.Unique = renameUnique(below.rel.Unique, as)
	rel.Lookups = nil
	for r := below.rel; r != nil; r = r.Parent {
		for _, k := range r.Lookups {
			k.Columns, k.Uses = renameAll(k.Columns, as), renameAll(k.Uses, as)
			rel.Lookups = append(rel.Lookups, k)
		}
	}
	rel.ForeignKeys = slices.Clone(below.rel.ForeignKeys)
	for i := range rel.ForeignKeys {
		fk := &rel.ForeignKeys[i]
		fk.Columns = renameAll(fk.Columns, as)
		if fk.References == below.rel.Name {
			fk.References = view.Name
		}
	}
	out.rel = &rel
	shown := rel
	shown.Columns = rel.Columns[:count:count]
	out.shown = &shown
	if below.table != nil {
		out.table = renameTable(below.table, as)
	}
	return out
}

// name returns the table's name for a column of rel.
func (w *writable) name(column string) string {
	if w.names == nil {
		return column
	}
	return w.names[column]
}

func renameAll(columns []string, as map[string]string) []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = as[c]
	}
	return out
}

// renameUnique returns the unique keys whose columns are all shown.
func renameUnique(list []catalog.Unique, as map[string]string) []catalog.Unique {
	var out []catalog.Unique
	for _, u := range list {
		u.Columns = renameAll(u.Columns, as)
		if !slices.ContainsFunc(u.Columns, func(name string) bool { return name == "" || name[:1] == hiddenMark }) {
			out = append(out, u)
		}
	}
	return out
}

func renameTable(t *table, as map[string]string) *table {
	out := *t
	out.keys = slices.Clone(t.keys)
	for i := range out.keys {
		out.keys[i].Name = as[out.keys[i].Name]
	}
	if t.IDs != nil {
		ids := *t.IDs
		ids.Column = as[ids.Column]
		out.IDs = &ids
	}
	return &out
}

// viewTarget is target for a view.
func (mo modification) viewTarget(rv *pg.RangeVar, view *catalog.Relation, c *changes) *target {
	out := &target{rv: rv, rel: view, shown: view, name: view.Name.Name}
	if view.Busy {
		mo.l.a.out.Waits = true
		mo.l.a.refuse(pgerr.ObjectInUse, "Try again when that is done.", "view %q, or what it reads, is being changed", view.Name.Name)
		return out
	}
	w := mo.l.a.writes().writableView(view)
	if w == nil {
		mo.l.a.unsupported("Write to the table itself.", "weft cannot look into view %q", view.Name.Name)
		return out
	}
	r := mo.l.a.commands().viewReads(view)
	for _, v := range w.views {
		if (len(v.Triggers) > 0 || v.Rules) && (r.sharded != "" || r.reference != "") {
			mo.l.a.unsupported("They would run on one shard. Write to the table itself.", "view %q of a declared table has triggers or rules", v.Name.Name)
			return out
		}
		mo.homeTarget(v, c)
	}
	const hint = "Write to the table itself."
	switch {
	case w.stuck: // the home shard says so
	case w.own != nil && r.home != "":
		mo.l.a.unsupported(hint, "view %q reads %q, which is on the home shard alone", view.Name.Name, r.home)
	case (w.own == nil || w.own.Reference) && r.sharded != "":
		mo.l.a.unsupported(hint, "view %q reads sharded table %q for rows of another table", view.Name.Name, r.sharded)
	case w.twice != "" && w.table != nil && !w.own.Reference:
		mo.l.a.unsupported(hint, "view %q shows column %q twice", view.Name.Name, w.twice)
	case w.own != nil:
		out.through, out.rel, out.shown, out.table = w, w.rel, w.shown, w.table
		if w.own.Reference {
			mo.referenceTarget(w.rel, w.table, c)
			mo.cascading(w.base, w.changes(c))
			mo.l.a.writes().follows(w.base)
			return out
		}
		mo.l.a.touch(w.own, w.base.Name.Name)
		mo.written(w.base, w.own, w.changes(c))
		mo.cascading(w.base, w.changes(c))
		mo.l.a.writes().follows(w.base)
		return out
	default:
		mo.homeTarget(w.base, c)
	}
	mo.l.a.touched.home = append(mo.l.a.touched.home, view.Name.Name)
	mo.l.a.touched.writesHome = true
	return out
}

// updated returns a column as SET … = DEFAULT sees it: an UPDATE takes the view's own default, and
// NULL without one; only an INSERT takes the table's.
func (w *writable) updated(name string) *catalog.Column {
	if len(w.views) > 0 {
		return findColumn(w.views[0], name)
	}
	return findColumn(w.rel, name)
}

// changes returns the changes under the table's names.
func (w *writable) changes(c *changes) *changes {
	if c == nil || w.names == nil {
		return c
	}
	out := &changes{all: c.all}
	for _, name := range c.columns {
		out.columns = append(out.columns, w.names[name])
	}
	return out
}

// ownTable returns the declaration of the written table, under its own names.
func (t *target) ownTable() *table {
	if t.through != nil {
		return t.through.own
	}
	return t.table
}

// viewSource makes the written view an item of FROM: its query. The facts of its rows hold for the
// written rows.
func (mo modification) viewSource(tg *target, rv *pg.RangeVar) *source {
	first := len(mo.l.a.instances)
	out := mo.l.view(tg.through.views[0], rv, mo.l.scope)
	if len(mo.l.a.instances) > first {
		mo.l.a.instances[first].rv = rv
	}
	return out
}

// unseen refuses a column that an INSERT would have to name, and cannot.
func (wr writes) unseen(c *catalog.Column, in string) {
	wr.a.unsupported("Insert into the table itself.", "the value of column %q has to be known before its row is stored, and view %q does not show it", shownName(c), in)
}

func cannotSee(c *catalog.Column, in string) *pgerr.Error {
	return cannot("Insert into the table itself.", "the value of column %q has to be known before its row is stored, and view %q does not show it", shownName(c), in)
}

// readsWritten reports whether a name means, or reads, a table that the statement writes.
func (s *steps) readsWritten(rv *pg.RangeVar) bool {
	rel, _ := s.a.relation(rv)
	return rel != nil && s.anyWritten(rel, 0)
}

func (s *steps) anyWritten(rel *catalog.Relation, depth int) bool {
	if rel.Kind != catalog.View || rel.System() {
		return s.written[rel]
	}
	tree, err := parser.ParseTree(rel.Definition, parser.Options{})
	if err != nil || depth > maxViews {
		return true
	}
	found := false
	for _, st := range tree.Statements {
		parser.Walk(st, func(m any) bool {
			if rv, ok := m.(*pg.RangeVar); ok {
				if r := s.a.env.Schema.Relation(catalog.Name{Schema: rv.Schemaname, Name: rv.Relname}); r != nil {
					found = found || s.anyWritten(r, depth+1)
				}
			}
			return !found
		})
	}
	return found
}
