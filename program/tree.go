package program

import (
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
)

// tree is what is known of a piece of SQL from its parse tree. The parse tree itself is made again when
// it is rewritten.
type tree struct {
	sql  string // what is parsed: a SELECT for an expression
	refs []ref
	// ranged: something in a FROM could give a name another meaning than a variable.
	ranged bool
	// simple: PostgreSQL evaluates it without a query of its own.
	simple bool
	// plain: no variable can stand in it, as in most utility commands.
	plain bool
	// only is set for an expression that is a single name.
	only bool
	// constant is the value of an expression that is a small literal.
	constant *constant
	// row: the expression is ROW(…).
	row bool
	// inferred are the names in ON CONFLICT (…), which PostgreSQL reads as expressions.
	inferred []string
	node     *pg_query.Node // the statement, for its kind; never changed
}

type constant struct {
	value Value
	oid   uint32
}

// ref is a name or a $n that may be a variable.
type ref struct {
	names []string
	star  bool
	// array: it stands in ANY (…) or ALL (…), where a subquery has another meaning.
	array bool
	sort  *sorting
}

// sorting says of a name that stands alone in ORDER BY, DISTINCT ON or GROUP BY what the columns of the
// result are called, which come first there.
type sorting struct {
	group   bool
	outputs []string
	star    bool // and all columns of something
	// top: the statement itself is sorted, so that its result has those columns.
	top bool
}

// parseTree parses the SQL of an Expr.
func parseTree(e *Expr) (*tree, error) {
	t := &tree{sql: e.Text}
	if e.Mode != Statement {
		t.sql = "SELECT " + e.Text
	}
	res, err := parser.Parse(t.sql)
	if err != nil {
		return nil, pgerr.New(pgerr.SyntaxError, "%s", err.Error())
	}
	if len(res.Stmts) != 1 {
		return nil, syntax("one statement is expected: %s", e.Text)
	}
	t.node = res.Stmts[0].Stmt
	switch t.node.Node.(type) {
	case *pg_query.Node_SelectStmt, *pg_query.Node_InsertStmt, *pg_query.Node_UpdateStmt, *pg_query.Node_DeleteStmt,
		*pg_query.Node_MergeStmt, *pg_query.Node_CreateTableAsStmt, *pg_query.Node_ExplainStmt, *pg_query.Node_DeclareCursorStmt,
		*pg_query.Node_CallStmt:
	default:
		t.plain = true
		return t, nil
	}
	t.look()
	if e.Mode != Statement {
		t.expression()
	}
	return t, t.refused()
}

// look finds the names.
func (t *tree) look() {
	sorts := map[*pg_query.ColumnRef]*sorting{}
	arrays := map[*pg_query.Node]bool{}
	links, ranges := false, 0
	parser.Walk(t.node, func(m any) bool {
		switch m := m.(type) {
		case *pg_query.SelectStmt:
			collectSorts(m, sorts, m == t.node.GetSelectStmt())
		case *pg_query.SubLink:
			links = true
		case *pg_query.A_Expr:
			arrays[m.Rexpr] = m.Kind == pg_query.A_Expr_Kind_AEXPR_OP_ANY || m.Kind == pg_query.A_Expr_Kind_AEXPR_OP_ALL
		case *pg_query.RangeVar, *pg_query.RangeSubselect, *pg_query.RangeFunction, *pg_query.RangeTableFunc, *pg_query.JsonTable:
			ranges++
		case *pg_query.InferClause:
			for _, el := range m.IndexElems {
				if name := el.GetIndexElem().GetName(); name != "" {
					t.inferred = append(t.inferred, name)
				}
			}
		}
		return true
	})
	if ins := t.node.GetInsertStmt(); ins != nil && len(ins.ReturningList) == 0 && ins.OnConflictClause == nil {
		ranges-- // nothing in the statement can name a column of the table
	}
	for _, n := range references(t.node) {
		r := ref{array: arrays[n]}
		if p := n.GetParamRef(); p != nil {
			r.names = []string{"$" + itoa(int(p.Number))}
		} else {
			c := n.GetColumnRef()
			r.names, r.star = namesOf(c)
			r.sort = sorts[c]
		}
		t.refs = append(t.refs, r)
	}
	t.ranged, t.simple = ranges > 0, ranges == 0 && !links
}

// references returns the nodes of names and parameters, in the order in which Walk meets them.
func references(stmt *pg_query.Node) []*pg_query.Node {
	var out []*pg_query.Node
	parser.Walk(stmt, func(m any) bool {
		if n, ok := m.(*pg_query.Node); ok && (n.GetColumnRef() != nil || n.GetParamRef() != nil) {
			out = append(out, n)
			return false
		}
		return true
	})
	return out
}

// namesOf returns the parts of a name.
func namesOf(c *pg_query.ColumnRef) (names []string, star bool) {
	for _, f := range c.Fields {
		if f.GetAStar() != nil {
			return names, true
		}
		names = append(names, f.GetString_().GetSval())
	}
	return names, false
}

// collectSorts notes the names that stand alone in ORDER BY and the like.
func collectSorts(s *pg_query.SelectStmt, sorts map[*pg_query.ColumnRef]*sorting, top bool) {
	first := s
	for first.Larg != nil {
		first = first.Larg
	}
	var outputs []string
	star := len(first.ValuesLists) > 0
	for _, t := range first.TargetList {
		res := t.GetResTarget()
		switch c := figure(res.GetVal()); {
		case res.GetName() != "":
			outputs = append(outputs, res.Name)
		case c != nil:
			names, all := namesOf(c)
			if all {
				star = true
			} else {
				outputs = append(outputs, names[len(names)-1])
			}
		case res.GetVal().GetFuncCall() != nil:
			list := res.GetVal().GetFuncCall().Funcname
			outputs = append(outputs, list[len(list)-1].GetString_().GetSval())
		default:
			// The name is one of a field, of a type or of a construct. It is left to be unknown.
			star = star || res.GetVal().GetAConst() == nil
		}
	}
	note := func(n *pg_query.Node, group bool) {
		if c := n.GetColumnRef(); c != nil && len(c.Fields) == 1 && c.Fields[0].GetString_() != nil {
			sorts[c] = &sorting{group: group, outputs: outputs, star: star, top: top && !group}
		}
	}
	for _, n := range s.SortClause {
		note(n.GetSortBy().GetNode(), false)
	}
	for _, n := range s.DistinctClause {
		note(n, false)
	}
	for _, n := range s.GroupClause {
		note(n, true)
	}
}

// figure returns the name after which PostgreSQL calls a column of a result, or nil if it is called after
// something else.
func figure(n *pg_query.Node) *pg_query.ColumnRef {
	switch {
	case n.GetColumnRef() != nil:
		return n.GetColumnRef()
	case n.GetAIndirection() != nil:
		for _, i := range n.GetAIndirection().Indirection {
			if i.GetString_() != nil || i.GetAStar() != nil {
				return nil
			}
		}
		return figure(n.GetAIndirection().Arg)
	case n.GetTypeCast() != nil:
		return figure(n.GetTypeCast().Arg)
	case n.GetCollateClause() != nil:
		return figure(n.GetCollateClause().Arg)
	case n.GetCaseExpr() != nil && n.GetCaseExpr().Defresult != nil:
		if n.GetCaseExpr().Defresult.GetTypeCast() != nil {
			return nil
		}
		return figure(n.GetCaseExpr().Defresult)
	}
	return nil
}

// expression looks at what an expression is as a whole.
func (t *tree) expression() {
	s := t.node.GetSelectStmt()
	if s == nil || len(s.TargetList) != 1 || len(s.FromClause) > 0 || s.WhereClause != nil || s.IntoClause != nil ||
		len(s.GroupClause) > 0 || s.HavingClause != nil || s.Op != pg_query.SetOperation_SETOP_NONE || len(s.SortClause) > 0 ||
		s.LimitCount != nil || s.LimitOffset != nil || len(s.DistinctClause) > 0 {
		t.simple = false
		return
	}
	val := s.TargetList[0].GetResTarget().GetVal()
	t.row = val.GetRowExpr() != nil
	t.only = val.GetColumnRef() != nil || val.GetParamRef() != nil
	if c := val.GetAConst(); c != nil {
		switch {
		case c.GetIval() != nil:
			t.constant = &constant{Value{Text: itoa(int(c.GetIval().Ival)), Valid: true}, oidInt4}
		case c.GetBoolval() != nil:
			text := "f"
			if c.GetBoolval().Boolval {
				text = "t"
			}
			t.constant = &constant{Value{Text: text, Valid: true}, oidBool}
		case c.GetSval() != nil:
			t.constant = &constant{Value{Text: c.GetSval().Sval, Valid: true}, oidText}
		case c.Isnull:
			t.constant = &constant{Value{}, oidText}
		}
	}
}

// refused returns the error for what cannot be run as PostgreSQL would.
func (t *tree) refused() (err error) {
	parser.Walk(t.node, func(m any) bool {
		if c, ok := m.(*pg_query.CurrentOfExpr); ok && c != nil {
			err = refuse("WHERE CURRENT OF")
		}
		return err == nil
	})
	return err
}

// hasOutput reports whether a column of the result has a name.
func (s *sorting) hasOutput(name string) bool { return slices.Contains(s.outputs, name) }
