package selects

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// grouped is a query with aggregates, with or without GROUP BY. The rest is its
// FROM and WHERE.
func (g *generator) grouped(sc *scope, rest string, kinds []string) (string, []column) {
	var items, groups []string
	var out []column
	add := func(expr, kind string) {
		c := column{fmt.Sprintf("c%d", len(out)+1), kind}
		items, out = append(items, expr+" as "+c.name), append(out, c)
	}
	if kinds != nil {
		for _, k := range kinds {
			if e := g.varying(k, sc); e != "" && g.chance(50) {
				add(stable(k, e), k)
				groups = append(groups, stable(k, e))
				continue
			}
			add(g.aggregateOf(k, sc), k)
		}
	} else {
		for range g.IntN(3) {
			k := g.someKind(sc)
			if s := sc.sources; len(s) > 0 && s[0].key != nil && g.chance(35) {
				k = kindOf(s[0], s[0].key[0])
				groups = append(groups, s[0].ref(s[0].key[0]))
			} else if e := g.varying(k, sc); e != "" {
				groups = append(groups, stable(k, e))
			} else {
				continue
			}
			if g.chance(85) {
				add(groups[len(groups)-1], k)
			}
		}
		for range 1 + g.IntN(3) {
			expr, kind := g.aggregate(sc)
			add(expr, kind)
		}
	}
	sql := "select " + strings.Join(items, ", ") + rest
	if len(groups) > 0 {
		sql += " group by " + g.grouping(groups, items)
	}
	if len(groups) > 0 && g.chance(25) || g.chance(5) {
		sql += " having " + g.having(sc)
	}
	return sql, out
}

// grouping is what follows GROUP BY.
func (g *generator) grouping(groups, items []string) string {
	n := g.IntN(100)
	if slices.ContainsFunc(groups, func(e string) bool { return !plainColumn.MatchString(e) }) {
		n = 100 // PostgreSQL may find an expression constant and forget that a set makes it NULL
	}
	switch {
	case n < 10:
		return "rollup (" + strings.Join(groups, ", ") + ")"
	case n < 16:
		return "cube (" + strings.Join(groups, ", ") + ")"
	case n < 24:
		return "grouping sets ((" + strings.Join(groups, ", ") + "), (" + groups[0] + "), ())"
	}
	list := make([]string, len(groups))
	for i, e := range groups {
		list[i] = e
		for p, item := range items {
			if strings.HasPrefix(item, e+" as ") && g.chance(40) {
				list[i] = fmt.Sprint(p + 1)
			}
		}
	}
	return strings.Join(list, ", ")
}

var plainColumn = regexp.MustCompile(`^(round\()?[a-z]+\d+\.\w+(, 2\))?$`)

func (g *generator) having(sc *scope) string {
	expr, kind := g.aggregate(sc)
	switch kind {
	case integer, numeric, float, word:
		return expr + pick(g, []string{" > ", " <= ", " <> "}) + g.constant(kind)
	}
	return "count(*) > " + fmt.Sprint(g.IntN(4))
}

// filtered adds FILTER now and then.
func (g *generator) filtered(agg string, sc *scope) string {
	if g.chance(15) {
		return agg + " filter (where " + g.condition(&scope{sources: sc.sources}, 1) + ")"
	}
	return agg
}

// aggregateOf is an aggregate of a wanted kind.
func (g *generator) aggregateOf(kind string, sc *scope) string {
	bare := &scope{sources: sc.sources}
	switch {
	case kind == integer:
		return g.filtered("count(*)", sc)
	case kind == boolean:
		return g.filtered("bool_or("+g.expr(boolean, bare, 1)+")", sc)
	case kind == numeric:
		return "round(" + g.filtered("sum("+g.expr(numeric, bare, 1)+")", sc) + ", 2)"
	default:
		return g.filtered(pick(g, []string{"min(", "max("})+g.expr(kind, bare, 1)+")", sc)
	}
}

// aggregate is any aggregate, and its kind.
func (g *generator) aggregate(sc *scope) (string, string) {
	bare := &scope{sources: sc.sources} // of outer columns alone it would be the outer query's
	k := g.someKind(bare)
	e := func(kind string) string { return g.expr(kind, bare, 1) }
	distinct := pick(g, []string{"", "", "distinct "})
	type made struct{ text, kind string }
	m := pick(g, []func() made{
		func() made { return made{"count(*)", integer} },
		func() made { return made{"count(*)", integer} },
		func() made { return made{"count(" + distinct + e(k) + ")", integer} },
		func() made { return made{"count(distinct " + e(k) + ")", integer} },
		func() made { return made{"sum(" + distinct + e(integer) + ")", numeric} },
		func() made { return made{"sum(" + e(numeric) + ")", numeric} },
		func() made { return made{"sum(" + e(float) + ")", float} },
		func() made { return made{"avg(" + distinct + e(integer) + ")", numeric} },
		func() made { return made{"avg(" + e(numeric) + ")", numeric} },
		func() made { return made{"avg(" + e(float) + ")", float} },
		func() made { return made{"min(" + e(word) + ")", word} },
		func() made { return made{"max(" + e(word) + ")", word} },
		func() made { return made{pick(g, []string{"min(", "max("}) + e(integer) + ")", integer} },
		func() made {
			if !g.aggregable(k) {
				return made{"count(" + e(k) + ")", integer}
			}
			return made{pick(g, []string{"min(", "max("}) + stable(k, e(k)) + ")", k}
		},
		func() made {
			return made{pick(g, []string{"bool_and(", "bool_or(", "every("}) + e(boolean) + ")", boolean}
		},
		func() made {
			return made{pick(g, []string{"bit_and(", "bit_or(", "bit_xor("}) + e(integer) + ")", integer}
		},
		func() made {
			return made{pick(g, []string{"stddev(", "variance(", "stddev_pop(", "var_samp("}) + e(integer) + ")", numeric}
		},
		func() made { return made{pick(g, []string{"stddev(", "var_pop("}) + e(float) + ")", float} },
		func() made {
			s := e(word)
			return made{"string_agg(" + distinct + s + ", ',' order by " + s + pick(g, []string{"", " desc"}) + ")", word}
		},
		func() made {
			s := stable(k, e(k))
			return made{"array_agg(" + s + " order by " + s + pick(g, []string{"", " nulls first"}) + ")::text", word}
		},
		func() made {
			s := e(integer)
			return made{"jsonb_agg(" + s + " order by " + s + ")", document}
		},
		func() made { return made{"percentile_disc(0.5) within group (order by " + e(integer) + ")", integer} },
		func() made { return made{"percentile_cont(0.25) within group (order by " + e(float) + ")", float} },
		func() made { return made{"mode() within group (order by " + e(word) + ")", word} },
		func() made { return made{"rank(3) within group (order by " + e(integer) + ")", integer} },
	})()
	if strings.HasPrefix(m.text, "array_agg") || strings.HasPrefix(m.text, "rank(3)") {
		return m.text, m.kind
	}
	text := g.filtered(m.text, sc)
	if g.chance(8) && m.kind == integer {
		text = "(" + text + " + 1)"
	}
	return text, m.kind
}

// windowed is a query with window functions.
func (g *generator) windowed(sc *scope, rest string) (string, []column) {
	items, out := g.items(sc, nil, false)
	var named string
	for range 1 + g.IntN(2) {
		call, kind, sure := g.windowCall(sc)
		over := g.window(sc, sure)
		if named == "" && over != "" && g.chance(15) {
			named = over
			over = "win"
		} else {
			over = "(" + over + ")"
		}
		c := column{fmt.Sprintf("c%d", len(out)+1), kind}
		items, out = items+", "+call+" over "+over+" as "+c.name, append(out, c)
	}
	sql := "select " + items + rest
	if named != "" {
		sql += " window win as (" + named + ")"
	}
	return sql, out
}

// windowCall is a function for a window. Sure: it needs rows in one order only.
func (g *generator) windowCall(sc *scope) (call, kind string, sure bool) {
	bare := &scope{sources: sc.sources, outer: sc.outer}
	e := func(k string) string { return g.expr(k, bare, 1) }
	if sc.unique() == nil || len(sc.sources) == 0 || g.chance(50) {
		list := [][2]string{
			{"rank()", integer},
			{"dense_rank()", integer},
			{"count(*)", integer},
			{"sum(" + e(integer) + ")", numeric},
			{"max(" + e(word) + ")", word},
			{"avg(" + e(numeric) + ")", numeric},
			{"cume_dist()", float},
			{"percent_rank()", float},
			{"min(" + e(integer) + ")", integer},
			{"bool_or(" + e(boolean) + ")", boolean},
		}
		c := pick(g, list)
		return c[0], c[1], false
	}
	list := [][2]string{
		{"row_number()", integer},
		{"lag(" + e(integer) + ")", integer},
		{"lead(" + e(word) + ", 2)", word},
		{"first_value(" + e(integer) + ")", integer},
		{"last_value(" + e(numeric) + ")", numeric},
		{"ntile(3)", integer},
		{"nth_value(" + e(word) + ", 2)", word},
		{"sum(" + e(integer) + ")", numeric},
		{"count(" + e(word) + ")", integer},
	}
	c := pick(g, list)
	return c[0], c[1], true
}

func (g *generator) window(sc *scope, sure bool) string {
	var parts []string
	if len(sc.sources) > 0 && g.chance(65) {
		s := sc.sources[0]
		k := g.someKind(sc)
		by := stable(k, g.expr(k, &scope{sources: sc.sources}, 1))
		if s.key != nil && g.chance(50) {
			by = s.ref(s.key[0])
		}
		parts = append(parts, "partition by "+by)
	}
	if sure {
		order := strings.Join(sc.unique(), ", ")
		if g.chance(50) {
			k := g.someKind(sc)
			order = g.direction(g.expr(k, &scope{sources: sc.sources}, 1)) + ", " + order
		}
		parts = append(parts, "order by "+order)
		if g.chance(30) {
			parts = append(parts, pick(g, []string{"rows between 2 preceding and current row", "rows between unbounded preceding and 1 following", "rows 1 preceding", "groups between 1 preceding and 1 following", "rows between 1 preceding and 1 following exclude current row"}))
		}
	} else if g.chance(60) {
		parts = append(parts, "order by "+g.direction(g.expr(integer, &scope{sources: sc.sources}, 1)))
		if g.chance(20) {
			parts = append(parts, pick(g, []string{"range between 2 preceding and current row", "range between unbounded preceding and unbounded following", "groups 1 preceding"}))
		}
	}
	return strings.Join(parts, " ")
}

// distinctOn keeps the first of each group, in an order that says which.
func (g *generator) distinctOn(sc *scope, rest string) (string, []column) {
	items, out := g.items(sc, nil, true)
	n := 1 + g.IntN(len(out))
	var on []string
	for i := range n {
		on = append(on, fmt.Sprint(i+1))
	}
	order := g.direction("1")
	for i := 1; i < len(out); i++ {
		order += ", " + g.direction(fmt.Sprint(i+1))
	}
	return "select distinct on (" + strings.Join(on, ", ") + ") " + items + rest + " order by " + order, out
}
