package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/parser"
)

// alike gives subqueries that are written alike the same literals. PostgreSQL recognises that an
// expression equals the one that rows are grouped or ordered by. The two must still be equal when
// the subqueries in them are replaced by inputs, so equal subqueries must read the same inputs.
//
// alike runs before anything is made of the literals, and only where rows are grouped or ordered by
// a subquery: the plan then holds for this text alone.
func (ga gatherer) alike(n *pg.Node) {
	if !sortsByQuery(n) {
		return
	}
	first := map[string][]*pg.A_Const{}
	parser.Walk(n, func(m any) bool {
		link, ok := m.(*pg.SubLink)
		if !ok {
			return true
		}
		key, err := proto.MarshalOptions{Deterministic: true}.Marshal(placeless(link.Subselect))
		if err != nil {
			return true
		}
		var constants []*pg.A_Const
		parser.Walk(link.Subselect, func(m any) bool {
			if c, ok := m.(*pg.A_Const); ok {
				constants = append(constants, c)
			}
			return true
		})
		was, again := first[string(key)]
		if !again {
			first[string(key)] = constants
			return true
		}
		for i, c := range constants {
			c.Location = was[i].Location
			ga.a.out.Exact = true // the constants are equal in this text
		}
		return true
	})
}

// sortsByQuery reports whether a statement groups or orders rows somewhere by what a subquery
// yields.
func sortsByQuery(n *pg.Node) bool {
	found := false
	parser.Walk(n, func(m any) bool {
		if sel, ok := m.(*pg.SelectStmt); ok {
			for _, list := range [][]*pg.Node{sel.GroupClause, sel.SortClause, sel.DistinctClause} {
				for _, n := range list {
					found = found || hasSublink(n)
				}
			}
		}
		return !found
	})
	return found
}
