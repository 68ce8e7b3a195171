package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
)

// Foreign keys change rows that no statement names. Such an action runs inside each
// shard, so it must leave rows where their keys say and copies of reference tables
// alike:
//
//	DELETE FROM a ──▶ b: ON DELETE CASCADE ──▶ c: ON DELETE SET NULL ──▶ triggers of c

// cascade is one action of a foreign key that a statement may set off.
type cascade struct {
	fk  *catalog.ForeignKey
	rel *catalog.Relation // the table whose rows the action changes
	// changes is what the action does to these rows: all means that they are deleted.
	changes *changes
	action  catalog.Action
}

// cascades visits all actions that changes of a table's rows may set off.
func (re reach) cascades(rel *catalog.Relation, c *changes, visit func(*cascade)) {
	type step struct {
		rel *catalog.Relation
		all bool
	}
	seen := map[step]bool{}
	var follow func(rel *catalog.Relation, c *changes)
	follow = func(rel *catalog.Relation, c *changes) {
		if rel == nil || c == nil || seen[step{rel, c.all}] {
			return
		}
		seen[step{rel, c.all}] = true
		updates := func(columns []string) bool {
			// A trigger may change other columns than those that are set.
			return len(c.columns) > 0 && (len(rel.Triggers) > 0 || slices.ContainsFunc(columns, func(n string) bool { return slices.Contains(c.columns, n) }))
		}
		for r := rel; r != nil; r = r.Parent {
			for i := range r.Referenced {
				fk := &r.Referenced[i]
				child := re.a.env.Schema.Relation(fk.Table)
				if child == nil {
					continue
				}
				update, del, set := fk.Actions()
				next := &changes{}
				if c.all {
					switch del {
					case catalog.Cascade:
						next.all = true
						visit(&cascade{fk: fk, rel: child, changes: &changes{all: true}, action: del})
					case catalog.SetNull, catalog.SetDefault:
						next.columns = append(next.columns, set...)
						visit(&cascade{fk: fk, rel: child, changes: &changes{columns: set}, action: del})
					}
				}
				if updates(fk.RefColumns) && update != catalog.NoAction && update != catalog.Restrict {
					next.columns = append(next.columns, fk.Columns...)
					visit(&cascade{fk: fk, rel: child, changes: &changes{columns: fk.Columns}, action: update})
				}
				if next.all || len(next.columns) > 0 {
					follow(child, next)
				}
			}
		}
	}
	follow(rel, c)
}

// cascading refuses a statement that sets off actions of foreign keys which would leave rows where
// their keys do not belong, or copies that differ.
func (mo modification) cascading(rel *catalog.Relation, c *changes) {
	if c == nil || mo.l.a.env.Schema == nil || len(rel.Referenced) == 0 && rel.Parent == nil {
		return
	}
	mo.l.a.reach().cascades(rel, c, func(x *cascade) {
		t := mo.l.a.declared(x.rel)
		switch {
		case t == nil:
		case t.Reference:
			mo.copiesCascade(x)
		default:
			if x.changes.all {
				mo.l.a.reach().fires(x.rel, catalog.OnDelete, nil)
			} else {
				mo.l.a.reach().fires(x.rel, catalog.OnUpdate, x.changes.columns)
			}
			parent := mo.l.a.declared(mo.l.a.env.Schema.Relation(x.fk.References))
			if how := x.fk.Rekeys(keyNames(t), parent != nil && !parent.Reference); how != "" {
				mo.l.a.unsupported(rekeyHint, "foreign key %q of %q would change its shard key: %s", x.fk.Name, x.rel.Name.Name, how)
			}
		}
	})
}

// rekeyHint tells how to keep a foreign key from changing shard keys.
const rekeyHint = "The rows would stay on a shard where nobody looks for that key. Use ON DELETE CASCADE or NO ACTION, or SET NULL of other columns than the key (SET NULL (column), since PostgreSQL 15)."

// rekeying refuses a foreign key whose actions would change the shard key of rows.
func (re reach) rekeying(rel *catalog.Relation, t *table, c *pg.Constraint, own []string, colocated bool) {
	if t.Reference {
		return
	}
	columns := nameList(c.FkAttrs)
	if len(columns) == 0 {
		columns = own
	}
	set := columns
	if len(c.FkDelSetCols) > 0 {
		set = nameList(c.FkDelSetCols)
	}
	if how := catalog.Rekeys(keyNames(t), columns, set, catalog.ActionOf(c.FkUpdAction), catalog.ActionOf(c.FkDelAction), colocated); how != "" {
		re.a.unsupported(rekeyHint, "a foreign key of %q would change its shard key: %s", rel.Name.Name, how)
	}
}

// copiesCascade refuses an action on a reference table that may change each copy differently: weft
// does not compare rows that actions change.
func (mo modification) copiesCascade(x *cascade) {
	const hint = "Every copy runs the action by itself, and nothing compares them. Change the rows in a statement of their own first."
	for _, rel := range withParts(x.rel) {
		for _, tr := range rel.Triggers {
			if why := mo.l.a.reach().unsteady(tr); why != "" {
				mo.l.a.unsupported(hint, "foreign key %q changes reference table %q, and its trigger %q may do something else on each copy: %s", x.fk.Name, x.rel.Name.Name, tr.Name, why)
				return
			}
		}
	}
	if x.action != catalog.SetDefault {
		return
	}
	for _, name := range x.changes.columns {
		if col := x.rel.Column(name); col != nil && (drawsFrom(col) || strings.Contains(col.Default, "(")) {
			mo.l.a.unsupported(hint, "foreign key %q sets column %q of reference table %q to a default that may be another on each copy", x.fk.Name, name, x.rel.Name.Name)
			return
		}
	}
}

// withParts returns a table and its partitions.
func withParts(rel *catalog.Relation) []*catalog.Relation {
	out := []*catalog.Relation{rel}
	for _, c := range rel.Children {
		out = append(out, withParts(c)...)
	}
	return out
}

// unsteady says why a trigger may do something else on each copy of a reference table; "" if it
// does the same to the same row everywhere.
func (re reach) unsteady(tr catalog.Trigger) string {
	functions := re.userFunctions(tr.Function.Schema, tr.Function.Name)
	if len(functions) == 0 {
		if tr.Function.Schema == "pg_catalog" && (tr.Function.Name == "suppress_redundant_updates_trigger" || strings.HasPrefix(tr.Function.Name, "tsvector_update_trigger")) {
			return ""
		}
		return "its function is not known"
	}
	for _, f := range functions {
		switch {
		case f.Opaque || !f.Parsed:
			return "its function cannot be looked into"
		case f.Calls:
			return "its function calls others"
		case len(f.Mentions) > 0:
			return "its function names " + f.Mentions[0].Name
		}
		for _, text := range f.Texts {
			tree, err := parser.Parse(text)
			if err != nil {
				return "its function cannot be looked into"
			}
			if why := re.unsteadyText(tree); why != "" {
				return why
			}
		}
	}
	return ""
}

// unsteadyText names what in a text may have another value on each shard.
func (re reach) unsteadyText(tree *pg.ParseResult) string {
	out := ""
	parser.Walk(tree, func(m any) bool {
		switch m := m.(type) {
		case *pg.SQLValueFunction:
			out = "it asks for the time, or for what the session is"
		case *pg.SubLink, *pg.RangeVar:
			out = "it reads tables"
		case *pg.FuncCall:
			names := nameList(m.Funcname)
			if name := names[len(names)-1]; re.volatility(name) != 'i' {
				out = "function " + name + " may have another result on each"
			}
		case *pg.A_Const:
			// These words mean the time at which they are read.
			switch strings.ToLower(strings.TrimSpace(m.GetSval().GetSval())) {
			case "now", "today", "tomorrow", "yesterday":
				out = "it asks for the time"
			}
		case *pg.A_Expr:
			if names := nameList(m.Name); len(names) == 2 && names[0] != "pg_catalog" {
				out = "operator " + names[1] + " may have another result on each"
			}
		}
		return out == ""
	})
	return out
}

// hiddenFromCopies refuses a write through a view of a reference table that hides a column which a
// trigger may set: the column's new value could not be compared.
func (c *copier) hiddenFromCopies() {
	for i := range c.rel.Columns {
		col := &c.rel.Columns[i]
		if !hidden(col) || col.Generated {
			continue
		}
		for _, tr := range c.rel.Triggers {
			if why := c.a.reach().unsteady(tr); why != "" {
				c.a.unsupported("Write to the table itself.", "trigger %q of reference table %q may give column %q another value on each copy, and the view does not show it: %s",
					tr.Name, c.rel.Name.Name, shownName(col), why)
				return
			}
		}
	}
}
