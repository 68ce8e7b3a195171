package parser

import (
	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// ddl takes every statement that changes the catalogs.
func (c *collector) ddl(n any) {
	c.add(DDL)
	switch n := n.(type) {
	case *pg_query.Node_CreateStmt:
		c.createTable(n.CreateStmt)
	case *pg_query.Node_CreateForeignTableStmt:
		c.createTable(n.CreateForeignTableStmt.BaseStmt)
	case *pg_query.Node_ViewStmt:
		c.created(n.ViewStmt.View)
		c.name(n.ViewStmt)
	case *pg_query.Node_CreateSeqStmt:
		c.created(n.CreateSeqStmt.Sequence)
		c.name(n.CreateSeqStmt)
	case *pg_query.Node_CompositeTypeStmt:
		c.created(n.CompositeTypeStmt.Typevar)
	case *pg_query.Node_CreateEnumStmt:
		c.createdNames(n.CreateEnumStmt.TypeName)
	case *pg_query.Node_CreateRangeStmt:
		c.createdNames(n.CreateRangeStmt.TypeName)
	case *pg_query.Node_CreateDomainStmt:
		c.createdNames(n.CreateDomainStmt.Domainname)
	case *pg_query.Node_CreateFunctionStmt:
		c.createdNames(n.CreateFunctionStmt.Funcname)
	case *pg_query.Node_DefineStmt:
		c.createdNames(n.DefineStmt.Defnames)
	case *pg_query.Node_CreateConversionStmt:
		c.createdNames(n.CreateConversionStmt.ConversionName)
	case *pg_query.Node_CreateOpClassStmt:
		c.createdNames(n.CreateOpClassStmt.Opclassname)
	case *pg_query.Node_CreateOpFamilyStmt:
		c.createdNames(n.CreateOpFamilyStmt.Opfamilyname)
	case *pg_query.Node_CreateStatsStmt:
		c.createdNames(n.CreateStatsStmt.Defnames)
	case *pg_query.Node_CreateSchemaStmt:
		for _, element := range n.CreateSchemaStmt.SchemaElts {
			c.statement(element)
		}

	case *pg_query.Node_AlterTableStmt:
		// Defaults of new columns and USING run for the rows that are there.
		c.run(n.AlterTableStmt)
		for _, cmd := range n.AlterTableStmt.Cmds {
			if cmd.GetAlterTableCmd().GetDef().GetPartitionCmd().GetConcurrent() {
				c.alone("ALTER TABLE ... DETACH CONCURRENTLY")
			}
		}
	case *pg_query.Node_IndexStmt:
		if n.IndexStmt.Concurrent {
			c.alone("CREATE INDEX CONCURRENTLY")
		}
		c.name(n.IndexStmt)
	case *pg_query.Node_DropStmt:
		if n.DropStmt.Concurrent {
			c.alone("DROP INDEX CONCURRENTLY")
		}

	case *pg_query.Node_CreatedbStmt:
		c.add(CreatesDatabase)
		c.alone("CREATE DATABASE")
	case *pg_query.Node_DropdbStmt:
		c.add(DropsDatabase)
		c.alone("DROP DATABASE")
	case *pg_query.Node_RenameStmt:
		switch n.RenameStmt.RenameType {
		case pg_query.ObjectType_OBJECT_DATABASE:
			c.add(CreatesDatabase | DropsDatabase)
		case pg_query.ObjectType_OBJECT_ROLE:
			c.add(Roles)
		}
		c.name(n.RenameStmt)
	case *pg_query.Node_CreateTableSpaceStmt:
		c.alone("CREATE TABLESPACE")
	case *pg_query.Node_DropTableSpaceStmt:
		c.alone("DROP TABLESPACE")
	case *pg_query.Node_CreateSubscriptionStmt, *pg_query.Node_AlterSubscriptionStmt, *pg_query.Node_DropSubscriptionStmt:
		c.add(NonTransactional) // with some options only

	case *pg_query.Node_AlterSeqStmt:
		c.name(n.AlterSeqStmt)
	case *pg_query.Node_CreateTrigStmt:
		c.name(n.CreateTrigStmt)
	case *pg_query.Node_RuleStmt:
		c.name(n.RuleStmt)
	case *pg_query.Node_CreatePolicyStmt:
		c.name(n.CreatePolicyStmt)
	case *pg_query.Node_AlterPolicyStmt:
		c.name(n.AlterPolicyStmt)
	case *pg_query.Node_GrantStmt:
		c.name(n.GrantStmt)
	case *pg_query.Node_AlterObjectSchemaStmt:
		c.name(n.AlterObjectSchemaStmt)
	case *pg_query.Node_AlterOwnerStmt:
		c.name(n.AlterOwnerStmt)
	}
}

func (c *collector) createTable(n *pg_query.CreateStmt) {
	c.created(n.GetRelation())
	c.name(n)
	c.run(n.GetPartbound()) // the bounds of a partition are computed at once
}

// createdNames notes an object that is named by a list.
func (c *collector) createdNames(names []*pg_query.Node) {
	if len(names) > 1 && isTempSchema(names[0].GetString_().GetSval()) {
		c.add(Temp)
	}
}

func (c *collector) createTableAs(n *pg_query.CreateTableAsStmt, runs bool) {
	if e := n.Query.GetExecuteStmt(); e != nil {
		c.execute(e, runs, c.executeName(true))
	}
	if !runs {
		c.name(n)
		return
	}
	c.add(DDL | Writes)
	c.created(n.Into.GetRel())
	c.name(n.Into)
	c.run(n.Query)
}

func (c *collector) reindex(n *pg_query.ReindexStmt) {
	switch n.Kind {
	case pg_query.ReindexObjectType_REINDEX_OBJECT_SCHEMA:
		c.alone("REINDEX SCHEMA")
	case pg_query.ReindexObjectType_REINDEX_OBJECT_SYSTEM:
		c.alone("REINDEX SYSTEM")
	case pg_query.ReindexObjectType_REINDEX_OBJECT_DATABASE:
		c.alone("REINDEX DATABASE")
	}
	if option(n.Params, "concurrently") {
		c.alone("REINDEX CONCURRENTLY")
	}
	c.name(n)
}
