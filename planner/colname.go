package planner

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// figureName returns the name that PostgreSQL gives an unnamed column of a target list.
func figureName(n *pg.Node) string {
	if name, _ := figure(n); name != "" {
		return name
	}
	return "?column?"
}

// figure names a node as PostgreSQL's FigureColname does. A weak name gives way to the name of a
// type that the node is cast to.
func figure(n *pg.Node) (name string, strong bool) {
	switch v := n.GetNode().(type) {
	case *pg.Node_ColumnRef:
		return lastName(v.ColumnRef.Fields), true
	case *pg.Node_AIndirection:
		if name := lastName(v.AIndirection.Indirection); name != "" {
			return name, true
		}
		return figure(v.AIndirection.Arg)
	case *pg.Node_FuncCall:
		return lastName(v.FuncCall.Funcname), true
	case *pg.Node_AExpr:
		if v.AExpr.Kind == pg.A_Expr_Kind_AEXPR_NULLIF {
			return "nullif", true
		}
	case *pg.Node_TypeCast:
		if name, strong := figure(v.TypeCast.Arg); strong {
			return name, true
		}
		return lastName(v.TypeCast.TypeName.GetNames()), false
	case *pg.Node_CollateClause:
		return figure(v.CollateClause.Arg)
	case *pg.Node_GroupingFunc:
		return "grouping", true
	case *pg.Node_SubLink:
		return figureSublink(v.SubLink)
	case *pg.Node_CaseExpr:
		if name, strong := figure(v.CaseExpr.Defresult); strong {
			return name, true
		}
		return "case", false
	case *pg.Node_AArrayExpr:
		return "array", true
	case *pg.Node_RowExpr:
		return "row", true
	case *pg.Node_CoalesceExpr:
		return "coalesce", true
	case *pg.Node_MinMaxExpr:
		if v.MinMaxExpr.Op == pg.MinMaxOp_IS_LEAST {
			return "least", true
		}
		return "greatest", true
	case *pg.Node_SqlvalueFunction:
		name := strings.ToLower(strings.TrimPrefix(v.SqlvalueFunction.Op.String(), "SVFOP_"))
		return strings.TrimSuffix(name, "_n"), true
	case *pg.Node_XmlExpr:
		if op := v.XmlExpr.Op; op != pg.XmlExprOp_IS_DOCUMENT {
			return strings.ToLower(strings.TrimPrefix(op.String(), "IS_")), true
		}
	case *pg.Node_XmlSerialize:
		return "xmlserialize", true
	}
	return "", false
}

func figureSublink(s *pg.SubLink) (string, bool) {
	switch s.SubLinkType {
	case pg.SubLinkType_EXISTS_SUBLINK:
		return "exists", true
	case pg.SubLinkType_ARRAY_SUBLINK:
		return "array", true
	case pg.SubLinkType_EXPR_SUBLINK:
		sel := s.Subselect.GetSelectStmt()
		for sel.GetLarg() != nil {
			sel = sel.Larg
		}
		if len(sel.GetValuesLists()) > 0 {
			return columnNumber(0), true
		}
		if len(sel.GetTargetList()) > 0 {
			return outputName(sel.TargetList[0].GetResTarget()), true
		}
	}
	return "", false
}

// lastName is the last name of a list.
func lastName(nodes []*pg.Node) string {
	names := nameList(nodes)
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}
