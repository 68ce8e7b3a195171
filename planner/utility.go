package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
)

// weftCall, selectInto and utility come with the next step.
func (a *analysis) weftCall(*pg.SelectStmt) (plan.Route, bool) { return 0, false }

func (a *analysis) selectInto(n *pg.SelectStmt) plan.Route {
	into := n.IntoClause
	n.IntoClause = nil
	a.top().query(n)
	n.IntoClause = into
	a.out.Writes = true
	if len(a.touched.sharded) > 0 {
		a.unsupported("Create the table first, then INSERT … SELECT.", "a table cannot be made from sharded table %q", a.touched.sharded[0])
		return plan.Refused
	}
	a.decide()
	return plan.Home
}

func (a *analysis) utility(n any) plan.Route {
	r := plan.Home
	parser.Walk(n, func(m any) bool {
		if rv, ok := m.(*pg.RangeVar); ok {
			if _, t := a.relation(rv); t != nil {
				a.unsupported("", "this statement is not supported for declared table %q", t.Name)
				r = plan.Refused
			}
		}
		return true
	})
	return r
}

// allTables lists the declared tables.
func (a *analysis) allTables() []*table {
	if a.env.Tables == nil {
		return nil
	}
	var out []*table
	for _, t := range a.env.Tables.byName {
		out = append(out, t)
	}
	return out
}

// viewReads names a sharded and a home table that a view reads, if any.
func (a *analysis) viewReads(rel *catalog.Relation, depth int) (sharded, home string) {
	if depth > maxViews {
		return rel.Name.Name, rel.Name.Name
	}
	tree, err := parser.ParseTree(rel.Definition, parser.Options{})
	if err != nil {
		return rel.Name.Name, rel.Name.Name
	}
	for _, s := range tree.Statements {
		parser.Walk(s, func(m any) bool {
			rv, ok := m.(*pg.RangeVar)
			if !ok || rv.Schemaname == "" && a.env.Schema.Relation(catalog.Name{Schema: "pg_catalog", Name: rv.Relname}) == nil {
				return true // a CTE
			}
			schema := rv.Schemaname
			if schema == "" {
				schema = "pg_catalog"
			}
			r := a.env.Schema.Relation(catalog.Name{Schema: schema, Name: rv.Relname})
			switch t := a.declared(r); {
			case t != nil && !t.Reference:
				sharded = t.Name
			case t != nil:
			case r != nil && r.Kind == catalog.View:
				s, h := a.viewReads(r, depth+1)
				if s != "" {
					sharded = s
				}
				if h != "" {
					home = h
				}
			default:
				home = rv.Relname
			}
			return true
		})
	}
	return sharded, home
}

// viewDeclared reports whether a view reads any declared table.
func (a *analysis) viewDeclared(rel *catalog.Relation) bool {
	sharded, home := a.viewReads(rel, 0)
	return sharded != "" || home == ""
}
