package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/datum"
	"weft/parser"
	"weft/plan"
)

// query analyses a SELECT, VALUES or set operation in a level made for it, and returns its columns.
// A plain join stays in the level's scope; any other query gets a scope below it.
func (l *level) query(sel *pg.SelectStmt) (cols []output, opaque bool) {
	if sel == nil {
		return nil, true
	}
	if l.a.probe != nil {
		defer l.steady(sel)()
	}
	l.withClause(sel.WithClause, sel)
	if len(sel.LockingClause) > 0 {
		l.a.out.Locks = true
	}
	if sel.Op != pg.SetOperation_SETOP_NONE {
		return l.setOperation(sel)
	}
	shape := l.shape(sel)
	if shape != plainShape {
		l.scope = l.scope.child(false)
	}
	if len(sel.ValuesLists) > 0 {
		cols = l.fromClause().values(sel.ValuesLists)
	} else {
		l.fromClause().from(sel.FromClause)
		l.predicates().condition(sel.WhereClause)
		l.targets(sel.TargetList)
		cols, opaque = l.outputs(sel, shape)
	}
	l.clauses(sel, sel.DistinctClause)
	l.clauses(sel, sel.GroupClause)
	l.expression(sel.HavingClause)
	l.expressions(sel.WindowClause)
	l.clauses(sel, sel.SortClause)
	l.a.notes.groups(l, sel)
	l.limit(sel)
	return cols, opaque
}

// limit analyses LIMIT and OFFSET, which cannot name columns of the level.
func (l *level) limit(sel *pg.SelectStmt) {
	at := &level{a: l.a, parent: l.parent, with: l.with, scope: l.fromClause().outside()}
	at.expression(sel.LimitCount)
	at.expression(sel.LimitOffset)
}

// shape is the form of a query, which decides which facts pass through it.
type shape uint8

const (
	// plainShape is a filtered join: its conditions hold for the rows that it yields, and
	// conditions on its columns hold for its rows.
	plainShape shape = iota
	// groupedShape makes rows of its own. A condition on a column that it groups by may be applied
	// to its input.
	groupedShape
	// closedShape depends on which other rows there are (LIMIT, windows, DISTINCT ON), or locks
	// rows: no condition may be moved into it.
	closedShape
)

func (l *level) shape(sel *pg.SelectStmt) shape {
	switch {
	case sel.LimitCount != nil, sel.LimitOffset != nil, len(sel.LockingClause) > 0, len(sel.WindowClause) > 0,
		len(sel.DistinctClause) > 0 && sel.DistinctClause[0].GetNode() != nil:
		return closedShape
	}
	calls, windows := false, false
	for _, list := range [][]*pg.Node{sel.TargetList, sel.SortClause} {
		for _, n := range list {
			c, w := calledIn(n)
			calls, windows = calls || c, windows || w
		}
	}
	switch {
	case windows:
		return closedShape
	case len(sel.GroupClause) > 0, sel.HavingClause != nil, calls:
		return groupedShape
	case l.a.probe != nil && len(sel.DistinctClause) > 0:
		// Conditions pass through DISTINCT, but a row of its result stands for several rows.
		return groupedShape
	}
	return plainShape
}

// plainJoin reports whether a subquery is a filtered join and no more.
func (l *level) plainJoin(sel *pg.SelectStmt) bool {
	return sel != nil && sel.Op == pg.SetOperation_SETOP_NONE && len(sel.ValuesLists) == 0 && l.shape(sel) == plainShape
}

// calledIn reports whether an expression calls a function that may be an aggregate, and whether it
// calls one over a window.
func calledIn(n *pg.Node) (aggregate, window bool) {
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.FuncCall:
			window = window || m.Over != nil
			names := nameList(m.Funcname)
			aggregate = aggregate || m.AggStar || !scalar[names[len(names)-1]]
		case *pg.JsonObjectAgg, *pg.JsonArrayAgg:
			aggregate = true
		}
		return true
	})
	return aggregate, window
}

// scalar are common built-in functions that are not aggregates. A user's aggregate may have such a
// name; then the columns beside it count as grouped.
var scalar = set("lower", "upper", "length", "char_length", "substring", "substr", "btrim", "ltrim", "rtrim", "trim", "replace",
	"concat", "concat_ws", "left", "right", "round", "abs", "ceil", "floor", "trunc", "mod", "power", "now", "date_trunc",
	"date_part", "extract", "to_char", "to_date", "to_timestamp", "to_number", "timezone", "age", "md5", "random",
	"clock_timestamp", "jsonb_build_object", "json_build_object", "to_json", "to_jsonb", "row_to_json", "split_part", "strpos",
	"position", "array_length", "cardinality", "nullif", "format", "encode", "decode")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// outputs lists the columns a target list yields.
func (l *level) outputs(sel *pg.SelectStmt, how shape) (cols []output, opaque bool) {
	if how != plainShape {
		defer func() { l.publish(cols) }()
	}
	for _, n := range sel.TargetList {
		t := n.GetResTarget()
		if t == nil {
			return nil, true
		}
		if isFieldStar(t.Val) {
			opaque = true
			continue
		}
		if ref := t.Val.GetColumnRef(); ref != nil && ref.Fields[len(ref.Fields)-1].GetAStar() != nil {
			more, o := l.star(ref.Fields)
			for _, m := range more {
				cols = append(cols, output{m.name, l.pass(m.column, sel, how)})
			}
			opaque = opaque || o
			continue
		}
		cols = append(cols, output{outputName(t), l.pass(l.outputColumn(t), sel, how)})
	}
	return cols, opaque
}

// outputColumn returns the column that an expression of the target list is, or a new column with
// what is known of its value.
func (l *level) outputColumn(t *pg.ResTarget) *column {
	if c, same := l.predicates().operand(t.Val); c != nil && same {
		return c // a cast to the column's own type does nothing
	}
	c := &column{name: outputName(t)}
	if src, ok := l.predicates().constant(t.Val); ok && src.Kind != plan.Null {
		if src.Kind == plan.Param && src.Type == 0 {
			return c
		}
		c.typ = outputType(src)
		c.declared = c.typ
		if class(c.typ) != 0 {
			src.Type = c.typ
			l.scope.add(fact{left: c, set: plan.Set{src}})
		}
	}
	return c
}

// publish tells the scope around a query what is known of its columns.
func (l *level) publish(cols []output) {
	inner := newClasses(l.scope)
	for _, o := range cols {
		x := o.column
		if x.inside != nil {
			x = x.inside
		}
		l.scope.parent.add(inner.outward(x, o.column)...)
	}
}

// pass returns a column as the outer query sees it: the column itself if conditions on it may be
// moved inside, else a column with the same value.
func (l *level) pass(c *column, sel *pg.SelectStmt, how shape) *column {
	if how == plainShape || how == groupedShape && (len(sel.GroupClause) == 0 || l.groups(c, sel)) {
		return c
	}
	out := &column{name: c.name, typ: c.typ, declared: c.declared, apart: c.apart, stored: c.stored}
	if how == closedShape && len(sel.GroupClause) == 0 {
		out.inside = c // the result has some of the rows, unchanged
	}
	return out
}

// groups reports whether a query groups by the plain column.
func (l *level) groups(c *column, sel *pg.SelectStmt) bool {
	found := false
	for _, g := range sel.GroupClause {
		ref := g.GetColumnRef()
		if g.GetGroupingSet() != nil {
			return false
		}
		if ref == nil {
			continue
		}
		// A name means a column of FROM first, then one of the target list.
		names := nameList(ref.Fields)
		if len(names) != len(ref.Fields) {
			continue
		}
		x, known := l.lookup(names)
		if !known && len(names) == 1 {
			for _, n := range sel.TargetList {
				if t := n.GetResTarget(); t.GetName() == names[0] {
					x = l.column(t.Val)
				}
			}
		}
		found = found || x == c
	}
	return found
}

// outputName returns the name that PostgreSQL gives a column of a target list.
func outputName(t *pg.ResTarget) string {
	if t.Name != "" {
		return t.Name
	}
	return figureName(t.Val)
}

// setOperation analyses UNION, INTERSECT and EXCEPT. Each arm has a scope of its own. A condition
// on an output column may be applied to each arm's rows, unless there is a LIMIT.
func (l *level) setOperation(sel *pg.SelectStmt) (cols []output, opaque bool) {
	closed := sel.LimitCount != nil || sel.LimitOffset != nil || len(sel.LockingClause) > 0
	var arms [2][]output
	var scopes [2]*scope
	for i, arm := range []*pg.SelectStmt{sel.Larg, sel.Rarg} {
		scopes[i] = l.scope.child(false)
		at := &level{a: l.a, parent: l.parent, with: l.with, scope: scopes[i]}
		var o bool
		arms[i], o = at.query(arm)
		opaque = opaque || o
	}
	l.expressions(sel.SortClause)
	l.limit(sel)
	if opaque || len(arms[0]) != len(arms[1]) {
		return nil, true
	}
	for i, a := range arms[0] {
		b := arms[1][i]
		c := &column{name: a.name}
		if a.column.class() != 0 && a.column.class() == b.column.class() {
			c.typ, c.declared = a.column.typ, a.column.declared
			if !closed {
				scopes[0].same = append(scopes[0].same, [2]*column{a.column, c})
				scopes[1].same = append(scopes[1].same, [2]*column{b.column, c})
			}
			l.scope.add(either(newClasses(scopes[0]).outward(a.column, c), newClasses(scopes[1]).outward(b.column, c))...)
		}
		cols = append(cols, output{a.name, c})
	}
	return cols, false
}

// either returns what is known of a column that comes from one of two arms.
func either(a, b []fact) []fact {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	return []fact{{left: a[0].left, set: append(append(plan.Set(nil), a[0].set...), b[0].set...)}}
}

// expressions analyses the functions and subqueries in expressions.
func (l *level) expressions(nodes []*pg.Node) {
	for _, n := range nodes {
		l.expression(n)
	}
}

func (l *level) expression(n *pg.Node) {
	if n == nil {
		return
	}
	parser.Walk(n, func(m any) bool {
		l.runNames(m)
		l.dotted(m)
		switch m := m.(type) {
		case *pg.SubLink:
			l.expression(m.Testexpr)
			l.inner(l.scope.child(false)).query(m.Subselect.GetSelectStmt())
			return false
		case *pg.FuncCall:
			l.call(m)
			if op, arg := l.a.reach().changesCase(m); op != 0 {
				l.a.params.infer(arg, datum.Text)
			}
			if m.Over == nil && l.aggregates(m) {
				l.owned(m)
			}
		case *pg.JsonObjectAgg, *pg.JsonArrayAgg:
			l.owned(m)
		case *pg.ParamRef:
			l.a.params.use(m)
		case *pg.TypeCast:
			l.a.params.cast(l, m)
			if names := nameList(m.TypeName.GetNames()); len(names) > 0 && isCatalogType(names[len(names)-1]) {
				l.a.touched.catalog = true
			}
		case *pg.A_Expr:
			l.a.params.compare(l, m)
		case *pg.ColumnRef:
			l.systemColumn(m)
			l.a.probe.refer(l, m)
			l.a.notes.refer(l, m)
			return false
		case *pg.CollateClause:
			l.a.probe.collate()
		case *pg.SQLValueFunction:
			l.a.probe.value(l.a, m)
		case *pg.RowExpr:
			// An argument t.* stands for the columns of t.
			for _, arg := range m.Args {
				if !isStar(arg) {
					l.expression(arg)
				}
			}
			return false
		case *pg.SetToDefault, *pg.A_Const:
			return false
		}
		return true
	})
}

// targets analyses a target list, in which t.* stands for columns.
func (l *level) targets(nodes []*pg.Node) {
	for _, n := range nodes {
		if !isStar(n.GetResTarget().GetVal()) {
			l.expression(n)
		}
	}
}

// isStar reports whether a node is * or t.*.
func isStar(n *pg.Node) bool {
	ref := n.GetColumnRef()
	return ref != nil && len(ref.Fields) > 0 && ref.Fields[len(ref.Fields)-1].GetAStar() != nil
}

// isFieldStar reports whether a node is the fields of a row: (c).*, (f(x)).*. The number of fields
// is not known.
func isFieldStar(n *pg.Node) bool {
	i := n.GetAIndirection().GetIndirection()
	return len(i) > 0 && i[len(i)-1].GetAStar() != nil
}

// isCatalogType reports whether reading or printing a value of the type looks into the catalogs.
func isCatalogType(name string) bool {
	return len(name) > 3 && name[:3] == "reg"
}
