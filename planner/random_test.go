package planner_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator writes random statements over the sample tables of brute_test.go:
// a, b, c and d are sharded by k, r is a reference table, and v1 to v4 are
// views. All have columns k and x. Conditions on k are made likely to agree, so
// that many statements can run on one shard.
type generator struct {
	*rand.Rand
	theme int // the key that most conditions name
	names int
	ctes  []string
}

func (g *generator) one(options ...string) string { return options[g.IntN(len(options))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func (g *generator) alias() string {
	g.names++
	return fmt.Sprintf("q%d", g.names)
}

// key is a constant for k.
func (g *generator) key() string {
	n := g.theme
	if g.chance(10) {
		n = g.IntN(8)
	}
	switch g.IntN(12) {
	case 0:
		return fmt.Sprintf("'%d'", n)
	case 1:
		return fmt.Sprintf("%d + %d", n-1, 1)
	case 2:
		return fmt.Sprintf("%d::bigint", n)
	case 3:
		return fmt.Sprintf("'%d'::int", n)
	case 4:
		return fmt.Sprintf("(%d)", n)
	case 5:
		if g.chance(20) {
			return "NULL"
		}
	case 6:
		return fmt.Sprintf("- (-%d)", n)
	}
	return fmt.Sprint(n)
}

func (g *generator) column(in []string) string { return in[g.IntN(len(in))] + ".k" }

// atom is a condition without AND and OR.
func (g *generator) atom(in []string, depth int) string {
	k := g.column(in)
	other := in[g.IntN(len(in))]
	switch g.IntN(26) {
	case 0, 1, 2, 3, 4:
		return k + " = " + g.key()
	case 5:
		return g.key() + " = " + k
	case 6, 7, 8, 9:
		return k + " = " + g.column(in)
	case 10:
		return fmt.Sprintf("%s IN (%s, %s)", k, g.key(), g.key())
	case 11:
		return fmt.Sprintf("%s = ANY ('{%d,%d}')", k, g.theme, g.theme)
	case 12:
		return k + " IS NULL"
	case 13:
		return fmt.Sprintf("%s IS NOT DISTINCT FROM %s", k, g.one(g.key(), "NULL", g.column(in)))
	case 14:
		return fmt.Sprintf("(%s, %s.x) = (%s, %d)", k, other, g.key(), g.IntN(3))
	case 15:
		return fmt.Sprintf("(%s, %s.x) IN ((%s, 1), (%s, 2))", k, other, g.key(), g.key())
	case 16:
		return other + ".x " + g.one("=", "<>", "<", ">=") + " " + fmt.Sprint(g.IntN(4))
	case 17:
		return fmt.Sprintf("%s %s %s", k, g.one("<>", "<", ">"), g.key())
	case 18:
		return fmt.Sprintf("%s + 0 = %s", k, g.key())
	case 19:
		return k + " = " + other + ".x"
	case 20:
		return fmt.Sprintf("%s = ANY (ARRAY[%s, %d])", k, g.one("1", fmt.Sprint(g.theme)), g.theme)
	}
	if depth <= 0 {
		return k + " = " + g.key()
	}
	switch g.IntN(6) {
	case 0, 1:
		return g.one("", "", "NOT ") + "EXISTS (" + g.query(depth-1, in) + ")"
	case 2, 3:
		return k + g.one(" IN", " IN", " NOT IN", " = ANY") + " (SELECT z.k FROM (" + g.query(depth-1, in) + ") z" + g.one("", " WHERE z.x = 1", " WHERE z.k = "+g.key()) + ")"
	case 4:
		return k + " IN (" + g.plain(depth-1, in, "k") + ")"
	}
	return k + " = (SELECT " + g.one("max", "min") + "(z.k) FROM (" + g.query(depth-1, in) + ") z)"
}

func (g *generator) condition(in []string, depth int) string {
	switch g.IntN(10) {
	case 0, 1, 2:
		return g.condition(in, depth-1) + " AND " + g.condition(in, depth-1)
	case 3:
		return "(" + g.condition(in, depth-1) + " OR " + g.condition(in, depth-1) + ")"
	case 4:
		if g.chance(30) {
			return "NOT (" + g.condition(in, depth-1) + ")"
		}
	}
	return g.atom(in, depth)
}

// source is an element of FROM with columns k and x, and the name it has.
func (g *generator) source(depth int, outer []string, before []string) (sql, name string) {
	name = g.alias()
	if depth > 0 && g.chance(40) {
		if len(before) > 0 && g.chance(30) {
			return "LATERAL (" + g.query(depth-1, append(append([]string(nil), outer...), before...)) + ") " + name, name
		}
		return "(" + g.query(depth-1, outer) + ") " + name + g.one("", "(k, x)"), name
	}
	if g.chance(5) {
		return fmt.Sprintf("(VALUES (%d, 1), (%d, 2)) %s(k, x)", g.theme, g.theme, name), name
	}
	if len(g.ctes) > 0 && g.chance(30) {
		return g.ctes[g.IntN(len(g.ctes))] + " " + name, name
	}
	return g.one("a", "a", "b", "b", "c", "d", "r", "v1", "v2", "v3", "v4") + " " + name, name
}

// from is a FROM clause and the names in it.
func (g *generator) from(depth int, outer []string) (sql string, names []string) {
	sql, name := g.source(depth, outer, nil)
	names = []string{name}
	for range g.IntN(3) {
		kind := g.one(", ", " JOIN ", " JOIN ", " LEFT JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN ", " CROSS JOIN ", " USING ", " NATURAL JOIN ", " NATURAL LEFT JOIN ")
		before := names
		if strings.Contains(kind, "RIGHT") || strings.Contains(kind, "FULL") {
			before = nil
		}
		right, name := g.source(depth, outer, before)
		in := append(append([]string(nil), names...), name)
		switch kind {
		case " JOIN ", " LEFT JOIN ", " RIGHT JOIN ":
			if g.chance(20) {
				// A join inside brackets.
				more, inner := g.source(depth-1, outer, nil)
				right = "(" + right + g.one(" JOIN ", " LEFT JOIN ", " RIGHT JOIN ") + more + " ON " + g.condition([]string{name, inner}, 0) + ")"
				in = append(in, inner)
				names = append(names, inner)
			}
			sql = sql + kind + right + " ON " + g.condition(in, depth-1)
		case " FULL JOIN ":
			sql = sql + kind + right + " ON " + g.column(names) + " = " + name + ".k" + g.one("", " AND "+g.atom(in, 0))
		case " USING ":
			sql = sql + g.one(" JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN ") + right + " USING (k)"
		default:
			sql = sql + kind + right
			if kind == ", " && g.chance(50) {
				// Only what follows the comma can be joined with it.
				names = in
				continue
			}
		}
		names = append(names, name)
	}
	return sql, names
}

// plain is SELECT k or SELECT k, x FROM … WHERE ….
func (g *generator) plain(depth int, outer []string, what string) string {
	from, names := g.from(depth, outer)
	in := append(append([]string(nil), names...), names...)
	in = append(in, outer...)
	n := names[g.IntN(len(names))]
	m := names[g.IntN(len(names))]
	list := n + ".k"
	if what != "k" {
		list += " AS k, " + m + ".x AS x"
	}
	if len(names) == 1 && g.chance(10) && what != "k" {
		list = "*"
	}
	where := ""
	if !g.chance(20) {
		where = " WHERE " + g.condition(in, depth)
	}
	return "SELECT " + g.one("", "", "", "DISTINCT ") + list + " FROM " + from + where
}

// query yields columns k and x.
func (g *generator) query(depth int, outer []string) string {
	switch g.IntN(14) {
	case 0:
		from, names := g.from(depth, outer)
		n := names[g.IntN(len(names))]
		return fmt.Sprintf("SELECT %s.k AS k, count(*)::int AS x FROM %s WHERE %s GROUP BY %s.k%s", n, from, g.condition(append(names, outer...), depth), n,
			g.one("", "", " HAVING count(*) > 1"))
	case 1:
		from, names := g.from(depth, outer)
		n := names[g.IntN(len(names))]
		return fmt.Sprintf("SELECT %s(%s.k) AS k, count(*)::int AS x FROM %s WHERE %s", g.one("max", "min"), n, from, g.condition(append(names, outer...), depth))
	case 2:
		if depth > 0 {
			return g.plain(depth-1, outer, "kx") + g.one(" UNION ", " UNION ALL ", " INTERSECT ", " EXCEPT ", " EXCEPT ALL ") + g.plain(depth-1, outer, "kx")
		}
	case 3, 8:
		return "SELECT k, x FROM (" + g.plain(depth, outer, "kx") + ") o ORDER BY 1, 2 LIMIT " + fmt.Sprint(1+g.IntN(3))
	case 4:
		return "SELECT k, (row_number() OVER (ORDER BY k, x))::int AS x FROM (" + g.plain(depth, outer, "kx") + ") o"
	case 5:
		return "SELECT DISTINCT ON (x) k, x FROM (" + g.plain(depth, outer, "kx") + ") o ORDER BY x, k"
	case 6:
		if depth > 0 {
			from, names := g.from(depth-1, outer)
			in := append(names, outer...)
			return fmt.Sprintf("SELECT %s.k AS k, (SELECT count(*)::int FROM (%s) z) AS x FROM %s WHERE %s", names[0], g.query(depth-1, in), from, g.condition(in, depth-1))
		}
	case 7:
		if depth > 0 {
			return fmt.Sprintf("SELECT k, count(*)::int AS x FROM (%s) o GROUP BY GROUPING SETS ((k), ())", g.plain(depth-1, outer, "kx"))
		}
	}
	return g.plain(depth, outer, "kx")
}

// with puts a WITH clause before a statement made by then.
func (g *generator) with(depth int, then func() string) string {
	if !g.chance(25) {
		return then()
	}
	var parts []string
	for i := range 1 + g.IntN(2) {
		name := fmt.Sprintf("w%d", i)
		parts = append(parts, name+"(k, x) AS "+g.one("", "MATERIALIZED ", "NOT MATERIALIZED ")+"("+g.query(depth-1, nil)+")")
		g.ctes = append(g.ctes, name)
	}
	return "WITH " + g.one("", "", "RECURSIVE ") + strings.Join(parts, ", ") + " " + then()
}

// statement is a whole statement. reads is false if it changes rows.
func (g *generator) statement() (sql string, reads bool) {
	depth := g.IntN(3)
	if g.chance(70) {
		return g.with(depth, func() string { return g.query(depth, nil) }), true
	}
	t := g.one("a", "b", "c")
	return g.with(1, func() string {
		in := []string{t}
		from := ""
		if g.chance(50) {
			var names []string
			from, names = g.from(depth-1, nil)
			in = append(in, names...)
		}
		where := g.condition(append(in, t, t), depth-1)
		switch g.IntN(4) {
		case 0, 1:
			set := "x = " + t + ".x + 1"
			if g.chance(20) {
				set += ", k = " + g.one(fmt.Sprint(g.theme), t+".k", "NULL", "'7'")
			}
			if from != "" {
				from = " FROM " + from
			}
			return "UPDATE " + t + " SET " + set + from + " WHERE " + where + " RETURNING " + t + ".k, " + t + ".x"
		case 2:
			if from != "" {
				from = " USING " + from
			}
			return "DELETE FROM " + t + from + " WHERE " + where + " RETURNING " + t + ".k, " + t + ".x"
		}
		if g.chance(50) {
			return fmt.Sprintf("INSERT INTO %s (x, k) VALUES (1, %s), (2, %d) RETURNING k, x", t, g.key(), g.theme)
		}
		return "INSERT INTO " + t + " (k, x) " + g.query(depth, nil) + " RETURNING k, x"
	}), false
}
