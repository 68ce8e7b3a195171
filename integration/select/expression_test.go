package selects

import (
	"fmt"
	"strings"

	"weft/integration/pair"
)

// expr is an expression of a kind.
func (g *generator) expr(kind string, sc *scope, depth int) string {
	if depth <= 0 || g.chance(45) {
		return g.leaf(kind, sc)
	}
	sub := func(k string) string { return g.expr(k, sc, depth-1) }
	switch n := g.IntN(100); {
	case n < 8:
		return "coalesce(" + sub(kind) + ", " + g.constant(kind) + ")"
	case n < 16:
		return "case when " + g.condition(sc, depth-1) + " then " + sub(kind) + pick(g, []string{"", " else " + sub(kind)}) + " end"
	case n < 19:
		return "nullif(" + sub(kind) + ", " + g.constant(kind) + ")"
	case n < 26 && sc.depth > 0:
		return g.scalar(kind, sc)
	}
	switch kind {
	case integer:
		return g.oneOf(
			func() string {
				return "(" + sub(integer) + pick(g, []string{" + ", " - ", " * "}) + g.constant(integer) + ")"
			},
			func() string { return "(" + sub(integer) + pick(g, []string{" + ", " - "}) + sub(integer) + ")" },
			func() string { return "abs(" + sub(integer) + ")" },
			func() string { return "length(" + sub(word) + ")" },
			func() string { return "(" + sub(integer) + " % 3)" },
			func() string { return "(" + sub(boolean) + ")::int4" },
			func() string { return "greatest(" + sub(integer) + ", " + sub(integer) + ")" },
			func() string { return "extract(day from " + sub(day) + ")::int4" },
			func() string { return "coalesce(array_length(" + sub(integers) + ", 1), 0)" },
			func() string { return "(" + sub(document) + " ->> 'n')::int4" },
		)
	case numeric:
		return g.oneOf(
			func() string { return "(" + sub(numeric) + pick(g, []string{" + ", " - ", " * "}) + sub(numeric) + ")" },
			func() string { return "round(" + sub(numeric) + ", 1)" },
			func() string { return "(" + sub(numeric) + " / 4)" },
			func() string { return sub(integer) + "::numeric" },
			func() string { return sub(numeric) + "::numeric(14,1)" },
			func() string { return "least(" + sub(numeric) + ", " + sub(numeric) + ")" },
		)
	case word:
		return g.oneOf(
			func() string { return pick(g, []string{"upper(", "lower(", "trim("}) + sub(word) + ")" },
			func() string { return "(" + sub(word) + " || " + sub(word) + ")" },
			func() string { return "substr(" + sub(word) + ", 1, 2)" },
			func() string { return sub(integer) + "::text" },
			func() string { return sub(mood) + "::text" },
			func() string { return "(" + sub(document) + " ->> 's')" },
			func() string { return "to_char(" + sub(day) + ", 'YYYY-MM')" },
			func() string { return "concat(" + sub(word) + ", '-', " + sub(integer) + ")" },
			func() string { return "(" + sub(words) + ")[1]" },
			func() string { return "(" + sub(composite) + ").y" },
		)
	case boolean:
		return "(" + g.condition(sc, depth-1) + ")"
	case day:
		return g.oneOf(
			func() string { return "(" + sub(day) + " + (" + g.constant(integer) + ")::int4)" },
			func() string { return "(" + sub(moment) + " at time zone 'UTC')::date" },
		)
	case moment:
		return g.oneOf(
			func() string {
				return "date_trunc('" + pick(g, []string{"hour", "day", "month"}) + "', " + sub(moment) + ")"
			},
			func() string { return "(" + sub(moment) + " + interval '90 minutes')" },
		)
	case float:
		return "(" + sub(float) + " + " + g.constant(float) + ")"
	case integers:
		return "array[" + sub(integer) + ", " + sub(integer) + "]::int4[]"
	default:
		return g.leaf(kind, sc)
	}
}

// leaf is a column, of an outer query too, or a constant.
func (g *generator) leaf(kind string, sc *scope) string {
	if sc.outer != nil && g.chance(12) {
		if refs := sc.outer.refs(kind); len(refs) > 0 {
			return pick(g, refs)
		}
	}
	if refs := sc.refs(kind); len(refs) > 0 && g.chance(88) {
		return pick(g, refs)
	}
	return g.constant(kind)
}

// constant is a literal, a parameter or NULL.
func (g *generator) constant(kind string) string {
	text := pick(g, literals[kind])
	if g.chance(4) {
		return "null::" + typeOf(kind)
	}
	types, may := parameters[kind]
	if !may || !g.chance(25) {
		return typed(kind, text)
	}
	value := text
	if i := strings.IndexByte(value, '\''); i >= 0 {
		value = strings.Trim(value[i:], "'")
	}
	typ := pick(g, types)
	g.params = append(g.params, pair.Param{Type: typ, Text: &value})
	if typ != "unknown" && g.chance(50) {
		return fmt.Sprintf("$%d", len(g.params))
	}
	return fmt.Sprintf("$%d::%s", len(g.params), typeOf(kind))
}

// typeOf is a type that values of the kind can be cast to.
func typeOf(kind string) string {
	if kind == integer {
		return "int4"
	}
	return kind
}

// scalar is a subquery with one row: an aggregate, or the first of an order.
func (g *generator) scalar(kind string, sc *scope) string {
	inner, from := g.from(&scope{sources: sc.sources, outer: sc.outer, depth: sc.depth - 1})
	where := ""
	switch n := g.IntN(100); {
	case inner.sources == nil:
	case n < 55:
		where = " where " + g.correlation(inner)
	case n < 80:
		where = " where " + g.condition(inner, 1)
	}
	bare := &scope{sources: inner.sources, depth: 0} // an aggregate of outer columns would be the outer query's
	switch {
	case kind == integer && g.chance(60):
		return "(select " + pick(g, []string{"count(*)", "count(" + g.leaf(g.someKind(bare), bare) + ")"}) + from + where + ")"
	case kind == integers:
		return "array(select " + g.expr(integer, bare, 1) + "::int4" + from + where + " order by 1 limit 5)"
	case g.aggregable(kind) && g.chance(75):
		return "(select " + pick(g, []string{"max", "min"}) + "(" + g.expr(kind, bare, 1) + ")" + from + where + ")"
	default:
		return "(select " + g.expr(kind, bare, 1) + from + where + " order by 1 limit 1)"
	}
}

// aggregable: min and max take it.
func (g *generator) aggregable(kind string) bool {
	switch kind {
	case boolean, document, uuid, composite, bytes, interval:
		return false
	}
	return true
}

var comparisons = []string{" = ", " = ", " <> ", " < ", " > ", " <= ", " >= ", " is distinct from ", " is not distinct from "}

// condition is a boolean expression.
func (g *generator) condition(sc *scope, depth int) string {
	if len(sc.sources) == 0 && sc.outer == nil {
		return pick(g, []string{"true", "1 = 1", "false"})
	}
	if depth > 0 {
		switch n := g.IntN(100); {
		case n < 22:
			return g.condition(sc, depth-1) + " and " + g.condition(sc, depth-1)
		case n < 36:
			return "(" + g.condition(sc, depth-1) + " or " + g.condition(sc, depth-1) + ")"
		case n < 42:
			return "not (" + g.condition(sc, depth-1) + ")"
		case n < 60 && sc.depth > 0:
			return g.sublink(sc)
		}
	}
	k := g.someKind(sc)
	e := func() string { return g.expr(k, sc, depth) }
	switch n := g.IntN(100); {
	case n < 10:
		return e() + pick(g, []string{" is null", " is not null"})
	case n < 18:
		return e() + pick(g, []string{" in (", " in (", " not in ("}) + g.constant(k) + ", " + g.constant(k) + ", " + g.constant(k) + ")"
	case n < 24 && ordered(k):
		return e() + pick(g, []string{" between ", " not between ", " between symmetric "}) + g.constant(k) + " and " + g.constant(k)
	case n < 30:
		return g.expr(word, sc, depth) + pick(g, []string{" like ", " ilike ", " not like ", " ~ "}) + pick(g, []string{"'a%'", "'%e%'", "'_'", "'Z%'"})
	case n < 34:
		return g.leaf(boolean, sc) + pick(g, []string{"", " is true", " is not true", " is unknown", " = false"})
	case n < 38 && k != integers && k != words:
		return e() + pick(g, []string{" = any (array[", " <> all (array["}) + g.constant(k) + ", " + g.constant(k) + "])"
	case n < 41:
		return "(" + g.expr(integer, sc, 0) + ", " + g.expr(word, sc, 0) + ")" + pick(g, []string{" = ", " < ", " <> "}) + "(" + g.constant(integer) + ", " + g.constant(word) + ")"
	case n < 62:
		return e() + pick(g, comparisons) + g.constant(k)
	case n < 70:
		// A condition on the key.
		s := pick(g, append([]source{{}}, sc.sources...))
		if kk := ""; s.key != nil {
			kk = kindOf(s, s.key[0])
			return g.oneOf(
				func() string { return s.ref(s.key[0]) + " = " + g.constant(kk) },
				func() string { return s.ref(s.key[0]) + " in (" + g.constant(kk) + ", " + g.constant(kk) + ")" },
				func() string { return s.ref(s.key[0]) + pick(g, comparisons) + g.constant(kk) },
			)
		}
		return e() + pick(g, comparisons) + e()
	default:
		return e() + pick(g, comparisons) + e()
	}
}

func ordered(kind string) bool { return kind != boolean && kind != composite }

// sublink is a condition with a subquery.
func (g *generator) sublink(sc *scope) string {
	around := &scope{sources: sc.sources, outer: sc.outer, depth: sc.depth - 1}
	n := g.IntN(100)
	if n < 45 {
		inner, from := g.from(around)
		where := ""
		if inner.sources != nil {
			where = " where " + g.correlation(inner)
		}
		return pick(g, []string{"exists", "exists", "not exists"}) + " (select " + pick(g, []string{"1", "*", "null"}) + from + where + ")"
	}
	k := pick(g, []string{integer, integer, word, numeric})
	left := g.expr(k, sc, 1)
	inner, from := g.from(around)
	bare := &scope{sources: inner.sources}
	where := ""
	if inner.sources != nil && g.chance(65) {
		where = " where " + g.oneOf(func() string { return g.correlation(inner) }, func() string { return g.condition(inner, 1) })
	}
	body := "select " + g.expr(k, bare, 1) + from + where
	switch {
	case n < 62:
		return left + " in (" + body + ")"
	case n < 75:
		return left + " not in (" + body + ")"
	case n < 88:
		return left + pick(g, []string{" = any (", " < any (", " > all (", " <> all (", " >= some ("}) + body + ")"
	case n < 92:
		return "(" + left + ", " + g.expr(integer, sc, 0) + ") in (select " + g.expr(k, bare, 1) + ", " + g.expr(integer, bare, 0) + from + where + ")"
	default:
		return left + pick(g, comparisons) + g.scalar(k, sc)
	}
}
