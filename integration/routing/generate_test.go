package routing

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator makes up statements: some that live on one shard, some that do not,
// some that only look so.
type generator struct {
	*rand.Rand
	params []param
	nextID int
	alias  int
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 17)), nextID: 100_000}
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

// oneOf calls one of the functions.
func (g *generator) oneOf(list ...func() string) string { return pick(g, list)() }

// statement returns a statement that reads or writes.
func (g *generator) statement() (sql string, set []param) {
	g.params, g.alias = nil, 0
	switch n := g.IntN(100); {
	case n < 60:
		sql = g.query(2)
	case n < 75:
		sql = g.insert()
	case n < 88:
		sql = g.update()
	default:
		sql = g.remove()
	}
	return sql, g.params
}

// source is a relation in a FROM list.
type source struct {
	relation
	alias string
}

func (g *generator) from(r relation) source {
	g.alias++
	return source{r, fmt.Sprintf("t%d", g.alias)}
}

func (s source) column(i int) string { return s.alias + "." + s.columns[i].name }

func (s source) String() string { return s.name + " " + s.alias }

// key is one of the source's key columns, or any if it has no key.
func (s source) key(g *generator) int {
	if s.keys == 0 {
		return g.IntN(len(s.columns))
	}
	return g.IntN(s.keys)
}

// some returns a relation: mostly of the shop, so that joins find partners.
func (g *generator) some() relation {
	if g.chance(55) {
		return relations[g.IntN(4)]
	}
	return pick(g, relations)
}

func (g *generator) query(depth int) string {
	switch n := g.IntN(100); {
	case n < 10 && depth > 0:
		return g.query2(depth-1, []string{" union all ", " union ", " intersect ", " except "})
	case n < 20 && depth > 0:
		return g.with(depth - 1)
	default:
		return g.selection(depth)
	}
}

// query2 combines two queries of one int8 column.
func (g *generator) query2(depth int, operators []string) string {
	return g.keysOf(depth) + pick(g, operators) + g.keysOf(depth)
}

// keysOf selects a key of the shop.
func (g *generator) keysOf(depth int) string {
	s := g.from(relations[g.IntN(3)])
	return fmt.Sprintf("select %s from %s where %s", s.column(0), s, g.condition(depth, s))
}

func (g *generator) with(depth int) string {
	s := g.from(g.some())
	inner := fmt.Sprintf("select * from %s where %s", s, g.condition(depth, s))
	if g.chance(30) {
		inner = "select * from " + s.name
	}
	x := source{relation{name: "x", columns: s.columns, keys: s.keys}, "x"}
	kind := pick(g, []string{"", "", "materialized ", "not materialized "})
	return fmt.Sprintf("with x as %s(%s) select %s from x where %s", kind, inner, g.outputs(x), g.condition(depth, x))
}

func (g *generator) selection(depth int) string {
	s := g.from(g.some())
	sources := []source{s}
	from := s.String()
	for len(sources) < 3 && g.chance(35) {
		n := g.from(g.some())
		if g.chance(60) {
			n = g.from(relations[g.IntN(3)])
		}
		from = g.join(depth, from, sources, n)
		sources = append(sources, n)
	}
	if len(sources) == 1 && depth > 0 && g.chance(12) {
		inner := fmt.Sprintf("select * from %s", s.name)
		if g.chance(50) {
			i := source{s.relation, s.name}
			inner += " where " + g.condition(depth-1, i)
		}
		from = fmt.Sprintf("(%s) %s", inner, s.alias)
	}
	where := g.where(depth, sources)
	switch n := g.IntN(100); {
	case n < 12:
		return fmt.Sprintf("select count(*) from %s%s", from, where)
	case n < 20:
		c := s.column(g.IntN(len(s.columns)))
		return fmt.Sprintf("select %s, count(*) from %s%s group by %s", c, from, where, c)
	case n < 24:
		return fmt.Sprintf("select distinct %s from %s%s", s.column(g.IntN(len(s.columns))), from, where)
	case n < 30:
		// Ordered by all it shows: rows that tie cannot be told apart.
		return fmt.Sprintf("select %s from %s%s order by 1, 2 limit %d", s.column(0)+", "+s.column(1), from, where, g.IntN(4))
	case n < 34 && len(sources) == 1 && !s.view && s.name != "x":
		return fmt.Sprintf("select %s from %s%s for %s", g.outputs(s), from, where, pick(g, []string{"update", "share", "no key update"}))
	default:
		return fmt.Sprintf("select %s from %s%s", g.outputs(sources...), from, where)
	}
}

// where joins conditions that mostly name the key of each source.
func (g *generator) where(depth int, sources []source) string {
	var list []string
	for _, s := range sources {
		if g.chance(75) {
			list = append(list, g.condition(depth, s))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " where " + strings.Join(list, pick(g, []string{" and ", " and ", " and ", " or "}))
}

func (g *generator) outputs(sources ...source) string {
	var list []string
	for _, s := range sources {
		if g.chance(30) {
			list = append(list, s.alias+".*")
			continue
		}
		for i := range s.columns {
			if i == 0 || g.chance(50) {
				list = append(list, s.column(i))
			}
		}
	}
	return strings.Join(list, ", ")
}

// join adds a relation to a FROM clause.
func (g *generator) join(depth int, from string, before []source, n source) string {
	o := pick(g, before)
	kind := pick(g, []string{" join ", " join ", " join ", " left join ", " right join ", " full join ", " cross join "})
	if kind == " cross join " {
		return from + kind + n.String()
	}
	on := g.oneOf(
		func() string { return n.column(0) + " = " + o.column(0) },
		func() string { return n.column(0) + " = " + o.column(0) },
		func() string { return o.column(0) + " = " + n.column(0) + " and " + g.condition(0, o) },
		func() string { return o.column(0) + " = " + n.column(0) + " and " + g.condition(0, n) },
		func() string { return g.condition(0, n) },
		func() string { return n.column(g.IntN(len(n.columns))) + " = " + o.column(g.IntN(len(o.columns))) },
		func() string { return n.column(0) + " = " + o.column(0) + " or " + g.condition(0, o) },
	)
	return from + kind + n.String() + " on " + on
}

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
	)
}

// value spells a value of a type: as a literal of some kind, computed, or as a parameter.
func (g *generator) value(typ string) string {
	text := pick(g, samples[typ])
	if g.chance(4) {
		return pick(g, []string{"null", "null::" + typ})
	}
	if g.chance(45) {
		return g.param(typ, text)
	}
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	switch typ {
	case "int2", "int4", "int8":
		return g.oneOf(
			func() string { return text }, func() string { return text },
			func() string { return quoted },
			func() string { return quoted + "::" + typ },
			func() string { return "(" + text + ")::int8" },
			func() string { return text + " + 0" },
			func() string { return "(" + text + " - 1 + 1)" },
			func() string { return "cast(" + quoted + " as bigint)" },
			func() string { return text + ".0" },
			func() string { return text + "::numeric" },
			func() string { return text + "::float8" },
		)
	case "numeric":
		if number.MatchString(text) {
			return pick(g, []string{text, quoted, quoted + "::numeric", text + "::numeric(30,4)"})
		}
		return pick(g, []string{quoted, quoted + "::numeric"})
	case "text", "varchar":
		return pick(g, []string{quoted, quoted, quoted + "::text", "e" + quoted, quoted + "::varchar", "lower(" + quoted + ")", quoted + " || ''"})
	default:
		return pick(g, []string{quoted, quoted, quoted + "::" + typ, "cast(" + quoted + " as " + typ + ")"})
	}
}

// param makes a parameter, declared as its type, a relative of it, or not at all.
func (g *generator) param(typ, text string) string {
	declared := typ
	switch {
	case g.chance(40):
		declared = "unknown"
	case g.chance(25) && strings.HasPrefix(typ, "int"):
		declared = pick(g, []string{"int4", "int8", "numeric"})
		if declared == "int4" && len(text) > 11 {
			declared = "int8"
		}
	case g.chance(25) && typ == "varchar":
		declared = "text"
	}
	if typ == "numeric" && declared == "unknown" && g.chance(50) {
		declared = typ
	}
	g.params = append(g.params, param{declared, &text})
	out := fmt.Sprintf("$%d", len(g.params))
	if g.chance(15) {
		out += "::" + typ
	}
	return out
}

// array spells an array for = ANY.
func (g *generator) array(typ string) string {
	var list []string
	for range g.IntN(3) {
		list = append(list, `"`+pick(g, samples[typ])+`"`)
	}
	if g.chance(15) {
		list = append(list, "NULL")
	}
	text := "{" + strings.Join(list, ",") + "}"
	if _, known := typeOIDs[typ+"[]"]; known && g.chance(50) {
		g.params = append(g.params, param{typ + "[]", &text})
		return fmt.Sprintf("$%d", len(g.params))
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
