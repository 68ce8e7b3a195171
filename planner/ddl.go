package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
)

// relationReads says what reading a relation reads.
func (a *analysis) relationReads(rel *catalog.Relation) reads {
	switch t := a.declared(rel); {
	case t != nil && t.Reference:
		return reads{reference: t.Name}
	case t != nil:
		return reads{sharded: t.Name}
	case rel.Kind == catalog.View && !rel.System():
		return a.viewReads(rel)
	case rel.Kind == catalog.Table, rel.Kind == catalog.PartitionedTable, rel.Kind == catalog.MaterializedView, rel.Kind == catalog.ForeignTable:
		return reads{home: rel.Name.Name}
	}
	return reads{}
}

// ddl finds the route of a command on the schema.
func (a *analysis) ddl(n any) plan.Route {
	a.out.Writes = true
	if makesTemporary(n) {
		return a.temporaryObject(n)
	}
	a.eventTriggers(n)
	if a.evaluates(n); a.refused() {
		return plan.Refused
	}
	return a.ifThere(a.commandOn(n), n)
}

// commandOn finds the route of a command on what is not temporary.
func (a *analysis) commandOn(n any) plan.Route {
	switch n := n.(type) {
	case *pg.Node_AlterTableStmt:
		return a.alterTable(n.AlterTableStmt)
	case *pg.Node_IndexStmt:
		return a.createIndex(n.IndexStmt)
	case *pg.Node_DropStmt:
		return a.drop(n.DropStmt)
	case *pg.Node_RenameStmt:
		return a.rename(n.RenameStmt)
	case *pg.Node_AlterObjectSchemaStmt:
		return a.moveSchema(n.AlterObjectSchemaStmt)
	case *pg.Node_AlterOwnerStmt:
		return a.object(n.AlterOwnerStmt.ObjectType, n.AlterOwnerStmt.Object)
	case *pg.Node_CommentStmt:
		return a.object(n.CommentStmt.Objtype, n.CommentStmt.Object)
	case *pg.Node_SecLabelStmt:
		return a.object(n.SecLabelStmt.Objtype, n.SecLabelStmt.Object)
	case *pg.Node_GrantStmt:
		return a.grant(n.GrantStmt)
	case *pg.Node_CreateTrigStmt:
		return a.createTrigger(n.CreateTrigStmt)
	case *pg.Node_CreatePolicyStmt:
		p := n.CreatePolicyStmt
		a.newPolicy(p.Table, p.PolicyName, p.Qual, p.WithCheck)
		return a.refusedOr(a.across(rangeVar(p.Table)))
	case *pg.Node_AlterPolicyStmt:
		p := n.AlterPolicyStmt
		a.newPolicy(p.Table, p.PolicyName, p.Qual, p.WithCheck)
		return a.refusedOr(a.across(rangeVar(p.Table)))
	case *pg.Node_RuleStmt:
		return a.createRule(n.RuleStmt)
	case *pg.Node_CreateStatsStmt:
		return a.across(rangeVars(n.CreateStatsStmt.Relations)...)
	case *pg.Node_AlterStatsStmt:
		return a.statistics(n.AlterStatsStmt.Defnames)
	case *pg.Node_CreateStmt:
		return a.createTable(n.CreateStmt)
	case *pg.Node_CreateTableAsStmt:
		return a.createTableAs(n.CreateTableAsStmt)
	case *pg.Node_ViewStmt:
		return a.createView(n.ViewStmt)
	case *pg.Node_CreateFunctionStmt:
		return a.createFunction(n.CreateFunctionStmt)
	case *pg.Node_AlterFunctionStmt:
		return a.functionPlace(n.AlterFunctionStmt.Func)
	case *pg.Node_CreateSchemaStmt:
		return a.createSchema(n.CreateSchemaStmt)
	case *pg.Node_DropOwnedStmt:
		return a.dropOwned(n.DropOwnedStmt)
	case *pg.Node_CreateCastStmt:
		return a.createCast(n.CreateCastStmt)
	case *pg.Node_CreateRoleStmt:
		return a.role(n.CreateRoleStmt.Options)
	case *pg.Node_AlterRoleStmt:
		return a.role(n.AlterRoleStmt.Options)
	case *pg.Node_AlterRoleSetStmt, *pg.Node_GrantRoleStmt:
		return a.roles()
	case *pg.Node_DropRoleStmt:
		return a.dropRole(n.DropRoleStmt)
	case *pg.Node_AlterSystemStmt, *pg.Node_AlterTableMoveAllStmt:
		return a.alone(a.global())
	case *pg.Node_CreateSeqStmt:
		return a.createSequence(n.CreateSeqStmt)
	case *pg.Node_AlterSeqStmt:
		return a.alterSequence(n.AlterSeqStmt)
	case *pg.Node_AlterObjectDependsStmt:
		if n.AlterObjectDependsStmt.Relation != nil {
			return a.across(rangeVar(n.AlterObjectDependsStmt.Relation))
		}
		return a.object(n.AlterObjectDependsStmt.ObjectType, n.AlterObjectDependsStmt.Object)
	case *pg.Node_AlterDatabaseStmt:
		return a.database(n.AlterDatabaseStmt.Dbname)
	case *pg.Node_AlterDatabaseSetStmt:
		return a.database(n.AlterDatabaseSetStmt.Dbname)
	case *pg.Node_CreatePublicationStmt:
		return a.publication(n.CreatePublicationStmt.Pubobjects, n.CreatePublicationStmt.ForAllTables)
	case *pg.Node_AlterPublicationStmt:
		if n.AlterPublicationStmt.Action == pg.AlterPublicationAction_AP_DropObjects {
			return plan.Home
		}
		return a.publication(n.AlterPublicationStmt.Pubobjects, n.AlterPublicationStmt.ForAllTables)
	case *pg.Node_CreateSubscriptionStmt:
		return a.subscription()
	case *pg.Node_CompositeTypeStmt, *pg.Node_CreateEnumStmt, *pg.Node_CreateRangeStmt, *pg.Node_AlterEnumStmt,
		*pg.Node_CreateDomainStmt, *pg.Node_AlterDomainStmt, *pg.Node_DefineStmt,
		*pg.Node_CreateExtensionStmt, *pg.Node_AlterExtensionStmt, *pg.Node_AlterExtensionContentsStmt,
		*pg.Node_AlterDefaultPrivilegesStmt, *pg.Node_ReassignOwnedStmt,
		*pg.Node_CreateConversionStmt, *pg.Node_CreateOpClassStmt, *pg.Node_CreateOpFamilyStmt, *pg.Node_AlterOpFamilyStmt,
		*pg.Node_AlterOperatorStmt, *pg.Node_AlterTypeStmt, *pg.Node_AlterCollationStmt, *pg.Node_CreateTransformStmt,
		*pg.Node_CreatePlangStmt, *pg.Node_CreateAmStmt, *pg.Node_AlterTsdictionaryStmt, *pg.Node_AlterTsconfigurationStmt:
		return a.global()
	}
	return plan.Home
}

// role is the route of CREATE and ALTER ROLE.
func (a *analysis) role(options []*pg.Node) plan.Route {
	route := a.roles()
	if route == plan.Every && parser.GivesPassword(options) {
		a.change().Password = true
	}
	return route
}

// dropRole: one that was made in a block of a database without declared tables is on
// the home shard only.
func (a *analysis) dropRole(n *pg.DropRoleStmt) plan.Route {
	if r := a.roles(); r != plan.Every || n.MissingOk {
		return r
	}
	lenient := proto.Clone(n).(*pg.DropRoleStmt)
	lenient.MissingOk = true
	return a.elsewhere(&pg.Node{Node: &pg.Node_DropRoleStmt{DropRoleStmt: lenient}})
}

// roles is the route of a command on roles, which are not of one database.
func (a *analysis) roles() plan.Route {
	a.out.Writes = true
	if a.env.Tables.Empty() && !a.env.SharedRoles {
		return plan.Home
	}
	return plan.Every
}

// object is the route of a command on whatever object.
func (a *analysis) object(kind pg.ObjectType, n *pg.Node) plan.Route {
	if namesTemporary(n) {
		return plan.Home
	}
	drop := 0
	switch kind {
	case pg.ObjectType_OBJECT_TABLE, pg.ObjectType_OBJECT_INDEX, pg.ObjectType_OBJECT_VIEW, pg.ObjectType_OBJECT_MATVIEW,
		pg.ObjectType_OBJECT_FOREIGN_TABLE, pg.ObjectType_OBJECT_SEQUENCE:
	case pg.ObjectType_OBJECT_COLUMN, pg.ObjectType_OBJECT_TABCONSTRAINT, pg.ObjectType_OBJECT_TRIGGER,
		pg.ObjectType_OBJECT_POLICY, pg.ObjectType_OBJECT_RULE:
		drop = 1
	case pg.ObjectType_OBJECT_FUNCTION, pg.ObjectType_OBJECT_PROCEDURE, pg.ObjectType_OBJECT_ROUTINE:
		return a.functionPlace(n.GetObjectWithArgs())
	case pg.ObjectType_OBJECT_DATABASE:
		return a.database(n.GetString_().GetSval())
	case pg.ObjectType_OBJECT_PARAMETER_ACL:
		return a.roles()
	case pg.ObjectType_OBJECT_TABLESPACE, pg.ObjectType_OBJECT_LARGEOBJECT,
		pg.ObjectType_OBJECT_FDW, pg.ObjectType_OBJECT_FOREIGN_SERVER, pg.ObjectType_OBJECT_PUBLICATION,
		pg.ObjectType_OBJECT_SUBSCRIPTION, pg.ObjectType_OBJECT_EVENT_TRIGGER,
		pg.ObjectType_OBJECT_USER_MAPPING:
		return plan.Home
	case pg.ObjectType_OBJECT_STATISTIC_EXT:
		return a.statistics(n.GetList().GetItems())
	default:
		return a.global()
	}
	if x, ok := dotted(n, drop); ok {
		return a.across(x)
	}
	return plan.Home
}

// functionPlace: a function that mentions home tables is on the home shard.
func (a *analysis) functionPlace(f *pg.ObjectWithArgs) plan.Route {
	names := nameList(f.GetObjname())
	if len(names) == 0 {
		return a.global()
	}
	for _, arg := range f.GetObjargs() {
		if a.homeType(arg.GetTypeName()) != "" {
			return plan.Home
		}
	}
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	for _, f := range a.userFunctions(schema, names[len(names)-1]) {
		if a.reached(&catalog.Reach{Reads: f.Mentions}).home != "" {
			return plan.Home
		}
	}
	return a.global()
}

func (a *analysis) drop(n *pg.DropStmt) plan.Route {
	switch n.RemoveType {
	case pg.ObjectType_OBJECT_TABLE, pg.ObjectType_OBJECT_INDEX, pg.ObjectType_OBJECT_VIEW, pg.ObjectType_OBJECT_MATVIEW,
		pg.ObjectType_OBJECT_FOREIGN_TABLE, pg.ObjectType_OBJECT_SEQUENCE:
		return a.dropRelations(n)
	case pg.ObjectType_OBJECT_SCHEMA:
		for _, o := range n.Objects {
			for _, t := range a.allTables() {
				if t.Schema == o.GetString_().GetSval() && n.Behavior == pg.DropBehavior_DROP_CASCADE {
					a.change().Drops = append(a.change().Drops, plan.Name{Schema: t.Schema, Table: t.Name})
				}
			}
		}
		return a.global()
	}
	a.unplace(n)
	if isFunction(n.RemoveType) || n.RemoveType == pg.ObjectType_OBJECT_AGGREGATE {
		return a.dropFunctions(n)
	}
	return a.parted(n.Objects, func(o *pg.Node) plan.Route { return a.object(n.RemoveType, o) }, func(every []*pg.Node) *pg.Node {
		return dropOf(n, every)
	})
}

// dropOf is a DROP of fewer objects.
func dropOf(n *pg.DropStmt, objects []*pg.Node) *pg.Node {
	fewer := proto.Clone(n).(*pg.DropStmt)
	fewer.Objects = objects
	return &pg.Node{Node: &pg.Node_DropStmt{DropStmt: fewer}}
}

// parted is the route of a command on several objects, which may be in different
// places: the other shards run it for those that they have.
func (a *analysis) parted(objects []*pg.Node, where func(*pg.Node) plan.Route, only func([]*pg.Node) *pg.Node) plan.Route {
	var every []*pg.Node
	for _, o := range objects {
		switch r := where(o); {
		case a.refused():
			return plan.Refused
		case r == plan.Every:
			every = append(every, o)
		}
	}
	switch len(every) {
	case 0:
		return plan.Home
	case len(objects):
		return plan.Every
	}
	return a.elsewhere(only(every))
}

// elsewhere is the route of a command that the home shard runs as it is, and the
// others as another.
func (a *analysis) elsewhere(n *pg.Node) plan.Route {
	sql, err := parser.Deparse(n)
	if err != nil {
		a.unsupported("Use a command for each.", "one command cannot change what is on all shards and what is on the home shard alone")
		return plan.Refused
	}
	a.out.Exact = true
	a.change().Elsewhere = sql
	return plan.Every
}

// dropRelations: declarations go with their tables.
func (a *analysis) dropRelations(n *pg.DropStmt) plan.Route {
	r := a.parted(n.Objects, func(o *pg.Node) plan.Route {
		x, ok := dotted(o, 0)
		if !ok {
			return plan.Home
		}
		return a.across(x)
	}, func(every []*pg.Node) *pg.Node { return dropOf(n, every) })
	if r == plan.Home {
		return a.dropSequences(n)
	}
	if r != plan.Every {
		return r
	}
	for _, o := range n.Objects {
		x, _ := dotted(o, 0)
		rel := a.named(x)
		if rel == nil {
			continue
		}
		if t := a.env.Tables.find(rel.Name); t != nil {
			a.change().Drops = append(a.change().Drops, plan.Name{Schema: t.Schema, Table: t.Name})
		}
		if !a.dropsAbove(n, rel) {
			a.detached(rel, false)
		}
		if n.Concurrent {
			a.change().Again = &plan.Again{Kind: plan.DropsIndex, Name: nameOf(rel.Name), Table: nameOf(rel.OwnedBy)}
		}
	}
	if n.Concurrent {
		return a.alone(r)
	}
	return r
}

// dropsAbove reports whether a table goes whose partition that is.
func (a *analysis) dropsAbove(n *pg.DropStmt, part *catalog.Relation) bool {
	for r := part.Parent; r != nil; r = r.Parent {
		if slices.ContainsFunc(n.Objects, func(o *pg.Node) bool { x, _ := dotted(o, 0); return a.named(x) == r }) {
			return true
		}
	}
	return false
}

func nameOf(n catalog.Name) plan.Name { return plan.Name{Schema: n.Schema, Table: n.Name} }

// statistics: extended statistics are where their table is.
func (a *analysis) statistics(names []*pg.Node) plan.Route {
	list := nameList(names)
	if a.env.Schema == nil || len(list) == 0 {
		return plan.Home
	}
	schemas := a.text.path
	if len(list) > 1 {
		schemas = list[len(list)-2 : len(list)-1]
	}
	for _, s := range schemas {
		if of, ok := a.env.Schema.Statistics(catalog.Name{Schema: s, Name: list[len(list)-1]}); ok {
			return a.across(named{of.Schema, of.Name})
		}
	}
	return plan.Home
}

// createSchema: the other shards get the schema, the home shard also what is
// made in it.
func (a *analysis) createSchema(n *pg.CreateSchemaStmt) plan.Route {
	r := a.global()
	if len(n.SchemaElts) == 0 || r != plan.Every {
		return r
	}
	for _, e := range n.SchemaElts {
		switch e.GetNode().(type) {
		case *pg.Node_CreateStmt, *pg.Node_IndexStmt, *pg.Node_CreateSeqStmt:
		default:
			a.unsupported("Create the schema first, then what is in it.", "CREATE SCHEMA with views, triggers or grants in it is not supported here")
			return plan.Refused
		}
	}
	bare := proto.Clone(n).(*pg.CreateSchemaStmt)
	bare.SchemaElts = nil
	return a.elsewhere(&pg.Node{Node: &pg.Node_CreateSchemaStmt{CreateSchemaStmt: bare}})
}

// dropOwned: each shard drops what it has of those roles; declarations go with
// their tables.
func (a *analysis) dropOwned(n *pg.DropOwnedStmt) plan.Route {
	if a.env.Tables.Empty() {
		return plan.Home
	}
	for _, r := range n.Roles {
		role := r.GetRoleSpec()
		if role.GetRoletype() != pg.RoleSpecType_ROLESPEC_CSTRING {
			a.unsupported("Name the role.", "DROP OWNED BY CURRENT_USER is not supported while tables are declared")
			return plan.Refused
		}
		for _, t := range a.allTables() {
			if rel := a.env.Schema.Relation(t.name()); rel != nil && rel.Owner == role.Rolename {
				if t.state != "" {
					a.touched.waits = append(a.touched.waits, t.Name)
				}
				a.change().Drops = append(a.change().Drops, plan.Name{Schema: t.Schema, Table: t.Name})
			}
		}
	}
	return a.everywhere()
}

func (a *analysis) rename(n *pg.RenameStmt) plan.Route {
	switch n.RenameType {
	case pg.ObjectType_OBJECT_SCHEMA:
		for _, t := range a.allTables() {
			if t.Schema == n.Subname {
				a.renamed(t, n.Newname, t.Name)
			}
		}
		return a.global()
	case pg.ObjectType_OBJECT_ROLE:
		return a.roles()
	case pg.ObjectType_OBJECT_DATABASE:
		return a.database(n.Subname)
	case pg.ObjectType_OBJECT_TABLESPACE:
		return plan.Home
	}
	if n.Relation == nil {
		return a.object(n.RenameType, n.Object)
	}
	r := a.across(rangeVar(n.Relation))
	if r != plan.Every {
		return r
	}
	rel := a.named(rangeVar(n.Relation))
	t := a.env.Tables.find(rel.Name)
	if t == nil {
		if t = a.declared(rel); t != nil && n.RenameType == pg.ObjectType_OBJECT_COLUMN && (isKey(t, n.Subname) || routesBy(t, n.Subname)) {
			a.unsupported("Rename it in the partitioned table.", "%q is the shard key or the routed id of %q", n.Subname, t.Name)
			return plan.Refused
		}
		return r
	}
	switch n.RenameType {
	case pg.ObjectType_OBJECT_TABLE:
		a.renamed(t, t.Schema, n.Newname)
	case pg.ObjectType_OBJECT_TABCONSTRAINT:
		a.keepsIDs(t, n.Subname)
		return a.refusedOr(r)
	case pg.ObjectType_OBJECT_COLUMN:
		if isKey(t, n.Subname) || routesBy(t, n.Subname) {
			a.change().Columns = append(a.change().Columns, plan.ColumnRename{
				Table: plan.Name{Schema: t.Schema, Table: t.Name}, From: n.Subname, To: n.Newname,
			})
		}
	}
	return r
}

func (a *analysis) renamed(t *table, schema, name string) {
	a.change().Renames = append(a.change().Renames, plan.Rename{
		From: plan.Name{Schema: t.Schema, Table: t.Name}, To: plan.Name{Schema: schema, Table: name},
	})
}

func (a *analysis) moveSchema(n *pg.AlterObjectSchemaStmt) plan.Route {
	if n.Relation == nil {
		return a.object(n.ObjectType, n.Object)
	}
	r := a.across(rangeVar(n.Relation))
	if r == plan.Every {
		if t := a.env.Tables.find(a.named(rangeVar(n.Relation)).Name); t != nil {
			a.renamed(t, n.Newschema, t.Name)
		}
	}
	return r
}

func (a *analysis) grant(n *pg.GrantStmt) plan.Route {
	only := func(every []*pg.Node) *pg.Node {
		fewer := proto.Clone(n).(*pg.GrantStmt)
		fewer.Objects = every
		return &pg.Node{Node: &pg.Node_GrantStmt{GrantStmt: fewer}}
	}
	if n.Objtype != pg.ObjectType_OBJECT_TABLE && n.Objtype != pg.ObjectType_OBJECT_SEQUENCE || n.Targtype != pg.GrantTargetType_ACL_TARGET_OBJECT {
		switch n.Objtype {
		case pg.ObjectType_OBJECT_DATABASE:
			return a.databases(n.Objects)
		case pg.ObjectType_OBJECT_PARAMETER_ACL:
			return a.roles()
		case pg.ObjectType_OBJECT_TABLESPACE, pg.ObjectType_OBJECT_LARGEOBJECT,
			pg.ObjectType_OBJECT_FDW, pg.ObjectType_OBJECT_FOREIGN_SERVER:
			return plan.Home
		case pg.ObjectType_OBJECT_FUNCTION, pg.ObjectType_OBJECT_PROCEDURE, pg.ObjectType_OBJECT_ROUTINE:
			if n.Targtype == pg.GrantTargetType_ACL_TARGET_OBJECT {
				return a.parted(n.Objects, func(o *pg.Node) plan.Route {
					return a.functionPlace(o.GetObjectWithArgs())
				}, only)
			}
		}
		return a.global()
	}
	return a.parted(n.Objects, func(o *pg.Node) plan.Route { return a.across(rangeVar(o.GetRangeVar())) }, only)
}

// createRule is the route of CREATE RULE. What a rule does is done where the
// statement runs.
func (a *analysis) createRule(n *pg.RuleStmt) plan.Route {
	if t := a.declared(a.named(rangeVar(n.Relation))); t != nil {
		a.unsupported("A rule may send a statement's rows to another shard. Use a trigger.", "rules on declared table %q are not supported", t.Name)
		return plan.Refused
	}
	for _, act := range n.Actions {
		parser.Walk(act, func(m any) bool {
			rv, ok := m.(*pg.RangeVar)
			if !ok {
				return true
			}
			if rel := a.named(rangeVar(rv)); rel != nil {
				if r := a.relationReads(rel); r.sharded != "" || r.reference != "" {
					a.unsupported("Use statements of their own.", "a rule cannot touch %q, whose rows are on other shards", rv.Relname)
				}
			}
			return true
		})
	}
	return a.refusedOr(a.across(rangeVar(n.Relation)))
}

func (a *analysis) createTrigger(n *pg.CreateTrigStmt) plan.Route {
	r := a.across(rangeVar(n.Relation))
	if r != plan.Every {
		return r
	}
	names := nameList(n.Funcname)
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	rel := a.named(rangeVar(n.Relation))
	for _, f := range a.userFunctions(schema, names[len(names)-1]) {
		a.mayTrigger(rel.Name.Name, a.declared(rel), f)
	}
	return a.refusedOr(r)
}
