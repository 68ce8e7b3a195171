package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/plan"
)

// A command around a query that is gathered is run in its place: it reads the
// same rows. What it makes (a table, a cursor) is on the home shard.

// wrote notes the tree that the remainder of a Gather was written from.
func (a *analysis) wrote(g *plan.Gather, tree *pg.Node) {
	if a.trees == nil {
		a.trees = map[*plan.Gather]*pg.Node{}
	}
	a.trees[g] = tree
}

// around makes the query that is gathered a part of a command.
func (a *analysis) around(command func(query *pg.Node) *pg.Node) {
	if a.out.Gather == nil {
		return
	}
	for g := a.out.Gather; g != nil; g = g.Otherwise {
		text, err := a.render(command(a.trees[g]))
		if err != nil {
			a.out.Gather, a.scattered = nil, unwritable(err)
			return
		}
		g.Remainder, g.Native, g.Own = text, nil, true
	}
	a.holds()
}

// declareCursor is the route of DECLARE CURSOR.
func (a *analysis) declareCursor(n *pg.DeclareCursorStmt) plan.Route {
	r := a.nested(n.Query, "DECLARE")
	a.around(func(query *pg.Node) *pg.Node {
		out := proto.Clone(n).(*pg.DeclareCursorStmt)
		out.Query = query
		return &pg.Node{Node: &pg.Node_DeclareCursorStmt{DeclareCursorStmt: out}}
	})
	return r
}

// copyQuery is the route of COPY (SELECT …) TO.
func (a *analysis) copyQuery(n *pg.CopyStmt) plan.Route {
	r := a.nested(n.Query, "COPY")
	a.around(func(query *pg.Node) *pg.Node {
		out := proto.Clone(n).(*pg.CopyStmt)
		out.Query = query
		return &pg.Node{Node: &pg.Node_CopyStmt{CopyStmt: out}}
	})
	if a.out.Gather != nil {
		a.out.Gather.Bare = true
	}
	return r
}

// copyTable is the route of COPY of a sharded table TO: that of its rows.
func (a *analysis) copyTable(n *pg.CopyStmt) plan.Route {
	rel := a.named(rangeVar(n.Relation))
	if rel.Kind == catalog.PartitionedTable {
		return plan.Home // which refuses it
	}
	sel := &pg.SelectStmt{
		FromClause:  []*pg.Node{{Node: &pg.Node_RangeVar{RangeVar: n.Relation}}},
		LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE,
	}
	n.Relation.Inh = false
	for _, name := range nameList(n.Attlist) {
		sel.TargetList = append(sel.TargetList, targetOf(nameNode(name), ""))
	}
	if len(sel.TargetList) == 0 {
		for i := range rel.Columns {
			if c := &rel.Columns[i]; !c.Generated {
				sel.TargetList = append(sel.TargetList, targetOf(nameNode(c.Name), ""))
			}
		}
	}
	query := proto.Clone(n).(*pg.CopyStmt)
	query.Relation, query.Attlist, query.Query = nil, nil, selectOf(sel)
	return a.copyQuery(query)
}

// tableAs is the route of a table that is made from a query.
func (a *analysis) tableAs(n *pg.CreateTableAsStmt) plan.Route {
	a.notes = newNotes()
	a.top().query(n.Query.GetSelectStmt())
	r := a.decide()
	a.out.Writes = true
	switch {
	case a.refused():
		return plan.Refused
	case r != plan.Keyed && r != plan.Gathered:
		return plan.Home
	case n.Objtype == pg.ObjectType_OBJECT_MATVIEW:
		a.unsupported("Make a table: CREATE TABLE … AS.", "a materialized view of sharded table %q is not supported: it could not be refreshed", a.touched.sharded[0])
		return plan.Refused
	}
	a.gather(n.Query, r)
	a.around(func(query *pg.Node) *pg.Node {
		out := proto.Clone(n).(*pg.CreateTableAsStmt)
		out.Query = query
		return &pg.Node{Node: &pg.Node_CreateTableAsStmt{CreateTableAsStmt: out}}
	})
	if a.out.Gather == nil {
		a.out.Route, a.out.Refusal = plan.Refused, a.scattered
		return plan.Refused
	}
	return plan.Gathered
}

// selectInto is CREATE TABLE AS in another spelling.
func (a *analysis) selectInto(n *pg.SelectStmt) plan.Route {
	query := proto.Clone(n).(*pg.SelectStmt)
	into := query.IntoClause
	query.IntoClause = nil
	return a.tableAs(&pg.CreateTableAsStmt{Query: selectOf(query), Into: into, Objtype: pg.ObjectType_OBJECT_TABLE})
}
