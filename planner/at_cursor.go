package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
)

// WHERE CURRENT OF names a row by a cursor, which is on one shard. The session alone knows that
// shard; this file judges whether the rest of the statement may run there.

// currentOf returns the condition WHERE CURRENT OF of a statement, or nil.
func currentOf(stmt *pg.Node) *pg.CurrentOfExpr {
	if d := stmt.GetDeleteStmt(); d != nil {
		return d.WhereClause.GetCurrentOfExpr()
	}
	return stmt.GetUpdateStmt().GetWhereClause().GetCurrentOfExpr()
}

// atCursor judges a planned statement with WHERE CURRENT OF. original is the statement before
// planning.
func (wr writes) atCursor(original *pg.Node, types []uint32) {
	target, c := original.GetUpdateStmt().GetRelation(), setting(original.GetUpdateStmt().GetTargetList())
	if d := original.GetDeleteStmt(); d != nil {
		target, c = d.Relation, &changes{all: true}
	}
	rel := wr.a.commands().named(rangeVar(target))
	switch t := wr.a.declared(rel); {
	case t == nil:
		wr.a.out.AtCursor = wr.a.out.Route == plan.Home
	case t.Reference:
		wr.a.out.Refusal = nil
		wr.a.unsupported("Name the row by its primary key.", "WHERE CURRENT OF is not supported for reference table %q: a cursor is on one shard, and the row on all", t.Name)
	default:
		p := wr.planAtKey(original, t, types)
		looksUp := slices.ContainsFunc(rel.Lookups, func(l catalog.Lookup) bool { return c.any(l.Columns) || c.any(l.Uses) })
		wr.a.out.AtCursor = p != nil && !looksUp && !p.Strays && p.Generate == nil && len(p.Lots) == 0 && wr.a.reach().keyedByParams(p, t)
		if wr.a.out.AtCursor {
			return
		}
		wr.a.out.Refusal = nil
		if p != nil && p.Route == plan.Refused {
			wr.a.out.Route, wr.a.out.Refusal = plan.Refused, p.Refusal
			return
		}
		wr.a.unsupported("Name the row by its primary key.", "WHERE CURRENT OF is not supported here: the statement needs more than the shard of its cursor")
	}
}

// planAtKey plans a statement as if it named the shard key of the row by parameters, which come
// before the statement's own.
func (wr writes) planAtKey(stmt *pg.Node, t *table, types []uint32) *plan.Plan {
	stmt = proto.Clone(stmt).(*pg.Node)
	parser.Walk(stmt, func(m any) bool {
		if p, ok := m.(*pg.ParamRef); ok {
			p.Number += int32(len(t.keys))
		}
		return true
	})
	where, name := &pg.Node{}, ""
	if u := stmt.GetUpdateStmt(); u != nil {
		u.WhereClause, name = where, calledName(u.Relation)
	} else {
		d := stmt.GetDeleteStmt()
		d.WhereClause, name = where, calledName(d.Relation)
	}
	var keyTypes []uint32
	var all []*pg.Node
	for i, k := range t.keys {
		keyTypes = append(keyTypes, k.Type)
		column := pg.MakeColumnRefNode([]*pg.Node{pg.MakeStrNode(name), pg.MakeStrNode(k.Name)}, -1)
		param := &pg.Node{Node: &pg.Node_ParamRef{ParamRef: &pg.ParamRef{Number: int32(i + 1), Location: -1}}}
		all = append(all, pg.MakeAExprNode(pg.A_Expr_Kind_AEXPR_OP, []*pg.Node{pg.MakeStrNode("=")}, column, param, -1))
	}
	where.Node = pg.MakeBoolExprNode(pg.BoolExprType_AND_EXPR, all, -1).Node
	if len(all) == 1 {
		where.Node = all[0].Node
	}
	sql, err := parser.Deparse(stmt)
	var sc parser.Scanner
	if err != nil || !sc.Scan([]byte(sql), parser.Options{}) {
		return nil
	}
	env := *wr.a.env
	env.Options = parser.Options{}
	return makePlan(&env, sql, sc.Literals, slices.Concat(keyTypes, types), later)
}
