package routing

import (
	"fmt"
	"slices"
	"strings"
)

// written returns a table that statements write to.
func (g *generator) written() relation {
	for {
		if r := g.some(); !r.view && (!r.fixed || g.chance(5)) {
			return r
		}
	}
}

// insert names columns in any order. Ids that are no shard key are counted: an
// explicit one is checked on its own shard only, a difference that is known.
func (g *generator) insert() string {
	if g.chance(12) {
		return g.copied()
	}
	r := g.written()
	order := g.Perm(len(r.columns))
	rows := 1
	if g.chance(15) {
		rows = 2
	}
	if g.chance(10) && r.keys == 1 && r.columns[0].typ != "int8" { // all but a nullable key
		order = slices.DeleteFunc(order, func(i int) bool { return i == 0 })
	}
	var names, tuples []string
	for _, i := range order {
		names = append(names, r.columns[i].name)
	}
	for range rows {
		var tuple []string
		for _, i := range order {
			tuple = append(tuple, g.stored(r, i))
		}
		tuples = append(tuples, "("+strings.Join(tuple, ", ")+")")
	}
	sql := fmt.Sprintf("insert into %s (%s) values %s", r.name, strings.Join(names, ", "), strings.Join(tuples, ", "))
	if rows == 1 && g.chance(10) {
		sql = fmt.Sprintf("insert into %s (%s) select %s", r.name, strings.Join(names, ", "), strings.Trim(tuples[0], "()"))
	}
	switch {
	case g.chance(15):
		sql += " on conflict do nothing"
	case g.chance(15) && r.name == "customers":
		sql += " on conflict (id) do update set balance = customers.balance + 1"
	}
	return sql + g.returning(r, r.name)
}

// copied inserts what a query finds; the key may come from the rows it reads.
func (g *generator) copied() string {
	s := g.from(relations[g.IntN(3)])
	first := g.nextID
	g.nextID += 1000 // more than there are rows to copy
	key := g.oneOf(func() string { return s.column(0) }, func() string { return g.value("int8") })
	// Over several shards rows are numbered in an order only if there is one.
	var order []string
	for i := range s.columns {
		order = append(order, s.column(i))
	}
	return fmt.Sprintf("insert into orders (customer_id, id, status) select %s, %d + row_number() over (order by %s), 'copied' from %s where %s%s",
		key, first, strings.Join(order, ", "), s, g.condition(1, s), pick(g, []string{"", "", " on conflict do nothing", " returning customer_id"}))
}

// stored is a value for column i of a row.
func (g *generator) stored(r relation, i int) string {
	c := r.columns[i]
	if i >= r.keys && c.name == "id" {
		g.nextID++
		return fmt.Sprint(g.nextID)
	}
	return g.value(c.typ)
}

func (g *generator) returning(r relation, alias string) string {
	if !g.chance(40) {
		return ""
	}
	return " returning " + g.outputs(source{r, alias})
}

func (g *generator) update() string {
	r := g.written()
	s := source{r, r.name}
	i := r.keys + g.IntN(len(r.columns)-r.keys)
	for r.columns[i].name == "id" || r.columns[i].name == "key" {
		i = len(r.columns) - 1
	}
	value := g.value(r.columns[i].typ)
	if g.chance(4) { // the key itself
		i = 0
		value = g.value(r.columns[0].typ)
	}
	from := ""
	where := " where " + g.condition(1, s)
	if g.chance(15) {
		o := g.from(g.some())
		from = " from " + o.String()
		where += " and " + o.column(0) + " = " + s.column(0)
	}
	return fmt.Sprintf("update %s set %s = %s%s%s%s", r.name, r.columns[i].name, value, from, where, g.returning(r, r.name))
}

func (g *generator) remove() string {
	r := g.written()
	s := source{r, r.name}
	where := " where " + g.condition(1, s)
	using := ""
	if g.chance(15) {
		o := g.from(g.some())
		using = " using " + o.String()
		where += " and " + o.column(0) + " = " + s.column(0)
	}
	return fmt.Sprintf("delete from %s%s%s%s", r.name, using, where, g.returning(r, r.name))
}
