package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// nowCall returns the node that replaces a call of now() or its relatives, or nil for any other
// node. Their value is the time at which the transaction began, which differs from shard to shard.
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
		// The tree has the value of the precision, not its position.
		ck.a.out.Exact = true
		t.Typmods = []*pg.Node{pg.MakeAConstIntNode(int64(f.Typmod), -1)}
	}
	return &pg.Node{Node: &pg.Node_TypeCast{TypeCast: &pg.TypeCast{Arg: nowMark(), TypeName: t, Location: -1}}}
}

// times replaces now() and its relatives by the time of the transaction, which is the one that the
// pieces have.
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

// nowName returns the name that PostgreSQL gives a column with such a call.
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

// tells reports whether a query, or a view in it, asks for the time of the transaction.
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
