package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/parser"
	"weft/quote"
)

// databaseSize tells the size of a database: its files on all shards.
const databaseSize = "pg_database_size"

// askedDatabases reports whether the query asks for sizes of databases.
func (s *sizes) askedDatabases() bool { return s.anyDatabase || len(s.databases) > 0 }

// askDatabase notes a call, and the database that it names, if any.
func (s *sizes) askDatabase(f *pg.FuncCall) {
	if text := f.Args[0].GetAConst().GetSval(); text != nil && len(f.Args) == 1 {
		s.a.out.Exact = true
		if !slices.Contains(s.databases, text.Sval) {
			s.databases = append(s.databases, text.Sval)
		}
		return
	}
	s.anyDatabase = true
}

// databaseText returns the query for the shards. A database that the client may not look at has no
// size there, so that the home shard says so.
func (s *sizes) databaseText() string {
	text := "SELECT d.datname::pg_catalog.text AS name, CASE WHEN pg_catalog.has_database_privilege(d.oid, 'CONNECT') OR pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')" +
		" THEN pg_catalog.pg_database_size(d.oid) END AS size FROM pg_catalog.pg_database d"
	if s.anyDatabase {
		return text
	}
	var names []string
	for _, n := range s.databases {
		names = append(names, quote.Literal(n))
	}
	return text + " WHERE d.datname IN (" + strings.Join(names, ", ") + ")"
}

// databaseTotals returns a common table expression with the sizes of databases, by name and by their
// OIDs on the home shard.
func databaseTotals(piece int) *pg.Node {
	in := written(`SELECT weft.c1 AS weft_name, d.oid::pg_catalog.text AS weft_oid, pg_catalog.sum(weft.c2)::pg_catalog.int8 AS weft_size1
		FROM weft JOIN pg_catalog.pg_database d ON d.datname::pg_catalog.text OPERATOR(pg_catalog.=) weft.c1 GROUP BY weft.c1, d.oid`)
	in.FromClause[0].GetJoinExpr().Larg = inputNode(piece, 2, nil)
	return totals("weft_databases", in)
}

// databaseSum returns what stands for a call of pg_database_size, whose argument is a name or an OID.
func databaseSum(f *pg.FuncCall) *pg.Node {
	sub := written(`SELECT weft_size.weft_size1 FROM weft_databases weft_size WHERE CASE WHEN pg_catalog.pg_typeof(weft_arg)::pg_catalog.oid
		IN (20, 21, 23, 26) THEN weft_size.weft_oid ELSE weft_size.weft_name END OPERATOR(pg_catalog.=) weft_arg::pg_catalog.text`)
	parser.Walk(sub, func(m any) bool {
		n, is := m.(*pg.Node)
		if names := nameList(n.GetColumnRef().GetFields()); is && len(names) == 1 && names[0] == "weft_arg" {
			n.Node = proto.Clone(f.Args[0]).(*pg.Node).Node
			return false
		}
		return true
	})
	return orElse(sub, &pg.Node{Node: &pg.Node_FuncCall{FuncCall: f}})
}

// written returns a query of the planner's own, whose constants have no position in the client's
// text.
func written(sql string) *pg.SelectStmt {
	tree, err := parser.Parse(sql)
	if err != nil {
		panic(err) // the text is a constant
	}
	sel := tree.Stmts[0].Stmt.GetSelectStmt()
	parser.Walk(sel, func(m any) bool {
		if c, ok := m.(*pg.A_Const); ok {
			c.Location = -1
		}
		return true
	})
	return sel
}
