package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
)

// staying finds the names of relations that stay in the text that the shards run.
func (c *changing) staying() (map[*pg.RangeVar]bool, *pgerr.Error) {
	in := c.a.gatherer().probing(c.a.text)
	in.probe.spans = map[*pg.RangeVar][]span{}
	l := in.top()
	l.query(c.rows())
	c.a.out.Exact = c.a.out.Exact || in.out.Exact
	if c.table != nil {
		c.findOnce()
	}
	if refusal := c.unfit(in); refusal != nil {
		return nil, refusal
	}
	beside := make([]bool, len(in.instances))
	if at := c.anchorIn(in); at != nil {
		beside = at.beside(c.a, l)
	}
	if refusal := c.viewAlone(in, beside); refusal != nil {
		return nil, refusal
	}
	once := c.answeredOnce()
	stays := map[*pg.RangeVar]bool{c.target: true}
	for rv, spans := range in.probe.spans {
		if rv == c.target {
			continue
		}
		near := true
		for _, s := range spans {
			for i := s.first; i < s.last; i++ {
				near = near && beside[i]
			}
		}
		stays[rv] = near && !once[rv] && c.mayStay(rv)
	}
	if in.out.Locks {
		return stays, c.unfitLocks(stays)
	}
	return stays, nil
}

// mayStay reports whether a relation is where the text runs, apart from the rows of its sharded
// tables.
func (c *changing) mayStay(rv *pg.RangeVar) bool {
	if use := c.a.notes.views[rv]; use != nil {
		return c.table != nil && c.a.commands().placeOf(use.rel) == onEvery && !c.a.clock().asksTime(use.query) && !c.a.writes().orders(use.query)
	}
	x := c.a.notes.byNode[rv]
	switch {
	case x == nil:
		return false // a CTE: its tables are judged instead
	case x.table != nil:
		return true
	case c.table == nil:
		return true // the relation is at home, like the target
	case x.rel != nil && x.rel.Kind == catalog.View && !x.rel.System():
		return c.a.commands().placeOf(x.rel) == onEvery && c.readsSteadily(x.rel)
	}
	return false
}

// readsSteadily reports whether a view yields the same rows on every copy of its tables.
func (c *changing) readsSteadily(rel *catalog.Relation) bool {
	tree, err := parser.ParseTree(rel.Definition, parser.Options{})
	if err != nil || len(tree.Statements) != 1 {
		return false
	}
	return !c.a.clock().asksTime(tree.Statements[0].Stmt) && !c.a.writes().orders(tree.Statements[0].Stmt)
}

// anchorIn returns the target as the anchor of all rows, or nil if no columns tell where they are.
func (c *changing) anchorIn(in *analysis) *anchor {
	if c.table == nil || c.table.Reference {
		return nil
	}
	first := -1
	if spans := in.probe.spans[c.target]; len(c.through.views) > 0 && len(spans) > 0 {
		first = spans[0].first // the table below the view comes first
	}
	for i, x := range in.instances {
		if i != first && x.rv != c.target || x.stored {
			continue
		}
		at := &anchor{table: x.table, first: i, last: i + 1}
		for _, k := range x.table.keys {
			if x.cols[k.Name] == nil {
				return nil
			}
			at.key = append(at.key, x.cols[k.Name])
		}
		return at
	}
	return nil
}

// viewAlone refuses a written view that needs more than the rows of its table on the same shard.
func (c *changing) viewAlone(in *analysis, beside []bool) *pgerr.Error {
	if c.table == nil || len(c.through.views) == 0 {
		return nil
	}
	for _, s := range in.probe.spans[c.target] {
		for i := s.first; i < s.last; i++ {
			if i > s.first && !beside[i] {
				return cannot("Write to the table itself.", "view %q reads rows of %q that may be on other shards than those that are written", c.target.Relname, in.instances[i].name)
			}
		}
	}
	for _, v := range c.through.views {
		if !c.readsSteadily(v) {
			return cannot("Write to the table itself.", "view %q may show other rows on each shard: it asks for the time, or for some rows of many", v.Name.Name)
		}
	}
	return nil
}

// unfit refuses a statement that the shards cannot run independently.
func (c *changing) unfit(in *analysis) *pgerr.Error {
	t := &in.touched
	switch {
	case in.refused():
		return in.out.Refusal
	case c.where().GetCurrentOfExpr() != nil:
		return cannot("Declare the cursor in the same transaction, over rows of one shard key.", "WHERE CURRENT OF needs a cursor on one shard")
	case in.out.Writes:
		return cannot("Change the rows in a statement of its own.", "a subquery that changes rows is not supported in a statement that writes on several shards")
	case c.table == nil:
		return nil
	case len(t.sequences) > 0:
		return cannot("Call it in a statement of its own.", "%s runs on the home shard, and %q is on all shards", t.sequences[0], c.target.Relname)
	case len(t.homely) > 0:
		return cannot("Call it in a statement of its own.", "%s runs on the home shard, and %q is on all shards", t.homely[0], c.target.Relname)
	case t.catalog:
		return cannot("Write the OID, or a name as text.", "names of objects mean something on the home shard only, and %q is on all shards", c.target.Relname)
	case t.system != "":
		return cannot("It is each shard's own.", "system column %s of a table on several shards is not supported", t.system)
	}
	return c.unfitCalls(in)
}

// perRowCalls are volatile functions that are evaluated for each row, on any shard.
var perRowCalls = set("random", "clock_timestamp", "gen_random_uuid", "timeofday", "pg_sleep", "uuid_generate_v4", "uuid_generate_v1")

// unfitCalls refuses functions that would have a value on each shard where PostgreSQL has one value
// for all rows.
func (c *changing) unfitCalls(in *analysis) *pgerr.Error {
	apart := map[*pg.FuncCall]bool{}
	for _, sel := range slices.Concat(c.once, c.locking) {
		parser.Walk(sel, func(m any) bool {
			if f, ok := m.(*pg.FuncCall); ok {
				apart[f] = true
			}
			return true
		})
	}
	own := map[*pg.FuncCall]bool{}
	for _, n := range c.own {
		walkLevel(n, func(m any) {
			if f, ok := m.(*pg.FuncCall); ok {
				own[f] = true
			}
		})
	}
	for _, f := range in.probe.calls {
		name := lastName(f.Funcname)
		t := in.env.Schema.Builtin(name)
		switch {
		case apart[f]:
		case ofServer[name]:
			return cannot("Give the value as a parameter; now() is the same on all shards.", "function %s tells of the shard it runs on", name)
		case t.Known && t.Volatility != 'v', own[f] && (!t.Known || perRowCalls[name]):
		case own[f]:
			return cannot("Call it in a statement of its own.", "volatile function %s in a statement that writes on several shards", name)
		default:
			return cannot("Ask for the value first.", "volatile function %s is to be called once for all shards", name)
		}
	}
	var refusal *pgerr.Error
	parser.Walk(c.stmt, func(m any) bool {
		f, ok := m.(*pg.FuncCall)
		if !ok || own[f] || apart[f] || refusal != nil {
			return refusal == nil
		}
		names := nameList(f.Funcname)
		schema := ""
		if len(names) > 1 {
			schema = names[len(names)-2]
		}
		for _, u := range c.a.reach().userFunctions(schema, names[len(names)-1]) {
			if u.Volatility == 'v' {
				refusal = cannot("Ask for the value first.", "volatile function %s is to be called once for all shards", u.Name.Name)
			}
		}
		return true
	})
	return refusal
}

// answeredOnce finds the relations that are read by a query which names nothing of the queries
// around it, so that PostgreSQL answers it once, and whose rows depend on the order in which they
// are found. Two copies of a reference table would not agree.
func (c *changing) answeredOnce() map[*pg.RangeVar]bool {
	once := map[*pg.RangeVar]bool{}
	parser.Walk(c.stmt, func(m any) bool {
		sel, ok := m.(*pg.SelectStmt)
		if !ok || !slices.Contains(c.once, sel) && (!c.a.writes().orderly(sel) || !c.a.gatherer().closed(sel)) {
			return true
		}
		parser.Walk(sel, func(m any) bool {
			if rv, ok := m.(*pg.RangeVar); ok {
				once[rv] = true
			}
			return true
		})
		return false
	})
	return once
}

// orderly reports whether the rows of a query depend on the order in which other rows are found.
func (wr writes) orderly(sel *pg.SelectStmt) bool {
	found := sel.LimitCount != nil || sel.LimitOffset != nil || len(sel.DistinctClause) > 0 && sel.DistinctClause[0].GetNode() != nil ||
		wr.a.top().ordered(sel)
	for _, n := range sel.FromClause {
		walkNodes(n, func(m *pg.Node) bool {
			found = found || m.GetRangeTableSample() != nil
			return m.GetSelectStmt() == nil
		})
	}
	return found
}

// orders reports whether a query, or one in it, is orderly.
func (wr writes) orders(n *pg.Node) bool {
	found := false
	parser.Walk(n, func(m any) bool {
		if sel, ok := m.(*pg.SelectStmt); ok {
			found = found || wr.orderly(sel)
		}
		return !found
	})
	return found
}
