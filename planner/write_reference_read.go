package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// asks reports whether a statement has a query inside.
func asks(stmt *pg.Node) bool {
	found := false
	parser.Walk(stmt, func(m any) bool {
		switch m.(type) {
		case *pg.SubLink, *pg.RangeSubselect, *pg.CommonTableExpr, *pg.RangeFunction:
			found = true
		}
		return !found
	})
	return found
}

// reading plans a statement that reads tables which not all of its shards have. If the home shard
// alone runs it, sharded tables are lent to that, as for a statement that writes a home table. If
// every copy runs it, only reference tables stay in it, and what may yield other rows each time is
// answered once. It returns nil if that is refused.
func (c *copier) reading(verb string, w *plan.Copies, stmt *pg.Node) *plan.Write {
	refusal := c.a.gatherer().gatherable()
	var s *steps
	switch x := c.a.writes().changing(stmt); {
	case refusal != nil:
	case x == nil:
		s, refusal = c.lentInsert(stmt)
	default:
		if w.Then != nil {
			x.table = nil
		}
		s, refusal = x.cut()
	}
	if refusal != nil {
		c.a.out.Route, c.a.out.Refusal = plan.Refused, refusal
		return nil
	}
	return c.finish(verb, w, s, s.r.tree)
}

// finish makes a plan of the steps before a statement, and its tree over their rows.
func (c *copier) finish(verb string, w *plan.Copies, s *steps, tree *pg.Node) *plan.Write {
	if w.Then == nil && !c.sure(tree, false) {
		return nil
	}
	s.before = append(s.before, copiesStep(tree, verb, w))
	out, refusal := s.finish()
	if refusal != nil {
		c.a.out.Route, c.a.out.Refusal = plan.Refused, refusal
		return nil
	}
	return out
}

// sure refuses a statement that may do something else on each copy. home says that it reads home
// tables.
func (c *copier) sure(tree *pg.Node, home bool) bool {
	a := c.unsure(tree)
	if a == "" && home {
		a = "table " + c.a.touched.home[0] + ", which is on the home shard alone,"
	}
	if a != "" {
		c.a.unsupported("Give the table a primary key, and do not change it in the same statement.",
			"every copy of reference table %q would have to run this statement by itself, and %s may be another on each", c.rel.Name.Name, a)
	}
	return a == ""
}

// lentInsert plans an INSERT from rows that are all lent to the home shard.
func (c *copier) lentInsert(stmt *pg.Node) (*steps, *pgerr.Error) {
	r, refusal := c.a.writes().takeOut(stmt, map[*pg.RangeVar]bool{})
	if refusal != nil {
		return nil, refusal
	}
	left := ""
	parser.Walk(r.tree, func(m any) bool {
		if rv, ok := m.(*pg.RangeVar); ok {
			if rel, t := c.a.relation(rv); rel != nil && t != nil && !t.Reference {
				left = rv.Relname
			}
		}
		return true
	})
	if left != "" || len(r.gather.Pieces) == 0 {
		return nil, cannot("Read the rows first.", "sharded table %q cannot be read into reference table %q by this statement", c.a.touched.sharded[0], c.rel.Name.Name)
	}
	return &steps{a: c.a, stmt: stmt, returned: map[string]int{}, r: r}, nil
}
