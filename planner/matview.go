package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
	"weft/quote"
)

// A materialized view is on the home shard, and PostgreSQL fills it there by
// running its query. For that the rows of other shards are lent to the tables it
// reads: see docs/decisions/0012-lent-rows.md.

// createMatView is the route of CREATE MATERIALIZED VIEW.
func (ob objects) createMatView(n *pg.CreateTableAsStmt) plan.Route {
	ob.a.notes = newNotes()
	ob.a.top().query(n.Query.GetSelectStmt())
	switch r := ob.a.decide(); {
	case ob.a.refused():
		return plan.Refused
	case r != plan.Keyed && r != plan.Gathered, n.Into.SkipData:
		ob.a.instances = nil
		return plan.Home
	}
	return ob.lend(n.Query)
}

// refreshMatView is the route of REFRESH MATERIALIZED VIEW.
func (ob objects) refreshMatView(n *pg.RefreshMatViewStmt) plan.Route {
	ob.a.out.Writes = true
	rel := ob.a.commands().named(rangeVar(n.Relation))
	if rel == nil || rel.Kind != catalog.MaterializedView || n.SkipData {
		return plan.Home // the home shard says what is wrong
	}
	if r := ob.a.commands().viewReads(rel); r.sharded == "" {
		return plan.Home
	}
	tree, err := parser.ParseTree(rel.Definition, parser.Options{})
	if err != nil || len(tree.Statements) != 1 {
		ob.a.unsupported("Try again when its tables are not being changed.", "the query of materialized view %q cannot be read", rel.Name.Name)
		return plan.Refused
	}
	outer := ob.a.text
	defer func() { ob.a.text = outer }()
	ob.a.text = text{sql: rel.Definition, tree: tree, path: []string{"pg_catalog"}, stored: true}
	return ob.lend(tree.Statements[0].Stmt)
}

// lend plans a command of the home shard whose query reads sharded tables.
func (ob objects) lend(query *pg.Node) plan.Route {
	ob.a.instances = nil
	ob.a.out.Exact = true
	l := &lending{a: ob.a, gather: &plan.Gather{}}
	l.read(query, 0)
	switch {
	case ob.a.refused():
		return plan.Refused
	case len(ob.a.touched.waits) > 0:
		ob.a.commands().wait()
		return plan.Refused
	case len(ob.a.client.tree.Statements) > 1:
		ob.a.unsupported("Send the statements one by one.", "a materialized view of sharded tables cannot be made together with other statements")
		return plan.Refused
	}
	ob.a.out.Across = l.gather
	ob.a.why("rows of other shards are lent to the home shard's tables")
	return plan.Gathered
}

// lending is the work on the query of one command.
type lending struct {
	a      *analysis
	gather *plan.Gather
}

// read finds the sharded tables that a query reads, also through views.
func (l *lending) read(query *pg.Node, depth int) {
	parser.Walk(query, func(m any) bool {
		switch m := m.(type) {
		case *pg.RangeVar:
			l.table(m, depth)
		case *pg.ColumnRef:
			names := nameList(m.Fields)
			if len(names) > 0 && systemColumns[names[len(names)-1]] {
				l.a.unsupported("It is each shard's own.", "system column %s in a materialized view of sharded tables is not supported", names[len(names)-1])
			}
		}
		return !l.a.refused()
	})
}

func (l *lending) table(rv *pg.RangeVar, depth int) {
	if l.a.temporary(rv) {
		return
	}
	rel, t := l.a.relation(rv)
	switch {
	case rel == nil || rel.System():
	case rel.Kind == catalog.View && depth > maxViews:
		l.a.unsupported("Write the query of the innermost views into the others.", "views are nested too deep")
	case rel.Kind == catalog.View:
		tree, err := parser.ParseTree(rel.Definition, parser.Options{})
		if err != nil || len(tree.Statements) != 1 {
			l.a.unsupported("Try again when its tables are not being changed.", "the query of view %q cannot be read", rel.Name.Name)
			return
		}
		outer := l.a.text
		l.a.text = text{sql: rel.Definition, tree: tree, path: []string{"pg_catalog"}, stored: true}
		l.read(tree.Statements[0].Stmt, depth+1)
		l.a.text = outer
	case t == nil || t.Reference:
	case rel.Kind != catalog.Table || rel.Parent != nil:
		l.a.unsupported("Make a table: CREATE TABLE … AS.", "a materialized view of sharded table %q is not supported: it has partitions, or is one", t.Name)
	case !rv.Inh:
		l.a.unsupported("Leave ONLY out: a sharded table has no tables below it.", "ONLY in a materialized view of sharded table %q is not supported", t.Name)
	default:
		l.a.touch(t, t.Name)
		l.add(rel, t)
	}
}

// add adds a table.
func (l *lending) add(rel *catalog.Relation, t *table) {
	name := plan.Name{Schema: rel.Schema, Table: rel.Name.Name}
	for i := range l.gather.Lend {
		if l.gather.Lend[i].Table == name {
			return
		}
	}
	lent := plan.Lent{Table: name}
	sql := "SELECT "
	for i := range rel.Columns {
		if rel.Columns[i].Generated {
			continue
		}
		if len(lent.Columns) > 0 {
			sql += ", "
		}
		lent.Columns = append(lent.Columns, rel.Columns[i].Name)
		sql += quote.Ident(rel.Columns[i].Name)
	}
	sql += " FROM ONLY " + rel.Name.SQL()
	in := plan.Instance{Table: &t.Table, Name: t.Name, Keys: make([][]plan.Set, len(t.keys))}
	l.gather.Lend = append(l.gather.Lend, lent)
	l.gather.Pieces = append(l.gather.Pieces, plan.Piece{
		Text: plan.Text{{Kind: plan.SQL, SQL: sql}}, Instances: []plan.Instance{in}, Name: t.Name, Elsewhere: true,
	})
}
