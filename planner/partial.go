package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/datum"
	"weft/plan"
)

// partial splits the aggregates of a query that names nothing of the levels around it and includes
// its CTEs. piece is the number that its piece will have. sealed are the subqueries in its
// expressions that name nothing of the query and read nothing that a remainder cannot read; there
// must be no others. It returns nil, and the reason, if the rows are not local or an aggregate
// cannot be split.
func (ga gatherer) partial(sel *pg.SelectStmt, piece int, sealed map[*pg.SubLink]bool) (*reduced, string) {
	s, why := ga.split(sel, piece, sealed)
	if s == nil {
		return nil, why
	}
	if !s.level.grouping().grouped(sel) {
		return nil, "it has no aggregates"
	}
	p := &partials{split: s}
	if why := p.groupBy(); why != "" {
		return nil, why
	}
	p.groups = len(s.cols)
	r := &reduced{block: s.rest(), partial: true}
	if p.exprs(r.block); p.why != "" {
		return nil, p.why
	}
	r.piece = p.query()
	if why := s.check(ga.a); why != "" {
		return nil, why
	}
	if why := s.input(r.block); why != "" {
		return nil, why
	}
	r.instances, r.anchors, r.name, r.forbid = s.base.instances, s.base.anchors, s.base.name, p.forbid
	r.types = s.domains()
	r.always = len(sel.GroupClause) == 0
	if p.plain(r.block) {
		r.native = p.native(ga.a)
	}
	return r, ""
}

// partials is the work of partial on one block.
type partials struct {
	*split
	groups int // how many of the columns are those that the block groups by
	// distinct are further columns that the piece groups by.
	distinct []int
	outputs  map[string]plan.Output // aggregates, by the SQL that they became
	forbid   []plan.Forbidden
	sets     bool
	why      string
}

// groupBy carries the expressions that the block groups by.
func (p *partials) groupBy() string {
	for _, g := range p.sel.GroupClause {
		if why := p.groupItem(g); why != "" {
			return why
		}
	}
	return ""
}

func (p *partials) groupItem(n *pg.Node) string {
	var list []*pg.Node
	switch v := n.GetNode().(type) {
	case *pg.Node_GroupingSet:
		p.sets = true
		list = v.GroupingSet.Content
	case *pg.Node_RowExpr:
		list = v.RowExpr.Args
	default:
		e := p.groupExpr(n)
		if e == nil {
			return "what it groups by cannot be told"
		}
		p.carry(e)
		return ""
	}
	for _, e := range list {
		if why := p.groupItem(e); why != "" {
			return why
		}
	}
	return ""
}

// exprs rewrites the clauses of the block over the piece's columns.
func (p *partials) exprs(b *pg.SelectStmt) {
	p.outputs = map[string]plan.Output{}
	b.TargetList = p.each(b.TargetList)
	if b.HavingClause != nil {
		b.HavingClause = p.each([]*pg.Node{b.HavingClause})[0]
	}
	b.SortClause = p.each(b.SortClause)
	b.WindowClause = p.each(b.WindowClause)
	if len(b.DistinctClause) > 0 && b.DistinctClause[0].GetNode() != nil {
		b.DistinctClause = p.each(b.DistinctClause)
	}
	// Columns that depend on the groups have been added to them.
	var group []*pg.Node
	for _, g := range p.sel.GroupClause {
		group = append(group, p.group(g))
	}
	if len(p.sel.GroupClause) > 0 && !p.sets {
		for _, i := range p.dependent() {
			group = append(group, p.ref(i))
		}
	}
	b.GroupClause = group
}

// dependent returns the columns that depend on what the block groups by: PostgreSQL knows that for
// a primary key, but not for the columns of a piece.
func (p *partials) dependent() []int {
	var out []int
	for i := p.groups; i < len(p.cols); i++ {
		if p.cols[i].aggregate == nil && !slices.Contains(p.distinct, i) {
			out = append(out, i)
		}
	}
	return out
}

// group rewrites an item of GROUP BY.
func (p *partials) group(n *pg.Node) *pg.Node {
	return rewrite(n, func(m *pg.Node) *pg.Node {
		switch m.GetNode().(type) {
		case *pg.Node_GroupingSet, *pg.Node_RowExpr:
			return nil
		}
		return p.ref(p.find(p.groupExpr(m)))
	})
}

// each rewrites expressions.
func (p *partials) each(list []*pg.Node) []*pg.Node {
	var out []*pg.Node
	for _, n := range list {
		out = append(out, rewrite(n, p.replace))
	}
	return out
}

// replace returns what a part of an expression becomes, or nil if it stays and its own parts are
// looked at.
func (p *partials) replace(m *pg.Node) *pg.Node {
	switch v := m.GetNode().(type) {
	case nil, *pg.Node_ResTarget, *pg.Node_SortBy, *pg.Node_WindowDef, *pg.Node_AConst, *pg.Node_TypeName, *pg.Node_String_, *pg.Node_List:
		return nil
	case *pg.Node_SubLink:
		return m // a sealed subquery stays as it is
	case *pg.Node_FuncCall:
		if i := p.findGroup(m); i >= 0 {
			return p.ref(i)
		}
		if v.FuncCall.Over == nil && p.level.aggregates(v.FuncCall) {
			return p.aggregate(v.FuncCall)
		}
		return nil
	case *pg.Node_JsonObjectAgg, *pg.Node_JsonArrayAgg:
		p.why = "an aggregate cannot be split"
		return m
	}
	if i := p.findGroup(m); i >= 0 {
		return p.ref(i)
	}
	if ref := m.GetColumnRef(); ref != nil {
		if p.sets || len(p.sel.GroupClause) == 0 {
			p.why = "a column is not grouped"
			return m
		}
		return p.ref(p.carry(m))
	}
	return nil
}

func (p *partials) findGroup(m *pg.Node) int {
	if i := p.find(m); i >= 0 && p.cols[i].aggregate == nil && !slices.Contains(p.distinct, i) {
		return i
	}
	return -1
}

// combined are the aggregates whose partial results one other aggregate puts together.
var combined = map[string]struct {
	with string
	kind plan.Combine
}{
	"count": {"sum", plan.CombineCount}, "sum": {"sum", plan.CombineSum}, "min": {"min", plan.CombineMin}, "max": {"max", plan.CombineMax},
	"avg":      {"sum", plan.CombineAvg},
	"bool_and": {"bool_and", plan.CombineAnd}, "every": {"bool_and", plan.CombineAnd}, "bool_or": {"bool_or", plan.CombineOr},
	"bit_and": {"bit_and", plan.CombineBitAnd}, "bit_or": {"bit_or", plan.CombineBitOr},
}

// aggregate carries the partial results of an aggregate, and returns the expression that makes the
// whole of them.
func (p *partials) aggregate(f *pg.FuncCall) *pg.Node {
	names := nameList(f.Funcname)
	name, schema := names[len(names)-1], ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	how, ok := combined[name]
	if !ok || len(p.level.a.reach().userFunctions(schema, name)) > 0 || schema != "" && schema != "pg_catalog" ||
		f.AggWithinGroup || len(f.AggOrder) > 0 || f.FuncVariadic || len(f.Args) > 1 || len(f.Args) == 0 && name != "count" || p.inside(f) {
		p.why = name + " cannot be split"
		return nameNode("?")
	}
	if f.AggDistinct && name != "min" && name != "max" {
		return p.distinctAggregate(f, name)
	}
	plain := &pg.FuncCall{
		Args: f.Args, AggFilter: f.AggFilter, AggStar: f.AggStar,
		Funcformat: pg.CoercionForm_COERCE_EXPLICIT_CALL, Location: -1,
	}
	call := func(of string) int {
		c := proto.Clone(plain).(*pg.FuncCall)
		c.Funcname = []*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode(of)}
		return p.carryAggregate(c)
	}
	var out *pg.Node
	o := plan.Output{Kind: how.kind}
	switch name {
	case "count":
		o.Column = call(name)
		out = cast(coalesce(builtin("sum", p.ref(o.Column)), intNode(0)), "int8")
	case "sum":
		o.Column = call(name)
		out = castAs(builtin("sum", p.ref(o.Column)), typeMark(p.number, o.Column))
	case "avg":
		o.Column, o.Count = call("sum"), call("count")
		if p.sumsFloat4(f.Args[0]) {
			p.forbid = append(p.forbid, plan.Forbidden{Column: o.Column, Type: uint32(datum.Float4)})
		}
		out = pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("/")},
			builtin("sum", p.ref(o.Column)), builtin("sum", p.ref(o.Count)), -1)
	default:
		o.Column = call(name)
		out = builtin(how.with, p.ref(o.Column))
	}
	p.outputs[p.key(out)] = o
	return out
}

// inside reports whether an aggregate's arguments contain a subquery or a window.
func (p *partials) inside(f *pg.FuncCall) bool {
	found := false
	for _, n := range append(slices.Clone(f.Args), f.AggFilter) {
		if n != nil {
			walkLevel(n, func(m any) {
				_, is := m.(*pg.SubLink)
				found = found || is
			})
		}
	}
	return found
}

// distinctAggregate groups the piece by the values, and leaves the aggregate to the block.
func (p *partials) distinctAggregate(f *pg.FuncCall, name string) *pg.Node {
	if len(f.Args) != 1 || name == "bit_and" || name == "bit_or" {
		p.why = name + "(DISTINCT) cannot be split"
		return nameNode("?")
	}
	value := f.Args[0]
	if f.AggFilter != nil {
		// The aggregate ignores NULL. The value is evaluated only for rows that pass the filter, as
		// PostgreSQL would do.
		value = pg.MakeCaseExprNode(nil, []*pg.Node{pg.MakeCaseWhenNode(f.AggFilter, value, -1)}, -1)
	}
	was := len(p.cols)
	i := p.carry(value)
	if i >= was {
		p.distinct = append(p.distinct, i)
	}
	return &pg.Node{Node: &pg.Node_FuncCall{FuncCall: &pg.FuncCall{
		Funcname: f.Funcname, Args: []*pg.Node{p.ref(i)}, AggDistinct: true,
		Funcformat: pg.CoercionForm_COERCE_EXPLICIT_CALL, Location: -1,
	}}}
}

// query returns the query of the piece.
func (p *partials) query() *pg.SelectStmt {
	s := p.rows()
	if len(p.cols) == 0 {
		// count makes a query that yields one row in any case.
		p.carryAggregate(builtin("count").GetFuncCall())
		p.cols[0].aggregate.AggStar = true
	}
	for i, c := range p.cols {
		if c.aggregate != nil {
			s.TargetList = append(s.TargetList, targetNode(&pg.Node{Node: &pg.Node_FuncCall{FuncCall: c.aggregate}}, inputColumn(i)))
			continue
		}
		s.TargetList = append(s.TargetList, targetNode(c.expr, inputColumn(i)))
		s.GroupClause = append(s.GroupClause, intNode(i+1))
	}
	return s
}

// plain reports whether the block's columns are groups and aggregates only.
func (p *partials) plain(b *pg.SelectStmt) bool {
	return b.HavingClause == nil && len(b.SortClause) == 0 && len(b.DistinctClause) == 0 && len(b.WindowClause) == 0 &&
		len(p.distinct) == 0 && !p.sets && !p.loose
}

// native returns how stream operators make the block's columns, or nil if they cannot.
func (p *partials) native(a *analysis) *plan.Native {
	out := &plan.Aggregate{Grouped: len(p.sel.GroupClause) > 0}
	for i, c := range p.cols {
		if c.aggregate == nil {
			out.Groups = append(out.Groups, i)
		}
	}
	for _, e := range p.targets.exprs {
		n := rewrite(e, p.replace)
		if o, ok := p.outputs[p.key(n)]; ok {
			out.Outputs = append(out.Outputs, o)
			continue
		}
		i := slices.IndexFunc(out.Groups, func(g int) bool { return p.key(p.ref(g)) == p.key(n) })
		if i < 0 {
			return nil
		}
		out.Outputs = append(out.Outputs, plan.Output{Kind: plan.Group, Column: out.Groups[i]})
	}
	if len(out.Outputs) == 0 {
		return nil
	}
	end := &plan.Native{Columns: len(out.Outputs), Aggregate: out}
	var ok bool
	if end.Limit, end.Offset, ok = a.gatherer().counts(p.sel); !ok {
		return nil
	}
	return end
}
