package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/plan"
)

// changed finds the route of a statement that changes rows, and plans what is done
// if it visits several shards.
func (a *analysis) changed(stmt *pg.Node) plan.Route {
	notes := a.notes
	a.notes = nil // what is on the home shard cannot be brought together with it
	r := a.sized(nil, a.decide())
	a.notes = notes
	if a.refused() || r != plan.Keyed || len(a.client.tree.Statements) != 1 || a.certain() {
		return r
	}
	if a.scattered = a.gatherable(); a.scattered != nil {
		return r
	}
	if w := a.pushed(stmt); w != nil {
		a.out.Write = w
		a.holds()
	}
	return r
}

// pushed returns the write of a statement that runs as it is inside each shard,
// over that shard's rows. It does if the query does that yields the rows it
// changes, what they become and what is returned of them.
func (a *analysis) pushed(stmt *pg.Node) *plan.Write {
	sel, w := changedRows(stmt)
	if sel == nil {
		return nil
	}
	for _, x := range a.instances {
		if x.stored {
			return nil // a key changes
		}
	}
	b, _ := a.local(sel)
	if b == nil {
		return nil
	}
	w.Instances = b.instances
	var err error
	a.timed = a.tells(stmt)
	if w.Text, err = a.render(stmt); err != nil {
		return nil
	}
	return w
}

// changedRows returns the query that yields what UPDATE or DELETE looks at: the
// rows with their new values, and what is returned.
func changedRows(stmt *pg.Node) (*pg.SelectStmt, *plan.Write) {
	sel := newSelect()
	var w *plan.Write
	switch n := stmt.GetNode().(type) {
	case *pg.Node_UpdateStmt:
		u := n.UpdateStmt
		for _, t := range u.TargetList {
			v := t.GetResTarget().GetVal()
			if m := v.GetMultiAssignRef(); m != nil {
				if v = m.Source; m.Colno > 1 {
					continue
				}
			}
			if v.GetSetToDefault() != nil {
				continue
			}
			sel.TargetList = append(sel.TargetList, &pg.Node{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Val: v}}})
		}
		sel.TargetList = append(sel.TargetList, u.ReturningList...)
		sel.FromClause = append([]*pg.Node{rangeNode(u.Relation)}, u.FromClause...)
		sel.WhereClause, sel.WithClause = u.WhereClause, u.WithClause
		w = &plan.Write{Verb: "UPDATE", Returns: len(u.ReturningList) > 0}
	case *pg.Node_DeleteStmt:
		d := n.DeleteStmt
		sel.TargetList = append(sel.TargetList, d.ReturningList...)
		sel.FromClause = append([]*pg.Node{rangeNode(d.Relation)}, d.UsingClause...)
		sel.WhereClause, sel.WithClause = d.WhereClause, d.WithClause
		w = &plan.Write{Verb: "DELETE", Returns: len(d.ReturningList) > 0}
	default:
		return nil, nil
	}
	if len(sel.TargetList) == 0 {
		sel.TargetList = []*pg.Node{{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Val: pg.MakeAConstIntNode(1, -1)}}}}
	}
	return sel, w
}

func rangeNode(rv *pg.RangeVar) *pg.Node { return &pg.Node{Node: &pg.Node_RangeVar{RangeVar: rv}} }
