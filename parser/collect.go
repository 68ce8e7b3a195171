package parser

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// collector gathers the facts of one text, statement by statement.
type collector struct {
	facts *Facts
	text  string // what pg_query parsed
	edits Edits  // how it came from the client's text

	start, end int // the statement at hand, in text
	tokens     []*pg_query.ScanToken
	seen       map[string]bool
	err        error
}

func (c *collector) add(e Effect) { c.facts.Effects |= e }

// alone notes a command that is refused in a transaction block under this name.
func (c *collector) alone(name string) {
	c.add(NonTransactional)
	c.facts.Alone = name
}

// once reports whether a key is new.
func (c *collector) once(key string) bool {
	if c.seen[key] {
		return false
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.seen[key] = true
	return true
}

// statement takes a statement that runs: one of the text, or what EXPLAIN ANALYZE, PREPARE and their like contain.
func (c *collector) statement(n *pg_query.Node) {
	switch n := n.GetNode().(type) {
	case *pg_query.Node_SelectStmt, *pg_query.Node_InsertStmt, *pg_query.Node_UpdateStmt, *pg_query.Node_DeleteStmt,
		*pg_query.Node_MergeStmt:
		c.run(n)

	case *pg_query.Node_TransactionStmt:
		c.transaction(n.TransactionStmt)
	case *pg_query.Node_VariableSetStmt:
		c.variableSet(n.VariableSetStmt)
	case *pg_query.Node_VariableShowStmt:
		if strings.Contains(n.VariableShowStmt.Name, ".") {
			c.add(ReadsSetting)
		}
	case *pg_query.Node_ConstraintsSetStmt:
		c.add(Constraints)
	case *pg_query.Node_CheckPointStmt,
		*pg_query.Node_FetchStmt, *pg_query.Node_ClosePortalStmt:
		// nothing that outlives the transaction
	case *pg_query.Node_LockStmt:
		c.name(n)

	case *pg_query.Node_PrepareStmt:
		c.prepare(n.PrepareStmt)
	case *pg_query.Node_ExecuteStmt:
		c.execute(n.ExecuteStmt, true, c.executeName(false))
	case *pg_query.Node_DeallocateStmt:
		c.deallocate(n.DeallocateStmt)
	case *pg_query.Node_DiscardStmt:
		c.discard(n.DiscardStmt)

	case *pg_query.Node_ListenStmt, *pg_query.Node_UnlistenStmt, *pg_query.Node_NotifyStmt:
		c.notification(n)

	case *pg_query.Node_DeclareCursorStmt:
		c.add(Cursors)
		const withHold = 0x0020 // CURSOR_OPT_HOLD
		if n.DeclareCursorStmt.Options&withHold != 0 {
			c.add(HoldCursor)
		}
		c.run(n.DeclareCursorStmt.Query)
	case *pg_query.Node_CopyStmt:
		c.copy(n.CopyStmt)
	case *pg_query.Node_ExplainStmt:
		c.explain(n.ExplainStmt)
	case *pg_query.Node_CreateTableAsStmt:
		c.createTableAs(n.CreateTableAsStmt, true)

	case *pg_query.Node_LoadStmt:
		c.add(Load)
	case *pg_query.Node_DoStmt:
		c.add(Opaque)
	case *pg_query.Node_CallStmt:
		c.add(Opaque)
		c.run(n.CallStmt.Funccall)

	case *pg_query.Node_TruncateStmt:
		c.add(Writes)
		c.name(n)
	case *pg_query.Node_RefreshMatViewStmt:
		c.add(Writes)
		c.name(n)
	case *pg_query.Node_VacuumStmt:
		if n.VacuumStmt.IsVacuumcmd {
			c.alone("VACUUM")
		}
		c.name(n)
	case *pg_query.Node_ClusterStmt:
		if n.ClusterStmt.Relation == nil {
			c.alone("CLUSTER")
		}
		c.name(n)
	case *pg_query.Node_ReindexStmt:
		c.reindex(n.ReindexStmt)

	case *pg_query.Node_CreateRoleStmt, *pg_query.Node_DropRoleStmt, *pg_query.Node_GrantRoleStmt:
		c.add(Roles)
		c.ddl(n)
	case *pg_query.Node_AlterRoleStmt:
		c.add(Roles)
		// A password is for the next login. Who is in stays in, and may not be able to log in to a shard anew.
		if !givesPasswordOnly(n.AlterRoleStmt.Options) {
			c.add(Reconfigures)
		}
	case *pg_query.Node_AlterRoleSetStmt:
		c.add(Reconfigures | Roles)
		c.option(n.AlterRoleSetStmt.Setstmt)
	case *pg_query.Node_AlterDatabaseSetStmt:
		c.add(Reconfigures)
		c.option(n.AlterDatabaseSetStmt.Setstmt)
	case *pg_query.Node_AlterSystemStmt:
		c.add(Reconfigures)
		c.alone("ALTER SYSTEM")
	case *pg_query.Node_AlterDatabaseStmt:
		c.add(Reconfigures)
		if option(n.AlterDatabaseStmt.Options, "tablespace") {
			c.add(DropsDatabase)
			c.alone("ALTER DATABASE SET TABLESPACE")
		}

	case nil:
		c.add(Opaque) // a statement pg_query knows and we do not
	default:
		c.ddl(n)
	}
}

// notification notes a command about channels.
func (c *collector) notification(n any) {
	switch n := n.(type) {
	case *pg_query.Node_ListenStmt:
		c.add(Listens)
		c.channel(Listen, n.ListenStmt.Conditionname)
	case *pg_query.Node_UnlistenStmt:
		c.add(Unlistens)
		name := n.UnlistenStmt.Conditionname
		if name == "" {
			name = "*"
		}
		c.channel(Unlisten, name)
	case *pg_query.Node_NotifyStmt:
		c.add(Notifies)
		c.channel(Notify, n.NotifyStmt.Conditionname)
	}
}

// run walks what is executed: a query, a list of arguments.
func (c *collector) run(message any) {
	walk(message, func(m any) bool {
		switch m := m.(type) {
		case *pg_query.FuncCall:
			c.function(m)
		case *pg_query.RangeVar:
			c.relation(m, true)
		case *pg_query.SelectStmt:
			if m.IntoClause != nil {
				c.add(DDL | Writes)
				c.created(m.IntoClause.Rel)
			}
		case *pg_query.InsertStmt, *pg_query.DeleteStmt, *pg_query.MergeStmt:
			c.add(Writes)
		case *pg_query.UpdateStmt:
			c.add(Writes)
			if m.Relation.GetRelname() == "pg_settings" { // a rule makes it set_config
				c.add(ChangesSettings | ChangesAllSettings)
			}
		case *pg_query.ExecuteStmt:
			return false // has its own handler
		}
		return true
	})
}

// name walks what is named but not executed: only the relations count.
func (c *collector) name(message any) {
	walk(message, func(m any) bool {
		if r, ok := m.(*pg_query.RangeVar); ok {
			c.relation(r, false)
		}
		return true
	})
}

func (c *collector) function(f *pg_query.FuncCall) {
	if len(f.Funcname) == 0 {
		return
	}
	name := strings.ToLower(f.Funcname[len(f.Funcname)-1].GetString_().GetSval())
	if c.once("f:" + name) {
		c.facts.Funcs = append(c.facts.Funcs, name)
	}
	c.add(functionEffects[name])
	switch name {
	case "set_config":
		c.setConfig(f)
	case "current_setting":
		c.add(ReadsSetting) // which one is said by a literal, which facts should not depend on
	case "set_limit":
		c.setting("pg_trgm.similarity_threshold", false, false)
	case "pg_notify":
		if channel, ok := constant(argument(f, 0, "")); ok {
			c.facts.Exact = true
			c.channel(Notify, channel)
		}
	}
}

func (c *collector) relation(r *pg_query.RangeVar, runs bool) {
	name := r.Relname
	if r.Schemaname != "" {
		name = r.Schemaname + "." + name
	}
	if c.once("r:" + name) {
		c.facts.Relations = append(c.facts.Relations, name)
	}
	if runs && (r.Schemaname == "" || r.Schemaname == "pg_catalog") {
		c.add(relationEffects[r.Relname])
	}
}

// created notes a relation that a statement makes.
func (c *collector) created(r *pg_query.RangeVar) {
	if r.GetRelpersistence() == "t" || isTempSchema(r.GetSchemaname()) {
		c.add(Temp)
	}
}

func isTempSchema(name string) bool {
	return name == "pg_temp" || strings.HasPrefix(name, "pg_temp_")
}

func (c *collector) channel(kind ChannelKind, name string) {
	c.facts.Channels = append(c.facts.Channels, Channel{Kind: kind, Name: name})
}

// argument returns an argument of a call, by position or by name.
func argument(f *pg_query.FuncCall, position int, name string) *pg_query.Node {
	for i, arg := range f.Args {
		if named := arg.GetNamedArgExpr(); named != nil {
			if named.Name == name {
				return named.Arg
			}
		} else if i == position {
			return arg
		}
	}
	return nil
}

// constant returns the value of a string constant, perhaps under casts.
func constant(n *pg_query.Node) (string, bool) {
	for n.GetTypeCast() != nil {
		n = n.GetTypeCast().Arg
	}
	if v, ok := n.GetAConst().GetVal().(*pg_query.A_Const_Sval); ok {
		return v.Sval.GetSval(), true
	}
	return "", false
}

// option reports whether a list of options has one by that name.
func option(options []*pg_query.Node, name string) bool {
	return slices.ContainsFunc(options, func(n *pg_query.Node) bool { return n.GetDefElem().GetDefname() == name })
}
