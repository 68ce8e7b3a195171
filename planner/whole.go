package planner

import (
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/plan"
)

// whole returns how a query is answered that runs in one piece, or nil. What is
// in one piece needs no more than to be put together: appended, merged by ORDER
// BY, freed of duplicates, cut by LIMIT; or it is aggregated in two steps.
func (a *analysis) whole(sel *pg.SelectStmt) *plan.Gather {
	if !a.countable(sel) || len(sel.LockingClause) > 0 && !a.lockable(sel) {
		return nil
	}
	core := copySelect(sel)
	core.IntoClause, core.SortClause, core.LockingClause = nil, nil, nil
	core.LimitCount, core.LimitOffset, core.LimitOption = nil, nil, pg.LimitOption_LIMIT_OPTION_DEFAULT
	// The order's expressions are part of what runs in the shards.
	sorted := copySelect(core)
	if core.Op == pg.SetOperation_SETOP_NONE {
		sorted.SortClause = sel.SortClause
	}
	b, why := a.local(sorted)
	distinct := false
	if b == nil && len(core.DistinctClause) > 0 {
		sorted.DistinctClause = nil
		b, _ = a.local(sorted)
		distinct = true
	}
	if b == nil {
		return a.wholePartial(sel, why)
	}
	w := &wholePiece{analysis: a, sel: sel, block: b, distinct: distinct}
	return w.gather()
}

// countable: LIMIT and OFFSET are known without reading a table.
func (a *analysis) countable(sel *pg.SelectStmt) bool {
	ok := true
	for _, n := range []*pg.Node{sel.LimitCount, sel.LimitOffset} {
		if n != nil {
			walkLevel(n, func(m any) {
				switch m := m.(type) {
				case *pg.SubLink:
					ok = false
				case *pg.FuncCall:
					names := nameList(m.Funcname)
					ok = ok && a.env.Schema.Builtin(names[len(names)-1]).Volatility == 'i'
				}
			})
		}
	}
	return ok
}

// lockable: all rows that are read are the client's, and none of them has copies
// on other shards.
func (a *analysis) lockable(sel *pg.SelectStmt) bool {
	return sel.LimitCount == nil && sel.LimitOffset == nil && sel.Op == pg.SetOperation_SETOP_NONE &&
		len(sel.DistinctClause) == 0 && len(a.touched.reference) == 0
}

// wholePiece makes the Gather of a query in one piece.
type wholePiece struct {
	*analysis
	sel      *pg.SelectStmt
	block    *block
	distinct bool // equal rows of several shards are one

	out    *targets
	keys   []sortKey
	native bool
}

// sortKey is an item of ORDER BY.
type sortKey struct {
	by        *pg.SortBy
	expr      *pg.Node // over the query's FROM
	output    int      // the output it is, -1 if it is none
	collation collation
}

func (w *wholePiece) gather() *plan.Gather {
	if w.block.level != nil {
		w.out = w.block.level.outputsOf(w.sel)
	} else if !w.wrap() {
		return nil
	}
	w.native = !w.out.opaque
	if !w.sortKeys() {
		return nil
	}
	piece, ok := w.piece()
	if !ok {
		return nil
	}
	g := &plan.Gather{Locks: len(w.sel.LockingClause) > 0}
	var err error
	if g.Remainder, err = w.render(selectNode(w.remainder())); err != nil {
		return nil
	}
	p := plan.Piece{Instances: w.block.instances, Name: w.block.name}
	if p.Text, err = w.render(selectNode(piece)); err != nil {
		return nil
	}
	g.Pieces = []plan.Piece{p}
	if w.native {
		g.Native = w.nativeEnd()
	}
	g.Why = []string{"it runs whole inside each shard"}
	return g
}

// wrap lists what a set operation yields. If it is to be ordered it becomes a
// query around it, to which columns can be added.
func (w *wholePiece) wrap() bool {
	b := w.block
	w.out = &targets{opaque: b.opaque, numbered: func() { w.analysis.out.Exact = true }}
	if b.opaque {
		return len(w.sel.SortClause) == 0
	}
	sel := &pg.SelectStmt{
		SortClause: w.sel.SortClause, LimitCount: w.sel.LimitCount, LimitOffset: w.sel.LimitOffset, LimitOption: w.sel.LimitOption,
	}
	alias := &pg.Alias{Aliasname: inputAlias}
	for i, c := range b.cols {
		n := nameNode(inputAlias, inputColumn(i))
		alias.Colnames = append(alias.Colnames, pg.MakeStrNode(inputColumn(i)))
		sel.TargetList = append(sel.TargetList, targetNode(n, c.name))
		w.out.names = append(w.out.names, c.name)
		w.out.columns = append(w.out.columns, c.column)
		w.out.exprs = append(w.out.exprs, n)
	}
	if len(sel.SortClause) == 0 {
		return true
	}
	set := copySelect(w.sel)
	set.SortClause, set.LimitCount, set.LimitOffset, set.LimitOption, set.IntoClause = nil, nil, nil, pg.LimitOption_LIMIT_OPTION_DEFAULT, nil
	sel.FromClause = []*pg.Node{{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Subquery: selectNode(set), Alias: alias}}}}
	w.sel = sel
	return true
}

// sortKeys finds out what the query is ordered by. It reports false if that
// cannot be told, or not be carried.
func (w *wholePiece) sortKeys() bool {
	for _, n := range w.sel.SortClause {
		by := n.GetSortBy()
		if by == nil {
			return false
		}
		k := sortKey{by: by, output: w.out.output(by.Node)}
		switch {
		case k.output == -2:
			return false
		case k.output >= 0:
			k.expr = w.out.exprs[k.output]
			if k.expr == nil || w.volatileIn(k.expr) {
				return false
			}
		default:
			k.expr = by.Node
			k.output = slices.IndexFunc(w.out.exprs, func(e *pg.Node) bool { return w.sameNode(e, by.Node) })
		}
		var ok bool
		if k.collation, ok = w.collationOf(k.expr, k.output); !ok || w.distinct && k.output < 0 {
			return false
		}
		w.keys = append(w.keys, k)
		w.native = w.native && by.SortbyDir != pg.SortByDir_SORTBY_USING
	}
	if l := w.block.level; l != nil && l.out.Exact {
		w.analysis.out.Exact = true
	}
	return !w.out.opaque || len(w.keys) == 0
}

// collationOf is that of an expression that may be an output.
func (w *wholePiece) collationOf(n *pg.Node, output int) (collation, bool) {
	var x *column
	if output >= 0 {
		x = w.out.columns[output]
	}
	return w.block.collationOf(w.analysis, n, x)
}

// volatileIn: evaluated twice, it has two values.
func (w *wholePiece) volatileIn(n *pg.Node) bool {
	found := false
	walkLevel(n, func(m any) {
		if f, ok := m.(*pg.FuncCall); ok {
			names := nameList(f.Funcname)
			found = found || w.env.Schema.Builtin(names[len(names)-1]).Volatility == 'v'
		}
	})
	return found
}

// piece is the query as the shards get it: with the keys of its order behind the
// client's columns, and the first rows only, if only these can count.
func (w *wholePiece) piece() (*pg.SelectStmt, bool) {
	p := copySelect(w.sel)
	p.IntoClause = nil
	p.TargetList = slices.Clone(p.TargetList)
	for i, k := range w.hidden() {
		p.TargetList = append(p.TargetList, targetNode(k.expr, "weft_key_"+strconv.Itoa(i+1)))
	}
	if len(p.TargetList) == 0 && p.Op == pg.SetOperation_SETOP_NONE {
		// A SELECT of nothing has rows all the same.
		p.TargetList = []*pg.Node{targetNode(boolNode(true), "weft_row")}
		w.native = false
	}
	if len(p.DistinctClause) > 0 && p.DistinctClause[0].GetNode() != nil && w.distinct {
		return nil, false // DISTINCT ON of several shards
	}
	p.LimitOffset = nil
	p.LimitCount = w.limit()
	if p.LimitCount == nil {
		p.LimitOption = pg.LimitOption_LIMIT_OPTION_DEFAULT
		if len(p.LockingClause) == 0 && !w.native {
			p.SortClause = nil
		}
	}
	return p, true
}

// hidden are the keys that are carried behind the client's columns. If equal rows
// become one, all keys are among the client's.
func (w *wholePiece) hidden() []sortKey {
	if w.distinct {
		return nil
	}
	return w.keys
}

// limit is how many rows of a shard can count: those the client asks for, and
// those before them.
func (w *wholePiece) limit() *pg.Node {
	count, offset := w.sel.LimitCount, w.sel.LimitOffset
	switch {
	case count == nil || isNull(count):
		return nil
	case offset == nil || isNull(offset):
		return count
	}
	number := func(n *pg.Node) *pg.Node { return cast(cast(n, "int8"), "numeric") }
	sum := pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("+")}, number(count), number(offset), -1)
	most := cast(sqlMark("9223372036854775807"), "numeric")
	// LEAST takes no notice of NULL, which means all rows.
	return cast(&pg.Node{Node: &pg.Node_MinMaxExpr{MinMaxExpr: &pg.MinMaxExpr{
		Op: pg.MinMaxOp_IS_LEAST, Args: []*pg.Node{sum, most}, Location: -1,
	}}}, "int8")
}

// remainder puts the rows of the piece together.
func (w *wholePiece) remainder() *pg.SelectStmt {
	r := &pg.SelectStmt{LimitCount: w.sel.LimitCount, LimitOffset: w.sel.LimitOffset, LimitOption: w.sel.LimitOption}
	if w.out.opaque {
		r.FromClause = []*pg.Node{inputNode(0, -1, nil)}
		r.TargetList = []*pg.Node{targetNode(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")}
		return r
	}
	n := len(w.out.names)
	carried := make([]collation, n+len(w.hidden()))
	for i, e := range w.out.exprs {
		carried[i], _ = w.collationOf(e, i)
		r.TargetList = append(r.TargetList, targetNode(nameNode(inputAlias, inputColumn(i)), w.out.names[i]))
	}
	for i, k := range w.keys {
		at := n + i
		if w.distinct {
			at = k.output
		}
		carried[at] = k.collation
		r.SortClause = append(r.SortClause, pg.MakeSortByNode(nameNode(inputAlias, inputColumn(at)), k.by.SortbyDir, k.by.SortbyNulls, -1))
		r.SortClause[i].GetSortBy().UseOp = k.by.UseOp
	}
	columns := len(carried)
	if columns == 0 {
		columns = 1
	}
	if w.distinct {
		r.DistinctClause = []*pg.Node{{}}
	}
	r.FromClause = []*pg.Node{inputNode(0, columns, carried)}
	return r
}

// sameNode reports whether two expressions are written alike. If they are, the
// values of literals in them count.
func (a *analysis) sameNode(x, y *pg.Node) bool {
	if x == nil || y == nil || !proto.Equal(placeless(x), placeless(y)) {
		return false
	}
	walkLevel(x, func(m any) {
		if _, ok := m.(*pg.A_Const); ok {
			a.out.Exact = true
		}
	})
	return true
}

// wholePartial is for a query that is not local, because of why.
func (a *analysis) wholePartial(sel *pg.SelectStmt, why string) *plan.Gather { return nil }
