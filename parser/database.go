package parser

import pg_query "github.com/pganalyze/pg_query_go/v6"

// Databases returns the databases that the text's CREATE, DROP and ALTER DATABASE … RENAME name, and whether a DROP has FORCE.
func Databases(text string) (names []string, force bool) {
	tree, _, err := parse(text, Options{})
	if err != nil {
		return nil, false
	}
	for _, raw := range tree.Stmts {
		switch n := raw.Stmt.Node.(type) {
		case *pg_query.Node_CreatedbStmt:
			names = append(names, n.CreatedbStmt.Dbname)
		case *pg_query.Node_DropdbStmt:
			names = append(names, n.DropdbStmt.Dbname)
			for _, o := range n.DropdbStmt.Options {
				force = force || o.GetDefElem().GetDefname() == "force"
			}
		case *pg_query.Node_AlterDatabaseStmt:
			names = append(names, n.AlterDatabaseStmt.Dbname)
		case *pg_query.Node_RenameStmt:
			if n.RenameStmt.RenameType == pg_query.ObjectType_OBJECT_DATABASE {
				names = append(names, n.RenameStmt.Subname)
			}
		}
	}
	return names, force
}
