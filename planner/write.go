package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/pgerr"
	"weft/plan"
)

// notesOfWrite makes the notes of a statement that changes rows.
func (wr writes) notesOfWrite() {
	wr.a.notes = newNotes()
	wr.a.notes.writes = true
}

// changed plans what to do if a statement that changes rows visits several shards, and returns its
// route.
func (wr writes) changed(stmt *pg.Node) plan.Route {
	if len(wr.a.copies) > 0 {
		return wr.replicated(stmt)
	}
	r := wr.a.gatherer().sized(nil, wr.a.decide())
	if wr.a.drawn && r == plan.Keyed && !wr.a.refused() {
		r = plan.Gathered
	}
	if wr.a.refused() || r != plan.Keyed && r != plan.Gathered || r == plan.Keyed && wr.a.gatherer().certain() {
		return r
	}
	w, refusal := wr.writeOf(stmt)
	switch {
	case refusal == nil:
		wr.a.out.Across = w
		wr.a.gatherer().holds()
	case r == plan.Gathered:
		wr.a.out.Route, wr.a.out.Refusal = plan.Refused, refusal
		return plan.Refused
	default:
		wr.a.scattered = refusal
	}
	return r
}

// writeOf returns how to carry out a statement that changes rows of one table.
func (wr writes) writeOf(stmt *pg.Node) (*plan.Write, *pgerr.Error) {
	if refusal := wr.a.gatherer().gatherable(); refusal != nil {
		return nil, refusal
	}
	if !wr.isStatement(stmt) {
		return nil, cannot("Send it as a statement of its own.", "a statement that changes rows on several shards cannot be part of a command")
	}
	c := wr.changing(stmt)
	if c == nil {
		return nil, cannot("Add a condition on the shard key.", "this statement changes rows on several shards")
	}
	wr.a.timed = wr.a.clock().tells(stmt)
	return c.write()
}

// isStatement reports whether a statement is the client's whole text, or what that explains or
// copies; not a part of another command.
func (wr writes) isStatement(stmt *pg.Node) bool {
	s := wr.a.client.tree.Statements[0].Stmt
	if e := s.GetExplainStmt(); e != nil {
		s = e.Query
	} else if c := s.GetCopyStmt(); c.GetQuery() != nil {
		s = c.Query
	}
	switch n := stmt.GetNode().(type) {
	case *pg.Node_UpdateStmt:
		return s.GetUpdateStmt() == n.UpdateStmt
	case *pg.Node_DeleteStmt:
		return s.GetDeleteStmt() == n.DeleteStmt
	case *pg.Node_MergeStmt:
		return s.GetMergeStmt() == n.MergeStmt
	case *pg.Node_InsertStmt:
		return s.GetInsertStmt() == n.InsertStmt
	case *pg.Node_SelectStmt:
		return s.GetSelectStmt() == n.SelectStmt
	}
	return false
}

// changing is an UPDATE or DELETE on its way to a plan.Write.
//
// Each shard runs the statement over its own rows of the target. Other tables that
// the statement reads stay in the text if their rows are on the same shard as these
// rows. All other tables are read before anything is written, on the shards that
// have them, and lent to all shards.
//
// A sharded table may stay if its key must equal the target's key. The proof is that
// of a local block (local.go) with the target as the anchor: the table's rows of other
// keys can be taken away without changing what happens to the target's rows with key
// K, and the table's rows of key K are on the same shard as these. The proof holds for
// each table by itself, because it uses only conditions of the text. A reference table
// may stay unless it is read by a query that is to be answered once for the whole
// statement, and whose rows depend on the order in which they are found.
type changing struct {
	a      *analysis
	stmt   *pg.Node
	target *pg.RangeVar
	table  *table // the target's declaration, nil if it is on the home shard alone
	// through describes the written target; nil if it is not known.
	through *writable
	verb    string
	// own are the expressions that are evaluated for each row: SET, WHERE and RETURNING.
	own, from []*pg.Node
	with      *pg.WithClause
	returning []*pg.Node
	// once are the subqueries that the home shard answers in advance: they name nothing of the
	// query around them, and may yield other rows each time.
	once []*pg.SelectStmt
	// locking are the subqueries that lock rows, and are answered before anything else.
	locking []*pg.SelectStmt
}

// changing returns the UPDATE or DELETE that a statement is, or nil.
func (wr writes) changing(stmt *pg.Node) *changing {
	c := &changing{a: wr.a, stmt: stmt}
	switch n := stmt.GetNode().(type) {
	case *pg.Node_UpdateStmt:
		u := n.UpdateStmt
		c.verb, c.target, c.from, c.with, c.returning = "UPDATE", u.Relation, u.FromClause, u.WithClause, u.ReturningList
		for _, t := range u.TargetList {
			c.own = append(c.own, assigned(t)...)
		}
		c.own = append(c.own, u.WhereClause)
	case *pg.Node_DeleteStmt:
		d := n.DeleteStmt
		c.verb, c.target, c.from, c.with, c.returning = "DELETE", d.Relation, d.UsingClause, d.WithClause, d.ReturningList
		c.own = append(c.own, d.WhereClause)
	case *pg.Node_MergeStmt:
		m := n.MergeStmt
		c.verb, c.target, c.from, c.with = "MERGE", m.Relation, []*pg.Node{m.SourceRelation}, m.WithClause
		c.own = append(c.own, m.JoinCondition)
		for _, e := range m.MergeWhenClauses {
			w := e.GetMergeWhenClause()
			c.own = append(append(c.own, w.Condition), w.Values...)
			if w.CommandType == pg.CmdType_CMD_UPDATE {
				for _, t := range w.TargetList {
					c.own = append(c.own, assigned(t)...)
				}
			}
		}
	default:
		return nil
	}
	for _, t := range c.returning {
		if v := t.GetResTarget().GetVal(); !isStar(v) {
			c.own = append(c.own, v)
		}
	}
	c.own = slices.DeleteFunc(c.own, func(n *pg.Node) bool { return n == nil || n.GetSetToDefault() != nil })
	if w := wr.writable(c.target); w != nil {
		c.table, c.through = w.table, w
	}
	return c
}

// assigned returns the expression of an item of SET: none for DEFAULT, and none for the further
// items of a row assignment.
func assigned(t *pg.Node) []*pg.Node {
	v := t.GetResTarget().GetVal()
	if m := v.GetMultiAssignRef(); m != nil {
		if v = m.Source; m.Colno > 1 {
			return nil
		}
	}
	if v == nil || v.GetSetToDefault() != nil {
		return nil
	}
	return []*pg.Node{v}
}

// rows returns the query for the rows that the statement looks at: a proof about that query is one
// about the statement.
func (c *changing) rows() *pg.SelectStmt {
	sel := newSelect()
	sel.WithClause = c.with
	sel.FromClause = append([]*pg.Node{rangeNode(c.target)}, c.from...)
	for _, n := range c.own {
		sel.TargetList = append(sel.TargetList, targetOf(n, ""))
	}
	if w := c.where(); w != nil {
		sel.WhereClause = w
		sel.TargetList = slices.DeleteFunc(sel.TargetList, func(n *pg.Node) bool { return n.GetResTarget().Val == w })
	}
	if len(sel.TargetList) == 0 {
		sel.TargetList = []*pg.Node{targetOf(constantTrue(), "")}
	}
	return sel
}

func (c *changing) where() *pg.Node {
	if u := c.stmt.GetUpdateStmt(); u != nil {
		return u.WhereClause
	}
	if m := c.stmt.GetMergeStmt(); m != nil {
		return m.JoinCondition
	}
	return c.stmt.GetDeleteStmt().GetWhereClause()
}

func rangeNode(rv *pg.RangeVar) *pg.Node { return &pg.Node{Node: &pg.Node_RangeVar{RangeVar: rv}} }

// write plans the statement.
func (c *changing) write() (*plan.Write, *pgerr.Error) {
	if c.a.drawn && c.stmt.GetUpdateStmt() != nil && c.table != nil {
		return c.drawnUpdateOf()
	}
	if refusal := c.ownDefaults(); refusal != nil {
		return nil, refusal
	}
	if m := c.stmt.GetMergeStmt(); m != nil && c.table != nil {
		switch {
		case c.moves():
			return nil, cannot("Change it in an UPDATE.", "MERGE cannot change the shard key of %q", c.target.Relname)
		case inserts(m):
			return c.mergeSplit()
		}
	}
	if c.moves() {
		return c.move()
	}
	s, refusal := c.cut()
	if refusal != nil {
		return nil, refusal
	}
	var rows []plan.Instance
	if c.table != nil {
		rows = []plan.Instance{s.r.solved(c.targetRows())}
	}
	s.before = append(s.before, changingStep(s.r.tree, c.verb, len(c.returning) > 0, rows, c.along()))
	return s.finish()
}

// cut takes out of the statement what does not stay in it. It returns the steps that come before
// it.
func (c *changing) cut() (s *steps, refusal *pgerr.Error) {
	if c.locking, refusal = c.a.writes().findLocking(c.stmt); refusal != nil {
		return nil, refusal
	}
	stays, refusal := c.staying()
	if refusal != nil {
		return nil, refusal
	}
	s = &steps{a: c.a, stmt: c.stmt, returned: map[string]int{}}
	if s.before, refusal = c.a.writes().lockSteps(c.locking); refusal != nil {
		return nil, refusal
	}
	if s.r, refusal = c.takeOutAll(stays); refusal != nil {
		return nil, refusal
	}
	s.answer(c.once)
	return s, nil
}

// ownDefaults writes out the defaults that tell the time where columns are set to them, and refuses
// other defaults that each shard would compute differently.
func (c *changing) ownDefaults() *pgerr.Error {
	if c.through == nil || c.table == nil {
		return nil
	}
	lists := [][]*pg.Node{c.stmt.GetUpdateStmt().GetTargetList()}
	for _, n := range c.stmt.GetMergeStmt().GetMergeWhenClauses() {
		if w := n.GetMergeWhenClause(); w.CommandType == pg.CmdType_CMD_UPDATE {
			lists = append(lists, w.TargetList)
		}
	}
	for _, t := range slices.Concat(lists...) {
		col := c.through.updated(t.GetResTarget().GetName())
		if v := setNode(t); col != nil && v.GetSetToDefault() != nil && drawsFrom(col) {
			return cannot("Give the value.", "column %q cannot be set to its default on several shards: each would have its own", col.Name)
		}
	}
	if c.a.clock().fillSets(slices.Concat(lists...), c.through) {
		c.a.timed = true
	}
	return nil
}

// setNode returns the node with the value of an item of SET.
func setNode(t *pg.Node) *pg.Node {
	v := t.GetResTarget().GetVal()
	if m := v.GetMultiAssignRef(); m != nil {
		if row := m.Source.GetRowExpr(); row != nil && int(m.Colno) <= len(row.Args) {
			return row.Args[m.Colno-1]
		}
	}
	return v
}

// targetRows returns the instance of the table that is written.
func (c *changing) targetRows() *instance {
	for _, x := range c.a.instances {
		if x.rv == c.target && !x.stored {
			return x
		}
	}
	return nil
}
