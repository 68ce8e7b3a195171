package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// newSelect returns a query without clauses.
func newSelect() *pg.SelectStmt {
	return &pg.SelectStmt{Op: pg.SetOperation_SETOP_NONE, LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT}
}

// copySelect returns a query with the same clauses.
func copySelect(s *pg.SelectStmt) *pg.SelectStmt {
	return &pg.SelectStmt{
		DistinctClause: s.DistinctClause, IntoClause: s.IntoClause, TargetList: s.TargetList, FromClause: s.FromClause,
		WhereClause: s.WhereClause, GroupClause: s.GroupClause, GroupDistinct: s.GroupDistinct, HavingClause: s.HavingClause,
		WindowClause: s.WindowClause, ValuesLists: s.ValuesLists, SortClause: s.SortClause, LimitOffset: s.LimitOffset,
		LimitCount: s.LimitCount, LimitOption: s.LimitOption, LockingClause: s.LockingClause, WithClause: s.WithClause,
		Op: s.Op, All: s.All, Larg: s.Larg, Rarg: s.Rarg,
	}
}

// enclose returns a query together with those surrounding CTEs that it names, or nil if a name in
// it would get another meaning.
func enclose(sel *pg.SelectStmt, w *with) *pg.SelectStmt {
	var nodes []*pg.CommonTableExpr
	recursive := false
	for ; w != nil; w = w.parent {
		var list []*pg.CommonTableExpr
		for _, c := range w.ctes {
			list = append(list, c.node)
			recursive = recursive || c.recursive
		}
		nodes = append(list, nodes...)
	}
	return encloseIn(sel, nodes, recursive)
}

// encloseWith is enclose for the CTEs of one clause.
func encloseWith(sel *pg.SelectStmt, w *pg.WithClause) *pg.SelectStmt {
	var nodes []*pg.CommonTableExpr
	for _, n := range w.GetCtes() {
		if c := n.GetCommonTableExpr(); c != nil {
			nodes = append(nodes, c)
		}
	}
	return encloseIn(sel, nodes, w.GetRecursive())
}

func encloseIn(sel *pg.SelectStmt, nodes []*pg.CommonTableExpr, recursive bool) *pg.SelectStmt {
	if len(nodes) == 0 {
		return sel
	}
	need := map[string]bool{}
	for name := range uses(sel) {
		need[name] = true
	}
	// CTEs that other CTEs name are needed too. The loop repeats because with RECURSIVE they may
	// stand in any order.
	for range nodes {
		for _, c := range nodes {
			if need[c.Ctename] {
				for name := range uses(c.Ctequery) {
					need[name] = true
				}
			}
		}
	}
	out := copySelect(sel)
	out.WithClause = &pg.WithClause{Recursive: recursive || sel.WithClause.GetRecursive(), Location: -1}
	seen := map[string]bool{}
	for _, c := range nodes {
		if !need[c.Ctename] {
			continue
		}
		if seen[c.Ctename] || recursive && c.Ctequery.GetSelectStmt() == nil {
			return nil
		}
		seen[c.Ctename] = true
		out.WithClause.Ctes = append(out.WithClause.Ctes, &pg.Node{Node: &pg.Node_CommonTableExpr{CommonTableExpr: c}})
	}
	if len(seen) == 0 {
		return sel
	}
	for _, n := range sel.WithClause.GetCtes() {
		if c := n.GetCommonTableExpr(); c != nil && seen[c.Ctename] || recursive != sel.WithClause.GetRecursive() {
			return nil
		}
		out.WithClause.Ctes = append(out.WithClause.Ctes, n)
	}
	return out
}
