package planner

import (
	"fmt"
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"
)

// split is a block that becomes a piece and a block above it: its FROM and WHERE are local, and the
// rest of it is done above.
type split struct {
	sel     *pg.SelectStmt
	root    *analysis
	base    *block // the rows of the block
	level   *level
	targets *targets
	number  int // the number of the piece
	cols    []carried
	loose   bool // a column has a collation under which different strings are equal
}

// carried is a column of the piece.
type carried struct {
	key  string
	expr *pg.Node
	// aggregate is the call, if the column is a partial aggregate.
	aggregate *pg.FuncCall
}

// split judges the rows of a block.
func (ga gatherer) split(sel *pg.SelectStmt, piece int, sealed map[*pg.SubLink]bool) (*split, string) {
	if sel.Op != pg.SetOperation_SETOP_NONE || len(sel.ValuesLists) > 0 || len(sel.LockingClause) > 0 || len(sel.FromClause) == 0 {
		return nil, "it is no plain query"
	}
	s := &split{sel: sel, root: ga.a, number: piece}
	open := false
	for _, n := range slices.Concat(clauses(sel), sel.GroupClause, sel.WindowClause) {
		walkLevel(n, func(m any) {
			link, ok := m.(*pg.SubLink)
			open = open || ok && !sealed[link]
		})
	}
	if open {
		return nil, "there are subqueries in its expressions"
	}
	rows := s.rows()
	rows.TargetList = []*pg.Node{targetNode(boolNode(true), "")}
	base, why := ga.localIn(rows, ga.a.text, false)
	if base == nil {
		return nil, why
	}
	s.base, s.level = base, base.level
	s.targets = s.level.grouping().outputsOf(sel)
	if s.targets.opaque || slices.Contains(s.targets.exprs, nil) {
		return nil, "its columns cannot be told"
	}
	if slices.ContainsFunc(sel.GroupClause, func(g *pg.Node) bool { return s.constantSet(g, false) }) {
		return nil, "a constant is grouped by in sets"
	}
	return s, ""
}

// constantSet reports whether GROUP BY has a constant of the target list in its grouping sets. That
// output, and no equal one, is NULL in rows of the other sets.
func (s *split) constantSet(g *pg.Node, inside bool) bool {
	within := func(n *pg.Node) bool { return s.constantSet(n, true) }
	switch v := g.GetNode().(type) {
	case *pg.Node_GroupingSet:
		return slices.ContainsFunc(v.GroupingSet.Content, within)
	case *pg.Node_RowExpr:
		return inside && slices.ContainsFunc(v.RowExpr.Args, within)
	}
	e := s.groupExpr(g)
	for e.GetTypeCast() != nil {
		e = e.GetTypeCast().Arg
	}
	return inside && e.GetAConst() != nil
}

// rows returns the block's FROM and WHERE as a query.
func (s *split) rows() *pg.SelectStmt {
	out := newSelect()
	out.FromClause, out.WhereClause = s.sel.FromClause, s.sel.WhereClause
	// CTEs that only the block's expressions name stay with the block.
	if w := s.sel.WithClause; w != nil {
		if in := encloseWith(out, w); in != nil {
			return in
		}
		out.WithClause = w
	}
	return out
}

// rest returns the block with its columns written out and named. ORDER BY and DISTINCT ON name
// outputs by number.
func (s *split) rest() *pg.SelectStmt {
	b := copySelect(s.sel)
	b.FromClause, b.WhereClause, b.GroupClause, b.TargetList = nil, nil, nil, nil
	b.WithClause = nil
	for i, e := range s.targets.exprs {
		b.TargetList = append(b.TargetList, targetNode(e, s.targets.names[i]))
	}
	b.SortClause = nil
	for _, n := range s.sel.SortClause {
		by := proto.Clone(n).(*pg.Node)
		by.GetSortBy().Node = s.sortItem(by.GetSortBy().Node)
		b.SortClause = append(b.SortClause, by)
	}
	if len(b.DistinctClause) > 0 && b.DistinctClause[0].GetNode() != nil {
		b.DistinctClause = nil
		for _, n := range s.sel.DistinctClause {
			b.DistinctClause = append(b.DistinctClause, s.sortItem(n))
		}
	}
	return b
}

func (s *split) sortItem(n *pg.Node) *pg.Node {
	if i := s.targets.output(n); i >= 0 {
		return intNode(i + 1)
	}
	return n
}

// groupExpr returns the expression that an item of GROUP BY means, or nil if that cannot be told.
func (s *split) groupExpr(n *pg.Node) *pg.Node {
	if i, is := s.targets.number(n); is {
		if i < 0 {
			return nil
		}
		return s.targets.exprs[i]
	}
	ref := n.GetColumnRef()
	if ref == nil || len(ref.Fields) != 1 {
		return n
	}
	names := nameList(ref.Fields)
	if _, known := s.level.lookup(names); known || len(names) == 0 {
		return n
	}
	switch i := s.targets.find(names[0]); i {
	case -1:
		return n
	case -2:
		return nil
	default:
		return s.targets.exprs[i]
	}
}

// carry returns the column of the piece that has an expression's value.
func (s *split) carry(e *pg.Node) int {
	if i := s.find(e); i >= 0 {
		return i
	}
	// The column gets a node of its own: e may be about to change.
	s.cols = append(s.cols, carried{key: s.key(e), expr: &pg.Node{Node: e.Node}})
	return len(s.cols) - 1
}

// carryAggregate returns the column of the piece that has a partial aggregate.
func (s *split) carryAggregate(f *pg.FuncCall) int {
	key := "aggregate " + s.key(&pg.Node{Node: &pg.Node_FuncCall{FuncCall: f}})
	if i := slices.IndexFunc(s.cols, func(c carried) bool { return c.key == key }); i >= 0 {
		return i
	}
	s.cols = append(s.cols, carried{key: key, aggregate: f})
	return len(s.cols) - 1
}

func (s *split) find(e *pg.Node) int {
	if e == nil || len(s.cols) == 0 {
		return -1
	}
	key := s.key(e)
	i := slices.IndexFunc(s.cols, func(c carried) bool { return c.key == key })
	if i >= 0 {
		walkLevel(e, func(m any) {
			if c, ok := m.(*pg.A_Const); ok && c.Location >= 0 {
				s.root.out.Exact = true // equal by the values of literals
			}
		})
	}
	return i
}

// key returns the same text for expressions that mean the same and differ only in how they name
// columns.
func (s *split) key(e *pg.Node) string {
	e = rewrite(e, func(m *pg.Node) *pg.Node {
		if m.GetColumnRef() == nil {
			return nil
		}
		if c := s.level.column(m); c != nil {
			return nameNode(mark, fmt.Sprintf("%p", c))
		}
		return m
	})
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(placeless(e))
	if err != nil {
		return fmt.Sprintf("%p", e)
	}
	return string(b)
}

// ref returns a column of the piece, as the block names it.
func (s *split) ref(i int) *pg.Node { return nameNode(inputAlias, inputColumn(i)) }

// check returns the reason why the piece cannot run in shards with its expressions, or "".
func (s *split) check(a *analysis) string {
	rows := s.rows()
	for _, c := range s.cols {
		switch {
		case c.aggregate == nil:
			rows.TargetList = append(rows.TargetList, targetNode(c.expr, ""))
		default:
			for _, e := range append(slices.Clone(c.aggregate.Args), c.aggregate.AggFilter) {
				if e != nil {
					rows.TargetList = append(rows.TargetList, targetNode(e, ""))
				}
			}
		}
	}
	if _, why := a.gatherer().localIn(rows, a.text, false); why != "" {
		return why
	}
	a.out.Exact = a.out.Exact || s.level.a.out.Exact
	return ""
}

// domains returns the domains among the types of the piece's columns.
func (s *split) domains() []string {
	var columns []*column
	for _, c := range s.cols {
		var x *column
		if c.aggregate == nil {
			x = s.level.column(c.expr)
		}
		columns = append(columns, x)
	}
	return domains(columns)
}

// maxTargets is how many columns PostgreSQL lets a query have, less the one that a piece gets in
// front if there are other pieces.
const maxTargets = 1663

// input makes the piece's rows the block's FROM.
func (s *split) input(b *pg.SelectStmt) string {
	if len(s.cols) > maxTargets {
		return "it would have too many columns"
	}
	collations := make([]collation, len(s.cols))
	for i, c := range s.cols {
		e := c.expr
		if c.aggregate != nil {
			switch name := lastName(c.aggregate.Funcname); {
			case len(c.aggregate.Args) != 1 || name != "min" && name != "max":
				continue // not a string
			}
			e = c.aggregate.Args[0]
		}
		var ok bool
		if collations[i], ok = s.base.collationOf(s.root, e, nil); !ok {
			return "a collation cannot be told"
		}
		s.loose = s.loose || collations[i].loose
	}
	b.FromClause = []*pg.Node{inputNode(s.number, max(len(s.cols), 1), collations)}
	return ""
}

// rewrite returns a copy of an expression with some parts replaced. replace returns nil for a part
// that stays and may contain others to replace.
func rewrite(n *pg.Node, replace func(*pg.Node) *pg.Node) *pg.Node {
	out := &pg.Node{}
	if r := replace(n); r != nil {
		return r
	}
	out = proto.Clone(n).(*pg.Node)
	first := true
	walkNodes(out, func(m *pg.Node) bool {
		if first {
			first = false
			return true
		}
		if r := replace(m); r != nil {
			m.Node = r.Node
			return false
		}
		return true
	})
	return out
}
