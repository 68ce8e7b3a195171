package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/plan"
)

// recordType is the type of rows without a named type, under which they could be carried.
const recordType = 2249

// carryRows splits a block whose FROM and WHERE are local, but not its output: the piece has the
// columns that the block's expressions name, and the block does all the rest.
func (ga gatherer) carryRows(sel *pg.SelectStmt, piece int, sealed map[*pg.SubLink]bool) (*reduced, string) {
	s, why := ga.split(sel, piece, sealed)
	if s == nil {
		return nil, why
	}
	r := &reduced{block: s.rest(), why: []string{"rows are brought together"}}
	b := r.block
	dependent, why := s.dependent()
	if why != "" {
		return nil, why
	}
	for _, g := range s.sel.GroupClause {
		b.GroupClause = append(b.GroupClause, rewrite(g, s.groupRef))
	}
	for _, n := range dependent {
		b.GroupClause = append(b.GroupClause, s.ref(s.carry(n)))
	}
	b.TargetList = s.each(b.TargetList)
	b.SortClause = s.each(b.SortClause)
	b.WindowClause = s.each(b.WindowClause)
	if b.HavingClause != nil {
		b.HavingClause = s.each([]*pg.Node{b.HavingClause})[0]
	}
	if len(b.DistinctClause) > 0 && b.DistinctClause[0].GetNode() != nil {
		b.DistinctClause = s.each(b.DistinctClause)
	}
	if why := s.check(ga.a); why != "" {
		return nil, why
	}
	if why := s.input(b); why != "" {
		return nil, why
	}
	r.piece = s.rows()
	for i, c := range s.cols {
		r.piece.TargetList = append(r.piece.TargetList, targetNode(c.expr, inputColumn(i)))
		if s.level.column(c.expr) == nil {
			r.forbid = append(r.forbid, plan.Forbidden{Column: i, Type: recordType})
		}
	}
	if len(s.cols) == 0 {
		r.piece.TargetList = []*pg.Node{targetNode(boolNode(true), inputColumn(0))}
	}
	s.firsts(r.piece)
	r.instances, r.anchors, r.name = s.base.instances, s.base.anchors, s.base.name
	r.types = s.domains()
	return r, ""
}

// each rewrites expressions over the piece's columns.
func (s *split) each(list []*pg.Node) []*pg.Node {
	var out []*pg.Node
	for _, n := range list {
		out = append(out, rewrite(n, s.replace))
	}
	return out
}

func (s *split) replace(m *pg.Node) *pg.Node {
	if m.GetSubLink() != nil {
		return m // a sealed node stays as it is
	}
	ref := m.GetColumnRef()
	if ref == nil {
		return nil
	}
	if last := len(ref.Fields) - 1; last > 0 && ref.Fields[last].GetAStar() != nil {
		m = nameNode(nameList(ref.Fields)...) // t.* in an expression is the row
	}
	return s.ref(s.carry(m))
}

// groupRef rewrites an item of GROUP BY. Outputs are named by their numbers.
func (s *split) groupRef(m *pg.Node) *pg.Node {
	switch m.GetNode().(type) {
	case *pg.Node_GroupingSet, *pg.Node_RowExpr:
		return nil
	}
	if i, is := s.targets.number(m); is && i >= 0 {
		return intNode(i + 1)
	}
	e := s.groupExpr(m)
	if i := slices.Index(s.targets.exprs, e); i >= 0 && e != m {
		return intNode(i + 1)
	}
	return s.replace(m)
}

// dependent returns the columns that stand outside of aggregates and are not grouped by, because
// they depend on grouped columns: PostgreSQL knows that of a primary key.
func (s *split) dependent() (out []*pg.Node, why string) {
	if len(s.sel.GroupClause) == 0 {
		return nil, ""
	}
	var keys []string
	sets := false
	for _, g := range s.sel.GroupClause {
		walkNodes(g, func(m *pg.Node) bool {
			switch m.GetNode().(type) {
			case *pg.Node_GroupingSet:
				sets = true
				return true
			case *pg.Node_RowExpr:
				return true
			}
			e := s.groupExpr(m)
			if e == nil {
				why = "what it groups by cannot be told"
				return false
			}
			keys = append(keys, s.key(e))
			return false
		})
	}
	if why != "" {
		return nil, why
	}
	list := append(slices.Clone(s.targets.exprs), s.sel.WindowClause...)
	if s.sel.HavingClause != nil {
		list = append(list, s.sel.HavingClause)
	}
	for _, n := range s.sel.SortClause {
		if s.targets.output(n.GetSortBy().GetNode()) < 0 {
			list = append(list, n)
		}
	}
	for _, e := range list {
		rewrite(e, func(m *pg.Node) *pg.Node {
			if m.GetNode() == nil {
				return nil
			}
			f := m.GetFuncCall()
			switch {
			case m.GetSubLink() != nil, f != nil && f.Over == nil && s.level.aggregates(f), slices.Contains(keys, s.key(m)):
				return m
			case m.GetColumnRef() != nil:
				out = append(out, m)
				return m
			}
			return nil
		})
	}
	if sets && len(out) > 0 {
		return nil, "a column depends on what is grouped by in sets"
	}
	return out, ""
}

// firsts lets each shard find its own first rows for DISTINCT ON.
func (s *split) firsts(piece *pg.SelectStmt) {
	on := s.sel.DistinctClause
	if len(on) == 0 || on[0].GetNode() == nil || s.level.grouping().grouped(s.sel) || len(s.level.grouping().windows(s.sel)) > 0 || len(s.cols) == 0 {
		return
	}
	resolve := func(n *pg.Node) *pg.Node {
		switch i := s.targets.output(n); {
		case i >= 0:
			return s.targets.exprs[i]
		case i == -1:
			return n
		}
		return nil
	}
	var list, order []*pg.Node
	for _, n := range on {
		list = append(list, resolve(n))
	}
	for _, n := range s.sel.SortClause {
		by := n.GetSortBy()
		e := resolve(by.Node)
		list = append(list, e)
		sort := pg.MakeSortByNode(e, by.SortbyDir, by.SortbyNulls, -1)
		sort.GetSortBy().UseOp = by.UseOp
		order = append(order, sort)
	}
	for _, e := range list {
		if e == nil || e.GetAConst() != nil || s.spreads(e) {
			return
		}
	}
	if slices.ContainsFunc(s.targets.exprs, s.spreads) {
		return
	}
	piece.DistinctClause, piece.SortClause = list[:len(on)], order
}

// spreads reports whether an expression makes several rows of one, or changes from call to call.
func (s *split) spreads(n *pg.Node) bool {
	found := false
	walkLevel(n, func(m any) {
		if f, ok := m.(*pg.FuncCall); ok {
			t := s.root.env.Schema.Builtin(lastName(f.Funcname))
			found = found || !t.Known || t.SetReturning || t.Volatility == 'v'
		}
		if _, ok := m.(*pg.SubLink); ok {
			found = true
		}
	})
	return found
}
