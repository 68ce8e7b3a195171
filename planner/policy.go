package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/quote"
)

// A row-security policy is evaluated where the row is, and reads what is there. That is right if it
// reads reference tables, or rows that have the key of the row it judges: then PostgreSQL comes to
// the same answer on the row's shard as with all rows at hand. All other policies are refused: a
// row too few would be an error, a row too many a leak.

// Role is the role that runs a statement, for policies.
type Role struct {
	// Bypass is set if no policies apply, because the role is a superuser or has BYPASSRLS.
	Bypass bool
	// Has are the roles whose rights the role has, itself among them.
	Has map[string]bool
}

// RoleSQL asks a session's backend for its role, for NewRole.
const RoleSQL = "SELECT r.rolname, m.rolsuper OR m.rolbypassrls FROM pg_catalog.pg_roles r, pg_catalog.pg_roles m WHERE m.rolname = current_user AND pg_catalog.pg_has_role(m.oid, r.oid, 'USAGE')"

// NewRole makes a Role of the answer to RoleSQL.
func NewRole(rows [][]string) *Role {
	role := &Role{Has: map[string]bool{}}
	for _, r := range rows {
		role.Has[r[0]], role.Bypass = true, r[1] == "t"
	}
	return role
}

// Guarded reports whether plans of a schema depend on the role: a policy reads tables, calls a
// function that is not pure, or reads a parameter of the session, which may be a shard key.
func Guarded(s *catalog.Schema) bool {
	for r := range s.Relations() {
		if !r.RowSecurity {
			continue
		}
		for i := range r.Policies {
			if p := &r.Policies[i]; len(p.Relations) > 0 || !p.Calls.Pure() || strings.Contains(p.Using, settingFunction+"(") {
				return true
			}
		}
	}
	return false
}

// policed judges the policies of a table that is read or written.
func (mo modification) policed(rel *catalog.Relation, t *table, writes bool) {
	if rel == nil || !rel.RowSecurity || mo.l.a.env.Tables.Empty() || slices.Contains(mo.l.a.judged, rel) || mo.exempt(rel) {
		return
	}
	for i := range rel.Policies {
		p := &rel.Policies[i]
		if !writes && p.Command != 'r' && p.Command != '*' || !mo.concerns(p) {
			continue
		}
		if why := mo.l.a.objects().mayGuard(rel, t, p); why != nil {
			if mo.l.a.out.Route != plan.Refused {
				mo.l.a.out.Route, mo.l.a.out.Refusal = plan.Refused, why
				mo.l.a.out.Waits = mo.l.a.out.Waits || why.Code == pgerr.ObjectInUse
			}
			return
		}
		if !p.Calls.Pure() || strings.Contains(p.Using, settingFunction+"(") {
			mo.l.a.touched.guarded = rel.Name.Name
		}
	}
}

// exempt reports whether no policy of a table concerns its reader: the session's role, or the owner
// of the view that names the table.
func (mo modification) exempt(rel *catalog.Relation) bool {
	if mo.l.a.view.owner != "" {
		return mo.l.a.view.owner == rel.Owner && !rel.ForceSecurity
	}
	role := mo.l.a.env.Role
	return role != nil && (role.Bypass || role.Has[rel.Owner] && !rel.ForceSecurity)
}

// concerns reports whether a policy may apply to the reader of the table.
func (mo modification) concerns(p *catalog.Policy) bool {
	role := mo.l.a.env.Role
	return len(p.Roles) == 0 || role == nil || mo.l.a.view.owner != "" || slices.ContainsFunc(p.Roles, func(r string) bool { return role.Has[r] })
}

// mayGuard returns the reason why a policy of a table cannot be evaluated where the table's rows
// are, or nil.
func (ob objects) mayGuard(rel *catalog.Relation, t *table, p *catalog.Policy) *pgerr.Error {
	if why := ob.policyCalls(rel, t, p.Name, &p.Calls); why != nil || len(p.Relations) == 0 {
		return why
	}
	if len(p.Expressions) == 0 {
		return pgerr.New(pgerr.ObjectInUse, "what policy %q of %q reads is being changed", p.Name, rel.Name.Name).WithHint("Try again when that is done.")
	}
	for _, e := range p.Expressions {
		sql := "SELECT 1 FROM " + rel.Name.SQL() + " AS " + quote.Ident(rel.Name.Name) + " WHERE " + e
		tree, err := parser.ParseTree(sql, parser.Options{})
		if err != nil || len(tree.Statements) != 1 || tree.Statements[0].Stmt.GetSelectStmt() == nil {
			return ob.unguarded(rel, t, p.Name, "cannot be read by weft")
		}
		at := text{sql: sql, tree: tree, path: []string{"pg_catalog"}, stored: true}
		if why := ob.policyReads(rel, t, p.Name, tree.Statements[0].Stmt.GetSelectStmt(), at); why != nil {
			return why
		}
	}
	return nil
}

// policyCalls judges the functions of a policy.
func (ob objects) policyCalls(rel *catalog.Relation, t *table, name string, calls *catalog.Reach) *pgerr.Error {
	if calls.Pure() {
		return nil
	}
	switch r := ob.a.reach().reached(calls); {
	case r.sharded != "":
		return ob.unguarded(rel, t, name, `calls a function that touches sharded table "`+r.sharded+`"`)
	case r.copied != "":
		return ob.unguarded(rel, t, name, `calls a function that may write reference table "`+r.copied+`"`)
	case r.opaque:
		return ob.unguarded(rel, t, name, "calls a function that runs SQL which cannot be looked into")
	case r.home != "" && t != nil:
		return ob.unguarded(rel, t, name, `calls a function that touches "`+r.home+`", which is on the home shard alone`)
	}
	return nil
}

// policyReads judges the subqueries of a policy. sel is the query for the rows that the policy lets
// pass.
func (ob objects) policyReads(rel *catalog.Relation, t *table, name string, sel *pg.SelectStmt, at text) *pgerr.Error {
	if at.stored {
		parser.Walk(sel, func(m any) bool {
			if c, ok := m.(*pg.A_Const); ok {
				c.Location = -1 // the constant has no position in the client's text
			}
			return true
		})
	}
	in := ob.a.gatherer().probing(at)
	in.judged = append(slices.Clone(ob.a.judged), rel)
	l := in.top()
	l.query(sel)
	touched := &in.touched
	switch {
	case in.refused():
		return ob.unguarded(rel, t, name, "cannot be evaluated there: "+in.out.Refusal.Message)
	case len(touched.missing) > 0:
		return ob.unguarded(rel, t, name, `reads "`+touched.missing[0].Relname+`", which does not exist`)
	case t != nil && len(touched.home) > 0:
		return ob.unguarded(rel, t, name, `reads "`+touched.home[0]+`", which is on the home shard alone`)
	case (t == nil || t.Reference) && len(touched.sharded) > 0:
		return ob.unguarded(rel, t, name, `reads sharded table "`+touched.sharded[0]+`"`)
	}
	for _, f := range in.functions {
		if why := ob.policyCalls(rel, t, name, &f.Reach); why != nil {
			return why
		}
	}
	if t == nil || t.Reference {
		return nil
	}
	self := &anchor{table: t, first: 0, last: 1}
	if len(in.instances) == 0 || in.instances[0].scope != l.scope {
		return ob.unguarded(rel, t, name, "cannot be read by weft")
	}
	for _, k := range t.keys {
		self.key = append(self.key, in.instances[0].cols[k.Name])
	}
	if slices.Contains(self.key, nil) {
		return ob.unguarded(rel, t, name, "cannot be read by weft")
	}
	if odd := self.odd(ob.a, l); odd != nil {
		return ob.unguarded(rel, t, name, `reads rows of "`+odd.name+`" that need not have the row's own shard key`)
	}
	return nil
}

// unguarded returns the refusal of a policy.
func (ob objects) unguarded(rel *catalog.Relation, t *table, policy, why string) *pgerr.Error {
	hint := "A policy is evaluated on the home shard: it can read home tables and reference tables."
	switch {
	case t != nil && t.Reference:
		hint = "A policy is evaluated in each copy of the table: it can read reference tables."
	case t != nil:
		var keys []string
		for _, k := range t.keys {
			keys = append(keys, k.Name)
		}
		hint = "A policy is evaluated on the row's shard: it can read reference tables, and rows of colocated tables whose key equals " + strings.Join(keys, ", ") + "."
	}
	return cannot(hint, "policy %q of %q %s", policy, rel.Name.Name, why)
}

// newPolicy judges a policy that is made or changed.
func (ob objects) newPolicy(table *pg.RangeVar, name string, expressions ...*pg.Node) {
	rel := ob.a.commands().named(rangeVar(table))
	temporary := table.Schemaname == "" && ob.a.env.Temporary[table.Relname] || isTemporary(table.Schemaname)
	if rel == nil && !temporary || ob.a.env.Tables.Empty() {
		return
	}
	t := ob.a.declared(rel)
	for _, e := range expressions {
		if e == nil {
			continue
		}
		own := table // nothing else is known of a temporary table
		if temporary {
			rel = &catalog.Relation{Name: catalog.Name{Schema: "pg_temp", Name: table.Relname}}
		} else {
			own = &pg.RangeVar{Schemaname: rel.Schema, Relname: rel.Name.Name, Inh: true, Relpersistence: "p", Alias: &pg.Alias{Aliasname: rel.Name.Name}, Location: -1}
		}
		sel := newSelect()
		sel.TargetList = []*pg.Node{targetNode(pg.MakeAConstIntNode(1, -1), "")}
		sel.FromClause = []*pg.Node{rangeNode(own)}
		sel.WhereClause = e
		if why := ob.policyReads(rel, t, name, sel, ob.a.text); why != nil && !ob.a.refused() {
			ob.a.out.Route, ob.a.out.Refusal = plan.Refused, why
		}
	}
}

// enablesPolicies judges the policies of a table that ALTER TABLE switches on.
func (ob objects) enablesPolicies(n *pg.AlterTableStmt) {
	rel := ob.a.commands().named(rangeVar(n.Relation))
	if rel == nil || ob.a.env.Tables.Empty() || !slices.ContainsFunc(n.Cmds, func(c *pg.Node) bool {
		s := c.GetAlterTableCmd().GetSubtype()
		return s == pg.AlterTableType_AT_EnableRowSecurity || s == pg.AlterTableType_AT_ForceRowSecurity
	}) {
		return
	}
	for i := range rel.Policies {
		if why := ob.mayGuard(rel, ob.a.declared(rel), &rel.Policies[i]); why != nil && !ob.a.refused() {
			ob.a.out.Route, ob.a.out.Refusal = plan.Refused, why
		}
	}
}
