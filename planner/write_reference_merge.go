package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/pgerr"
	"weft/plan"
	"weft/quote"
)

// merge plans a MERGE, which returns no rows, so that nothing can be carried or compared.
func (c *copier) merge(stmt *pg.Node, n *pg.MergeStmt) *plan.Write {
	if len(c.rel.Triggers) > 0 || len(n.ReturningList) > 0 {
		c.a.unsupported("Use INSERT … ON CONFLICT, UPDATE or DELETE.", "MERGE into reference table %q with triggers or RETURNING is not supported", c.rel.Name.Name)
		return nil
	}
	for _, w := range n.MergeWhenClauses {
		m := w.GetMergeWhenClause()
		if m.GetCommandType() == pg.CmdType_CMD_INSERT && c.draws(m.TargetList) {
			return asMerge(c.mergeDefaults(n))
		}
	}
	return asMerge(c.write("MERGE", stmt, nil, nil))
}

// asMerge says of a plan that it returns no rows.
func asMerge(w *plan.Write) *plan.Write {
	if w != nil {
		w.Returns = false
		w.Shape.(*plan.Copies).Compare = false
	}
	return w
}

// mergeDefaults plans a MERGE that inserts defaults which each copy would make for itself: the
// source is read once, with a value of each such default beside each row, whether the row is
// inserted or not.
func (c *copier) mergeDefaults(n *pg.MergeStmt) *plan.Write {
	refuse := func(hint, format string, args ...any) *plan.Write {
		c.a.unsupported(hint, format, args...)
		return nil
	}
	alias := sourceName(n.SourceRelation)
	if alias == "" {
		return refuse("Write it as a subquery with a name.", "the source of this MERGE has no name")
	}
	for _, e := range append(slices.Clone(n.MergeWhenClauses), n.JoinCondition) {
		if hasSublink(e) {
			return refuse("Put it into the source.", "a subquery in the conditions or actions of MERGE is not supported where defaults of reference table %q are inserted", c.rel.Name.Name)
		}
	}
	if refusal := c.a.gatherer().gatherable(); refusal != nil {
		c.a.out.Route, c.a.out.Refusal = plan.Refused, refusal
		return nil
	}
	main := proto.Clone(n).(*pg.MergeStmt)
	sel := newSelect()
	sel.WithClause, sel.FromClause = n.WithClause, []*pg.Node{n.SourceRelation}
	sel.TargetList = []*pg.Node{targetOf(pg.MakeColumnRefNode([]*pg.Node{pg.MakeStrNode(alias), pg.MakeAStarNode()}, -1), "")}
	for i := range c.rel.Columns {
		col := &c.rel.Columns[i]
		name := plan.DrawnName(len(sel.TargetList) - 1)
		if !c.variable(col) {
			continue
		}
		used := false
		for _, e := range main.MergeWhenClauses {
			if w := e.GetMergeWhenClause(); w.CommandType == pg.CmdType_CMD_INSERT {
				used = insertDrawn(c.rel, w, col, nameNode(alias, name)) || used
			}
		}
		switch {
		case !used:
		case drawsFrom(col):
			sel.TargetList = append(sel.TargetList, targetNode(sqlMark("nextval("+quote.Literal(col.Sequence.SQL())+"::pg_catalog.regclass)"), name))
		default:
			c.a.writes().withDefault(col, func(v *pg.Node) { sel.TargetList = append(sel.TargetList, targetNode(placeless(v), name)) })
		}
	}
	c.a.timed = c.a.clock().asksTime(&pg.Node{Node: &pg.Node_MergeStmt{MergeStmt: n}}) || c.a.clock().asksTime(selectNode(sel))
	s := &steps{a: c.a, stmt: &pg.Node{Node: &pg.Node_MergeStmt{MergeStmt: n}}, returned: map[string]int{}}
	var refusal *pgerr.Error
	if s.r, refusal = c.a.writes().takeOut(selectNode(sel), nil); refusal != nil {
		c.a.out.Route, c.a.out.Refusal = plan.Refused, refusal
		return nil
	}
	s.before = append(s.before, readingStep(s.r.tree))
	main.WithClause = nil
	main.SourceRelation = rangeNode(&pg.RangeVar{
		Relname: stepMark(0), Inh: true, Relpersistence: "p", Alias: &pg.Alias{Aliasname: alias}, Location: -1,
	})
	node := &pg.Node{Node: &pg.Node_MergeStmt{MergeStmt: main}}
	s.r.pinTargets(node)
	return c.finish("MERGE", &plan.Copies{Locks: c.locks()}, s, node)
}
