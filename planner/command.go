package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/plan"
)

// Some commands are about a query: DECLARE, CREATE TABLE AS, SELECT INTO. If no
// single shard can answer the query, it is gathered as any other, and the command
// runs on the home shard over what is left of it.

// declareCursor returns the route of DECLARE: a cursor is where its query runs.
func (cm commands) declareCursor(n *pg.DeclareCursorStmt) plan.Route {
	r := cm.nested(n.Query, "DECLARE")
	if cm.a.refused() || cm.a.out.Gather() == nil {
		return r
	}
	around := proto.Clone(n).(*pg.DeclareCursorStmt)
	around.Query = restQuery()
	const scroll, noScroll = 0x0002, 0x0004 // CURSOR_OPT_SCROLL, CURSOR_OPT_NO_SCROLL
	if around.Options&(scroll|noScroll) == 0 && onlyForward(n.Query.GetSelectStmt()) {
		around.Options |= noScroll
	}
	cm.around(&pg.Node{Node: &pg.Node_DeclareCursorStmt{DeclareCursorStmt: around}}, n.Query, &plan.Command{})
	return cm.gathered(r)
}

// onlyForward reports whether no plan of a query can be read backward. PostgreSQL then makes the
// cursor forward-only unless the client says otherwise, while the remainder of the query on the
// home shard could be read backward. For other queries it depends on the plan, and nothing is
// changed.
func onlyForward(q *pg.SelectStmt) bool {
	switch {
	case q == nil:
		return false
	case len(q.LockingClause) > 0:
		return true
	case len(q.SortClause) > 0 || q.Op != pg.SetOperation_SETOP_NONE:
		return false
	}
	return len(q.GroupClause) > 0 || q.HavingClause != nil
}

// createTableAs returns the route of CREATE TABLE AS: a new table is on the home shard.
func (cm commands) createTableAs(n *pg.CreateTableAsStmt) plan.Route {
	cm.a.out.Writes = true
	if e := n.Query.GetExecuteStmt(); e != nil {
		cm.a.top().expressions(e.Params)
		return cm.onHome("CREATE TABLE AS")
	}
	if n.Objtype == pg.ObjectType_OBJECT_MATVIEW {
		return cm.a.objects().createMatView(n)
	}
	return cm.tableFrom(n)
}

// selectInto is another way to write CREATE TABLE AS.
func (cm commands) selectInto(n *pg.SelectStmt) plan.Route {
	cm.a.out.Writes = true
	n = proto.Clone(n).(*pg.SelectStmt)
	first := n
	for first.IntoClause == nil {
		first = first.Larg
	}
	into := first.IntoClause
	first.IntoClause = nil
	return cm.tableFrom(&pg.CreateTableAsStmt{Query: selectNode(n), Into: into, Objtype: pg.ObjectType_OBJECT_TABLE})
}

// intoOf returns the INTO clause of a query, or nil. With set operations the first query has it.
func intoOf(n *pg.SelectStmt) *pg.IntoClause {
	for ; n != nil; n = n.Larg {
		if n.IntoClause != nil {
			return n.IntoClause
		}
	}
	return nil
}

// tableFrom makes a table from a query.
func (cm commands) tableFrom(n *pg.CreateTableAsStmt) plan.Route {
	cm.a.notes = newNotes()
	cm.a.top().query(n.Query.GetSelectStmt())
	r := cm.a.decide()
	switch {
	case cm.a.refused():
		return plan.Refused
	case r != plan.Keyed && r != plan.Gathered, n.Into.SkipData:
		// The home shard has the definitions of all tables.
		cm.a.instances = nil
		return plan.Home
	}
	cm.a.gatherer().gather(n.Query, r)
	cm.a.instances = nil
	if cm.a.out.Gather() == nil {
		return cm.gathered(plan.Gathered)
	}
	around := proto.Clone(n).(*pg.CreateTableAsStmt)
	around.Query = restQuery()
	cm.around(&pg.Node{Node: &pg.Node_CreateTableAsStmt{CreateTableAsStmt: around}}, n.Query, &plan.Command{Keeps: true})
	return cm.gathered(plan.Gathered)
}

// gathered returns the route r, unless gathering has turned out to be impossible.
func (cm commands) gathered(r plan.Route) plan.Route {
	if r == plan.Gathered && cm.a.out.Gather() == nil {
		cm.a.out.Route, cm.a.out.Refusal = plan.Refused, cm.a.scattered
		return plan.Refused
	}
	return r
}

// around puts a command around a gathered query. The command has a restQuery in the place of the
// query.
func (cm commands) around(command, query *pg.Node, c *plan.Command) {
	cm.a.timed = false
	var err error
	if c.Text, err = cm.a.gatherer().render(command); err == nil {
		c.Query, err = cm.a.gatherer().render(query)
	}
	if err != nil {
		cm.a.out.Across, cm.a.scattered = nil, unwritable(err)
		return
	}
	for g := cm.a.out.Gather(); g != nil; g = g.Otherwise {
		g.Command = c
	}
}

// restQuery returns a node that stands for the query of a command.
func restQuery() *pg.Node {
	rest := &pg.RangeVar{Relname: restMark, Inh: true, Relpersistence: "p", Location: -1}
	return selectNode(&pg.SelectStmt{
		TargetList:  []*pg.Node{targetOf(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")},
		FromClause:  []*pg.Node{{Node: &pg.Node_RangeVar{RangeVar: rest}}},
		LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE,
	})
}
