package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// One row of VALUES is several if a function in it returns a set:
//
//	INSERT INTO t VALUES (generate_series(1, 3), 'x')    -- three rows
//
// PostgreSQL takes it for INSERT INTO t SELECT generate_series(1, 3), 'x', and so
// does the planner. (In a list of several rows such a function is an error.)

// setValues rewrites the INSERTs of a statement with one row of VALUES that is several.
func (wr writes) setValues(n *pg.Node) {
	var with *pg.WithClause
	switch v := n.GetNode().(type) {
	case *pg.Node_InsertStmt:
		with = v.InsertStmt.WithClause
		if wr.yieldsSet(v.InsertStmt) {
			wr.selectValues(v.InsertStmt)
		}
	case *pg.Node_SelectStmt:
		with = v.SelectStmt.WithClause
	case *pg.Node_UpdateStmt:
		with = v.UpdateStmt.WithClause
	case *pg.Node_DeleteStmt:
		with = v.DeleteStmt.WithClause
	case *pg.Node_MergeStmt:
		with = v.MergeStmt.WithClause
	}
	for _, c := range with.GetCtes() {
		wr.setValues(c.GetCommonTableExpr().GetCtequery())
	}
}

// yieldsSet reports whether an INSERT into a sharded table has one row of VALUES in which
// a function may return a set.
func (wr writes) yieldsSet(n *pg.InsertStmt) bool {
	sel := n.SelectStmt.GetSelectStmt()
	if sel == nil || len(sel.ValuesLists) != 1 || !plainValues(sel) || wr.a.env.Schema == nil || wr.a.temporary(n.Relation) {
		return false
	}
	found := false
	walkLevel(sel.ValuesLists[0], func(m any) {
		f, ok := m.(*pg.FuncCall)
		if !ok || found {
			return
		}
		found = wr.a.env.Schema.Builtin(lastName(f.Funcname)).SetReturning
		for _, u := range wr.a.env.Schema.Functions(lastName(f.Funcname)) {
			found = found || u.SetReturning
		}
	})
	if !found {
		return false
	}
	to := wr.writable(n.Relation)
	return to != nil && to.table != nil && !to.table.Reference
}

// selectValues makes the row of VALUES a target list. Columns that get their defaults are left out.
func (wr writes) selectValues(n *pg.InsertStmt) {
	sel := n.SelectStmt.GetSelectStmt()
	row := sel.ValuesLists[0].GetList().GetItems()
	cols := n.Cols
	if slices.ContainsFunc(row, func(v *pg.Node) bool { return v.GetSetToDefault() != nil }) {
		if len(cols) == 0 {
			for _, c := range wr.writable(n.Relation).shown.Columns {
				cols = append(cols, &pg.Node{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Name: c.Name, Location: -1}}})
			}
		}
		if len(cols) < len(row) {
			return // the server will say so
		}
		var given []*pg.Node
		for i, v := range row {
			if v.GetSetToDefault() == nil {
				given = append(given, cols[i])
			}
		}
		cols = given
	}
	for _, v := range row {
		if v.GetSetToDefault() == nil {
			sel.TargetList = append(sel.TargetList, targetNode(v, ""))
		}
	}
	sel.ValuesLists, n.Cols = nil, cols
}
