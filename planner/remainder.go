package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/datum"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// A remainder is what is left of a statement when its tables have been taken out: the same tree,
// with the rows of a piece in the place of each table. What a table has and an input lacks is
// written out: whole rows, columns that depend on a primary key, names with a schema.
type remainder struct {
	a        *analysis
	gather   *plan.Gather
	inputs   []inputOf
	shared   []bool // by piece: whether an equal piece may be the same one
	mentions *mentions
	tree     *pg.Node

	// tables and the fields below map nodes of the tree to nodes of the analysed trees.
	tables  map[*pg.RangeVar]*pg.RangeVar
	refs    map[*pg.ColumnRef]*pg.ColumnRef
	queries map[*pg.SelectStmt]*pg.SelectStmt
	nodes   map[*pg.Node]*pg.Node
	// once counts how often a name stood for a relation before anything was replaced.
	once map[string]int

	// stays marks the names of relations in the analysed trees that are not taken out. Nil for a
	// query: all are taken out.
	stays map[*pg.RangeVar]bool
	// copies maps the queries of the analysed trees to their copies in the tree.
	copies map[*pg.SelectStmt]*pg.SelectStmt

	found    []*island
	catalogs bool // the remainder reads system catalogs
	refusal  *pgerr.Error
}

// remains cuts a query into tables and the rest.
func (ga gatherer) remains(query *pg.Node) (*remainder, *pgerr.Error) {
	r := ga.newRemainder()
	r.tree = r.copy(query)
	if !ga.a.tablesOnly() {
		r.nested(r.tree)
		r.localViews(r.tree)
	}
	parser.Walk(r.tree, func(m any) bool {
		if s, ok := m.(*pg.SelectStmt); ok && len(s.LockingClause) > 0 {
			r.refuse("Lock the rows of one shard key at a time.", "FOR UPDATE and the like are not supported in this query over several shards")
		}
		return r.refusal == nil
	})
	r.spell(r.tree)
	if !ga.a.tablesOnly() {
		r.islands(r.tree)
	}
	r.relieve(r.tree)
	r.dependents(r.tree)
	r.mentions = mentionsOf(r.tree)
	if err := r.settleIslands(r.tree); err != nil {
		return nil, unwritable(err)
	}
	r.replace(r.tree)
	if r.refusal != nil {
		return nil, r.refusal
	}
	text, err := r.a.gatherer().render(r.tree)
	if err != nil {
		return nil, unwritable(err)
	}
	r.gather.Remainder = text
	r.gather.Own = r.own()
	r.reduceInputs()
	return r, nil
}

func (ga gatherer) newRemainder() *remainder {
	return &remainder{
		a: ga.a, gather: &plan.Gather{},
		tables: map[*pg.RangeVar]*pg.RangeVar{}, refs: map[*pg.ColumnRef]*pg.ColumnRef{},
		queries: map[*pg.SelectStmt]*pg.SelectStmt{}, nodes: map[*pg.Node]*pg.Node{},
	}
}

// unwritable returns the refusal of a tree that cannot be written as SQL.
func unwritable(err error) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "this statement cannot be taken apart: %v", err).
		WithHint("It visits more than one shard. Write it in another way.")
}

func (r *remainder) refuse(hint, format string, args ...any) {
	if r.refusal == nil {
		r.refusal = pgerr.New(pgerr.FeatureNotSupported, format, args...).WithHint("%s", hint)
	}
}

// copy clones a tree, and notes which node was copied from which.
func (r *remainder) copy(n *pg.Node) *pg.Node {
	out := proto.Clone(n).(*pg.Node)
	var was []any
	parser.Walk(n, func(m any) bool {
		was = append(was, m)
		return true
	})
	i := 0
	parser.Walk(out, func(m any) bool {
		switch m := m.(type) {
		case *pg.RangeVar:
			r.tables[m] = was[i].(*pg.RangeVar)
		case *pg.ColumnRef:
			r.refs[m] = was[i].(*pg.ColumnRef)
		case *pg.SelectStmt:
			r.queries[m] = was[i].(*pg.SelectStmt)
		case *pg.Node:
			r.nodes[m] = was[i].(*pg.Node)
		}
		i++
		return true
	})
	return out
}

// spell writes out what a table has and a subquery lacks.
func (r *remainder) spell(n *pg.Node) {
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.SubLink:
			r.exists(m)
		case *pg.ResTarget:
			if m.Name == "" && r.hasRow(m.Val) {
				if name := figureName(m.Val); name != "?column?" {
					m.Name = name
				}
			}
		case *pg.Node:
			switch v := m.Node.(type) {
			case *pg.Node_ColumnRef:
				r.reference(m, v.ColumnRef)
				return false
			case *pg.Node_RangeVar:
				if use := r.a.notes.views[r.tables[v.RangeVar]]; use != nil && !r.staying(v.RangeVar) {
					r.expand(m, v.RangeVar, use)
					return false
				}
			}
		}
		return true
	})
}

// exists drops the columns of a subquery of EXISTS: only its rows matter.
func (r *remainder) exists(s *pg.SubLink) {
	sel := s.Subselect.GetSelectStmt()
	if s.SubLinkType != pg.SubLinkType_EXISTS_SUBLINK || sel == nil || sel.Op != pg.SetOperation_SETOP_NONE ||
		len(sel.GroupClause) > 0 || len(sel.DistinctClause) > 0 || len(sel.SortClause) > 0 || sel.HavingClause != nil || len(sel.ValuesLists) > 0 {
		return
	}
	for _, t := range sel.TargetList {
		if !isStar(t.GetResTarget().GetVal()) {
			return
		}
	}
	sel.TargetList = nil
}

// hasRow reports whether an expression contains a reference to a whole row.
func (r *remainder) hasRow(n *pg.Node) bool {
	found := false
	parser.Walk(n, func(m any) bool {
		if ref, ok := m.(*pg.ColumnRef); ok && r.a.notes.rows[r.refs[ref]] != nil {
			found = true
		}
		return !found
	})
	return found
}

// reference rewrites a reference so that it means the same without the table.
func (r *remainder) reference(n *pg.Node, ref *pg.ColumnRef) {
	if row := r.a.notes.rows[r.refs[ref]]; row != nil {
		whole, ok := row.of.wholeRow()
		if !ok {
			r.refuse("Name the columns.", "a whole row of %q cannot be carried between shards", row.of.name)
			return
		}
		n.Node = whole.Node
		if row.function != "" {
			n.Node = &pg.Node_AIndirection{AIndirection: &pg.A_Indirection{Arg: whole, Indirection: []*pg.Node{pg.MakeStrNode(row.function)}}}
		}
		return
	}
	// A subquery's name has no schema.
	if len(ref.Fields) > 2 {
		ref.Fields = ref.Fields[len(ref.Fields)-2:]
	}
}

// expand replaces a view by its query.
func (r *remainder) expand(n *pg.Node, rv *pg.RangeVar, use *viewUse) {
	rel := use.rel
	switch {
	case rel.SecurityBarrier:
		r.refuse("Its rows must not be seen before its conditions are checked.", "security barrier view %q cannot be taken apart", rel.Name.Name)
	case !rel.SecurityInvoker && r.protected(use.query):
		r.refuse("Its owner's policies are not the client's, so each shard must answer for the whole view: join its tables by the shard key too (tenant_id and id, not id alone), ask for one key, "+
			"or make the view WITH (security_invoker = true).", "view %q reads a table with row-level security, and cannot be taken apart", rel.Name.Name)
	case len(r.a.client.path) > 0 && r.a.client.path[0] != "pg_catalog":
		r.refuse("Take pg_catalog out of search_path: it comes first then.", "view %q cannot be taken apart with pg_catalog behind other schemas in search_path", rel.Name.Name)
	}
	if r.refusal != nil {
		return
	}
	r.gather.Probe = true
	query := r.copy(use.query)
	r.nest(query.GetSelectStmt(), inFrom, nil, false)
	qualify(query)
	r.spell(query)
	alias := &pg.Alias{Aliasname: rv.Relname}
	if rv.Alias != nil {
		alias.Aliasname = rv.Alias.Aliasname
		alias.Colnames = rv.Alias.Colnames
	}
	for i := len(alias.Colnames); i < len(rel.Columns); i++ {
		alias.Colnames = append(alias.Colnames, pg.MakeStrNode(rel.Columns[i].Name))
	}
	n.Node = &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Subquery: query, Alias: alias}}
}

// protected reports whether a view's query reads a table with policies.
func (r *remainder) protected(query *pg.Node) bool {
	found := false
	parser.Walk(query, func(m any) bool {
		if rv, ok := m.(*pg.RangeVar); ok {
			if x := r.a.notes.byNode[rv]; x != nil && x.rel != nil && x.rel.RowSecurity {
				found = true
			}
			if v := r.a.notes.views[rv]; v != nil && r.protected(v.query) {
				found = true
			}
		}
		return !found
	})
	return found
}

// qualify gives the functions of a view's query their schema: the query is printed with names for a
// search path of pg_catalog alone.
func qualify(query *pg.Node) {
	parser.Walk(query, func(m any) bool {
		if f, ok := m.(*pg.FuncCall); ok && len(f.Funcname) == 1 {
			f.Funcname = []*pg.Node{pg.MakeStrNode("pg_catalog"), f.Funcname[0]}
		}
		return true
	})
}

// relieve removes the conditions that pieces have checked: PostgreSQL would expect fewer rows
// because of them, and choose a plan for few.
func (r *remainder) relieve(n *pg.Node) {
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.SelectStmt:
			m.WhereClause = r.unchecked(m.WhereClause)
		case *pg.JoinExpr:
			if m.Quals != nil {
				if m.Quals = r.unchecked(m.Quals); m.Quals == nil {
					m.Quals = constantTrue()
				}
			}
		}
		return true
	})
}

// unchecked returns what is left of a condition, or nil for nothing.
func (r *remainder) unchecked(n *pg.Node) *pg.Node {
	if n == nil || r.a.notes.checked[r.nodes[n]] {
		return nil
	}
	b := n.GetBoolExpr()
	if b == nil || b.Boolop != pg.BoolExprType_AND_EXPR {
		return n
	}
	var left []*pg.Node
	for _, arg := range b.Args {
		if arg = r.unchecked(arg); arg != nil {
			left = append(left, arg)
		}
	}
	return conjunction(left)
}

// dependents adds to GROUP BY the columns that depend on a grouped primary key.
func (r *remainder) dependents(n *pg.Node) {
	parser.Walk(n, func(m any) bool {
		sel, ok := m.(*pg.SelectStmt)
		if !ok {
			return true
		}
		for _, d := range r.a.notes.grouped[r.queries[sel]] {
			if !r.uses(sel, d) {
				continue
			}
			for i, name := range d.of.columnNames() {
				if name == d.name && incomparable[datum.Type(d.of.rel.Columns[i].Base)] {
					r.refuse("Group by the columns that are needed, or select it in a query around this one.",
						"column %q depends on the primary key that is grouped by, and cannot be grouped by itself", name)
				}
			}
			sel.GroupClause = append(sel.GroupClause, nameNode(d.of.name, d.name))
		}
		return true
	})
}

// uses reports whether a query uses a column outside of aggregates.
func (r *remainder) uses(sel *pg.SelectStmt, d dependent) bool {
	found := false
	look := func(m any) bool {
		switch m := m.(type) {
		case *pg.FuncCall:
			names := nameList(m.Funcname)
			return m.Over != nil || !r.a.env.Schema.Builtin(names[len(names)-1]).Aggregate
		case *pg.ColumnRef:
			names := nameList(m.Fields)
			switch star := len(names) < len(m.Fields); {
			case len(names) == 0:
				found = true
			case star:
				found = found || names[len(names)-1] == d.of.name
			case names[len(names)-1] != d.name:
			default:
				found = found || len(names) == 1 || names[len(names)-2] == d.of.name
			}
		}
		return !found
	}
	for _, list := range [][]*pg.Node{sel.TargetList, sel.SortClause, sel.DistinctClause, sel.WindowClause, {sel.HavingClause}} {
		for _, n := range list {
			if n != nil {
				parser.Walk(n, look)
			}
		}
	}
	return found
}

// replace replaces tables by inputs.
func (r *remainder) replace(n *pg.Node) {
	parser.Walk(n, func(m any) bool {
		node, ok := m.(*pg.Node)
		if !ok {
			return r.refusal == nil
		}
		rv := node.GetRangeVar()
		if s := node.GetRangeTableSample(); s != nil {
			rv = s.Relation.GetRangeVar()
		}
		if rv == nil {
			return r.refusal == nil
		}
		if r.staying(rv) {
			r.pin(rv)
			return false
		}
		if x := r.a.notes.byNode[r.tables[rv]]; x != nil {
			if x.rel != nil && x.rel.System() {
				r.catalog(rv, x)
			} else {
				r.input(node, rv, x)
			}
			return false
		}
		r.unknown(rv)
		return true
	})
}

// unknown refuses a name of a sharded table that the analysis has not seen: left in place, it would
// be read on one shard alone. Names of WITH queries and weft's own marks do not mean tables.
func (r *remainder) unknown(rv *pg.RangeVar) {
	rel, t := r.a.relation(rv)
	if t == nil || t.Reference || rv.Schemaname == "" && (r.a.temporary(rv) || r.namesQuery(rv.Relname)) {
		return
	}
	r.refuse("It visits more than one shard. Write it in another way.", "this statement cannot be taken apart: %q stands where it is not expected", rel.Name.Name)
}

// namesQuery reports whether a WITH query of the tree has that name.
func (r *remainder) namesQuery(name string) bool {
	found := false
	parser.Walk(r.tree, func(m any) bool {
		if cte, ok := m.(*pg.CommonTableExpr); ok && cte.Ctename == name {
			found = true
		}
		return !found
	})
	return found
}

// input replaces a table by an input.
func (r *remainder) input(n *pg.Node, rv *pg.RangeVar, x *appearance) {
	if x.sample != nil && hasSublink(x.sample) {
		r.refuse("Write the percentage as a number or a parameter.", "TABLESAMPLE with a subquery is not supported over several shards")
		return
	}
	if len(x.system) > 0 && (r.mentions.all[rv] || r.mentions.starred[x.name]) {
		r.refuse("Name the columns.", "* beside system column %s of %q is not supported over several shards", x.system[0], x.name)
		return
	}
	if x.marked && (r.mentions.all[rv] || r.mentions.starred[x.name]) {
		r.refuse("Name the columns instead of *.", "a whole row of %q cannot be carried between shards beside *", x.name)
		return
	}
	piece, err := r.tablePiece(x, rv)
	if err != nil {
		if r.refusal == nil {
			r.refusal = unwritable(err)
		}
		return
	}
	alias := rv.Alias
	if alias == nil {
		alias = &pg.Alias{Aliasname: rv.Relname}
	}
	n.Node = &pg.Node_RangeVar{RangeVar: &pg.RangeVar{Relname: inputMark(piece), Inh: true, Relpersistence: "p", Alias: alias, Location: -1}}
}

// catalog leaves a system catalog in place: some of its columns have types whose values cannot
// become parameters, and only the client's backend sees what its transaction has created.
func (r *remainder) catalog(rv *pg.RangeVar, x *appearance) {
	rv.Schemaname = x.rel.Schema
	r.catalogs = true
}

func hasSublink(m any) bool {
	found := false
	parser.Walk(m, func(m any) bool {
		if _, ok := m.(*pg.SubLink); ok {
			found = true
		}
		return !found
	})
	return found
}

// own reports whether the remainder reads or calls something that belongs to the client's session,
// or changes something.
func (r *remainder) own() bool {
	t := &r.a.touched
	if r.catalogs || len(t.sequences) > 0 || t.advisory || len(t.homely) > 0 {
		return true
	}
	for _, f := range r.a.functions {
		if f.Volatility == 'v' {
			return true
		}
	}
	return false
}
