package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/parser"
)

// alike gives subqueries that are written alike the same literals. PostgreSQL sees
// that an expression is the one that is grouped or ordered by; so it must still
// be when the subqueries in it read inputs, and they are to read the same ones.
//
// It is done before anything is made of the literals, and only where a subquery
// is grouped or ordered by: the plan is for this text alone then.
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
			ga.a.out.Exact = true // they are equal in this text
		}
		return true
	})
}

// sortsByQuery reports whether somewhere in a statement rows are grouped or ordered
// by what a subquery yields.
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
