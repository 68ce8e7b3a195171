package catalog

import (
	"fmt"
	"maps"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

func (d *dump) createView(s *pg_query.ViewStmt) error {
	if s.View.GetRelpersistence() == "t" {
		return nil
	}
	n, err := d.place(rangeName(s.View))
	if err != nil {
		return err
	}
	var r *Relation
	if old := d.relations[n]; s.Replace && old != nil && old.Kind == View {
		r = old
	} else {
		if r, err = d.add(n, View); err != nil {
			return err
		}
		if err := d.rowType(r); err != nil {
			return err
		}
	}
	// CREATE OR REPLACE VIEW turns off the options that it does not name.
	r.SecurityBarrier, r.SecurityInvoker = false, false
	setViewOptions(r, s.Options, true)
	return d.fillView(r, s.Query, s.Aliases)
}

// setViewOptions follows the options of a view in WITH (…), SET (…) and, if not set,
// RESET (…).
func setViewOptions(r *Relation, options []*pg_query.Node, set bool) {
	for _, o := range options {
		on := set && optionOn(o.GetDefElem().GetArg())
		switch o.GetDefElem().GetDefname() {
		case "security_barrier":
			r.SecurityBarrier = on
		case "security_invoker":
			r.SecurityInvoker = on
		}
	}
}

// optionOn reads the value of a boolean option. An option without a value is on.
func optionOn(n *pg_query.Node) bool {
	if n == nil {
		return true
	}
	if b := n.GetBoolean(); b != nil {
		return b.Boolval
	}
	if i := n.GetInteger(); i != nil {
		return i.Ival != 0
	}
	text := lower(optionText(n))
	if text == "on" || text == "1" {
		return true
	}
	// PostgreSQL accepts any prefix of true and yes.
	return text != "" && (strings.HasPrefix("true", text) || strings.HasPrefix("yes", text))
}

func (d *dump) createTableAs(s *pg_query.CreateTableAsStmt) error {
	if s.Into.GetRel().GetRelpersistence() == "t" {
		return nil
	}
	n, err := d.place(rangeName(s.Into.GetRel()))
	if err != nil {
		return err
	}
	if s.IfNotExists && d.relations[n] != nil {
		return nil
	}
	kind := Table
	if s.Objtype == pg_query.ObjectType_OBJECT_MATVIEW {
		kind = MaterializedView
	}
	r, err := d.add(n, kind)
	if err != nil {
		return err
	}
	if err := d.rowType(r); err != nil {
		return err
	}
	if err := d.fillView(r, s.Query, s.Into.ColNames); err != nil {
		return err
	}
	if kind == Table {
		r.Definition = ""
	}
	return nil
}

// fillView gives a relation the columns and the definition of a query.
func (d *dump) fillView(r *Relation, query *pg_query.Node, aliases []*pg_query.Node) error {
	sel := query.GetSelectStmt()
	if sel == nil {
		return fmt.Errorf("%s: not a query", r.quoted())
	}
	if err := d.qualify(sel, nil); err != nil {
		return err
	}
	r.Columns = d.outputs(sel, nil)
	for i, a := range aliases {
		if i < len(r.Columns) {
			r.Columns[i].Name = a.GetString_().GetSval()
		}
	}
	for i := range r.Columns {
		r.Columns[i].Num = int16(i + 1)
	}
	var err error
	r.Definition, err = d.deparseQuery(query)
	return err
}

// qualify adds schemas to the relations that a query names, because a view keeps
// meaning the same relations whatever search_path is. ctes are the names of WITH
// queries in scope.
func (d *dump) qualify(sel *pg_query.SelectStmt, ctes map[string]bool) error {
	var err error
	if sel.WithClause != nil {
		ctes = maps.Clone(ctes)
		if ctes == nil {
			ctes = map[string]bool{}
		}
		// A WITH query sees the WITH queries before it; with RECURSIVE it sees all.
		for _, n := range sel.WithClause.Ctes {
			c := n.GetCommonTableExpr()
			if sel.WithClause.Recursive {
				ctes[c.GetCtename()] = true
			}
		}
		for _, n := range sel.WithClause.Ctes {
			c := n.GetCommonTableExpr()
			if q := c.GetCtequery().GetSelectStmt(); q != nil {
				if err := d.qualify(q, ctes); err != nil {
					return err
				}
			}
			ctes[c.GetCtename()] = true
		}
	}
	parser.Walk(sel, func(m any) bool {
		if err != nil {
			return false
		}
		switch m := m.(type) {
		case *pg_query.WithClause:
			return m != sel.WithClause // done above
		case *pg_query.SelectStmt:
			if m != sel {
				err = d.qualify(m, ctes)
				return false
			}
		case *pg_query.RangeVar:
			if m.Schemaname == "" && ctes[m.Relname] {
				return false
			}
			var r *Relation
			if r, err = d.need(rangeName(m)); err == nil && r.Schema != "pg_catalog" {
				m.Schemaname = r.Schema
			}
		}
		return true
	})
	return err
}
