package parser

import pg_query "github.com/pganalyze/pg_query_go/v6"

// Databases are the databases that a text's commands want to be unused.
type Databases struct {
	// Names are what CREATE, DROP and ALTER DATABASE name.
	Names []string
	// Templates are what CREATE DATABASE copies.
	Templates []string
	// Renamed are those that get another name.
	Renamed []string
	// Force says that a DROP ends the sessions in its database.
	Force bool
}

// DatabasesOf returns the databases of a text.
func DatabasesOf(text string) (d Databases) {
	tree, _, err := parse(text, Options{})
	if err != nil {
		return d
	}
	for _, raw := range tree.Stmts {
		switch n := raw.Stmt.Node.(type) {
		case *pg_query.Node_CreatedbStmt:
			d.Names = append(d.Names, n.CreatedbStmt.Dbname)
			d.Templates = append(d.Templates, template(n.CreatedbStmt))
		case *pg_query.Node_DropdbStmt:
			d.Names = append(d.Names, n.DropdbStmt.Dbname)
			for _, o := range n.DropdbStmt.Options {
				d.Force = d.Force || o.GetDefElem().GetDefname() == "force"
			}
		case *pg_query.Node_AlterDatabaseStmt:
			d.Names = append(d.Names, n.AlterDatabaseStmt.Dbname)
		case *pg_query.Node_RenameStmt:
			if n.RenameStmt.RenameType == pg_query.ObjectType_OBJECT_DATABASE {
				d.Names = append(d.Names, n.RenameStmt.Subname)
				d.Renamed = append(d.Renamed, n.RenameStmt.Subname)
			}
		}
	}
	return d
}

// template returns the database that a CREATE DATABASE copies.
func template(n *pg_query.CreatedbStmt) string {
	for _, o := range n.Options {
		if e := o.GetDefElem(); e.GetDefname() == "template" && e.GetArg() != nil { // nil: DEFAULT
			return e.GetArg().GetString_().GetSval()
		}
	}
	return "template1"
}
