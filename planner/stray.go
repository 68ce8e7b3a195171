package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// A table with routed ids has a constraint that ids name the buckets of their rows. Ids that weft
// makes fulfil it. Ids that clients choose, and ids of rows whose key changes, may break it. weft
// carries out a statement with such ids itself, even on one shard: if the statement breaks the
// constraint, weft raises the limit from which ids are routed, and the statement runs again.

// strays reports whether a statement may store an id that weft did not make, or change the key of a
// row, in a table with routed ids.
func (wr writes) strays(stmt *pg.Node) bool {
	if wr.a.env.Tables == nil || !wr.a.env.Tables.routedIDs {
		return false
	}
	found := false
	parser.Walk(stmt, func(m any) bool {
		switch n := m.(type) {
		case *pg.InsertStmt:
			found = found || wr.insertStrays(n)
		case *pg.UpdateStmt:
			found = found || wr.setStrays(wr.routedTarget(n.Relation), n.TargetList)
		case *pg.MergeStmt:
			t := wr.routedTarget(n.Relation)
			for _, w := range n.MergeWhenClauses {
				c := w.GetMergeWhenClause()
				switch c.GetCommandType() {
				case pg.CmdType_CMD_UPDATE:
					found = found || wr.setStrays(t, c.TargetList)
				case pg.CmdType_CMD_INSERT:
					found = found || t != nil && (len(c.TargetList) == 0 || setting(c.TargetList).any([]string{t.IDs.Column}))
				}
			}
		}
		return !found
	})
	return found
}

// routedTarget returns the declaration of the written table, or nil if it has no routed ids.
func (wr writes) routedTarget(rv *pg.RangeVar) *table {
	if rv == nil || wr.a.temporary(rv) {
		return nil
	}
	if w := wr.writable(rv); w != nil && w.table != nil && w.table.IDs != nil {
		return w.table
	}
	return nil
}

// setStrays reports whether a SET list changes the id or the key.
func (wr writes) setStrays(t *table, list []*pg.Node) bool {
	if t == nil {
		return false
	}
	names := []string{t.IDs.Column}
	for _, k := range t.keys {
		names = append(names, k.Name)
	}
	return setting(list).any(names)
}

// insertStrays reports whether an INSERT gives ids itself.
func (wr writes) insertStrays(n *pg.InsertStmt) bool {
	t := wr.routedTarget(n.Relation)
	if t == nil {
		return false
	}
	if wr.setStrays(t, n.GetOnConflictClause().GetTargetList()) {
		return true
	}
	at := slices.Index(setting(n.Cols).columns, t.IDs.Column)
	if len(n.Cols) == 0 {
		rel := wr.writable(n.Relation).shown
		for i := range rel.Columns {
			if rel.Columns[i].Name == t.IDs.Column {
				at = i
			}
		}
	}
	if at < 0 {
		return false
	}
	sel := n.SelectStmt.GetSelectStmt()
	if sel == nil {
		return false // DEFAULT VALUES
	}
	if len(sel.ValuesLists) == 0 {
		return true
	}
	return slices.ContainsFunc(sel.ValuesLists, func(row *pg.Node) bool {
		items := row.GetList().GetItems()
		return at < len(items) && !made(items[at])
	})
}

// made reports whether weft makes a value.
func made(n *pg.Node) bool {
	if n.GetSetToDefault() != nil {
		return true
	}
	names := nameList(n.GetFuncCall().GetFuncname())
	return len(names) > 0 && names[len(names)-1] == "nextval"
}
