package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// Functions and types can be temporary too, if they are made in pg_temp. They
// belong to a session, and so to the home shard alone.

// makesTemporary reports whether a command makes or changes such an object.
func makesTemporary(n any) bool {
	switch n := n.(type) {
	case *pg.Node_CreateFunctionStmt:
		return temporaryName(n.CreateFunctionStmt.Funcname)
	case *pg.Node_AlterFunctionStmt:
		return temporaryName(n.AlterFunctionStmt.Func.GetObjname())
	case *pg.Node_CompositeTypeStmt:
		return isTemporary(n.CompositeTypeStmt.Typevar.GetSchemaname())
	case *pg.Node_CreateEnumStmt:
		return temporaryName(n.CreateEnumStmt.TypeName)
	case *pg.Node_AlterEnumStmt:
		return temporaryName(n.AlterEnumStmt.TypeName)
	case *pg.Node_CreateRangeStmt:
		return temporaryName(n.CreateRangeStmt.TypeName)
	case *pg.Node_CreateDomainStmt:
		return temporaryName(n.CreateDomainStmt.Domainname)
	case *pg.Node_AlterDomainStmt:
		return temporaryName(n.AlterDomainStmt.TypeName)
	case *pg.Node_DefineStmt:
		return temporaryName(n.DefineStmt.Defnames)
	}
	return false
}

// namesTemporary reports whether an object that a command names is one.
func namesTemporary(n *pg.Node) bool {
	switch {
	case n.GetObjectWithArgs() != nil:
		return temporaryName(n.GetObjectWithArgs().Objname)
	case n.GetTypeName() != nil:
		return temporaryName(n.GetTypeName().Names)
	}
	return temporaryName(n.GetList().GetItems())
}

func temporaryName(names []*pg.Node) bool {
	return len(names) > 1 && isTemporary(names[0].GetString_().GetSval())
}
