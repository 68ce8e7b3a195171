package parser

import (
	"slices"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

func (c *collector) transaction(n *pg_query.TransactionStmt) {
	switch n.Kind {
	case pg_query.TransactionStmtKind_TRANS_STMT_BEGIN, pg_query.TransactionStmtKind_TRANS_STMT_START:
		c.add(TxBegin)
	case pg_query.TransactionStmtKind_TRANS_STMT_COMMIT, pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK:
		c.add(TxEnd)
		if n.Chain {
			c.add(TxBegin)
		}
	case pg_query.TransactionStmtKind_TRANS_STMT_SAVEPOINT, pg_query.TransactionStmtKind_TRANS_STMT_RELEASE,
		pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
		c.add(Savepoint)
	case pg_query.TransactionStmtKind_TRANS_STMT_PREPARE:
		c.add(TwoPhase | TxEnd)
	case pg_query.TransactionStmtKind_TRANS_STMT_COMMIT_PREPARED:
		c.add(TwoPhase)
		c.alone("COMMIT PREPARED")
	case pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK_PREPARED:
		c.add(TwoPhase)
		c.alone("ROLLBACK PREPARED")
	default:
		c.add(Opaque)
	}
}

func (c *collector) variableSet(n *pg_query.VariableSetStmt) {
	c.add(ChangesSettings)
	switch n.Kind {
	case pg_query.VariableSetKind_VAR_RESET_ALL:
		c.add(ChangesAllSettings)
	case pg_query.VariableSetKind_VAR_SET_MULTI:
		c.characteristics(n)
	case pg_query.VariableSetKind_VAR_RESET, pg_query.VariableSetKind_VAR_SET_DEFAULT:
		c.setting(n.Name, n.IsLocal, true)
	default:
		c.setting(n.Name, n.IsLocal, false)
		c.option(n)
		if value, ok := settingValue(n); ok {
			c.timeout(n.Name, value)
		}
		if strings.EqualFold(n.Name, "search_path") {
			// Which schema comes first may be said by a literal.
			c.facts.Exact = true
			if len(n.Args) > 0 {
				c.searchPath(n.Args[0])
			}
		}
	}
}

// characteristics takes SET TRANSACTION and SET SESSION CHARACTERISTICS AS TRANSACTION.
func (c *collector) characteristics(n *pg_query.VariableSetStmt) {
	switch n.Name {
	case "TRANSACTION":
		for _, arg := range n.Args {
			c.setting(arg.GetDefElem().GetDefname(), true, false)
		}
	case "SESSION CHARACTERISTICS":
		for _, arg := range n.Args {
			c.setting("default_"+arg.GetDefElem().GetDefname(), false, false)
		}
	default: // TRANSACTION SNAPSHOT is no setting
		c.facts.Effects &^= ChangesSettings
		c.add(ImportsSnapshot)
	}
}

// ImportedSnapshot returns the name that SET TRANSACTION SNAPSHOT has, if the text is nothing else.
func ImportedSnapshot(text string, opt Options) (name string, ok bool) {
	tree, _, err := parse(text, opt)
	if err != nil || len(tree.Stmts) != 1 {
		return "", false
	}
	set := tree.Stmts[0].Stmt.GetVariableSetStmt()
	if set.GetName() != "TRANSACTION SNAPSHOT" || len(set.Args) != 1 {
		return "", false
	}
	return set.Args[0].GetAConst().GetSval().GetSval(), true
}

func (c *collector) setConfig(f *pg_query.FuncCall) {
	c.add(ChangesSettings)
	name, ok := constant(argument(f, 0, "setting_name"))
	if !ok {
		c.add(ChangesAllSettings)
		return
	}
	c.facts.Exact = true
	local := argument(f, 2, "is_local").GetAConst().GetBoolval().GetBoolval()
	c.setting(name, local, false)
	if value, ok := constant(argument(f, 1, "new_value")); ok {
		c.timeout(name, value)
	}
	if strings.EqualFold(name, "search_path") {
		c.searchPath(argument(f, 1, "new_value"))
	}
	if value, ok := constant(argument(f, 1, "new_value")); ok && isOption(name) {
		c.facts.Options = append(c.facts.Options, Option{strings.ToLower(name), value})
	}
}

func isOption(name string) bool { return strings.HasPrefix(strings.ToLower(name), OptionPrefix) }

// option notes SET of one of weft's own parameters, also as part of ALTER ROLE and ALTER DATABASE.
func (c *collector) option(n *pg_query.VariableSetStmt) {
	if n.GetKind() != pg_query.VariableSetKind_VAR_SET_VALUE || !isOption(n.Name) || len(n.Args) != 1 {
		return
	}
	c.facts.Exact = true
	if value, ok := settingValue(n); ok {
		c.facts.Options = append(c.facts.Options, Option{strings.ToLower(n.Name), value})
	}
}

// settingValue returns the constant that SET has, if it is one.
func settingValue(n *pg_query.VariableSetStmt) (string, bool) {
	if len(n.Args) != 1 {
		return "", false
	}
	switch v := n.Args[0].GetAConst().GetVal().(type) {
	case *pg_query.A_Const_Sval:
		return v.Sval.GetSval(), true
	case *pg_query.A_Const_Fval:
		return v.Fval.GetFval(), true
	case *pg_query.A_Const_Ival:
		return strconv.Itoa(int(v.Ival.GetIval())), true
	}
	return "", false
}

// timeout notes the value of the setting that was noted last, if it is a timeout.
func (c *collector) timeout(name, value string) {
	if slices.Contains(TimeoutSettings[:], strings.ToLower(name)) {
		c.facts.Exact = true
		c.facts.Settings[len(c.facts.Settings)-1].Value = value
	}
}

// searchPath marks a path that begins with the temporary schema: what is created next is temporary.
func (c *collector) searchPath(first *pg_query.Node) {
	value, _ := constant(first)
	if strings.HasPrefix(strings.TrimLeft(value, ` "`), "pg_temp") {
		c.add(Temp)
	}
}

func (c *collector) setting(name string, local, reset bool) {
	name = strings.ToLower(name)
	if modern, ok := settingAliases[name]; ok {
		name = modern
	}
	s := Setting{Name: name, Local: local, Reset: reset}
	c.facts.Settings = append(c.facts.Settings, s)
	switch name {
	case "seed":
		c.add(Seed)
	case "session_authorization":
		s.Name = "role" // the role goes with it
		c.facts.Settings = append(c.facts.Settings, s)
	}
}

func (c *collector) discard(n *pg_query.DiscardStmt) {
	switch n.Target {
	case pg_query.DiscardMode_DISCARD_ALL:
		c.add(DiscardAll)
		c.alone("DISCARD ALL")
	case pg_query.DiscardMode_DISCARD_PLANS:
		c.add(DiscardPlans)
	case pg_query.DiscardMode_DISCARD_SEQUENCES:
		c.add(DiscardSequences)
	case pg_query.DiscardMode_DISCARD_TEMP:
		c.add(DiscardTemp)
	default:
		c.add(Opaque)
	}
}
