package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// targets are the columns that a query yields, which names and numbers in GROUP BY, ORDER BY and
// DISTINCT ON can mean besides the columns of FROM.
type targets struct {
	names   []string
	columns []*column  // nil for an expression
	exprs   []*pg.Node // nil for a column of a * that no name reaches
	opaque  bool       // the columns from some number on are not known
	// numbered is called when a number is looked up: the plan then depends on the value of a
	// literal.
	numbered func()
}

// outputsOf lists the columns that a query yields.
func (gr grouping) outputsOf(sel *pg.SelectStmt) *targets {
	o := &targets{numbered: func() { gr.l.a.out.Exact = true }}
	for _, n := range sel.TargetList {
		t := n.GetResTarget()
		if t == nil || isFieldStar(t.Val) {
			o.opaque = true
			return o
		}
		ref := t.Val.GetColumnRef()
		if ref == nil || ref.Fields[len(ref.Fields)-1].GetAStar() == nil {
			o.names = append(o.names, outputName(t))
			o.columns = append(o.columns, gr.l.column(t.Val))
			o.exprs = append(o.exprs, t.Val)
			continue
		}
		cols, opaque := gr.l.star(ref.Fields)
		if opaque {
			o.opaque = true
			return o
		}
		for _, c := range cols {
			o.names = append(o.names, c.name)
			o.columns = append(o.columns, c.column)
			o.exprs = append(o.exprs, gr.spell(c, nameList(ref.Fields)))
		}
	}
	return o
}

// spell returns an expression that means a column of *, or nil.
func (gr grouping) spell(c output, qualifier []string) *pg.Node {
	try := [][]string{append(append([]string(nil), qualifier...), c.name)}
	if len(qualifier) == 0 {
		for _, s := range gr.l.sources {
			for _, it := range s.items {
				try = append(try, []string{it.name, c.name})
			}
		}
	}
	for _, names := range try {
		if found, known := gr.l.lookup(names); known && found == c.column {
			return nameNode(names...)
		}
	}
	return nil
}

// number returns the output that an integer in ORDER BY or GROUP BY means.
func (o *targets) number(n *pg.Node) (i int, is bool) {
	c := n.GetAConst()
	if c == nil || c.GetIval() == nil {
		return 0, false
	}
	o.numbered()
	i = int(c.GetIval().Ival) - 1
	if i < 0 || i >= len(o.exprs) {
		i = -1 // an error, or an unknown column
	}
	return i, true
}

// find returns the output with a name: -1 for none, -2 if it cannot be told.
func (o *targets) find(name string) int {
	found := -1
	for i, n := range o.names {
		if n != name {
			continue
		}
		if found >= 0 && (o.columns[i] == nil || o.columns[i] != o.columns[found]) {
			return -2
		}
		if found < 0 {
			found = i
		}
	}
	if found == -1 && o.opaque {
		return -2
	}
	return found
}

// output returns the output that an item of ORDER BY or DISTINCT ON names or counts: -1 if the item
// is an expression, -2 if it cannot be told.
func (o *targets) output(n *pg.Node) int {
	if i, is := o.number(n); is {
		if i < 0 {
			return -2
		}
		return i
	}
	if ref := n.GetColumnRef(); ref != nil && len(ref.Fields) == 1 && ref.Fields[0].GetString_() != nil {
		return o.find(ref.Fields[0].GetString_().Sval)
	}
	return -1
}

// sortColumn returns the column that an item of ORDER BY or DISTINCT ON is, or nil.
func (gr grouping) sortColumn(n *pg.Node, o *targets) *column {
	switch i := o.output(n); i {
	case -1:
		return gr.l.column(n)
	case -2:
		return nil
	default:
		return o.columns[i]
	}
}

// groupColumn returns the column that an item of GROUP BY is: there a name means a column of FROM
// first.
func (gr grouping) groupColumn(n *pg.Node, o *targets) *column {
	if i, is := o.number(n); is {
		if i < 0 {
			return nil
		}
		return o.columns[i]
	}
	ref := n.GetColumnRef()
	if ref == nil {
		return nil
	}
	names := nameList(ref.Fields)
	if len(names) != len(ref.Fields) {
		return nil
	}
	if c, known := gr.l.lookup(names); known {
		return c
	}
	if len(names) == 1 {
		if i := o.find(names[0]); i >= 0 {
			return o.columns[i]
		}
	}
	return gr.l.column(n)
}

// groupColumns returns the columns that a query groups by in all its grouping sets, and the further
// columns of each set. every is nil if there are none, or if a set is not written out.
func (gr grouping) groupColumns(sel *pg.SelectStmt, o *targets) (plain []*column, every [][]*column) {
	for _, g := range sel.GroupClause {
		set := g.GetGroupingSet()
		if set == nil {
			plain = append(plain, gr.groupItem(g, o)...)
			continue
		}
		if set.Kind != pg.GroupingSetKind_GROUPING_SET_SETS || every != nil {
			return plain, nil
		}
		for _, n := range set.Content {
			if n.GetGroupingSet() != nil {
				return plain, nil
			}
			every = append(every, gr.groupItem(n, o))
		}
	}
	return plain, every
}

// groupItem returns the columns of an item of GROUP BY: an expression, or several in brackets.
func (gr grouping) groupItem(n *pg.Node, o *targets) []*column {
	row := n.GetRowExpr()
	if row == nil {
		return []*column{gr.groupColumn(n, o)}
	}
	var out []*column
	for _, e := range row.Args {
		out = append(out, gr.groupColumn(e, o))
	}
	return out
}

// grouped reports whether a query makes one row of several.
func (gr grouping) grouped(sel *pg.SelectStmt) bool {
	if len(sel.GroupClause) > 0 || sel.HavingClause != nil || gr.l.aggregated {
		return true
	}
	found := false
	for _, n := range clauses(sel) {
		walkLevel(n, func(m any) {
			switch m := m.(type) {
			case *pg.FuncCall:
				found = found || m.Over == nil && gr.l.aggregates(m)
			case *pg.JsonObjectAgg, *pg.JsonArrayAgg:
				found = true
			}
		})
	}
	return found
}

// windows returns the windows over which a query calls functions.
func (gr grouping) windows(sel *pg.SelectStmt) []*pg.WindowDef {
	var out []*pg.WindowDef
	for _, n := range clauses(sel) {
		walkLevel(n, func(m any) {
			switch m := m.(type) {
			case *pg.FuncCall:
				if m.Over != nil {
					out = append(out, m.Over)
				}
			case *pg.JsonAggConstructor:
				if m.Over != nil {
					out = append(out, m.Over)
				}
			}
		})
	}
	return out
}

// partition lists the columns that a window is partitioned by.
func (gr grouping) partition(sel *pg.SelectStmt, w *pg.WindowDef, depth int) []*column {
	name := w.Refname
	if len(w.PartitionClause) == 0 && name == "" {
		name = w.Name // OVER w
	}
	if name != "" && depth < 10 {
		for _, n := range sel.WindowClause {
			if d := n.GetWindowDef(); d != nil && d.Name == name && d != w {
				return gr.partition(sel, &pg.WindowDef{Refname: d.Refname, PartitionClause: d.PartitionClause}, depth+1)
			}
		}
		return nil
	}
	var out []*column
	for _, n := range w.PartitionClause {
		out = append(out, gr.l.column(n))
	}
	return out
}
