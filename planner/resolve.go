package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
)

// notes is what the analysis of a query writes down in case no single shard can answer it: which
// name means which table, and which conditions may be checked where a table is read. Nodes are
// those of the analysed trees.
//
// Its methods do nothing on nil.
type notes struct {
	appearances []*appearance
	byNode      map[*pg.RangeVar]*appearance
	views       map[*pg.RangeVar]*viewUse
	// rows are references to a row as a whole.
	rows map[*pg.ColumnRef]*rowRef
	// grouped are columns that a query may use because it groups by a primary
	// key.
	grouped map[*pg.SelectStmt][]dependent
	// joined are equalities of columns of two tables.
	joined []joined
	// checked are conditions that a piece checks for all its rows.
	checked map[*pg.Node]bool
	// system is a system column of a table whose rows are on several shards.
	system string
	// modifying is set if a WITH changes rows.
	modifying bool
	// writes is set if the statement itself changes rows.
	writes bool
	// volatile is set if something in the statement has another value, or another effect, each
	// time.
	volatile bool
	// stored counts the views around the node at hand.
	stored int
}

func newNotes() *notes {
	return &notes{
		byNode: map[*pg.RangeVar]*appearance{}, views: map[*pg.RangeVar]*viewUse{},
		rows: map[*pg.ColumnRef]*rowRef{}, grouped: map[*pg.SelectStmt][]dependent{}, checked: map[*pg.Node]bool{},
	}
}

// appearance is a table in FROM, or something that is read like one.
type appearance struct {
	rv    *pg.RangeVar
	rel   *catalog.Relation // nil for a temporary table
	table *table            // the relation's declaration, or nil
	// instance is the instance of a sharded table.
	instance *instance
	level    *level
	scope    *scope
	sample   *pg.RangeTableSample
	// name is the query's name for the table.
	name string
	// conditions are those that can be checked where the table is read, with the table's own column
	// names.
	conditions []*pg.Node
	// through lists the numbers of the conditions that stand outside of the query whose FROM has
	// the table.
	through []int
	// blocked is set once a condition was met that may fail or has effects: later conditions must
	// not be checked before it.
	blocked bool
	// marked is set if a column says whether there is a row.
	marked bool
	// lookups are columns by which a correlated subquery finds its rows.
	lookups []string
	// system are system columns that the query names.
	system []string
	stored bool // the table is in a view
}

// known reports whether the columns are known.
func (x *appearance) known() bool {
	return x.rel != nil && (len(x.rel.Columns) > 0 || x.rel.Kind == catalog.Table && !x.rel.System())
}

// viewUse is a view in FROM that has sharded tables in it.
type viewUse struct {
	rel   *catalog.Relation
	query *pg.Node
}

// rowRef is a reference to a whole row of a table, or to a function of the row that is written like
// a column.
type rowRef struct {
	of       *appearance
	function string
}

// dependent is a column that has one value for each value of a primary key.
type dependent struct {
	of   *appearance
	name string
}

// appears notes a table in FROM.
func (n *notes) appears(l *level, rv *pg.RangeVar, rel *catalog.Relation, t *table, x *instance, s *scope) *appearance {
	if n == nil {
		return nil
	}
	ap := &appearance{rv: rv, rel: rel, table: t, instance: x, level: l, scope: s, name: rv.Relname, stored: n.stored > 0}
	if rv.Alias != nil {
		ap.name = rv.Alias.Aliasname
	}
	n.appearances = append(n.appearances, ap)
	n.byNode[rv] = ap
	return ap
}

// own notes that columns, and the name that qualifies them, belong to the appearance.
func (x *appearance) own(s *source, cols []output) *source {
	if x == nil {
		return s
	}
	for _, o := range cols {
		o.column.of, o.column.base = x, o.name
	}
	s.items[0].of = x
	return s
}

// sampled notes that only a sample of a table is read.
func (n *notes) sampled(s *pg.RangeTableSample) {
	if n == nil {
		return
	}
	if x := n.byNode[s.Relation.GetRangeVar()]; x != nil {
		x.sample = s
	}
}

// copies returns columns with the values of a view's columns, for conditions that stay outside of
// the view.
func (n *notes) copies(cols []output, s *scope) []output {
	if n == nil {
		return cols
	}
	out := fresh(cols)
	for i, o := range cols {
		if o.column.class() != 0 {
			s.same = append(s.same, [2]*column{o.column, out[i].column})
		}
	}
	return out
}

// expands notes a view that has to be taken apart.
func (n *notes) expands(rv *pg.RangeVar, rel *catalog.Relation, query *pg.Node) {
	if n != nil {
		n.views[rv] = &viewUse{rel: rel, query: query}
	}
}

// enter notes that the analysis enters a view (by 1) or leaves it (by -1).
func (n *notes) enter(by int) {
	if n != nil {
		n.stored += by
	}
}

func (n *notes) modifies() {
	if n != nil {
		n.modifying = true
	}
}

func (n *notes) calls(volatility byte) {
	if n != nil && volatility == 'v' {
		n.volatile = true
	}
}

// refer notes what a reference means if it is not simply a column.
func (n *notes) refer(l *level, ref *pg.ColumnRef) {
	if n == nil {
		return
	}
	l.estimate(ref)
	names := nameList(ref.Fields)
	if len(names) < len(ref.Fields) { // t.*, as an argument
		if len(names) > 0 {
			if it := l.itemUp(names); it != nil && it.of != nil {
				n.rows[ref] = &rowRef{of: it.of}
			}
		}
		return
	}
	for at := l; at != nil; at = at.parent {
		if _, known := at.lookup(names); known {
			if len(names) == 1 {
				return
			}
			if it, _ := at.item(names[:len(names)-1]); it != nil && it.of != nil {
				n.field(it.of, ref, names[len(names)-1])
			}
			return
		}
	}
	if len(names) != 1 {
		return
	}
	if systemColumns[names[0]] {
		for at := l; at != nil; at = at.parent {
			for _, s := range at.sources {
				for _, it := range s.items {
					if it.of != nil && it.of.rel != nil && it.of.rel.Kind != catalog.View {
						n.systemColumn(it.of, names[0])
						return
					}
				}
			}
		}
	}
	if it := l.itemUp(names); it != nil && it.of != nil {
		n.rows[ref] = &rowRef{of: it.of}
	}
}

// field resolves t.x: a column, a system column, or a function x of the row.
func (n *notes) field(of *appearance, ref *pg.ColumnRef, name string) {
	switch {
	case of.hasColumn(name):
	case systemColumns[name]:
		n.systemColumn(of, name)
	case of.known():
		n.rows[ref] = &rowRef{of: of, function: name}
	}
}

// hasColumn reports whether the query has a column of that name.
func (x *appearance) hasColumn(name string) bool {
	for _, c := range x.columnNames() {
		if c == name {
			return true
		}
	}
	return false
}

// columnNames returns the query's names for the columns.
func (x *appearance) columnNames() []string {
	if !x.known() {
		return nil
	}
	var out []string
	renamed := nameList(x.rv.Alias.GetColnames())
	for i := range x.rel.Columns {
		if i < len(renamed) {
			out = append(out, renamed[i])
		} else {
			out = append(out, x.rel.Columns[i].Name)
		}
	}
	return out
}

// tableOID is the system column that says which table a row is in.
const tableOID = "tableoid"

// systemColumn notes that a query names a system column. That of a table on several shards is each shard's own, but for its OID,
// which becomes the home shard's when it is carried as a name.
func (n *notes) systemColumn(x *appearance, name string) {
	if x.table != nil && (name != tableOID || !x.known()) {
		n.system = name
		return
	}
	for _, s := range x.system {
		if s == name {
			return
		}
	}
	x.system = append(x.system, name)
}

// itemUp finds the item that a qualifier names, in this level or an outer one.
func (l *level) itemUp(names []string) *item {
	for ; l != nil; l = l.parent {
		it, ambiguous := l.item(names)
		if it != nil || ambiguous {
			return it
		}
	}
	return nil
}

// clauses analyses the items of ORDER BY, GROUP BY or DISTINCT ON, each of which may be a name of
// the target list.
func (l *level) clauses(sel *pg.SelectStmt, nodes []*pg.Node) {
	for _, n := range nodes {
		item := n
		if by := n.GetSortBy(); by != nil {
			item = by.Node
		}
		if ref := item.GetColumnRef(); ref != nil && len(ref.Fields) == 1 && labels(sel, ref) {
			continue
		}
		l.expression(n)
	}
}

// labels reports whether a name is one that a query gives to an output column.
func labels(sel *pg.SelectStmt, ref *pg.ColumnRef) bool {
	name := ref.Fields[0].GetString_().GetSval()
	for _, n := range sel.TargetList {
		if t := n.GetResTarget(); t != nil && t.Name == name && name != "" {
			return true
		}
	}
	return false
}

// groups notes which columns a query may use because it groups by the primary
// key of their table.
func (n *notes) groups(l *level, sel *pg.SelectStmt) {
	if n == nil || len(sel.GroupClause) == 0 {
		return
	}
	grouped := map[*appearance]map[string]bool{}
	add := func(c *column) {
		if c != nil && c.of != nil && c.of.level == l {
			if grouped[c.of] == nil {
				grouped[c.of] = map[string]bool{}
			}
			grouped[c.of][c.base] = true
		}
	}
	var visit func(nodes []*pg.Node)
	visit = func(nodes []*pg.Node) {
		for _, g := range nodes {
			switch v := g.GetNode().(type) {
			case *pg.Node_GroupingSet:
				visit(v.GroupingSet.Content)
			case *pg.Node_RowExpr:
				visit(v.RowExpr.Args)
			case *pg.Node_ColumnRef:
				c := l.column(g)
				if c == nil && len(v.ColumnRef.Fields) == 1 {
					c = l.labelled(sel, v.ColumnRef)
				}
				add(c)
			case *pg.Node_AConst:
				if i := v.AConst.GetIval(); i != nil && i.Ival >= 1 && int(i.Ival) <= len(sel.TargetList) {
					// Another text of this form may group by another column.
					l.a.out.Exact = true
					add(l.column(sel.TargetList[i.Ival-1].GetResTarget().GetVal()))
				}
			}
		}
	}
	visit(sel.GroupClause)
	for _, x := range n.appearances {
		names := grouped[x]
		if names == nil || x.stored != (n.stored > 0) || !x.known() || len(x.rel.Unique) == 0 || !x.rel.Unique[0].Primary {
			continue
		}
		all := true
		for _, c := range x.rel.Unique[0].Columns {
			all = all && names[c]
		}
		if !all {
			continue
		}
		for i, name := range x.columnNames() {
			if !names[x.rel.Columns[i].Name] {
				n.grouped[sel] = append(n.grouped[sel], dependent{x, name})
			}
		}
	}
}

// labelled returns the column that has this name in the target list.
func (l *level) labelled(sel *pg.SelectStmt, ref *pg.ColumnRef) *column {
	for _, n := range sel.TargetList {
		if t := n.GetResTarget(); t != nil && t.Name == nameList(ref.Fields)[0] {
			return l.column(t.Val)
		}
	}
	return nil
}
