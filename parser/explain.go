package parser

import (
	pg_query "github.com/pganalyze/pg_query_go/v6"
)

func (c *collector) explain(n *pg_query.ExplainStmt) {
	runs := option(n.Options, "analyze")
	switch q := n.Query.GetNode().(type) {
	case *pg_query.Node_ExecuteStmt:
		c.execute(q.ExecuteStmt, runs, c.executeName(false))
	case *pg_query.Node_CreateTableAsStmt:
		c.createTableAs(q.CreateTableAsStmt, runs)
	default:
		if runs {
			c.statement(n.Query)
		} else {
			c.name(n.Query)
		}
	}
}
