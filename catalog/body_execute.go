package catalog

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/quote"
)

// The text that EXECUTE runs is known if it is put together from constants. The names of
// the current role and the current database count as constants too, where a statement can
// have only the name of a role or a database: a mark stands for such a name.

const (
	roleMark     = "current_user"
	databaseMark = "weft current database"
)

// executed returns the text that the expression of an EXECUTE yields. marked says that
// there is a mark in the text.
func executed(n *pg_query.Node) (text string, marked, ok bool) {
	for n.GetTypeCast() != nil && textType(n.GetTypeCast().TypeName) {
		n = n.GetTypeCast().Arg
	}
	switch v := n.GetNode().(type) {
	case *pg_query.Node_AConst:
		if s := v.AConst.GetSval(); s != nil {
			return s.Sval, false, true
		}
	case *pg_query.Node_AExpr:
		if v.AExpr.Kind != pg_query.A_Expr_Kind_AEXPR_OP || len(v.AExpr.Name) != 1 || v.AExpr.Name[0].GetString_().GetSval() != "||" {
			break
		}
		l, m1, ok1 := executed(v.AExpr.Lexpr)
		r, m2, ok2 := executed(v.AExpr.Rexpr)
		return l + r, m1 || m2, ok1 && ok2
	case *pg_query.Node_SqlvalueFunction:
		switch v.SqlvalueFunction.Op {
		case pg_query.SQLValueFunctionOp_SVFOP_CURRENT_USER, pg_query.SQLValueFunctionOp_SVFOP_CURRENT_ROLE,
			pg_query.SQLValueFunctionOp_SVFOP_SESSION_USER, pg_query.SQLValueFunctionOp_SVFOP_USER:
			return roleMark, true, true
		case pg_query.SQLValueFunctionOp_SVFOP_CURRENT_CATALOG:
			return `"` + databaseMark + `"`, true, true
		}
	case *pg_query.Node_FuncCall:
		return called(v.FuncCall)
	}
	return "", false, false
}

// called returns the text that a function yields if its arguments are constants.
func called(f *pg_query.FuncCall) (text string, marked, ok bool) {
	names := stringsOf(f.Funcname)
	if len(names) > 2 || len(names) == 2 && names[0] != "pg_catalog" || f.FuncVariadic {
		return "", false, false
	}
	var args []string
	for _, a := range f.Args {
		s, m, ok := executed(a)
		if !ok {
			return "", false, false
		}
		args, marked = append(args, s), marked || m
	}
	switch name := names[len(names)-1]; {
	case name == "current_database" && len(args) == 0:
		return `"` + databaseMark + `"`, true, true
	case name == "quote_ident" && len(args) == 1:
		return identifier(args[0]), marked, true
	case name == "quote_literal" && len(args) == 1 && !marked:
		return quote.Literal(args[0]), false, true
	case name == "format" && len(args) > 0:
		text, ok = formatted(args[0], args[1:])
		return text, marked, ok
	case (name == "concat" || name == "textcat") && len(args) > 0:
		return strings.Join(args, ""), marked, true
	}
	return "", false, false
}

// formatted returns the result of format(). It knows %s, %I, %L and %% only.
func formatted(pattern string, args []string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			b.WriteByte(pattern[i])
			continue
		}
		if i++; i == len(pattern) {
			return "", false
		}
		if pattern[i] == '%' {
			b.WriteByte('%')
			continue
		}
		if len(args) == 0 {
			return "", false
		}
		switch pattern[i] {
		case 's':
			b.WriteString(args[0])
		case 'I':
			b.WriteString(identifier(args[0]))
		case 'L':
			b.WriteString(quote.Literal(args[0]))
		default:
			return "", false
		}
		args = args[1:]
	}
	return b.String(), true
}

// identifier quotes a name. A mark stays as it is.
func identifier(s string) string {
	if s == roleMark || s == `"`+databaseMark+`"` {
		return s
	}
	return quote.Ident(s)
}

// textType reports whether a cast to t leaves a text as it is.
func textType(t *pg_query.TypeName) bool {
	names := stringsOf(t.GetNames())
	return len(names) > 0 && slices.Contains([]string{"text", "varchar", "name"}, names[len(names)-1])
}

// markPlaced reports whether marks are in a text only in the place of the name of a role
// or of a database.
func markPlaced(tree *pg_query.ParseResult) bool {
	for _, s := range tree.Stmts {
		switch s.Stmt.GetNode().(type) {
		case *pg_query.Node_GrantStmt, *pg_query.Node_GrantRoleStmt, *pg_query.Node_AlterDatabaseStmt, *pg_query.Node_AlterDatabaseSetStmt,
			*pg_query.Node_AlterRoleStmt, *pg_query.Node_AlterRoleSetStmt, *pg_query.Node_AlterOwnerStmt, *pg_query.Node_AlterDefaultPrivilegesStmt,
			*pg_query.Node_CreateSchemaStmt, *pg_query.Node_ReassignOwnedStmt, *pg_query.Node_CreatePolicyStmt, *pg_query.Node_CommentStmt:
		default:
			return false
		}
		misplaced := false
		parser.Walk(s.Stmt, func(m any) bool {
			if rv, ok := m.(*pg_query.RangeVar); ok {
				misplaced = misplaced || rv.Relname == databaseMark || rv.Schemaname == databaseMark || rv.Relname == roleMark
			}
			return !misplaced
		})
		if misplaced {
			return false
		}
	}
	return true
}
