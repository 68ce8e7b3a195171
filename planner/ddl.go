package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
)

// relationReads returns what reading a relation reads.
func (df definitions) relationReads(rel *catalog.Relation) reads {
	switch t := df.a.declared(rel); {
	case t != nil && t.Reference:
		return reads{reference: t.Name}
	case t != nil:
		return reads{sharded: t.Name}
	case rel.Kind == catalog.View && !rel.System():
		return df.a.commands().viewReads(rel)
	case rel.Kind == catalog.Table, rel.Kind == catalog.PartitionedTable, rel.Kind == catalog.MaterializedView, rel.Kind == catalog.ForeignTable:
		return reads{home: rel.Name.Name}
	}
	return reads{}
}

// ddl returns the route of a DDL command.
func (df definitions) ddl(n any) plan.Route {
	df.a.out.Writes = true
	if makesTemporary(n) {
		return df.a.reach().temporaryObject(n)
	}
	df.a.reach().eventTriggers(n)
	if df.a.reach().evaluates(n); df.a.refused() {
		return plan.Refused
	}
	return df.a.objects().ifThere(df.commandOn(n), n)
}

// commandOn returns the route of a DDL command on an object that is not temporary.
func (df definitions) commandOn(n any) plan.Route {
	switch n := n.(type) {
	case *pg.Node_AlterTableStmt:
		return df.alterTable(n.AlterTableStmt)
	case *pg.Node_IndexStmt:
		return df.createIndex(n.IndexStmt)
	case *pg.Node_DropStmt:
		return df.drop(n.DropStmt)
	case *pg.Node_RenameStmt:
		return df.rename(n.RenameStmt)
	case *pg.Node_AlterObjectSchemaStmt:
		return df.moveSchema(n.AlterObjectSchemaStmt)
	case *pg.Node_AlterOwnerStmt:
		return df.object(n.AlterOwnerStmt.ObjectType, n.AlterOwnerStmt.Object)
	case *pg.Node_CommentStmt:
		return df.object(n.CommentStmt.Objtype, n.CommentStmt.Object)
	case *pg.Node_SecLabelStmt:
		return df.object(n.SecLabelStmt.Objtype, n.SecLabelStmt.Object)
	case *pg.Node_GrantStmt:
		return df.grant(n.GrantStmt)
	case *pg.Node_CreateTrigStmt:
		return df.createTrigger(n.CreateTrigStmt)
	case *pg.Node_CreatePolicyStmt:
		p := n.CreatePolicyStmt
		df.a.objects().newPolicy(p.Table, p.PolicyName, p.Qual, p.WithCheck)
		return df.a.commands().refusedOr(df.a.commands().across(rangeVar(p.Table)))
	case *pg.Node_AlterPolicyStmt:
		p := n.AlterPolicyStmt
		df.a.objects().newPolicy(p.Table, p.PolicyName, p.Qual, p.WithCheck)
		return df.a.commands().refusedOr(df.a.commands().across(rangeVar(p.Table)))
	case *pg.Node_RuleStmt:
		return df.createRule(n.RuleStmt)
	case *pg.Node_CreateStatsStmt:
		return df.a.commands().across(rangeVars(n.CreateStatsStmt.Relations)...)
	case *pg.Node_AlterStatsStmt:
		return df.statistics(n.AlterStatsStmt.Defnames)
	case *pg.Node_CreateStmt:
		return df.createTable(n.CreateStmt)
	case *pg.Node_CreateTableAsStmt:
		return df.a.commands().createTableAs(n.CreateTableAsStmt)
	case *pg.Node_ViewStmt:
		return df.createView(n.ViewStmt)
	case *pg.Node_CreateFunctionStmt:
		return df.createFunction(n.CreateFunctionStmt)
	case *pg.Node_AlterFunctionStmt:
		return df.functionPlace(n.AlterFunctionStmt.Func)
	case *pg.Node_CreateSchemaStmt:
		return df.createSchema(n.CreateSchemaStmt)
	case *pg.Node_DropOwnedStmt:
		return df.dropOwned(n.DropOwnedStmt)
	case *pg.Node_CreateCastStmt:
		return df.a.reach().createCast(n.CreateCastStmt)
	case *pg.Node_CreateRoleStmt:
		return df.role(n.CreateRoleStmt.Options)
	case *pg.Node_AlterRoleStmt:
		return df.role(n.AlterRoleStmt.Options)
	case *pg.Node_AlterRoleSetStmt, *pg.Node_GrantRoleStmt:
		return df.roles()
	case *pg.Node_DropRoleStmt:
		return df.dropRole(n.DropRoleStmt)
	case *pg.Node_AlterSystemStmt, *pg.Node_AlterTableMoveAllStmt:
		return df.a.commands().alone(df.a.commands().global())
	case *pg.Node_CreateSeqStmt:
		return df.a.objects().createSequence(n.CreateSeqStmt)
	case *pg.Node_AlterSeqStmt:
		return df.a.objects().alterSequence(n.AlterSeqStmt)
	case *pg.Node_AlterObjectDependsStmt:
		if n.AlterObjectDependsStmt.Relation != nil {
			return df.a.commands().across(rangeVar(n.AlterObjectDependsStmt.Relation))
		}
		return df.object(n.AlterObjectDependsStmt.ObjectType, n.AlterObjectDependsStmt.Object)
	case *pg.Node_AlterDatabaseStmt:
		return df.a.objects().database(n.AlterDatabaseStmt.Dbname)
	case *pg.Node_AlterDatabaseSetStmt:
		return df.a.objects().database(n.AlterDatabaseSetStmt.Dbname)
	case *pg.Node_CreatePublicationStmt:
		return df.a.objects().publication(n.CreatePublicationStmt.Pubobjects, n.CreatePublicationStmt.ForAllTables)
	case *pg.Node_AlterPublicationStmt:
		if n.AlterPublicationStmt.Action == pg.AlterPublicationAction_AP_DropObjects {
			return plan.Home
		}
		return df.a.objects().publication(n.AlterPublicationStmt.Pubobjects, n.AlterPublicationStmt.ForAllTables)
	case *pg.Node_CreateSubscriptionStmt:
		return df.a.objects().subscription()
	case *pg.Node_CompositeTypeStmt, *pg.Node_CreateEnumStmt, *pg.Node_CreateRangeStmt, *pg.Node_AlterEnumStmt,
		*pg.Node_CreateDomainStmt, *pg.Node_AlterDomainStmt, *pg.Node_DefineStmt,
		*pg.Node_CreateExtensionStmt, *pg.Node_AlterExtensionStmt, *pg.Node_AlterExtensionContentsStmt,
		*pg.Node_AlterDefaultPrivilegesStmt, *pg.Node_ReassignOwnedStmt,
		*pg.Node_CreateConversionStmt, *pg.Node_CreateOpClassStmt, *pg.Node_CreateOpFamilyStmt, *pg.Node_AlterOpFamilyStmt,
		*pg.Node_AlterOperatorStmt, *pg.Node_AlterTypeStmt, *pg.Node_AlterCollationStmt, *pg.Node_CreateTransformStmt,
		*pg.Node_CreatePlangStmt, *pg.Node_CreateAmStmt, *pg.Node_AlterTsdictionaryStmt, *pg.Node_AlterTsconfigurationStmt:
		return df.a.commands().global()
	}
	return plan.Home
}

// role is the route of CREATE and ALTER ROLE.
func (df definitions) role(options []*pg.Node) plan.Route {
	route := df.roles()
	if route == plan.Every && parser.GivesPassword(options) {
		df.a.commands().change().Password = true
	}
	return route
}

// dropRole returns the route of DROP ROLE. A role that was made in a block of a database without
// declared tables is on the home shard only.
func (df definitions) dropRole(n *pg.DropRoleStmt) plan.Route {
	if r := df.roles(); r != plan.Every || n.MissingOk {
		return r
	}
	lenient := proto.Clone(n).(*pg.DropRoleStmt)
	lenient.MissingOk = true
	return df.elsewhere(&pg.Node{Node: &pg.Node_DropRoleStmt{DropRoleStmt: lenient}})
}

// roles returns the route of a command on roles, which do not belong to one database.
func (df definitions) roles() plan.Route {
	df.a.out.Writes = true
	if df.a.env.Tables.Empty() && !df.a.env.SharedRoles {
		return plan.Home
	}
	return plan.Every
}

// object returns the route of a command on an object of any kind.
func (df definitions) object(kind pg.ObjectType, n *pg.Node) plan.Route {
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
		return df.functionPlace(n.GetObjectWithArgs())
	case pg.ObjectType_OBJECT_DATABASE:
		return df.a.objects().database(n.GetString_().GetSval())
	case pg.ObjectType_OBJECT_PARAMETER_ACL:
		return df.roles()
	case pg.ObjectType_OBJECT_TABLESPACE, pg.ObjectType_OBJECT_LARGEOBJECT,
		pg.ObjectType_OBJECT_FDW, pg.ObjectType_OBJECT_FOREIGN_SERVER, pg.ObjectType_OBJECT_PUBLICATION,
		pg.ObjectType_OBJECT_SUBSCRIPTION, pg.ObjectType_OBJECT_EVENT_TRIGGER,
		pg.ObjectType_OBJECT_USER_MAPPING:
		return plan.Home
	case pg.ObjectType_OBJECT_STATISTIC_EXT:
		return df.statistics(n.GetList().GetItems())
	default:
		return df.a.commands().global()
	}
	if x, ok := dotted(n, drop); ok {
		return df.a.commands().across(x)
	}
	return plan.Home
}

// functionPlace returns where a function is: one that mentions home tables is on the home shard.
func (df definitions) functionPlace(f *pg.ObjectWithArgs) plan.Route {
	names := nameList(f.GetObjname())
	if len(names) == 0 {
		return df.a.commands().global()
	}
	for _, arg := range f.GetObjargs() {
		if df.a.objects().homeType(arg.GetTypeName()) != "" {
			return plan.Home
		}
	}
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	for _, f := range df.a.reach().userFunctions(schema, names[len(names)-1]) {
		if df.a.reach().reached(&catalog.Reach{Reads: f.Mentions}).home != "" {
			return plan.Home
		}
	}
	return df.a.commands().global()
}

func (df definitions) drop(n *pg.DropStmt) plan.Route {
	switch n.RemoveType {
	case pg.ObjectType_OBJECT_TABLE, pg.ObjectType_OBJECT_INDEX, pg.ObjectType_OBJECT_VIEW, pg.ObjectType_OBJECT_MATVIEW,
		pg.ObjectType_OBJECT_FOREIGN_TABLE, pg.ObjectType_OBJECT_SEQUENCE:
		return df.dropRelations(n)
	case pg.ObjectType_OBJECT_SCHEMA:
		for _, o := range n.Objects {
			for _, t := range df.a.commands().allTables() {
				if t.Schema == o.GetString_().GetSval() && n.Behavior == pg.DropBehavior_DROP_CASCADE {
					df.a.commands().change().Drops = append(df.a.commands().change().Drops, plan.Name{Schema: t.Schema, Table: t.Name})
				}
			}
		}
		return df.a.commands().global()
	}
	df.a.commands().unplace(n)
	if isFunction(n.RemoveType) || n.RemoveType == pg.ObjectType_OBJECT_AGGREGATE {
		return df.a.objects().dropFunctions(n)
	}
	return df.parted(n.Objects, func(o *pg.Node) plan.Route { return df.object(n.RemoveType, o) }, func(every []*pg.Node) *pg.Node {
		return dropOf(n, every)
	})
}

// dropOf returns a DROP of some of the objects.
func dropOf(n *pg.DropStmt, objects []*pg.Node) *pg.Node {
	fewer := proto.Clone(n).(*pg.DropStmt)
	fewer.Objects = objects
	return &pg.Node{Node: &pg.Node_DropStmt{DropStmt: fewer}}
}

// parted returns the route of a command on several objects, which may be in different places: the
// other shards run it for the objects that they have.
func (df definitions) parted(objects []*pg.Node, where func(*pg.Node) plan.Route, only func([]*pg.Node) *pg.Node) plan.Route {
	var every []*pg.Node
	for _, o := range objects {
		switch r := where(o); {
		case df.a.refused():
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
	return df.elsewhere(only(every))
}

// elsewhere returns the route of a command that the home shard runs as written; the other shards
// run n.
func (df definitions) elsewhere(n *pg.Node) plan.Route {
	sql, err := parser.Deparse(n)
	if err != nil {
		df.a.unsupported("Use a command for each.", "one command cannot change what is on all shards and what is on the home shard alone")
		return plan.Refused
	}
	df.a.out.Exact = true
	df.a.commands().change().Elsewhere = sql
	return plan.Every
}

// dropRelations returns the route of DROP TABLE and the like: declarations go with their tables.
func (df definitions) dropRelations(n *pg.DropStmt) plan.Route {
	r := df.parted(n.Objects, func(o *pg.Node) plan.Route {
		x, ok := dotted(o, 0)
		if !ok {
			return plan.Home
		}
		return df.a.commands().across(x)
	}, func(every []*pg.Node) *pg.Node { return dropOf(n, every) })
	if r == plan.Home {
		return df.a.objects().dropSequences(n)
	}
	if r != plan.Every {
		return r
	}
	for _, o := range n.Objects {
		x, _ := dotted(o, 0)
		rel := df.a.commands().named(x)
		if rel == nil {
			continue
		}
		if t := df.a.env.Tables.find(rel.Name); t != nil {
			df.a.commands().change().Drops = append(df.a.commands().change().Drops, plan.Name{Schema: t.Schema, Table: t.Name})
		}
		if !df.dropsAbove(n, rel) {
			df.detached(rel, false)
		}
		if n.Concurrent {
			df.a.commands().change().Again = &plan.Again{Kind: plan.DropsIndex, Name: nameOf(rel.Name), Table: nameOf(rel.OwnedBy)}
		}
	}
	if n.Concurrent {
		return df.a.commands().alone(r)
	}
	return r
}

// dropsAbove reports whether n drops an ancestor of part.
func (df definitions) dropsAbove(n *pg.DropStmt, part *catalog.Relation) bool {
	for r := part.Parent; r != nil; r = r.Parent {
		if slices.ContainsFunc(n.Objects, func(o *pg.Node) bool { x, _ := dotted(o, 0); return df.a.commands().named(x) == r }) {
			return true
		}
	}
	return false
}

func nameOf(n catalog.Name) plan.Name { return plan.Name{Schema: n.Schema, Table: n.Name} }

// statistics returns the route of a command on extended statistics, which are where their table is.
func (df definitions) statistics(names []*pg.Node) plan.Route {
	list := nameList(names)
	if df.a.env.Schema == nil || len(list) == 0 {
		return plan.Home
	}
	schemas := df.a.text.path
	if len(list) > 1 {
		schemas = list[len(list)-2 : len(list)-1]
	}
	for _, s := range schemas {
		if of, ok := df.a.env.Schema.Statistics(catalog.Name{Schema: s, Name: list[len(list)-1]}); ok {
			return df.a.commands().across(named{of.Schema, of.Name})
		}
	}
	return plan.Home
}

// createSchema returns the route of CREATE SCHEMA: the other shards get the schema, and the home
// shard also the objects in it.
func (df definitions) createSchema(n *pg.CreateSchemaStmt) plan.Route {
	r := df.a.commands().global()
	if len(n.SchemaElts) == 0 || r != plan.Every {
		return r
	}
	for _, e := range n.SchemaElts {
		switch e.GetNode().(type) {
		case *pg.Node_CreateStmt, *pg.Node_IndexStmt, *pg.Node_CreateSeqStmt:
		default:
			df.a.unsupported("Create the schema first, then what is in it.", "CREATE SCHEMA with views, triggers or grants in it is not supported here")
			return plan.Refused
		}
	}
	bare := proto.Clone(n).(*pg.CreateSchemaStmt)
	bare.SchemaElts = nil
	return df.elsewhere(&pg.Node{Node: &pg.Node_CreateSchemaStmt{CreateSchemaStmt: bare}})
}

// dropOwned returns the route of DROP OWNED: each shard drops what it has of those roles, and
// declarations go with their tables.
func (df definitions) dropOwned(n *pg.DropOwnedStmt) plan.Route {
	if df.a.env.Tables.Empty() {
		return plan.Home
	}
	for _, r := range n.Roles {
		role := r.GetRoleSpec()
		if role.GetRoletype() != pg.RoleSpecType_ROLESPEC_CSTRING {
			df.a.unsupported("Name the role.", "DROP OWNED BY CURRENT_USER is not supported while tables are declared")
			return plan.Refused
		}
		for _, t := range df.a.commands().allTables() {
			if rel := df.a.env.Schema.Relation(t.name()); rel != nil && rel.Owner == role.Rolename {
				if t.state != "" {
					df.a.touched.waits = append(df.a.touched.waits, t.Name)
				}
				df.a.commands().change().Drops = append(df.a.commands().change().Drops, plan.Name{Schema: t.Schema, Table: t.Name})
			}
		}
	}
	return df.a.commands().everywhere()
}

func (df definitions) rename(n *pg.RenameStmt) plan.Route {
	switch n.RenameType {
	case pg.ObjectType_OBJECT_SCHEMA:
		for _, t := range df.a.commands().allTables() {
			if t.Schema == n.Subname {
				df.renamed(t, n.Newname, t.Name)
			}
		}
		return df.a.commands().global()
	case pg.ObjectType_OBJECT_ROLE:
		return df.roles()
	case pg.ObjectType_OBJECT_DATABASE:
		return df.a.objects().database(n.Subname)
	case pg.ObjectType_OBJECT_TABLESPACE:
		return plan.Home
	}
	if n.Relation == nil {
		return df.object(n.RenameType, n.Object)
	}
	r := df.a.commands().across(rangeVar(n.Relation))
	if r != plan.Every {
		return r
	}
	rel := df.a.commands().named(rangeVar(n.Relation))
	t := df.a.env.Tables.find(rel.Name)
	if t == nil {
		if t = df.a.declared(rel); t != nil && n.RenameType == pg.ObjectType_OBJECT_COLUMN && (isKey(t, n.Subname) || routesBy(t, n.Subname)) {
			df.a.unsupported("Rename it in the partitioned table.", "%q is the shard key or the routed id of %q", n.Subname, t.Name)
			return plan.Refused
		}
		return r
	}
	switch n.RenameType {
	case pg.ObjectType_OBJECT_TABLE:
		df.renamed(t, t.Schema, n.Newname)
	case pg.ObjectType_OBJECT_TABCONSTRAINT:
		df.keepsIDs(t, n.Subname)
		return df.a.commands().refusedOr(r)
	case pg.ObjectType_OBJECT_COLUMN:
		if isKey(t, n.Subname) || routesBy(t, n.Subname) {
			df.a.commands().change().Columns = append(df.a.commands().change().Columns, plan.ColumnRename{
				Table: plan.Name{Schema: t.Schema, Table: t.Name}, From: n.Subname, To: n.Newname,
			})
		}
	}
	return r
}

func (df definitions) renamed(t *table, schema, name string) {
	df.a.commands().change().Renames = append(df.a.commands().change().Renames, plan.Rename{
		From: plan.Name{Schema: t.Schema, Table: t.Name}, To: plan.Name{Schema: schema, Table: name},
	})
}

func (df definitions) moveSchema(n *pg.AlterObjectSchemaStmt) plan.Route {
	if n.Relation == nil {
		return df.object(n.ObjectType, n.Object)
	}
	r := df.a.commands().across(rangeVar(n.Relation))
	if r == plan.Every {
		if t := df.a.env.Tables.find(df.a.commands().named(rangeVar(n.Relation)).Name); t != nil {
			df.renamed(t, n.Newschema, t.Name)
		}
	}
	return r
}

func (df definitions) grant(n *pg.GrantStmt) plan.Route {
	only := func(every []*pg.Node) *pg.Node {
		fewer := proto.Clone(n).(*pg.GrantStmt)
		fewer.Objects = every
		return &pg.Node{Node: &pg.Node_GrantStmt{GrantStmt: fewer}}
	}
	if n.Objtype != pg.ObjectType_OBJECT_TABLE && n.Objtype != pg.ObjectType_OBJECT_SEQUENCE || n.Targtype != pg.GrantTargetType_ACL_TARGET_OBJECT {
		switch n.Objtype {
		case pg.ObjectType_OBJECT_DATABASE:
			return df.a.objects().databases(n.Objects)
		case pg.ObjectType_OBJECT_PARAMETER_ACL:
			return df.roles()
		case pg.ObjectType_OBJECT_TABLESPACE, pg.ObjectType_OBJECT_LARGEOBJECT,
			pg.ObjectType_OBJECT_FDW, pg.ObjectType_OBJECT_FOREIGN_SERVER:
			return plan.Home
		case pg.ObjectType_OBJECT_FUNCTION, pg.ObjectType_OBJECT_PROCEDURE, pg.ObjectType_OBJECT_ROUTINE:
			if n.Targtype == pg.GrantTargetType_ACL_TARGET_OBJECT {
				return df.parted(n.Objects, func(o *pg.Node) plan.Route {
					return df.functionPlace(o.GetObjectWithArgs())
				}, only)
			}
		}
		return df.a.commands().global()
	}
	return df.parted(n.Objects, func(o *pg.Node) plan.Route { return df.a.commands().across(rangeVar(o.GetRangeVar())) }, only)
}

// createRule returns the route of CREATE RULE. The actions of a rule run where the statement runs.
func (df definitions) createRule(n *pg.RuleStmt) plan.Route {
	if t := df.a.declared(df.a.commands().named(rangeVar(n.Relation))); t != nil {
		df.a.unsupported("A rule may send a statement's rows to another shard. Use a trigger.", "rules on declared table %q are not supported", t.Name)
		return plan.Refused
	}
	for _, act := range n.Actions {
		parser.Walk(act, func(m any) bool {
			rv, ok := m.(*pg.RangeVar)
			if !ok {
				return true
			}
			if rel := df.a.commands().named(rangeVar(rv)); rel != nil {
				if r := df.relationReads(rel); r.sharded != "" || r.reference != "" {
					df.a.unsupported("Use statements of their own.", "a rule cannot touch %q, whose rows are on other shards", rv.Relname)
				}
			}
			return true
		})
	}
	return df.a.commands().refusedOr(df.a.commands().across(rangeVar(n.Relation)))
}

func (df definitions) createTrigger(n *pg.CreateTrigStmt) plan.Route {
	r := df.a.commands().across(rangeVar(n.Relation))
	if r != plan.Every {
		return r
	}
	names := nameList(n.Funcname)
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	rel := df.a.commands().named(rangeVar(n.Relation))
	for _, f := range df.a.reach().userFunctions(schema, names[len(names)-1]) {
		df.a.reach().mayTrigger(rel, df.a.declared(rel), newTrigger(n), f)
	}
	return df.a.commands().refusedOr(r)
}

// newTrigger returns the trigger that a statement makes.
func newTrigger(n *pg.CreateTrigStmt) *catalog.Trigger {
	tr := &catalog.Trigger{Name: n.Trigname, EachRow: n.Row, Fires: catalog.Events(n.Events) & (catalog.OnInsert | catalog.OnUpdate | catalog.OnDelete | catalog.OnTruncate)}
	for _, a := range n.Args {
		tr.Args += a.GetString_().GetSval() + "\x00"
	}
	return tr
}
