package routing

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"weft/integration/pair"
)

// generator makes up statements: some that live on one shard, some that do not,
// some that only look so.
type generator struct {
	*rand.Rand
	params []pair.Param
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
func (g *generator) statement() (sql string, set []pair.Param) {
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
	case n < 5 && depth > 0:
		return g.odd(depth - 1)
	case n < 12 && depth > 0:
		return g.query2(depth-1, []string{" union all ", " union ", " intersect ", " except "})
	case n < 22 && depth > 0:
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

// odd are shapes in which a condition on the key does not reach the table, or
// only nearly.
func (g *generator) odd(depth int) string {
	s := g.from(relations[g.IntN(3)])
	k := s.columns[0].name
	inner := source{s.relation, s.name}
	v := func() string { return g.value("int8") }
	return g.oneOf(
		func() string {
			return fmt.Sprintf("select x.%s from (select *, row_number() over (order by %s) r from %s) x where x.%s = %s", k, k, s.name, k, v())
		},
		func() string {
			return fmt.Sprintf("select x.%s, x.c from (select %s, count(*) over (partition by %s) c from %s) x where x.%s = %s", k, k, k, s.name, k, v())
		},
		func() string {
			return fmt.Sprintf("select x.%s from (select * from %s order by %s limit 3) x where x.%s = %s", k, s.name, k, k, v())
		},
		func() string {
			return fmt.Sprintf("select x.k from (select max(%s) k from %s where %s) x where x.k = %s", k, s.name, g.condition(depth, inner), v())
		},
		func() string {
			return fmt.Sprintf("select %s, count(*) from %s where %s group by %s having %s = %s", k, s.name, g.condition(depth, inner), k, k, v())
		},
		func() string {
			return fmt.Sprintf("select %s, count(*) from %s group by %s having %s = %s", k, s.name, k, k, v())
		},
		func() string {
			return fmt.Sprintf("select count(*) filter (where %s = %s), count(*) from %s where %s", k, v(), s.name, g.condition(depth, inner))
		},
		func() string {
			return fmt.Sprintf("select x.%s from (select distinct %s from %s) x where x.%s = %s", k, k, s.name, k, v())
		},
		func() string {
			return fmt.Sprintf("select x.k from (select %s as k from %s union all select %s from orders) x where x.k = %s", k, s.name, v(), v())
		},
		func() string {
			return fmt.Sprintf("select x.k from (select %s + 1 as k from %s) x where x.k = %s", k, s.name, v())
		},
		func() string {
			return fmt.Sprintf("select x.k from (select case when %s > 3 then %s else 0 end as k from %s) x where x.k = %s", k, k, s.name, v())
		},
		func() string {
			return fmt.Sprintf("with x as (select * from %s), y as (select * from x where %s = %s) select y.%s, (select count(*) from x) from y", s.name, k, v(), k)
		},
		func() string {
			return fmt.Sprintf("with %s as (select %s as %s) select * from %s where %s = %s", s.name, v(), k, s.name, k, v())
		},
		func() string {
			return fmt.Sprintf("select t.%s, l.n from %s t left join lateral (select count(*) n from orders o where o.customer_id = t.%s) l on %s where t.%s = %s",
				k, s.name, k, pick(g, []string{"true", "l.n > 0", "t." + k + " = 3"}), k, v())
		},
		func() string {
			return fmt.Sprintf("select a.%s, b.customer_id from %s a left join (orders b join customers c on c.id = b.customer_id and c.id = %s) on b.customer_id = a.%s where a.%s = %s", k, s.name, v(), k, k, v())
		},
		func() string {
			return fmt.Sprintf("select customer_id, count(*) from orders join order_items using (customer_id) where customer_id = %s group by 1", v())
		},
		func() string {
			return fmt.Sprintf("select customer_id from orders full join order_items using (customer_id) where customer_id = %s", v())
		},
		func() string {
			return fmt.Sprintf("select o.id, i.qty from orders o left join order_items i using (customer_id) where customer_id = %s and i.qty is null", v())
		},
		func() string {
			return fmt.Sprintf("select c.id from customers c left join orders o on o.customer_id = c.id where %s is null and c.id = %s", pick(g, []string{"o.id", "o.customer_id"}), v())
		},
		func() string {
			return fmt.Sprintf("select c.id from customers c left join orders o on o.customer_id = c.id where coalesce(o.customer_id, %s) = %s", v(), v())
		},
		func() string {
			return fmt.Sprintf("select (select count(*) from orders o where o.customer_id = c.id), (select count(*) from orders o where o.customer_id = %s) from customers c where c.id = %s", v(), v())
		},
		func() string {
			return fmt.Sprintf("select g, t.%s from generate_series(1, 4) g left join %s t on t.%s = g where %s", k, s.name, k, pick(g, []string{"g = 2", "t." + k + " = 2", "g = t." + k + " and g = 2"}))
		},
		func() string {
			return fmt.Sprintf("select v.x, t.%s from (values (1), (%s)) v(x) join %s t on t.%s = v.x", k, v(), s.name, k)
		},
		func() string {
			return fmt.Sprintf("with recursive r as (select id from customers where id = %s union select o.customer_id + 1 from orders o join r on o.customer_id = r.id) select * from r", v())
		},
		func() string {
			return fmt.Sprintf("with d as (delete from order_items where customer_id = %s and qty > 90 returning customer_id) select * from d", v())
		},
		func() string {
			return fmt.Sprintf("with u as (update customers set balance = balance + 1 where id = %s returning id) select o.id from orders o, u where o.customer_id = u.id and o.customer_id = %s", v(), v())
		},
	)
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
