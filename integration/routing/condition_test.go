package routing

import (
	"fmt"
	"strings"
)

// condition is about the source's key, mostly.
func (g *generator) condition(depth int, s source) string {
	i := s.key(g)
	c, typ := s.column(i), s.columns[i].typ
	v := func() string { return g.value(typ) }
	eq := func() string { return c + " = " + v() }
	equal := func() string { // of the whole key
		if s.keys < 2 {
			return eq()
		}
		var all []string
		for k := range s.keys {
			all = append(all, s.column(k)+" = "+g.value(s.columns[k].typ))
		}
		return strings.Join(all, " and ")
	}
	if g.chance(50) {
		return equal()
	}
	o := g.IntN(len(s.columns))
	other := func() string { return s.column(o) + " = " + g.value(s.columns[o].typ) }
	return g.oneOf(
		func() string { return v() + " = " + c },
		func() string { return fmt.Sprintf("%s in (%s)", c, v()) },
		func() string { return fmt.Sprintf("%s in (%s, %s)", c, v(), v()) },
		func() string { return fmt.Sprintf("%s = any (array[%s, %s]::%s[])", c, v(), v(), typ) },
		func() string { return fmt.Sprintf("%s = any (%s)", c, g.array(typ)) },
		func() string { return c + " is null" },
		func() string { return c + " is not null" },
		func() string { return c + " is not distinct from " + v() },
		func() string { return "(" + eq() + " or " + eq() + ")" },
		func() string { return "(" + eq() + " or " + other() + ")" },
		func() string { return "(" + equal() + " and " + other() + ")" },
		func() string { return "(" + other() + " and (" + equal() + " or " + equal() + "))" },
		func() string { return "not (" + eq() + ")" },
		func() string { return "not (" + c + " <> " + v() + ")" },
		func() string { return c + " " + pick(g, []string{"<>", "<", ">", ">="}) + " " + v() },
		func() string { return fmt.Sprintf("%s between %s and %s", c, v(), v()) },
		func() string {
			return fmt.Sprintf("(%s, %s) = (%s, %s)", c, s.column(o), v(), g.value(s.columns[o].typ))
		},
		func() string {
			return fmt.Sprintf("(%s, %s) in ((%s, %s), (%s, %s))", c, s.column(o), v(), g.value(s.columns[o].typ), v(), g.value(s.columns[o].typ))
		},
		func() string { return fmt.Sprintf("coalesce(%s, %s) = %s", c, v(), v()) },
		func() string { return fmt.Sprintf("case when %s then true else %s end", eq(), other()) },
		func() string { return fmt.Sprintf("%s is distinct from %s", c, v()) },
		func() string { return fmt.Sprintf("(%s) is distinct from false", eq()) },
		func() string { return fmt.Sprintf("%s between symmetric %s and %s", c, v(), v()) },
		func() string { return fmt.Sprintf("%s not in (%s, %s)", c, v(), v()) },
		func() string { return fmt.Sprintf("not (%s and %s)", eq(), other()) },
		func() string { return fmt.Sprintf("not (%s or %s)", eq(), other()) },
		func() string { return fmt.Sprintf("(%s and (%s or (%s and %s)))", equal(), other(), eq(), other()) },
		func() string {
			return fmt.Sprintf("(%s, %s) >= (%s, %s)", c, s.column(o), v(), g.value(s.columns[o].typ))
		},
		func() string { return fmt.Sprintf("%s = any (array(select %s))", c, v()) },
		func() string { return fmt.Sprintf("%s::text = %s", c, g.value("text")) },
		func() string { return fmt.Sprintf("nullif(%s, %s) = %s", c, v(), v()) },
		func() string { return fmt.Sprintf("%s = greatest(%s, %s)", c, v(), v()) },
		func() string { return fmt.Sprintf("(%s) = true", eq()) },
		func() string { return fmt.Sprintf("(%s) <> (%s)", eq(), other()) },
		func() string { return "(" + eq() + ") is true" },
		func() string { return "(" + eq() + ") is not false" },
		func() string { return c + " = " + c },
		func() string { return fmt.Sprintf("%s = (select %s)", c, v()) },
		func() string { return g.subquery(depth, s, c) },
		func() string { return g.subquery(depth, s, c) },
		func() string { return equal() + " and " + g.subquery(depth, s, c) },
	)
}

// subquery is a condition with a SELECT inside.
func (g *generator) subquery(depth int, s source, c string) string {
	if depth == 0 {
		return "true"
	}
	n := g.from(g.some())
	return g.oneOf(
		func() string {
			return fmt.Sprintf("exists (select 1 from %s where %s = %s)", n, n.column(0), c)
		},
		func() string {
			return fmt.Sprintf("not exists (select 1 from %s where %s = %s and %s)", n, n.column(0), c, g.condition(depth-1, n))
		},
		func() string { return fmt.Sprintf("exists (select 1 from %s where %s)", n, g.condition(depth-1, n)) },
		func() string {
			return fmt.Sprintf("%s in (select %s from %s where %s)", c, n.column(0), n, g.condition(depth-1, n))
		},
		func() string {
			return fmt.Sprintf("(select count(*) from %s where %s) > 0", n, g.condition(depth-1, n))
		},
		func() string {
			return fmt.Sprintf("%s not in (select %s from %s where %s and %s is not null)", c, n.column(0), n, g.condition(depth-1, n), n.column(0))
		},
		func() string {
			return fmt.Sprintf("%s = (select %s from %s where %s order by 1 limit 1)", c, n.column(0), n, g.condition(depth-1, n))
		},
		func() string {
			return fmt.Sprintf("%s >= all (select %s from %s where %s)", c, n.column(0), n, g.condition(depth-1, n))
		},
		func() string {
			return fmt.Sprintf("(%s or exists (select 1 from %s where %s))", c+" is null", n, g.condition(depth-1, n))
		},
	)
}
