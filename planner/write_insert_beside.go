package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// An INSERT with a subquery in ON CONFLICT or RETURNING, of rows that are not on the shard of the
// inserted row, is carried out in steps, like a WITH that changes rows:
//
//	INSERT INTO t VALUES … ON CONFLICT (k) DO UPDATE SET n = (SELECT count(*) FROM o)
//
//	read first: o
//	step: VALUES …                                             once, on the home shard
//	then: INSERT INTO t SELECT * FROM <rows> ON CONFLICT …     each row on its shard, o lent to all

// asksBeside reports whether ON CONFLICT or RETURNING have subqueries.
func asksBeside(n *pg.InsertStmt) bool {
	return hasSublink(selectNode(besideQuery(n)))
}

// besideQuery returns a query with the expressions of ON CONFLICT and RETURNING.
func besideQuery(n *pg.InsertStmt) *pg.SelectStmt {
	sel := newSelect()
	sel.TargetList = append(sel.TargetList, n.OnConflictClause.GetTargetList()...)
	sel.TargetList = append(sel.TargetList, n.ReturningList...)
	sel.WhereClause = n.OnConflictClause.GetWhereClause()
	return sel
}

// besideInsertion is insertion for an INSERT with such subqueries.
func (wr writes) besideInsertion(n *pg.InsertStmt) (*analysis, *pgerr.Error) {
	b := wr.afresh()
	b.insert.stepped = true
	b.writes().notesOfWrite()
	b.top().modification().insert(n)
	b.decide()
	if b.refused() {
		return b, b.out.Refusal
	}
	stmt := &pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: n}}
	if refusal := lockedOnly(stmt, nil); refusal != nil {
		return b, refusal
	}
	if refusal := b.writes().unsureBeside(n); refusal != nil {
		return b, refusal
	}
	w, refusal := b.writes().withWrites(stmt)
	if refusal != nil {
		return b, refusal
	}
	b.out.Route, b.out.Across, b.out.Writes = plan.Gathered, w, true
	b.gatherer().holds()
	return b, nil
}

// unsureBeside refuses subqueries of ON CONFLICT and RETURNING that would have another answer on
// each shard.
func (wr writes) unsureBeside(n *pg.InsertStmt) (refusal *pgerr.Error) {
	parser.Walk(besideQuery(n), func(m any) bool {
		s, ok := m.(*pg.SubLink)
		if !ok || refusal != nil {
			return refusal == nil
		}
		parser.Walk(s.Subselect, func(m any) bool {
			if f, ok := m.(*pg.FuncCall); ok && wr.volatileCall(f) {
				refusal = cannot("Ask for the value first.", "volatile function %s in a subquery of ON CONFLICT or RETURNING is to be called once for all shards", lastName(f.Funcname))
			}
			return refusal == nil
		})
		return false
	})
	return refusal
}
