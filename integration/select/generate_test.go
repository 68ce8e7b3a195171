package selects

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/integration/pair"
)

// generator makes up SELECTs: mostly valid, mostly with one right answer.
type generator struct {
	*rand.Rand
	params []pair.Param
	names  int // aliases given so far
	ctes   []relation
}

func newGenerator(seed uint64) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(seed, 4))}
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

// oneOf calls one of the functions.
func (g *generator) oneOf(list ...func() string) string { return pick(g, list)() }

func (g *generator) alias(prefix string) string {
	g.names++
	return fmt.Sprintf("%s%d", prefix, g.names)
}

// source is something in FROM: its columns can be named.
type source struct {
	alias   string
	columns []column
	key     []string
	unique  []string
}

func (s source) ref(name string) string {
	if s.alias == "" {
		return name
	}
	return s.alias + "." + name
}

// scope is what an expression may name: sources, and those of the queries around.
type scope struct {
	sources []source
	outer   *scope
	depth   int // how much deeper queries may nest
}

// refs are the columns of a kind in the nearest sources.
func (sc *scope) refs(kind string) []string {
	var out []string
	for _, s := range sc.sources {
		for _, c := range s.columns {
			if c.kind == kind {
				out = append(out, s.ref(c.name))
			}
		}
	}
	return out
}

// unique are columns that tell all rows apart, nil if it is not known that any do.
func (sc *scope) unique() []string {
	var out []string
	for _, s := range sc.sources {
		if s.unique == nil {
			return nil
		}
		for _, u := range s.unique {
			out = append(out, s.ref(u))
		}
	}
	return out
}

// statement returns a SELECT and its parameters.
func (g *generator) statement() (sql string, set []pair.Param) {
	g.params, g.names, g.ctes = nil, 0, nil
	switch n := g.IntN(100); {
	case n < 4:
		sql = g.failing()
	case n < 12:
		sql = g.shape()
	case n < 24:
		sql = g.with()
	default:
		body, out, free := g.query(&scope{depth: 2}, nil)
		sql = g.finish(body, out, free)
	}
	return renumber(sql, g.params)
}

var placeholder = regexp.MustCompile(`\$(\d+)`)

// renumber leaves out parameters that did not make it into the text.
func renumber(sql string, all []pair.Param) (string, []pair.Param) {
	var set []pair.Param
	number := map[string]string{}
	sql = placeholder.ReplaceAllStringFunc(sql, func(m string) string {
		if number[m] == "" {
			n, _ := strconv.Atoi(m[1:])
			set = append(set, all[n-1])
			number[m] = fmt.Sprintf("$%d", len(set))
		}
		return number[m]
	})
	return sql, set
}

// query returns a query without ORDER BY and its columns. Free says that it may
// be ordered by what it does not select; sc has the scopes around. If kinds are
// given the query has columns of just these.
func (g *generator) query(sc *scope, kinds []string) (sql string, out []column, free *scope) {
	if sc.depth > 0 && g.chance(14) {
		sql, out = g.setOperation(sc, kinds)
		return sql, out, nil
	}
	return g.selection(sc, kinds)
}

// selection is one SELECT … FROM … WHERE …, of one of several sorts.
func (g *generator) selection(sc *scope, kinds []string) (string, []column, *scope) {
	inner, from := g.from(sc)
	where := g.where(inner)
	switch n := g.IntN(100); {
	case n < 32:
		body, out := g.grouped(inner, from+where, kinds)
		return body, out, nil
	case n < 44 && kinds == nil:
		body, out := g.windowed(inner, from+where)
		return body, out, inner
	case n < 52:
		items, out := g.items(inner, kinds, true)
		return "select distinct " + items + from + where, out, nil
	case n < 57 && kinds == nil:
		body, out := g.distinctOn(inner, from+where)
		return body, out, nil
	default:
		items, out := g.items(inner, kinds, false)
		return "select " + items + from + where, out, inner
	}
}

// items is a select list. Comparable ones can be told apart by what is printed.
func (g *generator) items(sc *scope, kinds []string, comparable bool) (string, []column) {
	if kinds == nil {
		for range 1 + g.IntN(4) {
			kinds = append(kinds, g.someKind(sc))
		}
	}
	var list []string
	var out []column
	for i, k := range kinds {
		e := g.expr(k, sc, 2)
		if comparable {
			e = stable(k, e)
		}
		c := column{fmt.Sprintf("c%d", i+1), k}
		list, out = append(list, e+" as "+c.name), append(out, c)
	}
	return strings.Join(list, ", "), out
}

// stable makes values that are equal also look alike: 1.0 is 1.00 to GROUP BY.
func stable(kind, expr string) string {
	if kind == numeric {
		return "round(" + expr + ", 2)"
	}
	return expr
}

// someKind is a kind of which there are columns, or one that is common.
func (g *generator) someKind(sc *scope) string {
	if len(sc.sources) > 0 && g.chance(75) {
		if s := pick(g, sc.sources); len(s.columns) > 0 {
			return pick(g, s.columns).kind
		}
	}
	return pick(g, []string{integer, integer, numeric, word, word, boolean})
}

func (g *generator) where(sc *scope) string {
	if g.chance(30) {
		return ""
	}
	return " where " + g.condition(sc, 2)
}

// finish makes a statement of a query. DISTINCT ON has its order already.
func (g *generator) finish(body string, out []column, free *scope) string {
	if strings.HasPrefix(body, "select distinct on") {
		return body
	}
	return body + g.order(out, free)
}

// order is the end of a whole statement: ORDER BY, LIMIT, OFFSET.
func (g *generator) order(out []column, free *scope) string {
	if g.chance(35) {
		return ""
	}
	var keys []string
	if free != nil && g.chance(30) {
		k := g.someKind(free)
		if e := g.varying(k, free); e != "" {
			keys = append(keys, g.direction(g.collated(k, e)))
		}
	}
	total := g.chance(70)
	for _, i := range g.Perm(len(out)) {
		if !total && len(keys) > 0 {
			break
		}
		key := fmt.Sprint(i + 1)
		if g.chance(15) {
			key = out[i].name
		}
		keys = append(keys, g.direction(key))
	}
	if len(keys) == 0 {
		return ""
	}
	sql := " order by " + strings.Join(keys, ", ")
	if total && g.chance(35) {
		sql += g.limit()
	}
	return sql
}

// varying is an expression that names a column, "" if none turned up: ORDER BY
// and GROUP BY read constants differently.
func (g *generator) varying(kind string, sc *scope) string {
	for range 6 {
		if e := g.expr(kind, sc, 1); column1.MatchString(e) {
			return e
		}
	}
	return ""
}

var column1 = regexp.MustCompile(`\b[a-z]+\d+\.`)

func (g *generator) limit() string {
	sql := ""
	if g.chance(85) {
		sql += " limit " + pick(g, []string{"0", "1", "3", "5", "10", "25", "100", "all", "null", "2 + 1"})
	}
	if g.chance(40) {
		sql += " offset " + pick(g, []string{"0", "1", "2", "7", "30", "1000"})
	}
	if g.chance(10) {
		return " offset 2 fetch first 4 rows only"
	}
	return sql
}

func (g *generator) direction(key string) string {
	return key + pick(g, []string{"", "", "", " asc", " desc", " desc", " nulls first", " desc nulls last", " asc nulls last"})
}

func (g *generator) collated(kind, expr string) string {
	if kind == word && g.chance(30) {
		return "(" + expr + `) collate "C"`
	}
	return expr
}

// setOperation combines queries whose columns agree.
func (g *generator) setOperation(sc *scope, kinds []string) (string, []column) {
	if kinds == nil {
		for range 1 + g.IntN(3) {
			kinds = append(kinds, pick(g, []string{integer, integer, word, numeric, boolean, day}))
		}
	}
	deeper := *sc
	deeper.depth--
	arm := func() string {
		if g.chance(10) {
			return g.values(kinds)
		}
		s, out, free := g.query(&deeper, kinds)
		if g.chance(12) && free != nil {
			return "(" + s + " order by " + positions(len(out)) + " limit " + fmt.Sprint(g.IntN(9)) + ")"
		}
		return "(" + s + ")"
	}
	// Names come from the first arm, which values would not give.
	first, out, _ := g.selection(&deeper, kinds)
	sql := "(" + first + ")"
	for range 1 + g.IntN(2) {
		sql += pick(g, []string{" union all ", " union ", " union ", " intersect ", " intersect all ", " except ", " except all "}) + arm()
	}
	for i := range out {
		out[i] = column{out[i].name, kinds[i]}
	}
	return sql, out
}

func (g *generator) values(kinds []string) string {
	var rows []string
	for range 1 + g.IntN(3) {
		var row []string
		for _, k := range kinds {
			row = append(row, typed(k, pick(g, literals[k])))
		}
		rows = append(rows, "("+strings.Join(row, ", ")+")")
	}
	return "(values " + strings.Join(rows, ", ") + ")"
}

// typed gives a literal its kind's type where it has none of its own.
func typed(kind, literal string) string {
	switch kind {
	case word:
		return literal + "::text"
	case numeric:
		return "round(" + literal + ", 2)"
	case integer:
		if literal[0] == '-' {
			return "(" + literal + ")"
		}
	}
	return literal
}

func positions(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint(i+1))
	}
	return strings.Join(list, ", ")
}

// with is a statement that begins with WITH.
func (g *generator) with() string {
	if g.chance(15) {
		return g.recursive()
	}
	var ctes []string
	for range 1 + g.IntN(2) {
		body, out, free := g.query(&scope{depth: 1}, nil)
		if free != nil && g.chance(15) {
			body += " order by " + positions(len(out)) + " limit " + fmt.Sprint(1+g.IntN(20))
		}
		name := g.alias("cte")
		ctes = append(ctes, name+" as "+pick(g, []string{"", "", "materialized ", "not materialized "})+"("+body+")")
		g.ctes = append(g.ctes, relation{name: name, columns: out})
	}
	body, out, free := g.query(&scope{depth: 1}, nil)
	return "with " + strings.Join(ctes, ", ") + " " + g.finish(body, out, free)
}

// recursive walks over two tables. The depth is limited, so it ends.
func (g *generator) recursive() string {
	t, u := pick(g, tables[:10]), pick(g, tables)
	t0, u0 := g.source(t), g.source(u)
	ti, ui := slices.IndexFunc(t.columns, isInteger), slices.IndexFunc(u.columns, isInteger)
	union := pick(g, []string{"union", "union", "union all"})
	sql := fmt.Sprintf("with recursive walk(v, d) as (select %s::int8, 0 from %s %s where %s %s select (%s)::int8, walk.d + 1 from walk join %s %s on %s = walk.v where walk.d < 2 and %s)",
		t0.ref(t.columns[ti].name), t.name, t0.alias, g.condition(&scope{sources: []source{t0}}, 0), union,
		g.expr(integer, &scope{sources: []source{u0}}, 0), u.name, u0.alias, u0.ref(u.columns[ui].name), g.condition(&scope{sources: []source{u0}}, 0))
	return sql + pick(g, []string{
		" select v, d, count(*) from walk group by v, d order by 1, 2",
		" select count(*), sum(v), max(d) from walk",
		" select distinct v from walk where d > 0 order by v desc limit 10",
		" select a.id, w.d from a join walk w on w.v = a.k order by 1, 2 limit 50",
	})
}

func isInteger(c column) bool { return c.kind == integer }
