package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/datum"
	"weft/parser"
	"weft/plan"
)

// nested makes the queries in a remainder run inside shards as far as they can: a query that names
// nothing of the levels around it becomes a piece and a rest above it. Other queries are searched
// for such queries. The statement itself has been tried before (whole).
func (r *remainder) nested(n *pg.Node) {
	r.once = uses(n)
	sel := n.GetSelectStmt()
	if sel == nil {
		walkQueries(n, nil, func(at site, inner *pg.SelectStmt) { r.nest(inner, at, nil, false) })
		return
	}
	r.inside(sel, nil, false)
}

// site is the place at which a query stands.
type site uint8

const (
	inFrom site = iota
	inWith
	inArm
	inLink
	// inMembers is the query of x IN (SELECT …): it does not matter how often a row is there.
	inMembers
	// inExists is the query of EXISTS: one row is as good as many.
	inExists
)

// nest tries a query. ctes are the CTEs around it, as they were written.
func (r *remainder) nest(sel *pg.SelectStmt, at site, ctes []*pg.CommonTableExpr, recursive bool) {
	if r.settled(r.queries[sel]) || r.reduceIn(sel, at, ctes, recursive) {
		return
	}
	r.inside(sel, ctes, recursive)
}

// inside tries the queries inside a query.
func (r *remainder) inside(sel *pg.SelectStmt, ctes []*pg.CommonTableExpr, recursive bool) {
	was := r.queries[sel]
	if was == nil {
		return
	}
	all := slices.Clone(ctes)
	for _, n := range was.WithClause.GetCtes() {
		if c := n.GetCommonTableExpr(); c != nil {
			all = append(all, c)
		}
	}
	recursive = recursive || was.WithClause.GetRecursive()
	for _, arm := range []*pg.SelectStmt{sel.Larg, sel.Rarg} {
		if arm != nil {
			r.nest(arm, inArm, all, recursive)
		}
	}
	walkQueries(nil, sel, func(at site, inner *pg.SelectStmt) { r.nest(inner, at, all, recursive) })
	r.insideWith(sel, all, len(ctes), recursive)
}

// insideWith tries the CTEs of a query, the last first: a query that names the CTE may be a piece
// by now, with a copy of the CTE. all are the CTEs in scope; those from number own on belong to the
// query.
func (r *remainder) insideWith(sel *pg.SelectStmt, all []*pg.CommonTableExpr, own int, recursive bool) {
	w := sel.WithClause
	for i := len(w.GetCtes()) - 1; i >= 0; i-- {
		c := w.Ctes[i].GetCommonTableExpr()
		inner := c.GetCtequery().GetSelectStmt()
		if inner == nil {
			_, list := withOf(c.GetCtequery()) // the CTE changes rows
			for _, n := range list {
				walkQueries(n, nil, func(at site, q *pg.SelectStmt) { r.nest(q, at, all[:own+i], recursive) })
			}
			continue
		}
		self := uses(inner)[c.Ctename]
		known := all
		if !w.Recursive {
			self, known = 0, all[:own+i]
		}
		switch {
		case self == 0 && uses(r.tree)[c.Ctename] == 0 && r.once[c.Ctename] > 0:
			w.Ctes = slices.Delete(w.Ctes, i, i+1)
		case self > 0:
			r.inside(inner, known, recursive)
		default:
			r.nest(inner, inWith, known, recursive)
		}
	}
	if w != nil && len(w.Ctes) == 0 {
		sel.WithClause = nil
	}
}

// walkQueries visits the queries in the clauses of a query, but not queries inside those, nor its
// CTEs and arms.
func walkQueries(n *pg.Node, sel *pg.SelectStmt, visit func(site, *pg.SelectStmt)) {
	list := []*pg.Node{n}
	if sel != nil {
		list = slices.Concat(sel.FromClause, sel.TargetList, sel.GroupClause, sel.WindowClause, sel.SortClause, sel.DistinctClause, sel.ValuesLists,
			[]*pg.Node{sel.WhereClause, sel.HavingClause, sel.LimitCount, sel.LimitOffset})
	}
	for _, n := range list {
		if n == nil {
			continue
		}
		walkNodes(n, func(m *pg.Node) bool {
			if s := m.GetSelectStmt(); s != nil {
				visit(inFrom, s)
				return false
			}
			if l := m.GetSubLink(); l != nil {
				if l.Testexpr != nil {
					walkQueries(l.Testexpr, nil, visit)
				}
				if s := l.Subselect.GetSelectStmt(); s != nil {
					at := inLink
					switch {
					case l.SubLinkType == pg.SubLinkType_ANY_SUBLINK && (len(l.OperName) == 0 || isEquality(l.OperName)):
						at = inMembers
					case l.SubLinkType == pg.SubLinkType_EXISTS_SUBLINK:
						at = inExists
					}
					visit(at, s)
				}
				return false
			}
			return true
		})
	}
}

// reduceIn makes a piece of a query, and reports whether it could.
func (r *remainder) reduceIn(sel *pg.SelectStmt, at site, ctes []*pg.CommonTableExpr, recursive bool) bool {
	was := r.queries[sel]
	if was == nil || len(was.ValuesLists) > 0 || len(was.LockingClause) > 0 || at == inArm && untyped(was) {
		return false
	}
	if r.through(was) {
		return false
	}
	if at == inMembers && r.members(was) {
		was = copySelect(was)
		was.DistinctClause = []*pg.Node{{}}
	}
	if at == inExists {
		if !r.members(was) || slices.ContainsFunc(was.TargetList, r.multiplies) {
			return false // only PostgreSQL decides whether its columns are evaluated
		}
		was = copySelect(was)
		was.TargetList = nil
		was.LimitCount, was.LimitOption = intNode(1), pg.LimitOption_LIMIT_OPTION_COUNT
	}
	whole := encloseIn(was, ctes, recursive)
	if whole == nil || !r.a.gatherer().closed(whole) {
		return false
	}
	n := len(r.gather.Pieces)
	red, p := r.reducePiece(whole, n)
	if red == nil {
		return false
	}
	shared := !r.unique(whole)
	if at := r.add(p, shared); at < n {
		// The same query occurs again. It must read the same piece: PostgreSQL may have to see that
		// two expressions are equal.
		red, _ = r.reducePiece(whole, at)
	}
	r.gather.Why = append(r.gather.Why, p.Name+": "+red.why[0])
	proto.Reset(sel)
	proto.Merge(sel, red.block)
	delete(r.queries, sel) // the query has changed
	return true
}

// reducePiece splits a query, and writes out its piece under a number.
func (r *remainder) reducePiece(sel *pg.SelectStmt, n int) (*reduced, plan.Piece) {
	red, _ := r.a.gatherer().reduce(sel, n, nil)
	if red != nil && len(red.forbid) > 0 {
		red, _ = r.a.gatherer().carryRows(sel, n, nil)
	}
	if red == nil || len(red.forbid) > 0 || red.star() {
		return nil, plan.Piece{}
	}
	r.prune(red)
	timed := r.a.timed // the remainder asks for the same time
	r.a.timed = timed || r.a.clock().tells(selectNode(sel))
	p, err := r.a.gatherer().pieceOf(red)
	r.a.timed = timed
	if err != nil {
		return nil, plan.Piece{}
	}
	return red, p
}

// unique reports whether a query yields something else each time.
func (r *remainder) unique(sel *pg.SelectStmt) bool {
	found := false
	parser.Walk(sel, func(m any) bool {
		switch m := m.(type) {
		case *pg.FuncCall:
			found = found || r.a.env.Schema.Builtin(lastName(m.Funcname)).Volatility == 'v'
		case *pg.RangeTableSample:
			found = true
		}
		return !found
	})
	return found
}

// through reports whether conditions around a query that only filters can be checked where its
// tables are read. That is better than reading all its rows.
func (r *remainder) through(sel *pg.SelectStmt) bool {
	if sel.Op != pg.SetOperation_SETOP_NONE || len(sel.DistinctClause) > 0 || r.a.top().shape(sel) != plainShape {
		return false
	}
	found := false
	for _, n := range sel.FromClause {
		parser.Walk(n, func(m any) bool {
			if rv, ok := m.(*pg.RangeVar); ok {
				x := r.a.notes.byNode[rv]
				found = found || x != nil && len(x.through) > 0
			}
			return !found
		})
	}
	return found
}

// prune adds what is known of the keys from around the query.
func (r *remainder) prune(red *reduced) {
	for i, x := range red.anchors {
		of := r.a.notes.byNode[x.rv]
		if x.rv == nil || of == nil || of.instance == nil {
			continue
		}
		for k, sets := range r.solved(of.instance).Keys {
			for _, s := range sets {
				if !slices.ContainsFunc(red.instances[i].Keys[k], func(o plan.Set) bool { return slices.Equal(o, s) }) {
					red.instances[i].Keys[k] = append(red.instances[i].Keys[k], s)
				}
			}
		}
	}
}

// multiplies reports whether an item of a target list may make several rows of one, or none.
func (r *remainder) multiplies(n *pg.Node) bool {
	found := false
	walkLevel(n, func(m any) {
		if f, ok := m.(*pg.FuncCall); ok {
			t := r.a.env.Schema.Builtin(lastName(f.Funcname))
			found = found || !t.Known || t.SetReturning
		}
	})
	return found
}

// members reports whether equal rows of the query may be reduced to one.
func (r *remainder) members(sel *pg.SelectStmt) bool {
	return sel.Op == pg.SetOperation_SETOP_NONE && len(sel.DistinctClause) == 0 && sel.LimitCount == nil && sel.LimitOffset == nil &&
		len(sel.SortClause) == 0 && !r.a.top().grouping().grouped(sel)
}

// star reports whether the block yields the columns of its piece without naming them.
func (r *reduced) star() bool {
	return slices.ContainsFunc(r.block.TargetList, func(n *pg.Node) bool { return isStar(n.GetResTarget().GetVal()) })
}

// untyped reports whether a column of the query gets its type from another arm of a set operation.
func untyped(sel *pg.SelectStmt) bool {
	for ; sel.Larg != nil; sel = sel.Larg {
		if untyped(sel.Rarg) {
			return true
		}
	}
	return slices.ContainsFunc(sel.TargetList, func(n *pg.Node) bool {
		c := n.GetResTarget().GetVal().GetAConst()
		return c != nil && (c.Isnull || c.GetSval() != nil)
	})
}

// closed reports whether a query names nothing of the levels around it.
func (ga gatherer) closed(sel *pg.SelectStmt) bool {
	in := ga.probing(ga.a.text)
	in.probe.bounded = true
	in.top().query(sel)
	return !in.probe.escapes
}

// refer notes a name that means nothing inside the query at hand.
func (p *probe) refer(l *level, ref *pg.ColumnRef) {
	if p == nil || !p.bounded || l.a.text.stored {
		return
	}
	names := nameList(ref.Fields)
	if len(names) == 0 {
		return // *
	}
	star := len(names) < len(ref.Fields)
	for at := l; at != nil; at = at.parent {
		if it, _ := at.item(names); it != nil {
			return // a row, or a function with one column
		}
		if star {
			continue
		}
		c, known := at.lookup(names)
		if !known {
			continue
		}
		if c == nil && len(names) == 1 {
			break // a column of an opaque item, or of an outer level
		}
		return
	}
	p.escapes = true
}

// sumsFloat4 reports whether the sum of an expression may be a float4, which is less precise than
// the sums that averages are made of.
func (s *split) sumsFloat4(n *pg.Node) bool {
	found := false
	walkLevel(n, func(m any) {
		switch m := m.(type) {
		case *pg.ColumnRef:
			c := s.level.column(&pg.Node{Node: &pg.Node_ColumnRef{ColumnRef: m}})
			found = found || c == nil || c.typ == 0 || c.typ == datum.Float4
		case *pg.TypeCast:
			name := lastName(m.TypeName.GetNames())
			found = found || typeNames[name] == 0 && name != "interval" || name == "float4"
		case *pg.FuncCall:
			found = found || !wide[lastName(m.Funcname)]
		case *pg.ParamRef, *pg.SubLink:
			found = true
		}
	})
	return found
}

// wide are functions that do not return a float4 unless they are given one.
var wide = set("abs", "round", "floor", "ceil", "ceiling", "trunc", "power", "sqrt", "mod", "length", "char_length", "date_part", "extract", "age", "sign")
