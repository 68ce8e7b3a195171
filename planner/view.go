package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
)

// maxViews bounds how deep views that read views are looked into.
const maxViews = 32

// maxExpanded bounds how many views one text looks into, each counted as often as it is read.
const maxExpanded = 1000

// view analyses a view as the subquery that it is. Its definition is printed with every name
// qualified, and parsed under a search path of its own.
func (l *level) view(rel *catalog.Relation, rv *pg.RangeVar, s *scope) *source {
	if rel.Busy {
		l.a.out.Waits = true
		l.a.refuse(pgerr.ObjectInUse, "Try again when that is done.", "view %q, or what it reads, is being changed", rel.Name.Name)
		return simple(rv.Relname, rel.Schema, rv.Alias, nil, true)
	}
	r := l.a.commands().viewReads(rel)
	if r.sharded == "" && r.reference == "" {
		// The view is on the home shard alone, even if it reads no table.
		l.a.touched.home = append(l.a.touched.home, rel.Name.Name)
	}
	tree, err := parser.ParseTree(rel.Definition, parser.Options{})
	if err != nil || len(tree.Statements) != 1 || l.a.view.depth >= maxViews || l.a.view.expanded >= maxExpanded || tree.Statements[0].Stmt.GetSelectStmt() == nil {
		l.a.unsupported("Write its query where it is used. Views that are nested deeply are looked into down to a limit only.", "weft cannot look into view %q", rel.Name.Name)
		return simple(rv.Relname, rel.Schema, rv.Alias, nil, true)
	}
	parser.Walk(tree.Statements[0], func(m any) bool {
		if c, ok := m.(*pg.A_Const); ok {
			c.Location = -1 // the constant has no position in the client's text
		}
		return true
	})
	l.a.inlineView(tree.Statements[0].Stmt)
	outer := l.a.text
	l.a.text = text{sql: rel.Definition, tree: tree, path: []string{"pg_catalog"}, stored: true}
	l.a.view.depth++
	l.a.view.expanded++
	owner := l.a.view.owner
	if !rel.SecurityInvoker {
		l.a.view.owner = rel.Owner
	}
	l.a.notes.enter(1)
	in := &level{a: l.a, scope: s}
	first := len(l.a.instances)
	cols, opaque := in.query(tree.Statements[0].Stmt.GetSelectStmt())
	l.a.probe.derive(l.a, derived{sel: tree.Statements[0].Stmt.GetSelectStmt(), scope: s, first: first, cols: cols, opaque: opaque})
	l.a.notes.enter(-1)
	l.a.view.depth--
	l.a.view.owner = owner
	l.a.text = outer
	if opaque {
		cols = nil
	}
	if len(rel.Columns) == len(cols) {
		named := make([]output, len(cols))
		for i := range cols {
			named[i] = output{rel.Columns[i].Name, cols[i].column}
		}
		cols = named
	}
	if r.sharded != "" {
		l.a.notes.expands(rv, rel, tree.Statements[0].Stmt)
		return simple(rv.Relname, rel.Schema, rv.Alias, cols, opaque)
	}
	// The view is read in place, like a table.
	own := l.a.notes.copies(cols, s)
	return l.a.notes.appears(l, rv, rel, nil, nil, s).own(simple(rv.Relname, rel.Schema, rv.Alias, own, opaque), own)
}
