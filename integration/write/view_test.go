package writes

// view writes through views.
func (g *generator) view() string {
	return g.oneOf(
		func() string {
			return "insert into rich (number, who, credit) values " + g.rows(func() string { return g.customer() + ", " + g.word() + ", " + g.amount() }) +
				pick(g, []string{"", " on conflict do nothing", " on conflict (number) do update set credit = excluded.credit"}) + g.returning("number, shouted")
		},
		func() string {
			return "insert into rich (who, number) select 'g' || i, i * 2 from generate_series(1, " + g.number(15) + ") i" + pick(g, []string{"", " on conflict do nothing"}) + g.returning("number, credit")
		},
		func() string {
			return "insert into open_orders values " + g.rows(func() string {
				return g.order() + ", " + g.customer() + ", " + pick(g, []string{"'new'", "'paid'", "'sent'", "default"}) + ", " + g.amount()
			}) + pick(g, []string{"", " on conflict do nothing"}) + g.returning("customer, id, status")
		},
		func() string {
			return "insert into open_orders (customer, id, total) select number, " + g.number(90) + ", credit from rich" + pick(g, []string{"", " on conflict do nothing"}) + g.returning("total")
		},
		func() string {
			return "insert into keyed (key, n) values " + g.rows(func() string { return g.key() + ", " + g.number(120) }) + pick(g, []string{"", " on conflict do nothing"}) + g.returning("key, n")
		},
		func() string {
			return "update rich set credit = credit " + pick(g, []string{"+ 1", "- " + g.amount(), "* 2", "- 100"}) +
				pick(g, []string{"", " where number = " + g.customer(), " where who like 'c%'", " where number in (" + g.customer() + ", " + g.customer() + ")"}) + g.returning("number, credit", "shouted")
		},
		func() string {
			return "update richest set credit = credit - " + g.amount() + pick(g, []string{"", " where number > " + g.customer()}) + g.returning("number")
		},
		func() string {
			return "update open_orders o set status = " + pick(g, []string{"'paid'", "'sent'", "'new'"}) + ", total = r.credit from rich r where r.number = o.customer" +
				pick(g, []string{"", " and o.id < " + g.number(40)}) + g.returning("o.id, r.who")
		},
		func() string {
			return "update open_orders set total = (select count(*) from keyed) where customer = " + g.customer() + g.returning("id, total")
		},
		func() string {
			return "update keyed set " + pick(g, []string{"key = " + g.key(), "n = n + 60", "body = null"}) + " where n < " + g.number(40) + g.returning("key, n")
		},
		func() string {
			return "update measured set v = v - " + g.number(4) + pick(g, []string{"", " where day > date '2026-06-01'", " where sensor = " + g.number(9)}) + g.returning("v")
		},
		func() string {
			return "update dear set stock = stock - " + g.number(20) + ", price = price - 1" + pick(g, []string{"", " where id = " + g.product()}) + g.returning("id, stock")
		},
		func() string {
			return "insert into dear (id, price) values (" + g.product() + " + 50, " + g.amount() + ") on conflict (id) do update set price = excluded.price" + g.returning("price")
		},
		func() string { return "delete from dear where stock < " + g.number(20) + g.returning("id") },
		func() string {
			return "delete from rich where number = " + g.customer() + g.returning("who")
		},
		func() string {
			// Several keys may have the number: which of them is returned is PostgreSQL's choice.
			if g.IntN(2) == 0 {
				return "delete from open_orders o using keyed k where k.n = o.id" + g.returning("o.customer, o.id, k.n")
			}
			return "delete from open_orders o using keyed k where k.n = o.id and k.key = " + g.key() + g.returning("o.customer, o.id, k.key")
		},
		func() string { return "delete from measured where day = " + g.day() + g.returning("sensor, v") },
		func() string {
			return "with d as (delete from keyed where key = " + g.key() + " returning n, key) insert into logged select n + " + pick(g, []string{"1000", "1950"}) + ", key from d" + pick(g, []string{"", " on conflict do nothing"})
		},
		func() string {
			return "insert into logged select number + 300, who from rich" + pick(g, []string{"", " on conflict do nothing"}) + g.returning("n")
		},
		func() string {
			return "update logged set what = r.who from rich r where r.number = logged.n" + g.returning("n, r.credit")
		},
	)
}
