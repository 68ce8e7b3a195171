package planner

import (
	"slices"
	"strconv"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/plan"
)

// whole returns how to answer a query that runs in one piece, or nil.
func (ga gatherer) whole(sel *pg.SelectStmt) *plan.Gather {
	r, _ := ga.reduce(sel, 0, nil)
	if r == nil {
		return nil
	}
	g := ga.gatherOf(r)
	if g != nil && len(r.forbid) > 0 {
		if o, _ := ga.carryRows(sel, 0, nil); o != nil && r.partial {
			g.Otherwise = ga.gatherOf(o)
		}
	}
	return g
}

// gatherOf writes out a block in two steps that is the whole statement.
func (ga gatherer) gatherOf(r *reduced) *plan.Gather {
	g := &plan.Gather{Native: r.native, Locks: len(r.piece.LockingClause) > 0, Why: r.why}
	p, err := ga.pieceOf(r)
	if err != nil {
		return nil
	}
	if g.Locks && r.piece.LimitCount != nil {
		peek := copySelect(r.piece)
		peek.LockingClause = nil
		if g.Peek, err = ga.render(selectNode(peek)); err != nil {
			return nil
		}
		g.SkipLocked = skipsLocked(r.piece)
	}
	g.Pieces = []plan.Piece{p}
	if g.Remainder, err = ga.render(selectNode(r.block)); err != nil {
		return nil
	}
	return g
}

// pieceOf writes out the piece.
func (ga gatherer) pieceOf(r *reduced) (plan.Piece, error) {
	text, err := ga.render(selectNode(r.piece))
	return plan.Piece{Text: text, Instances: r.instances, Name: r.name, Types: r.types, Forbid: r.forbid, Always: r.always}, err
}

// domains lists the domains of columns, nil if there are none: the description of a result has only
// the types below them.
func domains(columns []*column) []string {
	out := make([]string, len(columns))
	some := false
	for i, c := range columns {
		if c != nil && c.stored != nil && c.stored.Type != c.stored.Base {
			out[i], some = c.stored.TypeName, true
		}
	}
	if !some {
		return nil
	}
	return out
}

// reduced is a block in two steps: a piece that runs inside each shard, and the
// block itself over the piece's rows.
//
//	SELECT x, avg(y) FROM a GROUP BY x HAVING count(*) > 1
//
//	piece: SELECT x, sum(y), count(y), count(*) FROM a GROUP BY 1
//	block: SELECT c1 AS x, sum(c2) / sum(c3) AS avg FROM <piece> GROUP BY c1 HAVING sum(c4) > 1
type reduced struct {
	piece, block *pg.SelectStmt
	instances    []plan.Instance
	anchors      []*instance
	name         string
	forbid       []plan.Forbidden
	// types are the domains of the piece's columns, for those that have one.
	types  []string
	always bool
	// partial is set if the piece aggregates. If a type forbids that, carryRows is used.
	partial bool
	// native does the block's work without PostgreSQL, where types allow it. Nil if it cannot.
	native *plan.Native
	why    []string
}

// reduce splits a query that names nothing of the levels around it and includes its CTEs, at any
// depth, into one piece and a block above it. piece is the number that the piece will have. sealed
// are the subqueries in its expressions that name nothing of the query and read nothing that a
// remainder cannot read; there must be no others, unless they run in the shards too. It returns
// nil, and the reason, if the rows that the query reads are not local.
func (ga gatherer) reduce(sel *pg.SelectStmt, piece int, sealed map[*pg.SubLink]bool) (*reduced, string) {
	if !ga.countable(sel) || len(sel.LockingClause) > 0 && !ga.a.commands().lockable(sel) {
		return nil, "LIMIT or locks"
	}
	core := copySelect(sel)
	core.IntoClause, core.LockingClause = nil, nil
	core.LimitCount, core.LimitOffset, core.LimitOption = nil, nil, pg.LimitOption_LIMIT_OPTION_DEFAULT
	if core.Op != pg.SetOperation_SETOP_NONE {
		core.SortClause = nil
	}
	b, why := ga.local(core)
	distinct := false
	if b == nil && len(core.DistinctClause) > 0 && core.DistinctClause[0].GetNode() == nil {
		core.DistinctClause = nil
		b, _ = ga.local(core)
		distinct = true
	}
	if b != nil {
		w := &wholePiece{a: ga.a, sel: sel, block: b, distinct: distinct, number: piece}
		if r := w.reduce(); r != nil {
			r.why = []string{"it runs whole inside each shard"}
			if len(sel.LockingClause) > 0 && (r.piece.LimitCount != nil && (r.native == nil || w.volatileKeys() || w.looselyOrdered()) || w.orderedByRows()) {
				return nil, "which rows are locked"
			}
			if distinct {
				r.why = []string{"equal rows are put together: " + why}
			}
			return r, ""
		}
	}
	if len(sel.LockingClause) > 0 {
		return nil, why
	}
	if r, _ := ga.partial(sel, piece, sealed); r != nil {
		r.why = []string{"each shard aggregates its rows: " + why}
		return r, ""
	}
	r, other := ga.carryRows(sel, piece, sealed)
	if r == nil {
		if why == "" {
			why = other
		}
		return nil, why
	}
	r.why = []string{"rows are brought together: " + why}
	return r, ""
}

// countable reports whether LIMIT and OFFSET are known without reading a table.
func (ga gatherer) countable(sel *pg.SelectStmt) bool {
	ok := true
	for _, n := range []*pg.Node{sel.LimitCount, sel.LimitOffset} {
		if n != nil {
			walkLevel(n, func(m any) {
				switch m := m.(type) {
				case *pg.SubLink:
					ok = false
				case *pg.FuncCall:
					names := nameList(m.Funcname)
					ok = ok && ga.a.env.Schema.Builtin(names[len(names)-1]).Volatility == 'i'
				}
			})
		}
	}
	return ok
}

// wholePiece makes the Gather of a query in one piece.
type wholePiece struct {
	a        *analysis
	sel      *pg.SelectStmt
	block    *block
	distinct bool // equal rows of several shards become one
	number   int  // the number of the piece

	out    *targets
	keys   []sortKey
	native bool
}

// sortKey is an item of ORDER BY.
type sortKey struct {
	by        *pg.SortBy
	expr      *pg.Node // over the query's FROM
	output    int      // the index of the output that equals the item, or -1
	collation collation
}

func (w *wholePiece) reduce() *reduced {
	if w.block.level != nil {
		w.out = w.block.level.grouping().outputsOf(w.sel)
	} else if !w.wrap() {
		return nil
	}
	w.native = !w.out.opaque
	// Which rows are equal depends on collations that are not known.
	if w.distinct && w.out.opaque || !w.sortKeys() || len(w.out.names)+len(w.hidden()) > maxTargets {
		return nil
	}
	r := &reduced{piece: w.piece(), instances: w.block.instances, anchors: w.block.anchors, name: w.block.name}
	r.block = w.remainder()
	columns := slices.Clone(w.out.columns)
	for _, k := range w.hidden() {
		var c *column
		if w.block.level != nil {
			c = w.block.level.column(k.expr)
		}
		columns = append(columns, c)
	}
	if !w.out.opaque {
		r.types = domains(columns)
	}
	if w.native {
		r.native = w.nativeEnd()
	}
	return r
}

// wrap lists the columns of a set operation. If the rows are to be ordered, the set operation
// becomes a subquery, to whose query columns can be added.
func (w *wholePiece) wrap() bool {
	b := w.block
	w.out = &targets{opaque: b.opaque, numbered: func() { w.a.out.Exact = true }}
	if b.opaque {
		return len(w.sel.SortClause) == 0
	}
	sel := newSelect()
	sel.SortClause = w.sel.SortClause
	sel.LimitCount, sel.LimitOffset, sel.LimitOption = w.sel.LimitCount, w.sel.LimitOffset, w.sel.LimitOption
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

// sortKeys finds out what the query is ordered by. It reports false if that cannot be told or
// carried.
func (w *wholePiece) sortKeys() bool {
	w.partRows()
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
			k.output = slices.IndexFunc(w.out.exprs, func(e *pg.Node) bool { return w.a.gatherer().sameNode(e, by.Node) })
		}
		var ok bool
		if k.collation, ok = w.collationOf(k.expr, k.output); !ok || w.distinct && k.output < 0 {
			return false
		}
		w.keys = append(w.keys, k)
		w.native = w.native && by.SortbyDir != pg.SortByDir_SORTBY_USING
	}
	if l := w.block.level; l != nil && l.a.out.Exact {
		w.a.out.Exact = true
	}
	return !w.out.opaque || len(w.keys) == 0
}

// collationOf returns the collation of an expression that may be an output.
func (w *wholePiece) collationOf(n *pg.Node, output int) (collation, bool) {
	var x *column
	if output >= 0 {
		x = w.out.columns[output]
	}
	return w.block.collationOf(w.a, n, x)
}

// volatileIn reports whether an expression, evaluated twice, may have two values.
func (w *wholePiece) volatileIn(n *pg.Node) bool {
	found := false
	walkLevel(n, func(m any) {
		if f, ok := m.(*pg.FuncCall); ok {
			names := nameList(f.Funcname)
			found = found || w.a.env.Schema.Builtin(names[len(names)-1]).Volatility == 'v'
		}
	})
	return found
}

// piece returns the query for the shards: with the keys of its order after the client's columns,
// and with a LIMIT if only the first rows can count.
func (w *wholePiece) piece() *pg.SelectStmt {
	p := copySelect(w.sel)
	p.IntoClause = nil
	p.TargetList = slices.Clone(p.TargetList)
	for i, k := range w.hidden() {
		p.TargetList = append(p.TargetList, targetNode(k.expr, "weft_key_"+strconv.Itoa(i+1)))
	}
	if len(p.TargetList) == 0 && p.Op == pg.SetOperation_SETOP_NONE {
		// A SELECT without columns has rows all the same.
		p.TargetList = []*pg.Node{targetNode(boolNode(true), "weft_row")}
		w.native = false
	}
	p.LimitOffset = nil
	p.LimitCount = w.limit()
	if p.LimitCount == nil {
		p.LimitOption = pg.LimitOption_LIMIT_OPTION_DEFAULT
		if len(p.LockingClause) == 0 && !w.native {
			p.SortClause = nil
		}
	}
	return p
}

// hidden returns the keys that are carried after the client's columns. If equal rows become one,
// all keys are among the client's columns.
func (w *wholePiece) hidden() []sortKey {
	if w.distinct {
		return nil
	}
	return w.keys
}

// limit returns how many rows of a shard can count: those that the client asks for, and those
// before them.
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
	bound := func(op pg.MinMaxOp, args ...*pg.Node) *pg.Node {
		return &pg.Node{Node: &pg.Node_MinMaxExpr{MinMaxExpr: &pg.MinMaxExpr{Op: op, Args: args, Location: -1}}}
	}
	// LEAST ignores NULL, which means all rows. The remainder reports a negative OFFSET: shards
	// would report a LIMIT.
	return cast(bound(pg.MinMaxOp_IS_GREATEST, bound(pg.MinMaxOp_IS_LEAST, sum, most), cast(sqlMark("0"), "numeric")), "int8")
}

// remainder returns the query that puts the rows of the piece together.
func (w *wholePiece) remainder() *pg.SelectStmt {
	r := newSelect()
	r.LimitCount, r.LimitOffset, r.LimitOption = w.sel.LimitCount, w.sel.LimitOffset, w.sel.LimitOption
	if w.out.opaque {
		r.FromClause = []*pg.Node{inputNode(w.number, -1, nil)}
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
	r.FromClause = []*pg.Node{inputNode(w.number, columns, carried)}
	return r
}

// sameNode reports whether two expressions are written alike. If they are, the plan depends on the
// values of literals in them.
func (ga gatherer) sameNode(x, y *pg.Node) bool {
	if x == nil || y == nil || !proto.Equal(placeless(x), placeless(y)) {
		return false
	}
	walkLevel(x, func(m any) {
		if _, ok := m.(*pg.A_Const); ok {
			ga.a.out.Exact = true
		}
	})
	return true
}
