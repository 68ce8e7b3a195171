package progtest

import "strings"

// The expressions of a type. Some fail when they are evaluated.
func (g *generator) int(d int) string {
	if d <= 0 {
		return g.pick("i", "j", "1", "0", "-3", "7", "2147483647", "NULL", "sm", "arr[1]", "r.x", "p.x", "rw.a", "i", "j", "k", "outer_block.i")
	}
	switch g.IntN(9) {
	case 0:
		return g.int(d-1) + g.pick(" + ", " - ", " * ", " / ", " % ") + g.int(d-1)
	case 1:
		return "length(" + g.str(d-1) + ")"
	case 2:
		return "coalesce(" + g.int(d-1) + ", " + g.int(d-1) + ")"
	case 3:
		return "(SELECT " + g.pick("count(*)::int", "max(a)", "sum(a)::int") + " FROM t WHERE " + g.where(d-1) + ")"
	case 4:
		return "CASE WHEN " + g.bool(d-1) + " THEN " + g.int(d-1) + " ELSE " + g.int(d-1) + " END"
	case 5:
		return "(" + g.num(d-1) + ")::int"
	case 6:
		return g.pick("array_length(arr, 1)", "cardinality(arr)", g.keyed("noisy(3)", "abs(j)"), "abs(i)", "greatest(i, j, 2)", "(SELECT i)", g.keyed("(SELECT a FROM t WHERE a = i)", "(SELECT id FROM u WHERE id = KEY)"))
	}
	return g.int(0)
}

func (g *generator) num(d int) string {
	if d <= 0 {
		return g.pick("n", "1.5", "0.005", "-2.50", "n", "rw.c", "1e3", "NULL::numeric")
	}
	return g.pick(g.num(d-1)+g.pick(" + ", " * ", " - ", " / ")+g.num(d-1), "round("+g.num(d-1)+", 1)", g.int(d-1)+" * 1.0", g.keyed("(SELECT sum(c) FROM t)", "(SELECT sum(c) FROM t WHERE a = KEY)"))
}

func (g *generator) str(d int) string {
	if d <= 0 {
		return g.pick("s", "v", "'abc'", "''", "'it''s'", "NULL", "r.y", "p.y", "rw.b", "s", "E'a\\nb'", "'x,\"y\"'", "'12'", "ch")
	}
	switch g.IntN(6) {
	case 0:
		return g.str(d-1) + " || " + g.str(d-1)
	case 1:
		return g.int(d-1) + " || " + g.str(d-1)
	case 2:
		return g.pick("upper", "lower", "quote_nullable", "trim") + "(" + g.str(d-1) + ")"
	case 3:
		return "(SELECT " + g.pick("max(b)", "string_agg(b, s ORDER BY a, b)") + " FROM t WHERE " + g.where(d-1) + ")"
	case 4:
		return g.pick("format('%s-%s', i, s)", "arr::text", "p::text", "to_jsonb(p)::text", "row_to_json(rw)::text", "r::text", "md::text", "(p).y", "array_to_string(arr, ',')")
	}
	return g.str(0)
}

func (g *generator) bool(d int) string {
	if d <= 0 {
		return g.pick("found", "b", "true", "false", "NULL", "i = j", "s IS NULL", "i > 2", "p IS NULL", "b")
	}
	switch g.IntN(6) {
	case 0:
		return g.int(d-1) + g.pick(" < ", " = ", " >= ", " <> ") + g.int(d-1)
	case 1:
		return "NOT (" + g.bool(d-1) + ")"
	case 2:
		return "(" + g.bool(d-1) + ")" + g.pick(" AND ", " OR ") + "(" + g.bool(d-1) + ")"
	case 3:
		return "EXISTS (SELECT FROM u WHERE id = " + g.keyed(g.int(0), "KEY") + ")"
	case 4:
		return "i = ANY (arr)"
	}
	return g.str(d-1) + " = " + g.str(d-1)
}

// where is a condition on t. Now and then a name is a column and a variable.
func (g *generator) where(d int) string {
	if g.Keeps {
		return g.keyed("", g.pick("a = KEY", "a = KEY", "t.a = KEY AND "+g.bool(0), "a = KEY AND c > "+g.num(0), "a IN (KEY)", "a = KEY AND t.b = "+g.str(0)))
	}
	return g.pick("a = "+g.int(d), "a <= "+g.int(0), "b = "+g.str(0), "c > "+g.num(0), "true", "t.a = i AND "+g.bool(0), "a IN (SELECT id FROM u WHERE v <> s)", "c IS NOT NULL", "k = a")
}

// keyed returns free, or in a program that keeps to a key the other text with the key for KEY. Now and then it is another value.
func (g *generator) keyed(free, kept string) string {
	if !g.Keeps {
		return free
	}
	key := g.pick("given_i", "given_i", "given_i", "mine", "mine", "outer_block.mine", "f.given_i")
	if g.IntN(400) == 0 {
		key = g.pick("i", "k + 1", "given_i + 1")
	}
	return strings.ReplaceAll(kept, "KEY", key)
}

// value is an expression of any type.
func (g *generator) value(d int) string {
	return g.pick(g.int(d), g.num(d), g.str(d), g.bool(d), "arr", "p", "rw", "'{5,6}'", "'(3,w)'", "md", "'sad'", "ARRAY[i, 2]", "r")
}
