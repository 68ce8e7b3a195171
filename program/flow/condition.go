package flow

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// ops are the values of TG_OP.
var ops = map[string]Events{"INSERT": Insert, "UPDATE": Update, "DELETE": Delete, "TRUNCATE": Truncate}

// condition returns the events in which a condition can hold, and those in which it can fail to hold.
func (r *reader) condition(n *pg.Node, p *place) (yes, no Events) {
	if r.opSet {
		return all, all
	}
	switch e := n.GetNode().(type) {
	case *pg.Node_BoolExpr:
		return r.boolean(e.BoolExpr, p)
	case *pg.Node_AExpr:
		if !r.isOp(e.AExpr.Lexpr, p) {
			return all, all
		}
		name := e.AExpr.Name[0].GetString_().GetSval()
		switch e.AExpr.Kind {
		case pg.A_Expr_Kind_AEXPR_OP:
			if at, ok := opOf(e.AExpr.Rexpr); ok && name == "=" {
				return at, all &^ at
			} else if ok && name == "<>" {
				return all &^ at, at
			}
		case pg.A_Expr_Kind_AEXPR_IN:
			at := Events(0)
			for _, x := range e.AExpr.Rexpr.GetList().GetItems() {
				one, ok := opOf(x)
				if !ok {
					return all, all
				}
				at |= one
			}
			if name == "=" {
				return at, all &^ at
			}
			return all &^ at, at
		}
	}
	return all, all
}

func (r *reader) boolean(b *pg.BoolExpr, p *place) (yes, no Events) {
	switch b.Boolop {
	case pg.BoolExprType_NOT_EXPR:
		yes, no = r.condition(b.Args[0], p)
		return no, yes
	case pg.BoolExprType_AND_EXPR:
		yes, no = all, 0
		for _, a := range b.Args {
			y, n := r.condition(a, p)
			yes, no = yes&y, no|n
		}
		return yes, no
	case pg.BoolExprType_OR_EXPR:
		yes, no = 0, all
		for _, a := range b.Args {
			y, n := r.condition(a, p)
			yes, no = yes|y, no&n
		}
		return yes, no
	}
	return all, all
}

// isOp reports whether an expression is TG_OP.
func (r *reader) isOp(n *pg.Node, p *place) bool {
	for n.GetTypeCast() != nil && family(typeText(n.GetTypeCast().TypeName)) == "text" {
		n = n.GetTypeCast().Arg
	}
	list := stringsOf(n.GetColumnRef().GetFields())
	if len(list) == 0 {
		return false
	}
	v, used := p.find(list)
	return used == len(list) && v != nil && (v == r.op || r.tested[v])
}

// opOf returns the event that a constant names. A constant that is no name of an event is never equal to TG_OP.
func opOf(n *pg.Node) (Events, bool) {
	s := n.GetAConst().GetSval()
	if s == nil {
		return 0, false
	}
	return ops[s.Sval], true
}
