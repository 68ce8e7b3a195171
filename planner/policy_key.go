package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/parser"
	"weft/plan"
	"weft/vindex"
)

// A policy such as tenant_id = current_setting('app.tenant_id')::bigint is a condition on the shard
// key that no statement writes. The planner notes which parameter of the session the key equals, and
// the executor takes the value as it takes that of a parameter of the statement. A policy counts only
// if it applies to the session's role for certain. Policies inside a view are those of its owner, of
// whom weft knows too little, so they do not count.

// settingFunction is the built-in function that policies read parameters of the session with.
const settingFunction = "current_setting"

// guarded notes what row security says of the key of the rows that UPDATE (w) or DELETE (d) may
// change.
func (mo modification) guarded(tg *target, command byte) {
	if tg.rel == nil || tg.table == nil || tg.table.Reference || tg.through != nil {
		return
	}
	if x := mo.targetInstance(tg); x != nil && !x.stored {
		x.policy = mo.l.a.policyKey(tg.rel, tg.table, command)
	}
}

// policyKey returns what row security says of the key of the rows that a command may read or change:
// r, w or d, as in pg_policy. It returns nil if nothing is known.
func (a *analysis) policyKey(rel *catalog.Relation, t *table, command byte) *plan.Policy {
	role, schema := a.env.Role, a.env.Schema
	switch {
	case !rel.RowSecurity || role == nil || role.Bypass || a.view.owner != "" || role.Has[rel.Owner] && !rel.ForceSecurity:
		return nil
	case a.setsParameters():
		return nil // for each row anew
	case t.broken != nil || len(t.keys) != 1 || schema == nil || schema.Incomplete || schema.CustomEquality || schema.HasPlainCast():
		return nil
	}
	if _, ok := t.Vindex.(vindex.Computed); !ok || len(schema.Functions("set_config")) > 0 {
		return nil
	}
	at := slices.IndexFunc(rel.Columns, func(c catalog.Column) bool { return c.Name == t.keys[0].Name })
	if at < 0 {
		return nil
	}
	key := newColumn(&rel.Columns[at], nil)
	var out *plan.Policy
	loose := false // a permissive policy lets rows of other keys pass
	for i := range rel.Policies {
		p := &rel.Policies[i]
		if p.Command != '*' && p.Command != command || len(p.Roles) > 0 && !slices.ContainsFunc(p.Roles, func(r string) bool { return role.Has[r] }) {
			continue
		}
		src, ok := settingOf(rel, key, p.Using)
		switch {
		case ok && !p.Permissive:
			return &plan.Policy{Name: p.Name, Set: plan.Set{src}}
		case !p.Permissive:
		case !ok || out != nil && out.Set[0] != src:
			loose = true
		case out == nil:
			out = &plan.Policy{Name: p.Name, Set: plan.Set{src}}
		}
	}
	if loose {
		return nil
	}
	return out
}

// setsParameters reports whether a statement may change the parameters that its policies read while it runs.
func (a *analysis) setsParameters() bool {
	return strings.Contains(strings.ToLower(a.client.sql), "set_config")
}

// settingOf returns the parameter of the session that a column equals in all rows for which the
// condition of a policy is true.
func settingOf(rel *catalog.Relation, key *column, condition string) (plan.Source, bool) {
	if !strings.Contains(condition, settingFunction+"(") || key.apart {
		return plan.Source{}, false
	}
	tree, err := parser.ParseTree("SELECT 1 FROM "+rel.Name.SQL()+" WHERE "+condition, parser.Options{})
	if err != nil || len(tree.Statements) != 1 {
		return plan.Source{}, false
	}
	return conjunctSetting(tree.Statements[0].Stmt.GetSelectStmt().GetWhereClause(), key)
}

// conjunctSetting is settingOf for a condition, or for one of the conditions that AND joins.
func conjunctSetting(n *pg.Node, key *column) (plan.Source, bool) {
	if b := n.GetBoolExpr(); b != nil && b.Boolop == pg.BoolExprType_AND_EXPR {
		for _, arg := range b.Args {
			if src, ok := conjunctSetting(arg, key); ok {
				return src, true
			}
		}
	}
	e := n.GetAExpr()
	if e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP || !isEquality(e.Name) {
		return plan.Source{}, false
	}
	value := e.Rexpr
	if !isKeyColumn(e.Lexpr, key) {
		if value = e.Lexpr; !isKeyColumn(e.Rexpr, key) {
			return plan.Source{}, false
		}
	}
	src, ok := settingValue(value)
	return src, ok && equates(key, src.Type)
}

// equates reports whether = compares a column with a value of that type by the values that weft
// computes shards from.
func equates(key *column, t datum.Type) bool {
	switch c := key.class(); c {
	case datum.Int8, datum.UUID:
		return class(t) == c
	case datum.Text:
		return class(t) == c && key.typ != datum.Bpchar && t != datum.Bpchar
	}
	return false
}

// isKeyColumn reports whether an expression is the key column, maybe as text.
func isKeyColumn(n *pg.Node, key *column) bool {
	if c := n.GetTypeCast(); c != nil {
		return builtinType(c.TypeName) == datum.Text && key.typ == datum.Varchar && isKeyColumn(c.Arg, key)
	}
	fields := n.GetColumnRef().GetFields()
	return len(fields) == 1 && fields[0].GetString_().GetSval() == key.name
}

// settingValue returns the parameter that an expression reads, with the type that its text is cast to.
func settingValue(n *pg.Node) (plan.Source, bool) {
	switch n := n.GetNode().(type) {
	case *pg.Node_TypeCast:
		t := builtinType(n.TypeCast.TypeName)
		src, ok := settingValue(n.TypeCast.Arg)
		if !ok || t == 0 || src.Type != datum.Text && src.Type != datum.Varchar {
			return plan.Source{}, false
		}
		src.Type = t
		return src, true
	case *pg.Node_SubLink:
		return selectedSetting(n.SubLink)
	case *pg.Node_AExpr:
		// NULLIF(…, ''): weft takes an empty parameter for unknown.
		if e := n.AExpr; e.Kind == pg.A_Expr_Kind_AEXPR_NULLIF && isEquality(e.Name) {
			if empty, ok := constantText(e.Rexpr); ok && empty == "" {
				src, ok := settingValue(e.Lexpr)
				return src, ok && src.Type == datum.Text
			}
		}
	case *pg.Node_FuncCall:
		return calledSetting(n.FuncCall)
	}
	return plan.Source{}, false
}

// selectedSetting is settingValue for (SELECT …) without FROM.
func selectedSetting(s *pg.SubLink) (plan.Source, bool) {
	sel := s.Subselect.GetSelectStmt()
	if s.SubLinkType != pg.SubLinkType_EXPR_SUBLINK || sel == nil || len(sel.TargetList) != 1 || len(sel.FromClause) > 0 || sel.WhereClause != nil ||
		sel.HavingClause != nil || sel.LimitCount != nil || sel.LimitOffset != nil || sel.WithClause != nil || sel.Op != pg.SetOperation_SETOP_NONE ||
		len(sel.GroupClause) > 0 || len(sel.ValuesLists) > 0 || len(sel.DistinctClause) > 0 || len(sel.LockingClause) > 0 {
		return plan.Source{}, false
	}
	return settingValue(sel.TargetList[0].GetResTarget().GetVal())
}

// calledSetting is settingValue for a call of current_setting. Policies are read with pg_catalog as
// the only schema of the search path, so the name without a schema is that of the built-in function.
func calledSetting(f *pg.FuncCall) (plan.Source, bool) {
	names := nameList(f.Funcname)
	if len(names) == 2 && names[0] == "pg_catalog" {
		names = names[1:]
	}
	if len(names) != 1 || names[0] != settingFunction || len(f.Args) == 0 || len(f.Args) > 2 || f.FuncVariadic || f.AggStar || f.AggDistinct ||
		f.AggFilter != nil || f.Over != nil || len(f.Args) == 2 && f.Args[1].GetAConst().GetBoolval() == nil {
		return plan.Source{}, false
	}
	name, ok := constantText(f.Args[0])
	name = strings.ToLower(name)
	// Parameters of PostgreSQL have no dot in their names, and those of weft have values by default.
	if !ok || !strings.Contains(name, ".") || strings.HasPrefix(name, parser.OptionPrefix) {
		return plan.Source{}, false
	}
	return plan.Source{Kind: plan.Setting, Text: name, Type: datum.Text}, true
}

// constantText returns the value of 'text' or 'text'::text.
func constantText(n *pg.Node) (string, bool) {
	if c := n.GetTypeCast(); c != nil && builtinType(c.TypeName) == datum.Text {
		n = c.Arg
	}
	s := n.GetAConst().GetSval()
	return s.GetSval(), s != nil
}

// builtinType returns the built-in type that a name in a policy means: as typeName, for a search path
// that begins with pg_catalog.
func builtinType(n *pg.TypeName) datum.Type {
	at := predicates{l: &level{a: &analysis{text: text{path: []string{"pg_catalog"}}}}}
	return at.typeName(n)
}

// fixed reports whether the sets of a key say of one value that the key equals it: then the value is
// used, and not what policies say.
func fixed(sets []plan.Set) bool {
	return slices.ContainsFunc(sets, func(s plan.Set) bool {
		return len(s) == 1 && s[0].Kind != plan.Array && s[0].Kind != plan.ParamArray
	})
}
