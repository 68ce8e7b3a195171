package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// nowCall returns what stands for a call of now() or one of its family, whose
// value is the time at which the transaction began: on each shard that is
// another. It returns nil for everything else.
func (ck clock) nowCall(n *pg.Node) *pg.Node {
	if f := n.GetFuncCall(); f != nil {
		names := nameList(f.Funcname)
		name := names[len(names)-1]
		if name != "now" && name != "transaction_timestamp" || len(f.Args) > 0 || len(names) == 2 && names[0] != "pg_catalog" ||
			len(names) == 1 && len(ck.a.reach().userFunctions("", name)) > 0 {
			return nil
		}
		return nowMark()
	}
	f := n.GetSqlvalueFunction()
	if f == nil {
		return nil
	}
	as := ""
	switch f.Op {
	case pg.SQLValueFunctionOp_SVFOP_CURRENT_DATE:
		as = "date"
	case pg.SQLValueFunctionOp_SVFOP_CURRENT_TIME, pg.SQLValueFunctionOp_SVFOP_CURRENT_TIME_N:
		as = "timetz"
	case pg.SQLValueFunctionOp_SVFOP_CURRENT_TIMESTAMP, pg.SQLValueFunctionOp_SVFOP_CURRENT_TIMESTAMP_N:
		as = "timestamptz"
	case pg.SQLValueFunctionOp_SVFOP_LOCALTIME, pg.SQLValueFunctionOp_SVFOP_LOCALTIME_N:
		as = "time"
	case pg.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP, pg.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP_N:
		as = "timestamp"
	default:
		return nil
	}
	t := &pg.TypeName{Names: []*pg.Node{pg.MakeStrNode("pg_catalog"), pg.MakeStrNode(as)}, Typemod: -1, Location: -1}
	if f.Typmod >= 0 {
		// The tree has the precision by value, not where it stands.
		ck.a.out.Exact = true
		t.Typmods = []*pg.Node{pg.MakeAConstIntNode(int64(f.Typmod), -1)}
	}
	return &pg.Node{Node: &pg.Node_TypeCast{TypeCast: &pg.TypeCast{Arg: nowMark(), TypeName: t, Location: -1}}}
}

// times puts the time of the transaction in the place of now() and the like, so
// that it is the one that the pieces have.
func (ck clock) times(n *pg.Node) {
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.ResTarget:
			if m.Name == "" && ck.nowCall(m.Val) != nil {
				m.Name = nowName(m.Val)
			}
		case *pg.Node:
			if now := ck.nowCall(m); now != nil {
				m.Node = now.Node
				return false
			}
		}
		return true
	})
}

// nowName is what PostgreSQL calls a column with such a call.
func nowName(n *pg.Node) string {
	if n.GetFuncCall() != nil {
		return figureName(n)
	}
	switch n.GetSqlvalueFunction().GetOp() {
	case pg.SQLValueFunctionOp_SVFOP_CURRENT_DATE:
		return "current_date"
	case pg.SQLValueFunctionOp_SVFOP_CURRENT_TIME, pg.SQLValueFunctionOp_SVFOP_CURRENT_TIME_N:
		return "current_time"
	case pg.SQLValueFunctionOp_SVFOP_LOCALTIME, pg.SQLValueFunctionOp_SVFOP_LOCALTIME_N:
		return "localtime"
	case pg.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP, pg.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP_N:
		return "localtimestamp"
	}
	return "current_timestamp"
}

// tells reports whether a query, or a view in it, asks for the time of the
// transaction.
func (ck clock) tells(n *pg.Node) bool {
	for _, v := range ck.a.notes.views {
		if ck.asksTime(v.query) {
			return true
		}
	}
	return ck.asksTime(n)
}

func (ck clock) asksTime(n *pg.Node) bool {
	found := false
	parser.Walk(n, func(m any) bool {
		if n, ok := m.(*pg.Node); ok && ck.nowCall(n) != nil {
			found = true
		}
		return !found
	})
	return found
}
