package selects

import (
	"fmt"
	"slices"
	"strings"
)

func (g *generator) source(r relation) source {
	return source{alias: g.alias("t"), columns: r.columns, key: r.key, unique: r.unique}
}

// table is a relation: mostly one of those that are colocated, so that joins
// find partners.
func (g *generator) table() relation {
	switch n := g.IntN(100); {
	case n < 45 && len(g.ctes) > 0:
		return pick(g, g.ctes)
	case n < 60:
		return pick(g, colocated)
	default:
		return pick(g, tables)
	}
}

// from is a FROM clause and the scope it makes inside sc.
func (g *generator) from(sc *scope) (*scope, string) {
	inner := &scope{outer: outerOf(sc), depth: sc.depth - 1}
	if g.chance(2) {
		return inner, "" // no FROM at all
	}
	first, text := g.item(inner)
	inner.sources = append(inner.sources, first)
	text = " from " + text
	for len(inner.sources) < 4 && g.chance(42-10*len(inner.sources)) {
		next := g.join(inner)
		text += next
		if next[0] == ',' {
			break // what follows could not name what is before the comma
		}
	}
	return inner, text
}

// outerOf is what a query inside sc may refer to.
func outerOf(sc *scope) *scope {
	if len(sc.sources) == 0 {
		return sc.outer
	}
	return sc
}

// item is one thing in FROM: a table, a subquery, a function, VALUES.
func (g *generator) item(sc *scope) (source, string) {
	switch n := g.IntN(100); {
	case n < 14 && sc.depth > 0:
		body, out, free := g.query(&scope{depth: sc.depth}, nil)
		if free != nil && g.chance(15) {
			body += " order by " + positions(len(out)) + " limit " + fmt.Sprint(1+g.IntN(30))
		}
		s := source{alias: g.alias("s"), columns: out}
		return s, "(" + body + ") " + s.alias
	case n < 18:
		s := source{alias: g.alias("f"), columns: []column{{"v", integer}}, unique: []string{"v"}}
		return s, fmt.Sprintf("generate_series(%d, %d) %s(v)", g.IntN(4)-1, 2+g.IntN(8), s.alias)
	case n < 20:
		s := source{alias: g.alias("f"), columns: []column{{"v", word}}}
		return s, "unnest(array['apple', 'zebra', null, 'a b']) " + s.alias + "(v)"
	case n < 23:
		s := source{alias: g.alias("v"), columns: []column{{"p", integer}, {"q", word}}}
		return s, g.values([]string{integer, word}) + " " + s.alias + "(p, q)"
	default:
		r := g.table()
		s := g.source(r)
		return s, r.name + " " + s.alias
	}
}

// join adds one more source to the scope and returns the text for it.
func (g *generator) join(sc *scope) string {
	if sc.depth > 0 && g.chance(10) {
		return g.lateral(sc)
	}
	next, text := g.item(sc)
	before := pick(g, sc.sources)
	all := &scope{sources: append(slices.Clone(sc.sources), next), outer: sc.outer, depth: 0}
	defer func() { sc.sources = all.sources }()
	switch n := g.IntN(100); {
	case n < 6:
		return " cross join " + text
	case n < 12:
		return ", " + text
	case n < 24:
		if shared := common(before, next); len(shared) > 0 && len(sc.sources) == 1 {
			return pick(g, joins) + text + " using (" + pick(g, shared) + ")"
		}
	case n < 26 && len(sc.sources) == 1 && len(common(before, next)) > 0:
		return " natural" + pick(g, joins) + text
	}
	kind := pick(g, joins)
	on := g.equality(before, next)
	if kind == " full join " {
		return kind + text + " on " + on
	}
	switch n := g.IntN(100); {
	case n < 25:
		on += " and " + g.condition(all, 1)
	case n < 32:
		on = g.condition(all, 1)
	case n < 36:
		on += " or " + g.condition(all, 0)
	}
	return kind + text + " on " + on
}

var joins = []string{" join ", " join ", " join ", " left join ", " left join ", " right join ", " full join "}

// common are columns with the same name and kind, which USING can name.
func common(a, b source) []string {
	var out []string
	for _, c := range a.columns {
		if slices.Contains(b.columns, c) && len(c.name) < 5 {
			out = append(out, c.name)
		}
	}
	return out
}

// equality joins two sources: by their keys if they have such, or by others.
func (g *generator) equality(a, b source) string {
	if a.key != nil && b.key != nil && g.chance(70) {
		x, y := kindOf(a, a.key[0]), kindOf(b, b.key[0])
		if x == y {
			on := a.ref(a.key[0]) + " = " + b.ref(b.key[0])
			if len(a.key) > 1 && len(b.key) > 1 && g.chance(80) {
				on += " and " + a.ref(a.key[1]) + " = " + b.ref(b.key[1])
			}
			return on
		}
	}
	for range 8 {
		x, y := pick(g, a.columns), pick(g, b.columns)
		if x.kind == y.kind {
			return a.ref(x.name) + pick(g, []string{" = ", " = ", " = ", " = "}) + b.ref(y.name)
		}
	}
	return g.expr(integer, &scope{sources: []source{a}}, 0) + " = " + g.expr(integer, &scope{sources: []source{b}}, 0)
}

func kindOf(s source, name string) string {
	i := slices.IndexFunc(s.columns, func(c column) bool { return c.name == name })
	if i < 0 {
		return ""
	}
	return s.columns[i].kind
}

// lateral joins a subquery that refers to what is before it.
func (g *generator) lateral(sc *scope) string {
	var body string
	var out []column
	if g.chance(15) {
		if lists := sc.refs(integers); len(lists) > 0 {
			s := source{alias: g.alias("f"), columns: []column{{"v", integer}}}
			sc.sources = append(sc.sources, s)
			return pick(g, []string{" cross join lateral ", ", lateral ", ", "}) + "unnest(" + pick(g, lists) + ") " + s.alias + "(v)"
		}
	}
	around := &scope{sources: sc.sources, outer: sc.outer, depth: sc.depth}
	inner, from := g.from(&scope{outer: around, depth: 0})
	if inner.sources != nil {
		where := " where " + g.correlation(inner)
		if g.chance(50) {
			items, o := g.items(inner, nil, false)
			body, out = "select "+items+from+where, o
			if g.chance(40) {
				body += " order by " + positions(len(out)) + " limit " + fmt.Sprint(1+g.IntN(3))
			}
		} else {
			body, out = g.grouped(inner, from+where, nil)
		}
	} else {
		items, o := g.items(around, nil, false)
		body, out = "select "+items, o
	}
	s := source{alias: g.alias("l"), columns: out}
	kind := pick(g, []string{" cross join lateral ", " join lateral ", " left join lateral ", ", lateral "})
	text := kind + "(" + body + ") " + s.alias
	if strings.HasSuffix(kind, "join lateral ") && !strings.HasPrefix(kind, " cross") {
		text += " on " + pick(g, []string{"true", "true", g.condition(around, 0)})
	}
	sc.sources = append(sc.sources, s)
	return text
}

// correlation is a condition that names the nearest outer sources.
func (g *generator) correlation(sc *scope) string {
	if sc.outer == nil || len(sc.outer.sources) == 0 {
		return g.condition(sc, 1)
	}
	on := g.equality(pick(g, sc.sources), pick(g, sc.outer.sources))
	if g.chance(35) {
		on += pick(g, []string{" and ", " and ", " and ", " or "}) + g.condition(sc, 0)
	}
	return on
}
