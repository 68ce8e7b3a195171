package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// bracket puts brackets around operands. pg_query's deparser leaves out some that are needed: (a =
// b) IN (c) becomes a = b IN (c). A bracket is a call of a function without a name, whose mark is
// written as nothing.
func bracket(n *pg.Node) {
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.A_Expr:
			enclosed(m.Lexpr)
			switch m.Kind {
			case pg.A_Expr_Kind_AEXPR_LIKE, pg.A_Expr_Kind_AEXPR_ILIKE, pg.A_Expr_Kind_AEXPR_SIMILAR:
				if m.Rexpr.GetFuncCall() == nil { // ESCAPE
					enclosed(m.Rexpr)
				}
			case pg.A_Expr_Kind_AEXPR_IN:
			default:
				enclosed(m.Rexpr)
				for _, item := range m.Rexpr.GetList().GetItems() {
					enclosed(item)
				}
			}
		case *pg.FuncCall:
			if m.Funcformat == pg.CoercionForm_COERCE_SQL_SYNTAX {
				for _, arg := range m.Args {
					enclosed(arg)
				}
			}
		case *pg.SubLink:
			enclosed(m.Testexpr)
		case *pg.NullTest:
			enclosed(m.Arg)
		case *pg.BooleanTest:
			enclosed(m.Arg)
		case *pg.CollateClause:
			enclosed(m.Arg)
		case *pg.TypeCast:
			enclosed(m.Arg)
		case *pg.A_Indirection:
			switch m.Arg.GetNode().(type) {
			case *pg.Node_ColumnRef, *pg.Node_ParamRef, *pg.Node_RowExpr, *pg.Node_SubLink:
			default:
				inBrackets(m.Arg)
			}
		}
		return true
	})
}

// enclosed puts brackets around an operand that is more than one word.
func enclosed(n *pg.Node) {
	switch v := n.GetNode().(type) {
	case *pg.Node_AExpr, *pg.Node_BoolExpr, *pg.Node_NullTest, *pg.Node_BooleanTest, *pg.Node_CollateClause, *pg.Node_JsonIsPredicate:
		inBrackets(n)
	case *pg.Node_SubLink:
		switch v.SubLink.SubLinkType {
		case pg.SubLinkType_ANY_SUBLINK, pg.SubLinkType_ALL_SUBLINK:
			inBrackets(n)
		}
	case *pg.Node_FuncCall:
		if v.FuncCall.Funcformat == pg.CoercionForm_COERCE_SQL_SYNTAX {
			inBrackets(n)
		}
	case *pg.Node_XmlExpr:
		if v.XmlExpr.Op == pg.XmlExprOp_IS_DOCUMENT {
			inBrackets(n)
		}
	}
}

// inBrackets puts brackets around a node, in its place.
func inBrackets(n *pg.Node) {
	inner := &pg.Node{Node: n.Node}
	n.Node = pg.MakeFuncCallNode([]*pg.Node{pg.MakeStrNode(mark + "b" + mark)}, []*pg.Node{inner}, -1).Node
}
