package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/parser"
	"weft/pgerr"
)

// findOnce finds the queries of the statement that name nothing of the query around them, and may
// yield other rows each time: they call something volatile, or depend on the order in which rows
// are found. PostgreSQL answers each of them once, so two shards must not.
func (c *changing) findOnce() {
	c.once = nil
	parser.Walk(c.stmt, func(m any) bool {
		sel, ok := m.(*pg.SelectStmt)
		if ok && slices.Contains(c.locking, sel) {
			return false
		}
		if !ok || !c.a.writes().unsure(sel) && !c.a.writes().orderly(sel) || !c.a.gatherer().closed(sel) {
			return true
		}
		c.once = append(c.once, sel)
		return false
	})
}

// unsure reports whether a query calls a volatile function.
func (wr writes) unsure(sel *pg.SelectStmt) bool {
	found := false
	parser.Walk(sel, func(m any) bool {
		if f, ok := m.(*pg.FuncCall); ok {
			found = found || wr.volatileCall(f)
		}
		return !found
	})
	return found
}

// volatileCall reports whether a call may have another value each time.
func (wr writes) volatileCall(f *pg.FuncCall) bool {
	names := nameList(f.Funcname)
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	users := wr.a.reach().userFunctions(schema, names[len(names)-1])
	for _, u := range users {
		if u.Volatility == 'v' {
			return true
		}
	}
	t := wr.a.env.Schema.Builtin(names[len(names)-1])
	return len(users) == 0 && t.Known && t.Volatility == 'v'
}

// takeOutAll is takeOut, and remembers where the queries are that are answered once.
func (c *changing) takeOutAll(stays map[*pg.RangeVar]bool) (*remainder, *pgerr.Error) {
	r := c.a.gatherer().newRemainder()
	r.stays = stays
	r.tree = r.copy(c.stmt)
	r.copies = map[*pg.SelectStmt]*pg.SelectStmt{}
	for copied, was := range r.queries {
		r.copies[was] = copied
	}
	r.lend(c.locking)
	return r, r.takeOut(c.stmt)
}

// answer makes steps of the queries that are answered once, and replaces them by the rows of the
// steps.
func (s *steps) answer(once []*pg.SelectStmt) {
	with, _ := withOf(s.r.tree)
	for _, was := range once {
		sel := s.r.copies[was]
		if sel == nil {
			continue
		}
		tree := proto.Clone(selectNode(sel)).(*pg.Node)
		var plain []*pg.Node
		for _, n := range with.GetCtes() {
			if n.GetCommonTableExpr().GetCtequery().GetSelectStmt() == sel {
				break
			}
			plain = append(plain, n)
		}
		s.enclose(tree, plain)
		s.before = append(s.before, readingStep(tree))
		stepRows(sel, len(s.before)-1)
	}
}
