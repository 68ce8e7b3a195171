package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/plan"
)

// from adds the items of a FROM clause to the level. An item can name earlier ones only if it is
// LATERAL.
func (fr fromClause) from(nodes []*pg.Node) {
	for _, n := range nodes {
		s := fr.element(n, fr.l.scope, nil)
		fr.l.sources = append(fr.l.sources, s)
	}
}

// element analyses one item of FROM whose rows are in scope s. left are the items left of it in its
// own join tree, for LATERAL.
func (fr fromClause) element(n *pg.Node, s *scope, left []*source) *source {
	switch n := n.GetNode().(type) {
	case *pg.Node_RangeVar:
		return fr.table(n.RangeVar, s)
	case *pg.Node_RangeSubselect:
		return fr.subselect(n.RangeSubselect, s, left)
	case *pg.Node_JoinExpr:
		return fr.join(n.JoinExpr, s, left)
	case *pg.Node_RangeFunction:
		return fr.rowsFrom(n.RangeFunction, s, left)
	case *pg.Node_RangeTableSample:
		fr.lateral(s, left).expressions(n.RangeTableSample.Args)
		fr.l.a.probe.sample(fr.l, n.RangeTableSample)
		out := fr.element(n.RangeTableSample.Relation, s, left)
		fr.l.a.notes.sampled(n.RangeTableSample)
		return out
	case *pg.Node_RangeTableFunc:
		fr.lateral(s, left).expression(&pg.Node{Node: n})
		return opaque(n.RangeTableFunc.Alias)
	}
	fr.lateral(s, left).expression(n) // JSON_TABLE and future nodes
	return opaque(nil)
}

// lateral returns a level that can name the items before an item of FROM.
func (fr fromClause) lateral(s *scope, left []*source) *level {
	return &level{a: fr.l.a, parent: fr.l.parent, with: fr.l.with, scope: s, sources: append(append([]*source(nil), fr.l.sources...), left...)}
}

// opaque returns a source whose columns are not known.
func opaque(alias *pg.Alias) *source {
	if alias == nil {
		return &source{opaque: true, nameless: true}
	}
	return &source{opaque: true, items: []*item{{name: alias.Aliasname, opaque: true}}}
}

// simple returns a source with one name and its columns.
func simple(name, schema string, alias *pg.Alias, cols []output, opaque bool) *source {
	if alias != nil {
		name, schema = alias.Aliasname, ""
		if opaque && len(alias.Colnames) > 0 {
			cols = nil // the renamed columns cannot be told
		}
		cols = rename(cols, alias.Colnames)
	}
	return &source{items: []*item{{name: name, schema: schema, cols: cols, opaque: opaque}}, cols: cols, opaque: opaque}
}

// table analyses a name in FROM: a CTE, a table or a view.
func (fr fromClause) table(rv *pg.RangeVar, s *scope) *source {
	defer fr.l.a.probe.named(fr.l.a, rv, len(fr.l.a.instances))
	if rv.Schemaname == "" {
		if c := fr.l.with.find(rv.Relname); c != nil {
			return fr.l.reference(c, rv, s)
		}
	}
	if fr.l.a.temporary(rv) {
		fr.l.a.touched.home = append(fr.l.a.touched.home, rv.Relname)
		return fr.l.a.notes.appears(fr.l, rv, nil, nil, nil, s).own(simple(rv.Relname, "", rv.Alias, nil, true), nil)
	}
	rel, t := fr.l.a.relation(rv)
	fr.l.a.probe.read(rel)
	fr.l.modification().policed(rel, t, false)
	switch {
	case rel == nil:
		fr.l.a.touched.missing = append(fr.l.a.touched.missing, rv)
		return simple(rv.Relname, rv.Schemaname, rv.Alias, nil, true)
	case t != nil:
		fr.l.a.touch(t, rel.Name.Name)
		var x *instance
		if !t.Reference {
			x = fr.l.a.appear(t, called(rv), s)
			x.rv = rv
			x.policy = fr.l.a.policyKey(rel, t, 'r')
		}
		cols := columns(rel, x)
		return fr.l.a.notes.appears(fr.l, rv, rel, t, x, s).own(simple(rv.Relname, rel.Schema, rv.Alias, cols, false), cols)
	case rel.Kind == catalog.View && !rel.System() && rel.Schema != ownSchema: // weft's own views have rows at home only
		return fr.l.view(rel, rv, s)
	}
	fr.l.a.touched.home = append(fr.l.a.touched.home, rel.Name.Name)
	fr.statistics(rv, rel)
	cols := columns(rel, nil)
	return fr.l.a.notes.appears(fr.l, rv, rel, nil, nil, s).own(simple(rv.Relname, rel.Schema, rv.Alias, cols, len(cols) == 0), cols)
}

// called returns the name that a text gives a table.
func called(rv *pg.RangeVar) string {
	if rv.Alias != nil && rv.Alias.Aliasname != rv.Relname {
		return rv.Relname + " " + rv.Alias.Aliasname
	}
	return rv.Relname
}

// subselect analyses a subquery in FROM.
func (fr fromClause) subselect(n *pg.RangeSubselect, s *scope, left []*source) *source {
	in := fr.l.beside(s)
	if n.Lateral {
		in = fr.lateral(s, left).inner(s)
	}
	name, first := "", len(fr.l.a.instances)
	cols, opaque := in.query(n.Subquery.GetSelectStmt())
	if !n.Lateral {
		fr.l.a.probe.derive(fr.l.a, derived{sel: n.Subquery.GetSelectStmt(), with: fr.l.with, scope: s, first: first, cols: cols, opaque: opaque})
	}
	if n.Alias == nil { // PostgreSQL 16 allows that
		return &source{cols: cols, opaque: opaque}
	}
	return simple(name, "", n.Alias, cols, opaque)
}

// join analyses a join. A side whose rows may be missing gets a scope of its own; see scope for
// what that means.
func (fr fromClause) join(n *pg.JoinExpr, s *scope, left []*source) *source {
	fr.l.runNames(n)
	ls, rs, on := s, s, s
	switch n.Jointype {
	case pg.JoinType_JOIN_LEFT:
		rs = s.child(true)
		on = rs
	case pg.JoinType_JOIN_RIGHT:
		ls = s.child(true)
		on = ls
	case pg.JoinType_JOIN_FULL:
		ls, rs, on = s.child(true), s.child(true), nil
	}
	first := len(fr.l.a.instances)
	a := fr.element(n.Larg, ls, left)
	b := fr.element(n.Rarg, rs, append(append([]*source(nil), left...), a))
	out := &source{
		items:  append(append([]*item(nil), a.items...), b.items...),
		opaque: a.opaque || b.opaque, nameless: a.nameless || b.nameless,
	}

	names := nameList(n.UsingClause)
	if n.IsNatural && !out.opaque {
		names = common(a, b)
	}
	if n.IsNatural && out.opaque {
		// Which columns are equated is not known, so neither is what a name means.
		out.cols = nil
		return out
	}
	rest := merge(out, a, b, names, n.Jointype, on)
	out.cols = append(out.cols, rest...)

	if n.Jointype == pg.JoinType_JOIN_FULL && fr.l.a.probe != nil {
		fr.fullJoin(n, s, a, b, out, names, first)
	}
	if n.Quals != nil {
		at := &level{a: fr.l.a, parent: fr.l.parent, with: fr.l.with, sources: []*source{a, b}}
		fr.l.a.notes.offer(fr.l, at, on, n.Quals)
		switch {
		case on == nil:
			at.scope = fr.outside()
			at.expression(n.Quals)
		case on != s || s != fr.l.scope:
			// ON decides whether there is a row of NULLs: facts of the result's rows need not hold
			// while ON is evaluated.
			at.scope = fr.outside()
			on.add(at.predicates().facts(n.Quals)...)
			at.expression(n.Quals)
		default:
			at.scope = s
			at.predicates().conditions(n.Quals)
		}
	}
	if n.Alias != nil {
		if out.opaque && len(n.Alias.Colnames) > 0 {
			out.cols = nil // the renamed columns cannot be told
		}
		out.cols = rename(out.cols, n.Alias.Colnames)
		out.items, out.nameless = []*item{{name: n.Alias.Aliasname, cols: out.cols, opaque: out.opaque}}, false
	}
	if n.JoinUsingAlias != nil {
		out.items = append(out.items, &item{name: n.JoinUsingAlias.Aliasname, cols: out.cols[:min(len(names), len(out.cols))]})
	}
	return out
}

// outside returns a scope in which no facts of this level hold, but those of the levels around it
// do.
func (fr fromClause) outside() *scope {
	if fr.l.parent == nil {
		return &scope{}
	}
	return &scope{parent: fr.l.parent.scope}
}

// common returns the names of the columns that both sides have, for NATURAL.
func common(a, b *source) []string {
	var out []string
	for _, x := range a.cols {
		for _, y := range b.cols {
			if x.name == y.name {
				out = append(out, x.name)
				break
			}
		}
	}
	return out
}

// merge puts the columns of USING first, equates them, and returns the other columns.
func merge(out, a, b *source, names []string, kind pg.JoinType, on *scope) (rest []output) {
	used := map[string]bool{}
	for _, name := range names {
		used[name] = true
		x, y := only(a, name), only(b, name)
		if x == nil || y == nil {
			if !a.opaque && !b.opaque {
				continue // the server will say so
			}
			out.cols = append(out.cols, output{name, &column{name: name}})
			continue
		}
		if on != nil && x.class() != 0 && x.class() == y.class() {
			on.add(fact{left: x, right: y})
		}
		switch kind {
		case pg.JoinType_JOIN_RIGHT:
			out.cols = append(out.cols, output{name, y})
		case pg.JoinType_JOIN_FULL:
			out.cols = append(out.cols, output{name, &column{name: name, typ: x.typ, declared: x.declared}})
		default:
			out.cols = append(out.cols, output{name, x})
		}
	}
	for _, s := range []*source{a, b} {
		for _, o := range s.cols {
			if !used[o.name] {
				rest = append(rest, o)
			}
		}
	}
	return rest
}

func only(s *source, name string) (c *column) {
	for _, o := range s.cols {
		if o.name == name {
			if c != nil {
				return nil
			}
			c = o.column
		}
	}
	return c
}

// values analyses rows of constants.
func (fr fromClause) values(lists []*pg.Node) []output {
	var out []output
	for i, row := range lists {
		items := row.GetList().GetItems()
		for j, n := range items {
			fr.l.expression(n)
			if i == 0 {
				out = append(out, output{columnNumber(j), &column{name: columnNumber(j)}})
			}
		}
	}
	for j := range out {
		fr.valuesColumn(out[j].column, lists, j)
	}
	return out
}

// valuesColumn finds the type and the values of column j, if all values are constants of one kind.
func (fr fromClause) valuesColumn(c *column, lists []*pg.Node, j int) {
	var set plan.Set
	for _, row := range lists {
		items := row.GetList().GetItems()
		if j >= len(items) {
			return
		}
		src, ok := fr.l.predicates().constant(items[j])
		if !ok || src.Kind == plan.Null {
			return
		}
		t := outputType(src)
		if class(t) == 0 || c.typ != 0 && class(t) != class(c.typ) {
			c.typ = 0
			return
		}
		if c.typ == 0 || t > c.typ {
			c.typ = t
		}
		src.Type = t
		set = append(set, src)
	}
	c.declared = c.typ
	if c.typ != 0 {
		fr.l.scope.add(fact{left: c, set: set})
	}
}
