package selects

import "fmt"

// shape is a statement of a sort that is known to be easily got wrong.
func (g *generator) shape() string {
	t := pick(g, tables[:3])
	u := pick(g, tables[:11])
	n := g.IntN(6)
	c := g.constant(integer)
	list := []string{
		fmt.Sprintf("select count(*), sum(n), avg(n), min(s), max(s) from %s", u.name),
		fmt.Sprintf("select count(*) + 1, count(distinct n) from %s where n > %s", u.name, c),
		fmt.Sprintf("select n, count(*) from %s group by n order by count(*) desc, n limit %d", u.name, n),
		fmt.Sprintf("select n, count(*) from %s group by n having count(*) > %d order by 1", u.name, n),
		fmt.Sprintf("select avg(x), sum(x), avg(n) filter (where n > %s), stddev(x), var_pop(n) from a", c),
		fmt.Sprintf("select id from %s order by n desc nulls last, id limit %d offset %d", t.name, n, n),
		fmt.Sprintf("select id, s from %s order by lower(coalesce(s::text, '')), id", pick(g, []string{"a", "b", "q", "u"})),
		fmt.Sprintf("select r.id, %s.id from r left join %s on %s.n = r.id and %s.k = %s", t.name, t.name, t.name, t.name, c),
		fmt.Sprintf("select r.id, count(%s.k) from r left join %s on %s.n = r.id group by r.id order by 1", t.name, t.name, t.name),
		fmt.Sprintf("select r2.k, %s.id from %s right join r2 on %s.k = r2.k", t.name, t.name, t.name),
		fmt.Sprintf("select r2.id, %s.id from r2 full join %s using (k)", t.name, t.name),
		fmt.Sprintf("select id from %s where k = %s or n = %d", t.name, c, n),
		fmt.Sprintf("select x.id, y.id from %s x left join %s y on x.k = y.k and x.k = %s", t.name, u.name, c),
		"select r.*, (select count(*) from a where a.n = r.id) from r",
		"select r.id from r where exists (select 1 from a where a.n = r.n) order by 1",
		"select r.id from r where r.id not in (select n from a where n is not null)",
		"select r.id from r where r.id not in (select n from a)",
		fmt.Sprintf("select k, sum(x) over (partition by k), row_number() over (order by id) from a where n > %s", c),
		fmt.Sprintf("select distinct k from %s union select k from %s order by 1", t.name, t.name),
		fmt.Sprintf("select t.k, s.total from (select k, sum(id) as total from %s group by k) s join %s t on t.k = s.k where s.total > %s", t.name, t.name, c),
		fmt.Sprintf("select s.n, t.id from (select n, max(id) as m from %s group by n) s join %s t on t.id = s.m order by 2", t.name, t.name),
		"select a from a order by a.id limit 3",
		"select b.*, a.* from a join b on a.k = b.k and a.id = b.a_id",
		fmt.Sprintf("select (select s from a x where x.id = a.id), (select max(id) from b where b.k = a.k) from a where id < %d", n*10),
		fmt.Sprintf("select k, id from a where (k, id) in (select k, a_id from b) and n <> %s", c),
		"select coalesce(a.k, b.k), count(*) from a full join b on a.k = b.k group by 1 order by 1",
		"select e, count(*), min(e), max(e) from b group by e order by e",
		"select (o).x, (o).y, o from c where (o).x > 0 order by id",
		"select unnest(l) as v, id from c order by id, v",
		"select id, generate_series(1, n) from a where n < 4 order by 1, 2",
		"select g.v, count(a.k) from generate_series(-1, 6) g(v) left join a on a.k = g.v group by g.v order by g.v",
		"select grouping(n, b), n, b, count(*) from a group by rollup (n, b) order by 1, 2, 3",
		fmt.Sprintf("select count(*) from a tablesample system (100) where n > %s", c),
		"select tableoid::regclass, count(*) from a group by 1",
		"select j ->> 's', count(*), jsonb_object_agg(coalesce(id::text, ''), n order by id) from b group by 1 order by 1",
		"select now() = now(), current_date is null, count(*) from a",
		"select to_tsvector('simple', s) @@ to_tsquery('simple', 'zebra') as hit, count(*) from a group by 1 order by 1",
		"select l && array[1], l @> array[2], g @> 3, g * int4range(1, 4) from c order by id",
		"select lag(id) over w, k from a window w as (partition by k order by id) order by k, id",
		fmt.Sprintf("select * from (select k, id, rank() over (partition by k order by n, id) as rk from a) s where rk <= %d order by k, id", n),
		fmt.Sprintf("select * from a where ts >= timestamptz '2024-03-31 01:30+01' order by ts, id limit %d", n),
		"values (1, 'x'), (2, 'y') union all select id, s from h2 order by 1, 2",
		"table e0",
		"select r.id, r.name, r.price, count(a.id) from r left join a on a.n = r.id group by r.id order by 1",
		"select c.k, c.id, c.n, c.x + 1, count(b.id), max(a.x) from c join b on b.k = c.k left join a on a.n = c.n group by c.k, c.id order by 1, 2",
		"select c.*, count(a.id) from c left join a on a.k = c.k group by c.k, c.id order by c.k, c.id",
		"select n, count(*), rank() over (order by count(*) desc, n), sum(sum(id)) over (partition by count(*)) from a group by n order by 1",
		"select k, max(x), lag(max(x)) over (order by k) from a group by k order by 1",
		"select s.k, s.n, count(*) over (partition by s.n) from (select k, count(*) as n from b group by k) s order by 1, 2",
		fmt.Sprintf("select m.id, a.id from m join a using (k) where m.at > date '2024-01-09' and a.n <> %s order by 1, 2", c),
		"select count(*), sum(n), max(s), avg(x), bool_and(n > 0), array_agg(id) from e0",
		"select n, count(*) from e0 group by n",
	}
	return pick(g, list)
}

// failing is a statement that raises an error, or would if more of it were evaluated than PostgreSQL does.
func (g *generator) failing() string {
	t := pick(g, tables[:3])
	n := g.IntN(6)
	list := []string{
		fmt.Sprintf("select 1 / (id - %d) from %s order by id", n+5, t.name),
		fmt.Sprintf("select case when n = 0 then 0 else 10 / n end from %s", t.name),
		fmt.Sprintf("select id from %s where n <> 0 and 10 / n > %d", t.name, n),
		fmt.Sprintf("select id, s::int4 from %s where id > %d", pick(g, []string{"a", "b", "q"}), n),
		fmt.Sprintf("select sum(1 / (k - %d)) from a", n),
		fmt.Sprintf("select (select id from b where b.k = a.k) from a where a.k = %d", n),
		"select 2147483647 + n from a",
		"select count(*) from a having 1 / (count(*) - count(*)) > 0",
		"select nosuch from a",
		"select id from a order by 3",
		"select k, n from a group by k",
		"select k from a union select s from b",
		"select * from a join b using (k) where id = 3",
		"select sum(s) from a",
		fmt.Sprintf("select 'x'::int4, k from a where id = %d", n),
		"select date '2024-02-30' from a",
		"select coalesce(n, 1 / 0) from a where n is not null",
		"select id from a where k = 'one'",
		"select id from a limit -1",
		"select n::text::mood from a",
		"select array_agg(id order by id) from a group by nothing",
	}
	return pick(g, list)
}
