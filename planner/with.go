package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// with is a WITH clause, with the clauses around it.
type with struct {
	parent *with
	ctes   []*cte
}

// cte is one query of a WITH clause.
type cte struct {
	node *pg.CommonTableExpr
	at   *level // the level in which the query is analysed
	// scope has the facts of the rows that the query yields, if it is not analysed where it is
	// used.
	scope *scope
	// once is set if one place names the query, and its rows are used nowhere else.
	once      bool
	recursive bool // the query stands in WITH RECURSIVE
	done      bool
	cols      []output
	opaque    bool
}

func (w *with) find(name string) *cte {
	for ; w != nil; w = w.parent {
		for i := len(w.ctes) - 1; i >= 0; i-- {
			if w.ctes[i].node.Ctename == name {
				return w.ctes[i]
			}
		}
	}
	return nil
}

// withClause makes the queries of a WITH known to the level. whole is the statement that has the
// clause.
func (l *level) withClause(w *pg.WithClause, whole any) {
	if w == nil {
		return
	}
	in := &with{parent: l.with}
	named := uses(whole)
	for _, n := range w.Ctes {
		e := n.GetCommonTableExpr()
		if e == nil {
			continue
		}
		c := &cte{node: e, recursive: w.Recursive, at: &level{a: l.a, parent: l.parent, with: in, scope: l.fromClause().outside()}}
		if !w.Recursive {
			// The query can name those before it.
			c.at.with = &with{parent: l.with, ctes: in.ctes}
		}
		self := w.Recursive && uses(e.Ctequery)[e.Ctename] > 0
		c.once = e.Ctequery.GetSelectStmt() != nil && !self && (named[e.Ctename] == 1 || named[e.Ctename] > 1 && l.a.probe.inlines())
		c.opaque = self
		in.ctes = append(in.ctes[:len(in.ctes):len(in.ctes)], c)
	}
	for _, c := range in.ctes {
		c.analyse()
	}
	l.with = in
}

// analyse looks into a query that is not looked into where it is used.
func (c *cte) analyse() {
	if c.once || c.done {
		return
	}
	c.done = true
	c.scope = c.at.scope
	sel := c.node.Ctequery.GetSelectStmt()
	switch {
	case sel == nil:
		c.at.a.notes.modifies()
		c.at.modification().modifying(c)
	case c.opaque: // It names itself: its rows come from any of its rounds.
		cols, _ := c.at.query(sel)
		c.cols = append(c.cols, fresh(cols)...)
		for i := range c.cols {
			c.cols[i].column.typ = 0
		}
		c.opaque = len(cols) == 0
		if e := c.node.CycleClause; e != nil {
			c.at.expression(e.CycleMarkValue)
			c.at.expression(e.CycleMarkDefault)
		}
		c.opaque = c.opaque || c.node.CycleClause != nil || c.node.SearchClause != nil
	default:
		c.cols, c.opaque = c.at.query(sel)
	}
}

// uses counts the places where a name stands for a relation. These may be more than the places that
// mean a CTE.
func uses(whole any) map[string]int {
	n := map[string]int{}
	parser.Walk(whole, func(m any) bool {
		if rv, ok := m.(*pg.RangeVar); ok && rv.Schemaname == "" {
			n[rv.Relname]++
		}
		return true
	})
	return n
}

// reference analyses a CTE that is named in FROM.
func (l *level) reference(c *cte, rv *pg.RangeVar, s *scope) *source {
	if c.once && (!c.done || l.a.probe.inlines()) {
		// The rows are used here and nowhere else, so the CTE is like a subquery. (A probe looks at
		// each use as if the query were written there.)
		c.done = true
		at, first := *c.at, len(l.a.instances)
		at.scope = s
		c.cols, c.opaque = at.query(c.node.Ctequery.GetSelectStmt())
		l.a.probe.derive(l.a, derived{sel: c.node.Ctequery.GetSelectStmt(), with: c.at.with, scope: s, first: first, cols: c.cols, opaque: c.opaque})
	}
	c.analyse()
	cols := c.cols
	if len(c.node.Aliascolnames) > 0 {
		if c.opaque {
			cols = nil
		}
		cols = rename(cols, c.node.Aliascolnames)
	}
	if !c.once {
		// Conditions here are not conditions on rows used elsewhere. But facts that hold for all
		// rows hold for these.
		inner := newClasses(c.scope)
		named := fresh(cols)
		for i := range named {
			s.add(inner.outward(cols[i].column, named[i].column)...)
		}
		cols = named
	}
	return simple(rv.Relname, "", rv.Alias, cols, c.opaque)
}

// fresh returns columns of the same types about which nothing else is known.
func fresh(cols []output) []output {
	out := make([]output, len(cols))
	for i, o := range cols {
		out[i] = output{o.name, &column{name: o.name, typ: o.column.typ, declared: o.column.declared, apart: o.column.apart, stored: o.column.stored}}
	}
	return out
}
