package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
)

// Some DDL runs expressions at once, for existing rows: a column's default, USING, a constraint, an
// index. And the code of a temporary object cannot be judged later, because the catalog does not
// have the object. Both are judged when the command comes.

// evaluates judges what a command runs for existing rows, and all code of temporary objects.
func (re reach) evaluates(n any) {
	if re.a.env.Schema == nil || re.a.env.Tables.Empty() {
		return
	}
	switch n := n.(type) {
	case *pg.Node_CreateStmt:
		if v := n.CreateStmt.Relation; v.GetRelpersistence() == "t" || isTemporary(v.GetSchemaname()) {
			re.temporaryTable(n.CreateStmt)
		}
	case *pg.Node_AlterTableStmt:
		re.altersRows(n.AlterTableStmt)
	case *pg.Node_IndexStmt:
		re.runsNow(n.IndexStmt, re.a.declared(re.a.commands().named(rangeVar(n.IndexStmt.Relation))) != nil)
	case *pg.Node_CreateTrigStmt:
		if re.a.commands().named(rangeVar(n.CreateTrigStmt.Relation)) == nil { // the table is temporary
			re.runsNow(&pg.FuncCall{Funcname: n.CreateTrigStmt.Funcname}, false)
			re.runsNow(n.CreateTrigStmt, false)
		}
	case *pg.Node_AlterDomainStmt:
		re.altersDomain(n.AlterDomainStmt)
	}
}

// temporaryTable judges what rows of a temporary table will set off, also by what the table takes
// over from others.
func (re reach) temporaryTable(n *pg.CreateStmt) {
	re.runsNow(n, false)
	parser.Walk(n, func(m any) bool {
		if v, ok := m.(*pg.RangeVar); ok { // LIKE, INHERITS
			if rel := re.a.commands().named(rangeVar(v)); rel != nil && v != n.Relation {
				for i := range rel.Runs {
					if k := rel.Runs[i].Kind; k != catalog.RunTrigger && k != catalog.RunWhen && k != catalog.RunRule {
						re.runsWith(rel, nil, &rel.Runs[i])
					}
				}
			}
		}
		return true
	})
}

// altersRows judges what ALTER TABLE runs for existing rows.
func (re reach) altersRows(n *pg.AlterTableStmt) {
	rel := re.a.commands().named(rangeVar(n.Relation))
	if rel == nil { // the table is temporary
		re.runsNow(n, false)
		return
	}
	t := re.a.declared(rel)
	for _, node := range n.Cmds {
		c := node.GetAlterTableCmd()
		switch c.GetSubtype() {
		case pg.AlterTableType_AT_AddConstraint:
			if !c.Def.GetConstraint().GetSkipValidation() {
				re.runsNow(c, t != nil)
			}
		case pg.AlterTableType_AT_AddColumn:
			re.runsNow(c, t != nil)
		case pg.AlterTableType_AT_AlterColumnType:
			re.runsNow(c, t != nil)
			re.storing(rel, t, nil)
		case pg.AlterTableType_AT_ValidateConstraint:
			for i := range rel.Runs {
				if run := &rel.Runs[i]; run.Kind == catalog.RunCheck && run.Name == c.Name {
					re.runsWith(rel, t, run)
				}
			}
		}
	}
}

// altersDomain judges what ALTER DOMAIN runs for existing values, on all shards.
func (re reach) altersDomain(n *pg.AlterDomainStmt) {
	switch {
	case n.Subtype == "C" && !n.Def.GetConstraint().GetSkipValidation():
		re.runsNow(n.Def, true)
	case n.Subtype == "V":
		for _, y := range re.a.env.Schema.Types(lastName(n.TypeName)) {
			if why := re.beyond(&y.Reach); why != "" {
				re.a.unsupported("A constraint is checked by each shard, which sees itself alone: it can read reference tables.", "type %q %s", y.Name.Name, why)
			}
		}
	}
}

// runsNow judges the functions, operators and types that a part of a command names. everywhere is
// set if they run on every shard, not on the home shard alone.
func (re reach) runsNow(root any, everywhere bool) {
	in := re.a.gatherer().probing(re.a.text)
	l := &level{a: in, scope: &scope{}}
	parser.Walk(root, func(m any) bool {
		l.runNames(m)
		if f, ok := m.(*pg.FuncCall); ok {
			names := nameList(f.Funcname)
			in.functions = append(in.functions, re.userFunctions(schemaOf(f.Funcname), names[len(names)-1])...)
		}
		return true
	})
	hint := "The command runs it on the home shard, which sees itself alone: it can touch home tables and read reference tables."
	if everywhere {
		hint = "The command runs it on each shard, which sees itself alone: it can read reference tables."
	}
	for _, f := range in.functions {
		r := re.reached(&f.Reach)
		if !everywhere {
			r.home = ""
		}
		if why := r.beyond(); why != "" {
			re.a.unsupported(hint, "%s %s", functionName(f), why)
		}
	}
}
