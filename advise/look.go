package advise

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
)

// sight is what a statement does with tables and columns, as far as its text tells.
type sight struct {
	// values are columns that are compared with a value, joins those that are compared with each
	// other, be it by way of one parameter.
	values []Ref
	joins  [][2]Ref
	// sets are columns that an UPDATE sets, and known are columns that a write names a value for.
	sets, known []Ref
	tables      []catalog.Name
	written     []catalog.Name
	// params are the columns that a parameter, counted from 0, is a value of.
	params map[int]Ref
}

// look reads what statements do. What it misses makes a candidate less likely, and never a plan wrong.
type look struct {
	schema *catalog.Schema
	path   []string
	out    sight
	params map[int32]Ref // the first column that each parameter is compared with
}

func lookAt(schema *catalog.Schema, path []string, text string) sight {
	tree, err := parser.Parse(text)
	if err != nil {
		return sight{}
	}
	l := &look{schema: schema, path: path, params: map[int32]Ref{}}
	l.out.params = map[int]Ref{}
	for _, raw := range tree.Stmts {
		l.statement(raw.Stmt, nil)
	}
	return l.out
}

// scope is the tables that names of columns may mean in one query, and in those around it.
type scope struct {
	outer *scope
	names []string            // aliases, in order
	rels  []*catalog.Relation // nil for what is no table
	ctes  map[string]bool
}

func (s *scope) isCTE(name string) bool {
	for ; s != nil; s = s.outer {
		if s.ctes[name] {
			return true
		}
	}
	return false
}

func (l *look) statement(n *pg.Node, outer *scope) {
	switch {
	case n.GetSelectStmt() != nil:
		l.query(n.GetSelectStmt(), outer)
	case n.GetInsertStmt() != nil:
		l.insert(n.GetInsertStmt(), outer)
	case n.GetUpdateStmt() != nil:
		u := n.GetUpdateStmt()
		s := l.with(u.WithClause, outer)
		rel := l.target(u.Relation, s)
		l.from(u.FromClause, s)
		for _, t := range u.TargetList {
			if r := t.GetResTarget(); rel != nil && r != nil {
				l.out.sets = append(l.out.sets, Ref{rel.Name, r.Name})
			}
		}
		l.expressions(s, u.TargetList...)
		l.expressions(s, u.WhereClause)
	case n.GetDeleteStmt() != nil:
		d := n.GetDeleteStmt()
		s := l.with(d.WithClause, outer)
		l.target(d.Relation, s)
		l.from(d.UsingClause, s)
		l.expressions(s, d.WhereClause)
	case n.GetMergeStmt() != nil:
		m := n.GetMergeStmt()
		s := l.with(m.WithClause, outer)
		l.target(m.Relation, s)
		l.from([]*pg.Node{m.SourceRelation}, s)
		l.expressions(s, m.JoinCondition)
	case n.GetExplainStmt() != nil:
		l.statement(n.GetExplainStmt().Query, outer)
	}
}

// with begins the scope of a statement with its common table expressions.
func (l *look) with(w *pg.WithClause, outer *scope) *scope {
	s := &scope{outer: outer, ctes: map[string]bool{}}
	for _, n := range w.GetCtes() {
		c := n.GetCommonTableExpr()
		if w.Recursive {
			s.ctes[c.Ctename] = true
		}
		l.statement(c.Ctequery, s)
		s.ctes[c.Ctename] = true
	}
	return s
}

func (l *look) query(sel *pg.SelectStmt, outer *scope) {
	s := l.with(sel.WithClause, outer)
	if sel.Op != pg.SetOperation_SETOP_NONE {
		l.query(sel.Larg, s)
		l.query(sel.Rarg, s)
		return
	}
	l.from(sel.FromClause, s)
	l.expressions(s, sel.TargetList...)
	l.expressions(s, sel.ValuesLists...)
	l.expressions(s, sel.WhereClause, sel.HavingClause)
	l.expressions(s, sel.SortClause...)
}

func (l *look) insert(in *pg.InsertStmt, outer *scope) {
	s := l.with(in.WithClause, outer)
	rel := l.target(in.Relation, s)
	if rel != nil {
		var columns []string
		for _, n := range in.Cols {
			columns = append(columns, n.GetResTarget().GetName())
		}
		if len(in.Cols) == 0 {
			for i := range rel.Columns {
				columns = append(columns, rel.Columns[i].Name)
			}
		}
		for _, c := range columns {
			l.out.known = append(l.out.known, Ref{rel.Name, c})
		}
		l.stored(in, rel, columns)
	}
	if sel := in.SelectStmt.GetSelectStmt(); sel != nil {
		l.query(sel, s)
	}
	if c := in.OnConflictClause; c != nil && rel != nil {
		for _, t := range c.TargetList {
			l.out.sets = append(l.out.sets, Ref{rel.Name, t.GetResTarget().GetName()})
		}
	}
}

// stored notes which parameters an INSERT stores in which columns.
func (l *look) stored(in *pg.InsertStmt, rel *catalog.Relation, columns []string) {
	for _, row := range in.SelectStmt.GetSelectStmt().GetValuesLists() {
		for i, n := range row.GetList().GetItems() {
			if p := bare(n).GetParamRef(); p != nil && i < len(columns) {
				l.out.params[int(p.Number)-1] = Ref{rel.Name, columns[i]}
			}
		}
	}
}

// target adds the table that a statement writes.
func (l *look) target(v *pg.RangeVar, s *scope) *catalog.Relation {
	rel := l.table(v, s)
	if rel != nil {
		l.out.written = appendNew(l.out.written, rel.Name)
	}
	return rel
}

// table adds a table to the scope.
func (l *look) table(v *pg.RangeVar, s *scope) *catalog.Relation {
	if v == nil {
		return nil
	}
	name := v.Relname
	if v.Alias != nil {
		name = v.Alias.Aliasname
	}
	var rel *catalog.Relation
	switch {
	case v.Schemaname != "":
		rel = l.schema.Relation(catalog.Name{Schema: v.Schemaname, Name: v.Relname})
	case !s.isCTE(v.Relname):
		rel = l.schema.Resolve(l.path, v.Relname)
	}
	for rel != nil && rel.Parent != nil {
		rel = rel.Parent // a partition is declared with its table
	}
	if rel != nil && rel.Kind == catalog.View && rel.Definition != "" {
		if tree, err := parser.Parse(rel.Definition); err == nil && len(tree.Stmts) == 1 {
			l.statement(tree.Stmts[0].Stmt, nil)
		}
	}
	if rel != nil && (rel.System() || rel.Schema == "weft" || rel.Kind != catalog.Table && rel.Kind != catalog.PartitionedTable) {
		rel = nil
	}
	s.names, s.rels = append(s.names, name), append(s.rels, rel)
	if rel != nil {
		l.out.tables = appendNew(l.out.tables, rel.Name)
	}
	return rel
}

// from adds the items of a FROM clause to the scope, and looks at the conditions of joins.
func (l *look) from(items []*pg.Node, s *scope) {
	for _, n := range items {
		switch {
		case n.GetRangeVar() != nil:
			l.table(n.GetRangeVar(), s)
		case n.GetRangeSubselect() != nil:
			sub := n.GetRangeSubselect()
			l.query(sub.Subquery.GetSelectStmt(), s)
			if sub.Alias != nil {
				s.names, s.rels = append(s.names, sub.Alias.Aliasname), append(s.rels, nil)
			}
		case n.GetJoinExpr() != nil:
			l.join(n.GetJoinExpr(), s)
		default:
			l.expressions(s, n)
		}
	}
}

func (l *look) join(j *pg.JoinExpr, s *scope) {
	first := len(s.rels)
	l.from([]*pg.Node{j.Larg}, s)
	second := len(s.rels)
	l.from([]*pg.Node{j.Rarg}, s)
	for _, n := range j.UsingClause {
		column := n.GetString_().GetSval()
		left, ok := only(s.rels[first:second], column)
		right, also := only(s.rels[second:], column)
		if ok && also {
			l.out.joins = append(l.out.joins, [2]Ref{left, right})
		}
	}
	l.expressions(s, j.Quals)
}

// only returns the column of that name, if exactly one of the tables has it.
func only(rels []*catalog.Relation, column string) (Ref, bool) {
	var found Ref
	n := 0
	for _, r := range rels {
		if r != nil && r.Column(column) != nil {
			found = Ref{r.Name, column}
			n++
		}
	}
	return found, n == 1
}

// expressions looks at all comparisons in expressions, and at the queries inside.
func (l *look) expressions(s *scope, nodes ...*pg.Node) {
	for _, n := range nodes {
		if n == nil {
			continue
		}
		parser.Walk(n, func(m any) bool {
			switch m := m.(type) {
			case *pg.SelectStmt:
				l.query(m, s)
				return false
			case *pg.A_Expr:
				if isEquality(m) {
					l.equal(m.Lexpr, m.Rexpr, s)
				}
			case *pg.SubLink:
				l.inQuery(m, s)
			}
			return true
		})
	}
}

func isEquality(e *pg.A_Expr) bool {
	switch e.Kind {
	case pg.A_Expr_Kind_AEXPR_OP, pg.A_Expr_Kind_AEXPR_OP_ANY, pg.A_Expr_Kind_AEXPR_IN:
		return len(e.Name) > 0 && e.Name[len(e.Name)-1].GetString_().GetSval() == "="
	}
	return false
}

// inQuery looks at column IN (SELECT column …), which is a join.
func (l *look) inQuery(link *pg.SubLink, s *scope) {
	sel := link.Subselect.GetSelectStmt()
	if link.SubLinkType != pg.SubLinkType_ANY_SUBLINK || sel == nil || len(sel.TargetList) != 1 {
		return
	}
	left, ok := l.column(link.Testexpr, s)
	if !ok {
		return
	}
	// The scope of the subquery is made again, without noting what is in it twice.
	inner := &look{schema: l.schema, path: l.path, params: map[int32]Ref{}}
	in := &scope{outer: s, ctes: map[string]bool{}}
	inner.from(sel.FromClause, in)
	if right, ok := inner.column(sel.TargetList[0].GetResTarget().GetVal(), in); ok {
		l.out.joins = append(l.out.joins, [2]Ref{left, right})
	}
}

// equal notes a comparison of two expressions, which may be rows.
func (l *look) equal(a, b *pg.Node, s *scope) {
	if x, y := a.GetRowExpr(), b.GetRowExpr(); x != nil && y != nil && len(x.Args) == len(y.Args) {
		for i := range x.Args {
			l.equal(x.Args[i], y.Args[i], s)
		}
		return
	}
	left, isLeft := l.column(a, s)
	right, isRight := l.column(b, s)
	switch {
	case isLeft && isRight:
		if left != right {
			l.out.joins = append(l.out.joins, [2]Ref{left, right})
		}
	case isLeft && isValue(b):
		l.value(left, b)
	case isRight && isValue(a):
		l.value(right, a)
	}
}

// value notes that a column is compared with a value. Columns that are compared with one parameter
// hold the same values.
func (l *look) value(r Ref, n *pg.Node) {
	l.out.values = append(l.out.values, r)
	p := bare(n).GetParamRef()
	if p == nil {
		return
	}
	if l.out.params != nil {
		l.out.params[int(p.Number)-1] = r
	}
	if other, ok := l.params[p.Number]; !ok {
		l.params[p.Number] = r
	} else if other != r {
		l.out.joins = append(l.out.joins, [2]Ref{other, r})
	}
}

// bare takes casts off.
func bare(n *pg.Node) *pg.Node {
	for n.GetTypeCast() != nil {
		n = n.GetTypeCast().Arg
	}
	return n
}

func isValue(n *pg.Node) bool {
	if list := n.GetList(); list != nil {
		return !slices.ContainsFunc(list.Items, func(i *pg.Node) bool { return !isValue(i) })
	}
	if a := bare(n).GetAArrayExpr(); a != nil {
		return !slices.ContainsFunc(a.Elements, func(i *pg.Node) bool { return !isValue(i) })
	}
	return bare(n).GetParamRef() != nil || bare(n).GetAConst() != nil
}

// column returns the column of a table that an expression is.
func (l *look) column(n *pg.Node, s *scope) (Ref, bool) {
	c := bare(n).GetColumnRef()
	if c == nil {
		return Ref{}, false
	}
	var names []string
	for _, f := range c.Fields {
		if f.GetString_() == nil {
			return Ref{}, false // a star
		}
		names = append(names, f.GetString_().Sval)
	}
	column := names[len(names)-1]
	for ; s != nil; s = s.outer {
		if len(names) == 1 {
			if r, ok := only(s.rels, column); ok {
				return r, true
			}
			continue
		}
		for i, name := range s.names {
			if rel := s.rels[i]; name == names[len(names)-2] {
				if rel != nil && rel.Column(column) != nil {
					return Ref{rel.Name, column}, true
				}
				return Ref{}, false
			}
		}
	}
	return Ref{}, false
}

func appendNew[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}
