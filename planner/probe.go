package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
)

// probe collects what a look at one block notes, besides what every analysis notes. Its methods do
// nothing on nil: the analysis of a whole statement has no probe.
type probe struct {
	// semi counts the surrounding subqueries whose rows are asked for and not used.
	semi    int
	derived []*derived
	// calls are the calls of functions that are not the user's.
	calls []*pg.FuncCall
	// unsteady names a part of the block that may have other rows on another copy of the same
	// reference tables.
	unsteady string
	copies   int // how many uses of CTEs were looked at
	// collated is set if a collation is named, or a column has another one than the database's.
	collated bool
	// bounded asks to note whether the query names something of the levels around it; escapes is
	// the answer.
	bounded, escapes bool
	// spans lists, for each name of a relation in the client's text, the instances that it brought,
	// once for each time it was looked at. Nil if they are not wanted.
	spans map[*pg.RangeVar][]span
}

// span is a run of instances in the list of all.
type span struct{ first, last int }

// named notes the instances from number first on as those of a name.
func (p *probe) named(a *analysis, rv *pg.RangeVar, first int) {
	if p != nil && p.spans != nil && !a.text.stored {
		p.spans[rv] = append(p.spans[rv], span{first, len(a.instances)})
	}
}

// maxCopies bounds how many uses of CTEs a probe looks at.
const maxCopies = 200

// inlines reports whether a CTE is looked at in each place that names it. The CTE yields the same
// rows in each place, since a block with volatile functions is not local anyway.
func (p *probe) inlines() bool { return p != nil && p.copies < maxCopies }

func (p *probe) call(a *analysis, f *pg.FuncCall) {
	if p == nil {
		return
	}
	p.calls = append(p.calls, f)
	if a.text.stored && a.clock().nowCall(&pg.Node{Node: &pg.Node_FuncCall{FuncCall: f}}) != nil {
		p.unsteady = "the time in a view"
	}
}

// value notes CURRENT_DATE and the like.
func (p *probe) value(a *analysis, f *pg.SQLValueFunction) {
	if p == nil {
		return
	}
	switch {
	case f.Op == pg.SQLValueFunctionOp_SVFOP_CURRENT_CATALOG:
		p.unsteady = "current_catalog"
	case a.text.stored && a.clock().nowCall(&pg.Node{Node: &pg.Node_SqlvalueFunction{SqlvalueFunction: f}}) != nil:
		p.unsteady = "the time in a view"
	}
}

func (p *probe) collate() {
	if p != nil {
		p.collated = true
	}
}

func (p *probe) read(rel *catalog.Relation) {
	if p == nil || rel == nil {
		return
	}
	for i := range rel.Columns {
		p.collated = p.collated || rel.Columns[i].Collation.Name != ""
	}
}

// sample notes a sample of a reference table: samples of its copies differ.
func (p *probe) sample(l *level, n *pg.RangeTableSample) {
	if p == nil {
		return
	}
	if rv := n.Relation.GetRangeVar(); rv != nil {
		if _, t := l.a.relation(rv); t == nil || t.Reference {
			p.unsteady = "a sample of " + rv.Relname
		}
	}
}

// steady is called before a query is analysed, and the function that it returns after. A query that
// reads only reference tables, and whose rows depend on the order in which they are found, may
// yield other rows on another shard. A query that reads a sharded table is either evaluated with
// rows of one key, or its instance stays without the mark.
func (l *level) steady(sel *pg.SelectStmt) func() {
	instances, copies := len(l.a.instances), len(l.a.touched.reference)
	return func() {
		if len(l.a.instances) > instances || len(l.a.touched.reference) == copies {
			return
		}
		switch {
		case sel.LimitCount != nil || sel.LimitOffset != nil:
			l.a.probe.unsteady = "LIMIT over reference tables"
		case len(sel.DistinctClause) > 0 && sel.DistinctClause[0].GetNode() != nil:
			l.a.probe.unsteady = "DISTINCT ON over reference tables"
		case l.ordered(sel):
			l.a.probe.unsteady = "an aggregate or window function that depends on the order of rows"
		}
	}
}

// steadyAggregates do not depend on the order of their input.
var steadyAggregates = set("count", "sum", "min", "max", "avg", "bool_and", "bool_or", "every", "bit_and", "bit_or", "bit_xor",
	"stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp")

// ordered reports whether a query calls an aggregate or window function whose
// result depends on the order in which rows are found.
func (l *level) ordered(sel *pg.SelectStmt) bool {
	found := false
	for _, n := range clauses(sel) {
		walkLevel(n, func(m any) {
			switch m := m.(type) {
			case *pg.FuncCall:
				names := nameList(m.Funcname)
				steady := steadyAggregates[names[len(names)-1]] && (m.Over == nil || len(m.Over.OrderClause) == 0 && m.Over.Name == "")
				found = found || !steady && (m.Over != nil || l.aggregates(m))
			case *pg.JsonObjectAgg, *pg.JsonArrayAgg:
				found = true
			}
		})
	}
	return found
}

// clauses returns the clauses of a query in which its aggregates and window functions can stand.
func clauses(sel *pg.SelectStmt) []*pg.Node {
	out := append([]*pg.Node(nil), sel.TargetList...)
	out = append(out, sel.DistinctClause...)
	out = append(out, sel.SortClause...)
	if sel.HavingClause != nil {
		out = append(out, sel.HavingClause)
	}
	return out
}

// walkLevel visits an expression without the queries in it.
func walkLevel(n *pg.Node, visit func(any)) {
	parser.Walk(n, func(m any) bool {
		if s, ok := m.(*pg.SubLink); ok {
			visit(m)
			if s.Testexpr != nil {
				walkLevel(s.Testexpr, visit)
			}
			return false
		}
		visit(m)
		return true
	})
}

// aggregates reports whether a call may be an aggregate.
func (l *level) aggregates(f *pg.FuncCall) bool {
	names := nameList(f.Funcname)
	name, schema := names[len(names)-1], ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	if f.AggStar || f.AggDistinct || f.AggFilter != nil || len(f.AggOrder) > 0 || f.AggWithinGroup {
		return true
	}
	for _, u := range l.a.reach().userFunctions(schema, name) {
		if u.Kind == 'a' {
			return true
		}
	}
	t := l.a.env.Schema.Builtin(name)
	return t.Aggregate || !t.Known && len(l.a.reach().userFunctions(schema, name)) == 0
}

// systemColumns are the columns that every table has and that * does not show.
var systemColumns = set("ctid", "tableoid", "xmin", "xmax", "cmin", "cmax")

// systemColumn notes a name that means a system column.
func (l *level) systemColumn(ref *pg.ColumnRef) {
	names := nameList(ref.Fields)
	if len(names) == 0 || len(names) != len(ref.Fields) || !systemColumns[names[len(names)-1]] {
		return
	}
	if l.column(&pg.Node{Node: &pg.Node_ColumnRef{ColumnRef: ref}}) == nil {
		l.a.touched.system = names[len(names)-1]
	}
}
