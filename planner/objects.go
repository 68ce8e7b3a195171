package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/plan"
	"weft/quote"
)

// This file plans commands on objects that belong to no table and are not types: databases,
// publications, subscriptions, event triggers; and functions, by the tables and types in them.

// database returns the route of a command on a database. All shards have the current database once
// tables are declared in it; what holds for other databases is known in those.
func (ob objects) database(name string) plan.Route {
	ob.a.out.Writes = true
	switch {
	case name == ob.a.env.Database || ob.a.env.Database == "" || name == currentDatabase:
		return ob.a.commands().global()
	case ob.a.env.Tables.Empty() && !ob.a.env.SharedRoles:
		return plan.Home
	}
	ob.a.unsupported("Connect to database "+name+" and send it there.", "database %q may be on all shards, which is not known in database %q", name, ob.a.env.Database)
	return plan.Refused
}

// currentDatabase stands for the current database in the text of an EXECUTE.
const currentDatabase = "weft current database"

// databases is the route of GRANT and REVOKE on databases.
func (ob objects) databases(list []*pg.Node) plan.Route {
	r := plan.Home
	for _, o := range list {
		if r = ob.database(o.GetString_().GetSval()); ob.a.refused() {
			return plan.Refused
		}
	}
	return r
}

// publication refuses to publish declared tables: a publication of the home shard
// would have the home shard's rows alone.
func (ob objects) publication(objects []*pg.Node, all bool) plan.Route {
	if ob.a.env.Tables.Empty() {
		return plan.Home
	}
	const hint = "Make the publication on each shard, past weft, and subscribe to each: a shard publishes its own rows."
	if all {
		ob.a.unsupported(hint, "a publication of all tables would have the home shard's rows alone")
	}
	for _, o := range objects {
		switch spec := o.GetPublicationObjSpec(); {
		case spec.GetPubtable() == nil:
			ob.a.unsupported(hint, "a publication of all tables of a schema would have the home shard's rows alone")
		default:
			if rel := ob.a.commands().named(rangeVar(spec.Pubtable.Relation)); ob.a.commands().placeOf(rel) == onEvery {
				ob.a.unsupported(hint, "a publication of declared table %q would have the home shard's rows alone", rel.Name.Name)
			}
		}
	}
	return ob.a.commands().refusedOr(plan.Home)
}

// subscription refuses subscriptions, which would write declared tables on the home shard.
func (ob objects) subscription() plan.Route {
	if !ob.a.env.Tables.Empty() {
		ob.a.unsupported("Let a client copy the rows, or subscribe on each shard, past weft, to rows that belong there.",
			"a subscription would write the home shard's part of declared tables alone")
	}
	return ob.a.commands().refusedOr(plan.Home)
}

// A function that names a home table is on the home shard alone as long as it does: the table may
// come and go, and the function may be replaced. So the home shard's catalog does not tell whether
// the other shards have a function, and commands on functions apply on a shard only if the shard
// has the function.

// dropFunctions returns the route of DROP FUNCTION: the other shards drop the functions that they
// have.
func (ob objects) dropFunctions(n *pg.DropStmt) plan.Route {
	ob.a.out.Writes = true
	if ob.a.env.Tables.Empty() || slices.ContainsFunc(n.Objects, namesTemporary) {
		return plan.Home
	}
	lenient := proto.Clone(n).(*pg.DropStmt)
	lenient.MissingOk = true
	return ob.a.definitions().elsewhere(&pg.Node{Node: &pg.Node_DropStmt{DropStmt: lenient}})
}

// ifThere lets the other shards skip a command on a function that they lack.
func (ob objects) ifThere(r plan.Route, n any) plan.Route {
	var of pg.ObjectType
	var node *pg.Node
	switch n := n.(type) {
	case *pg.Node_AlterFunctionStmt:
		of, node = pg.ObjectType_OBJECT_FUNCTION, &pg.Node{Node: n}
	case *pg.Node_RenameStmt:
		of, node = n.RenameStmt.RenameType, &pg.Node{Node: n}
	case *pg.Node_AlterObjectSchemaStmt:
		of, node = n.AlterObjectSchemaStmt.ObjectType, &pg.Node{Node: n}
	case *pg.Node_AlterOwnerStmt:
		of, node = n.AlterOwnerStmt.ObjectType, &pg.Node{Node: n}
	case *pg.Node_CommentStmt:
		of, node = n.CommentStmt.Objtype, &pg.Node{Node: n}
	case *pg.Node_AlterObjectDependsStmt:
		of, node = n.AlterObjectDependsStmt.ObjectType, &pg.Node{Node: n}
	case *pg.Node_GrantStmt:
		if g := n.GrantStmt; g.Targtype == pg.GrantTargetType_ACL_TARGET_OBJECT && len(g.Objects) == 1 {
			of, node = g.Objtype, &pg.Node{Node: n}
		}
	}
	if r != plan.Every || node == nil || !isFunction(of) || ob.a.commands().change().Elsewhere != "" {
		return r
	}
	if r = ob.a.definitions().elsewhere(node); r == plan.Every {
		ob.a.commands().change().Elsewhere = "DO " + quote.Literal("BEGIN "+ob.a.commands().change().Elsewhere+"; EXCEPTION WHEN undefined_function THEN NULL; END")
	}
	return r
}

func isFunction(of pg.ObjectType) bool {
	return of == pg.ObjectType_OBJECT_FUNCTION || of == pg.ObjectType_OBJECT_PROCEDURE || of == pg.ObjectType_OBJECT_ROUTINE
}

// replaced returns the route of CREATE OR REPLACE of a function that stays at home from now on. The
// other shards must not keep the function that it replaces.
func (ob objects) replaced(n *pg.CreateFunctionStmt) plan.Route {
	names := nameList(n.Funcname)
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	if !n.Replace || len(ob.a.reach().userFunctions(schema, names[len(names)-1])) == 0 {
		return plan.Home
	}
	old := &pg.ObjectWithArgs{Objname: n.Funcname}
	for _, p := range n.Parameters {
		switch p := p.GetFunctionParameter(); p.GetMode() {
		case pg.FunctionParameterMode_FUNC_PARAM_OUT, pg.FunctionParameterMode_FUNC_PARAM_TABLE:
		default:
			old.Objargs = append(old.Objargs, &pg.Node{Node: &pg.Node_TypeName{TypeName: p.GetArgType()}})
		}
	}
	return ob.a.definitions().elsewhere(&pg.Node{Node: &pg.Node_DropStmt{DropStmt: &pg.DropStmt{
		RemoveType: pg.ObjectType_OBJECT_ROUTINE, MissingOk: true, Behavior: pg.DropBehavior_DROP_RESTRICT,
		Objects: []*pg.Node{{Node: &pg.Node_ObjectWithArgs{ObjectWithArgs: old}}},
	}}})
}

// homeType returns a home table whose row type is among types, or "".
func (ob objects) homeType(types ...*pg.TypeName) string {
	for _, t := range types {
		names := nameList(t.GetNames())
		if len(names) == 0 || ob.a.env.Tables.Empty() {
			continue
		}
		schema := ""
		if len(names) > 1 {
			schema = names[len(names)-2]
		}
		rel := ob.a.find(schema, names[len(names)-1])
		if rel == nil || rel.System() || rel.Kind == catalog.Composite || rel.Kind == catalog.Index || rel.Kind == catalog.Sequence {
			continue
		}
		if ob.a.commands().placeOf(rel) == onHome {
			return rel.Name.Name
		}
	}
	return ""
}

// typesOf returns the types in the declaration of a new function.
func typesOf(n *pg.CreateFunctionStmt) []*pg.TypeName {
	types := []*pg.TypeName{n.ReturnType}
	for _, p := range n.Parameters {
		types = append(types, p.GetFunctionParameter().GetArgType())
	}
	return types
}

// declares returns a home table that a variable of a PL/pgSQL body is a row of, or "".
func (ob objects) declares(body string) string {
	low := strings.ToLower(body)
	for {
		from := strings.Index(low, "declare")
		if from < 0 {
			return ""
		}
		to := strings.Index(low[from:], "begin")
		if to < 0 {
			return ""
		}
		if r := ob.a.commands().bodyReads(body[from+len("declare") : from+to]); r.home != "" {
			return r.home
		}
		low, body = low[from+to:], body[from+to:]
	}
}
