package writes

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"weft/integration/pair"
)

// generator makes up statements. Each has one answer: rows that are cut off are in
// an order, rows that are joined to a changed one are so by a key.
type generator struct {
	*rand.Rand
	params []pair.Param
}

func newGenerator(seed uint64) *generator { return &generator{Rand: rand.New(rand.NewPCG(seed, 5))} }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

func (g *generator) oneOf(list ...func() string) string { return pick(g, list)() }

// kinds are the kinds of statements, with how many of a hundred there are.
func (g *generator) kinds() []struct {
	name   string
	weight int
	make   func() string
} {
	return []struct {
		name   string
		weight int
		make   func() string
	}{
		{"insert", 18, g.insert},
		{"select", 12, g.insertSelect},
		{"update", 18, g.update},
		{"join", 8, g.updateJoin},
		{"key", 5, g.updateKey},
		{"delete", 12, g.remove},
		{"merge", 6, g.merge},
		{"with", 6, g.with},
		{"reference", 6, g.reference},
		{"home", 4, g.home},
		{"lock", 2, g.lock},
		{"truncate", 1, g.truncate},
		{"unique", 10, g.unique},
		{"read", 6, g.read},
		{"view", 8, g.view},
		{"drawn", 14, g.drawnRows},
		{"reach", 10, g.reach},
	}
}

// statement returns one, and whether its rows come in an order.
func (g *generator) statement() (sql string, set []pair.Param, ordered bool) {
	g.params = nil
	list := g.kinds()
	total := 0
	for _, k := range list {
		if *kindFlag == "" || strings.Contains(*kindFlag, k.name) {
			total += k.weight
		}
	}
	at := g.IntN(total)
	for _, k := range list {
		if *kindFlag != "" && !strings.Contains(*kindFlag, k.name) {
			continue
		}
		if at -= k.weight; at < 0 {
			sql = k.make()
			values := strings.HasPrefix(sql, "insert") && strings.Contains(sql, " values ")
			return sql, g.params, values || pair.Ordered(sql) && !strings.HasPrefix(sql, "insert")
		}
	}
	panic("no kind")
}

// value writes a value as a literal or a parameter.
func (g *generator) value(typ, text string) string {
	if g.chance(50) {
		g.params = append(g.params, pair.Param{Type: typ, Text: &text})
		return "$" + strconv.Itoa(len(g.params))
	}
	switch typ {
	case "int4", "numeric":
		return text
	}
	return "'" + text + "'"
}

func (g *generator) number(n int) string { return g.value("int4", strconv.Itoa(1+g.IntN(n))) }
func (g *generator) customer() string    { return g.number(26) }
func (g *generator) order() string       { return g.number(50) }
func (g *generator) product() string     { return g.number(10) }
func (g *generator) key() string         { return g.value("text", string(rune('a'+g.IntN(8)))) }
func (g *generator) amount() string {
	return g.value("numeric", fmt.Sprintf("%d.%02d", g.IntN(90), g.IntN(100)))
}

func (g *generator) word() string {
	return g.value("text", pick(g, []string{"new", "paid", "sent", "eu", "us", "x", "y''"}))
}

func (g *generator) day() string { return fmt.Sprintf("date '2026-05-20' + %s", g.number(40)) }

func (g *generator) returning(list ...string) string {
	if g.chance(50) {
		return ""
	}
	return " returning " + pick(g, append(list, "*"))
}

// rows repeats a row of VALUES.
func (g *generator) rows(row func() string) string {
	var out []string
	for range 1 + g.IntN(6) {
		out = append(out, "("+row()+")")
	}
	return strings.Join(out, ", ")
}

func (g *generator) insert() string {
	return g.oneOf(
		func() string {
			return "insert into customers (id, name, region, credit) values " + g.rows(func() string {
				return g.customer() + ", " + g.word() + ", " + pick(g, []string{"default", "null", g.word()}) + ", " + g.amount()
			}) + pick(g, []string{
				"", "", " on conflict do nothing", " on conflict (id) do nothing",
				" on conflict (id) do update set credit = customers.credit + excluded.credit, name = excluded.name || '!'",
				" on conflict (id) do update set region = excluded.region where customers.region is distinct from excluded.region",
			}) + g.returning("id, credit", "name || id as x", "upper(region), id * 2")
		},
		func() string {
			return "insert into orders (customer_id, id, total, note) values " + g.rows(func() string {
				return g.customer() + ", " + g.order() + ", " + g.amount() + ", " + g.word()
			}) + pick(g, []string{
				"", " on conflict do nothing", " on conflict (customer_id, id) do update set note = excluded.note",
				" on conflict (customer_id, id) do update set total = orders.total + 1 where orders.status = 'new'",
			}) + g.returning("id", "customer_id, status, total")
		},
		func() string {
			return "insert into items (customer_id, order_id, line, product_id, qty, price) values " + g.rows(func() string {
				return g.customer() + ", " + g.order() + ", " + g.number(4) + ", " + g.product() + ", " + g.number(9) + ", " + g.amount()
			}) + pick(g, []string{"", " on conflict do nothing"}) + g.returning("worth", "line, qty * 2")
		},
		func() string {
			return "insert into events values " + g.rows(func() string {
				return g.key() + ", " + g.number(60) + `, '{"x": 1}', array[` + g.word() + "]"
			}) + pick(g, []string{"", " on conflict do nothing", " on conflict (key, n) do update set tags = events.tags || excluded.tags"}) + g.returning("key, n", "tags[1]")
		},
		func() string {
			return "insert into readings values " + g.rows(func() string { return g.number(9) + ", " + g.day() + ", " + g.number(99) }) +
				pick(g, []string{"", " on conflict do nothing", " on conflict (sensor, day) do update set v = excluded.v"}) + g.returning("sensor", "day, v")
		},
		func() string {
			// The key is an expression, or the default.
			return "insert into totals (customer_id, n, sum) values " + g.rows(func() string {
				return pick(g, []string{g.customer(), g.customer() + " + " + g.number(3), "length(" + g.word() + "::text) + " + g.customer(), "abs(-" + g.customer() + ")"}) + ", " + g.number(9) + ", " + g.amount()
			}) + pick(g, []string{"", " on conflict do nothing", " on conflict (customer_id) do update set n = totals.n + excluded.n"}) + g.returning("customer_id", "n, sum")
		},
	)
}

func (g *generator) insertSelect() string {
	sql := g.oneOf(
		func() string { // colocated
			return "insert into totals (customer_id, n, sum) select customer_id, count(*), sum(total) from orders" + g.where(g.ordersWhere) +
				" group by customer_id on conflict (customer_id) do update set n = excluded.n, sum = excluded.sum"
		},
		func() string {
			return "insert into totals (customer_id, n) select id, 0 from customers where not exists (select from totals t where t.customer_id = customers.id)"
		},
		func() string { // from elsewhere
			return "insert into events (key, n) select distinct coalesce(region, 'z'), id + 100 from customers" + g.where(g.customersWhere) + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string {
			return "insert into customers (id, name) select " + pick(g, []string{"i", "30 - i", "i * 3"}) + ", 'gen' || i from generate_series(1, " + g.number(12) + ") i" + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string {
			return "insert into orders (customer_id, id, total) select id, " + g.number(80) + ", credit from customers" + g.where(g.customersWhere) + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string {
			return "insert into readings (sensor, day, v) select n % 9, date '2026-05-25' + n, length(key) from events order by key, n" + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string {
			return "insert into log select n + 1000, key, n from events where key = " + g.key() + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string {
			return "insert into totals (customer_id, n, sum) select l.id, 1, l.amount from log l where l.id < 30" + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string { // rows of its own
			return "insert into orders (customer_id, id, total) select customer_id, id + 100, total from orders" + g.where(g.ordersWhere) + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string {
			return "insert into events (key, n) select chr(97 + (n % 6)), n + 500 from events order by key, n limit " + g.number(5) + " on conflict do nothing"
		},
	)
	return sql + g.returning()
}

func (g *generator) where(conditions func() string) string {
	if g.chance(25) {
		return ""
	}
	w := " where " + conditions()
	if g.chance(30) {
		w += pick(g, []string{" and ", " or "}) + conditions()
	}
	return w
}

func (g *generator) customersWhere() string {
	return g.oneOf(
		func() string { return "customers.id = " + g.customer() },
		func() string {
			return "customers.id in (" + g.customer() + ", " + g.customer() + ", " + g.customer() + ")"
		},
		func() string { return "customers.id between " + g.customer() + " and " + g.customer() },
		func() string { return "region = " + g.word() },
		func() string { return "credit > " + g.amount() },
		func() string {
			return "exists (select from orders o where o.customer_id = customers.id and o.total > " + g.amount() + ")"
		},
		func() string { return "customers.id in (select customer_id from totals where n > 0)" },
		func() string { return "name in (select key from events)" },
		func() string { return "credit < (select avg(total) from orders)" },
		func() string { return "customers.id not in (select id from log where id is not null)" },
	)
}

func (g *generator) ordersWhere() string {
	return g.oneOf(
		func() string { return "orders.customer_id = " + g.customer() },
		func() string { return "orders.customer_id = " + g.customer() + " and orders.id = " + g.order() },
		func() string { return "orders.id = " + g.order() },
		func() string { return "status = " + g.word() },
		func() string { return "total between " + g.amount() + " and 80" },
		func() string {
			return "exists (select from items i where i.customer_id = orders.customer_id and i.order_id = orders.id)"
		},
		func() string {
			return "exists (select from items i where i.order_id = orders.id and i.qty > " + g.number(5) + ")"
		},
		func() string { return "orders.id in (select n from events where key = " + g.key() + ")" },
		func() string { return "orders.id in (select id from products)" },
		func() string {
			return "(orders.customer_id, orders.id) in (select customer_id, id from orders order by 1, 2 limit " + g.number(7) + ")"
		},
	)
}

func (g *generator) update() string {
	return g.oneOf(
		func() string {
			return "update customers set " + pick(g, []string{
				"credit = credit - " + g.amount(), "name = name || " + g.word(), "region = default, credit = 1",
				"(region, credit) = (select max(status), count(*) from orders o where o.customer_id = customers.id)",
				"credit = (select count(*) from events)", "at = null",
			}) + g.where(g.customersWhere) + g.returning("id, credit", "customers.*")
		},
		func() string {
			return "update orders set " + pick(g, []string{
				"total = total * 2", "status = " + g.word(), "note = (select name from customers c where c.id = orders.customer_id)",
				"note = (select string_agg(key, ',' order by key) from events)", "id = orders.id + 1000", "total = 10 / (orders.id - " + g.order() + ")",
			}) + g.where(g.ordersWhere) + g.returning("id, total", "status")
		},
		func() string {
			return "update items set qty = qty - " + g.number(2) + " where product_id = " + g.product() + g.returning("worth, line")
		},
		func() string {
			return "update readings set v = v + " + g.number(5) + pick(g, []string{"", " where day > date '2026-06-01'", " where sensor = " + g.number(9)}) + g.returning("v")
		},
		func() string {
			return "update readings set day = day + 60 where sensor = " + g.number(9) + " and day < " + g.day() + g.returning()
		},
		func() string {
			return "update events set body = body || '{\"u\": true}', tags = array_append(tags, " + g.word() + ") where n % " + g.number(5) + " = 0" + g.returning("key, n")
		},
	)
}

func (g *generator) updateJoin() string {
	return g.oneOf(
		func() string {
			return "update totals t set sum = c.credit, n = t.n + 1 from customers c where c.id = t.customer_id" + pick(g, []string{"", " and c.region = " + g.word()}) + g.returning("t.customer_id, c.name")
		},
		func() string {
			return "update items i set price = p.price from products p where p.id = i.product_id" + pick(g, []string{"", " and p.stock > " + g.number(50)}) + g.returning("i.line, p.name")
		},
		func() string { // not colocated: by the other's primary key
			return "update orders o set note = l.what from log l where l.id = o.id" + g.returning("o.id, l.amount")
		},
		func() string {
			return "update events e set body = to_jsonb(c.name) from customers c where c.id = e.n" + pick(g, []string{"", " and e.key > " + g.key()}) + g.returning("e.n, c.id")
		},
		func() string {
			return "update customers c set credit = s.total from (select customer_id, sum(total) as total from orders group by customer_id) s where s.customer_id = c.id" + g.returning("c.id")
		},
		func() string {
			return "update customers c set name = s.x from (select customer_id % 20 + 1 as id, max(status) as x from orders group by 1) s where s.id = c.id" + g.returning("c.id, s.x")
		},
		func() string {
			return "with big as (select product_id, sum(qty) as q from items group by 1) update orders set note = 'q' || big.q from big where big.product_id = orders.id" + g.returning()
		},
		func() string {
			return "update log set amount = s.n from (select count(*) as n from orders) s where log.id = " + g.number(12) + g.returning()
		},
	)
}

// updateKey moves rows: tables that nothing references.
func (g *generator) updateKey() string {
	return g.oneOf(
		func() string {
			return "update events set key = " + g.key() + " where key = " + g.key() + g.returning("key, n")
		},
		func() string {
			return "update events set key = chr(97 + n % 7), n = n + 200 where n < " + g.number(30) + g.returning()
		},
		func() string {
			return "update totals set customer_id = customer_id + " + pick(g, []string{"100", "1"}) + pick(g, []string{"", " where n = 0"}) + g.returning("customer_id")
		},
		func() string {
			return "update readings set sensor = " + g.number(9) + ", v = v + 1 where sensor = " + g.number(9) + g.returning()
		},
		func() string {
			return "update events e set key = lower(c.region) from customers c where c.id = e.n and c.region is not null" + g.returning("e.key, c.id")
		},
	)
}

func (g *generator) remove() string {
	return g.oneOf(
		func() string {
			return "delete from customers where " + g.customersWhere() + g.returning("id", "name, credit")
		},
		func() string { return "delete from orders where " + g.ordersWhere() + g.returning("customer_id, id") },
		func() string {
			return "delete from items using products p where p.id = product_id and p.stock < " + g.number(90) + g.returning("line, p.name")
		},
		func() string { return "delete from items where qty = " + g.number(5) + g.returning() },
		func() string { return "delete from events where key = " + g.key() + g.returning("n") },
		func() string {
			return "delete from events e using log l where l.id = e.n" + g.returning("e.key, l.what")
		},
		func() string { return "delete from readings where day = " + g.day() + g.returning() },
		func() string {
			return "delete from totals where customer_id in (select id from customers where region = " + g.word() + ")" + g.returning("customer_id")
		},
		func() string {
			return "delete from orders o using (select max(id) as id from orders) m where o.id = m.id" + g.returning("o.id")
		},
	)
}

func (g *generator) merge() string {
	return g.oneOf(
		func() string {
			return "merge into totals t using (select customer_id, count(*) as n, sum(total) as s from orders group by 1) o on t.customer_id = o.customer_id " +
				"when matched and o.n > 2 then delete when matched then update set n = o.n, sum = o.s when not matched then insert (customer_id, n) values (o.customer_id, o.n)"
		},
		func() string {
			return "merge into customers c using (select i, i * 1.5 as x from generate_series(" + g.number(10) + ", 25) i) s on c.id = s.i " +
				"when matched then update set credit = s.x when not matched then insert (id, name, credit) values (s.i, 'merged', s.x)"
		},
		func() string {
			return "merge into events e using customers c on e.n = c.id when matched and c.region = " + g.word() + " then delete when matched then update set body = to_jsonb(c.credit)"
		},
		func() string {
			return "merge into totals t using log l on l.id = t.customer_id when matched then do nothing when not matched then insert values (l.id, 5, l.amount)"
		},
		func() string {
			return "merge into orders o using customers c on o.customer_id = c.id and o.id = " + g.order() + " when matched then update set note = c.name when not matched then insert (customer_id, id) values (c.id, 77)"
		},
	)
}

// with are data-modifying CTEs.
func (g *generator) with() string {
	return g.oneOf(
		func() string {
			return "with d as (delete from items where qty > " + g.number(5) + " returning customer_id, qty) " +
				"update totals set n = n + s.q from (select customer_id, sum(qty) as q from d group by 1) s where s.customer_id = totals.customer_id"
		},
		func() string {
			return "with d as (delete from events where key = " + g.key() + " returning n, key) insert into log select n + 2000, key from d" + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string {
			return "with d as (delete from totals where n = " + g.number(3) + " returning *) select count(*), sum(n) from d"
		},
		func() string {
			return "with i as (insert into customers (id, name) values (" + g.customer() + ", " + g.word() + ") on conflict do nothing returning id) insert into orders (customer_id, id, note) select id, 900, 'with' from i returning customer_id"
		},
		func() string {
			return "with u as (update customers set credit = credit + 1 where region = " + g.word() + " returning id, credit) select id, credit from u order by id"
		},
		func() string {
			return "with moved as (delete from orders where status = 'sent' and customer_id = " + g.customer() + " returning *) insert into totals (customer_id, n) select customer_id + 200, count(*) from moved group by 1 on conflict do nothing"
		},
	)
}

func (g *generator) reference() string {
	return g.oneOf(
		func() string {
			return "insert into products values " + g.rows(func() string { return g.product() + ", " + g.word() + ", " + g.amount() + ", " + g.number(9) }) +
				pick(g, []string{"", " on conflict do nothing", " on conflict (id) do update set price = excluded.price, stock = products.stock + 1"}) + g.returning("id, stock")
		},
		func() string {
			return "update products set stock = stock - " + g.number(30) + " where id = " + g.product() + g.returning("stock")
		},
		func() string {
			return "update products set price = price + 1" + pick(g, []string{"", " where stock > " + g.number(50)}) + g.returning("id, price")
		},
		func() string { return "delete from products where id = " + g.product() + g.returning("name") },
		func() string {
			return "update products p set stock = s.n from (select product_id, count(*) as n from items group by 1) s where s.product_id = p.id" + g.returning("p.id, p.stock")
		},
		func() string {
			return "insert into products (id, name, stock) select n + 100, key || n, n from events where n < " + g.number(9) + " order by key, n on conflict do nothing" + g.returning("id")
		},
	)
}

func (g *generator) home() string {
	return g.oneOf(
		func() string {
			return "insert into log values (" + g.number(40) + ", " + g.word() + ", " + g.amount() + ")" + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string { return "update log set amount = amount + 1 where id = " + g.number(12) + g.returning() },
		func() string { return "delete from log where id in (select n from events)" + g.returning("id") },
		func() string {
			return "update log set what = (select max(name) from customers) where id < " + g.number(9)
		},
	)
}

func (g *generator) lock() string {
	return g.oneOf(
		func() string {
			return "select id, credit from customers where region = " + g.word() + " order by id for update"
		},
		func() string {
			return "select customer_id, id from orders where " + g.ordersWhere() + " order by 1, 2 for share"
		},
		func() string {
			return "select customer_id, id, total from orders where " + g.ordersWhere() + " order by total nulls first, 1, 2 limit " + g.number(6) +
				pick(g, []string{"", " offset 1"}) + " for " + pick(g, []string{"update", "no key update", "share", "key share"}) +
				pick(g, []string{"", " nowait", " skip locked"})
		},
		func() string {
			return "select c.id, o.id from customers c join orders o on o.customer_id = c.id order by 1 desc, 2 limit " + g.number(5) +
				" for update" + pick(g, []string{"", " of o", " of c"})
		},
	)
}

func (g *generator) truncate() string {
	return "truncate " + pick(g, []string{"events", "totals, events", "items", "readings", "orders, items", "log", "products"})
}

// read looks at what the transaction has done so far.
func (g *generator) read() string {
	return pick(g, []string{
		"select count(*), sum(credit) from customers", "select status, count(*), sum(total) from orders group by 1 order by 1",
		"select c.id, count(o.id) from customers c left join orders o on o.customer_id = c.id group by 1 order by 1",
		"select p.id, p.stock, sum(i.qty) from products p left join items i on i.product_id = p.id group by 1, 2 order by 1",
		"select key, count(*), max(n) from events group by 1 order by 1", "select sum(v), count(distinct sensor) from readings", "select sum(amount) from log",
		"select customer_id, n, sum from totals order by 1",
	})
}
