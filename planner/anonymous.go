package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/plan"
)

// A row that a query makes, (a, b) or ROW(a, b), has a type without a name, under which it could be carried. weft can pass
// such rows on, but PostgreSQL cannot be given them to sort, group or compare them. So there is another way for a query that
// makes some: it is cut into its tables, whose columns can be carried, and PostgreSQL makes the rows of them. Whether
// that way is needed is known when the types are.

// makesRows reports whether a query makes rows in places where their parts are not compared one by one.
func makesRows(stmt *pg.Node) bool {
	compared := map[*pg.RowExpr]bool{}
	found := false
	parser.Walk(stmt, func(m any) bool {
		switch m := m.(type) {
		case *pg.A_Expr:
			note(compared, m.Lexpr)
			note(compared, m.Rexpr)
		case *pg.SubLink:
			note(compared, m.Testexpr)
		case *pg.RowExpr:
			found = found || !compared[m]
		}
		return !found
	})
	return found
}

// note notes the rows that an operator compares, one or a list of them.
func note(compared map[*pg.RowExpr]bool, n *pg.Node) {
	if r := n.GetRowExpr(); r != nil {
		compared[r] = true
	}
	for _, item := range n.GetList().GetItems() {
		note(compared, item)
	}
}

// single plans the query once more, cut into single tables, for when the rows of a larger piece cannot be carried.
func (ga gatherer) single(stmt *pg.Node, g *plan.Gather) {
	if g.Locks || ga.a.tablesOnly() {
		return
	}
	ga.a.single, ga.a.notes.checked = true, map[*pg.Node]bool{}
	defer func() { ga.a.single = false }()
	rest, refusal := ga.remains(stmt)
	if refusal != nil {
		return
	}
	for g.Otherwise != nil {
		g = g.Otherwise
	}
	g.Otherwise = rest.gather
}
