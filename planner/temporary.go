package planner

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/plan"
)

// Functions and types can be temporary too, if they are made in pg_temp. They
// belong to a session, and so to the home shard alone.

// readsTemporary reports whether a query may read a temporary relation: PostgreSQL makes a view of it temporary.
func (a *analysis) readsTemporary(query *pg.Node) bool {
	found := false
	parser.Walk(query, func(m any) bool {
		rv, ok := m.(*pg.RangeVar)
		found = found || ok && a.temporary(rv)
		return !found
	})
	return found
}

// makesTemporary reports whether a command makes or changes a temporary function or type.
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

// namesTemporary reports whether a command names a temporary function or type.
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

// temporaryObject returns the route of a command on a temporary object. A function sees one shard.
// Calls of temporary functions cannot be judged like those of others, so the body is judged when
// the function is made.
func (re reach) temporaryObject(n any) plan.Route {
	if re.a.env.Schema != nil && !re.a.env.Tables.Empty() {
		re.runsNow(n, false)
	}
	f, ok := n.(*pg.Node_CreateFunctionStmt)
	if !ok {
		return re.a.commands().refusedOr(plan.Home)
	}
	r, dynamic, changes := re.a.definitions().functionReads(f.CreateFunctionStmt)
	switch {
	case r.sharded != "":
		re.a.unsupported("Send its statements one by one.", "a temporary function that mentions sharded table %q would see one shard", r.sharded)
	case r.reference != "" && changes:
		re.a.unsupported("Send its statements one by one.", "a temporary function that may write reference table %q would change one copy of it", r.reference)
	case dynamic && !re.a.env.Tables.Empty():
		re.a.unsupported("Send its statements one by one.", "a temporary function runs SQL that cannot be looked into, and would see one shard")
	}
	if why := re.calledBy(f.CreateFunctionStmt); why != "" {
		re.a.unsupported("Send its statements one by one.", "what a temporary function calls %s", why)
	}
	return re.a.commands().refusedOr(plan.Home)
}

// calledBy returns what the functions, operators and types that the body of a new function names do
// beyond one shard, or "".
func (re reach) calledBy(n *pg.CreateFunctionStmt) string {
	if re.a.env.Schema == nil || re.a.env.Tables.Empty() {
		return ""
	}
	language := "sql"
	for _, o := range n.Options {
		if d := o.GetDefElem(); d.GetDefname() == "language" {
			language = strings.ToLower(d.GetArg().GetString_().GetSval())
		}
	}
	for _, o := range n.Options {
		if d := o.GetDefElem(); d.GetDefname() == "as" {
			for _, body := range nameList(d.Arg.GetList().GetItems()) {
				r := re.reached(re.a.commands().bodyReach(language, &pg.Node{Node: &pg.Node_CreateFunctionStmt{CreateFunctionStmt: n}}, body))
				r.home = "" // the function runs on the home shard
				if why := r.beyond(); why != "" {
					return why
				}
			}
		}
	}
	return ""
}
