# What the generator found, made smaller. Each was answered wrongly once.
@route
# DISTINCT inside ran in each shard by itself.
# The table that a row is in has another OID on each shard.
select tableoid::regclass::text as t, id from m order by id limit 20;
select tableoid::regclass::text as t, count(*) from m group by 1 order by 1;
select a.tableoid::regclass::text as t, c.tableoid::regclass::text as u, count(*) from a left join c on a.id = c.id + 5 group by 1, 2 order by 3;
select tableoid = 'a'::regclass as same, count(*) from a group by 1;
select k from a where tableoid = 'c'::regclass;
select t.tableoid::regclass::text as t, count(*) from (select tableoid from a union all select tableoid from r union all select tableoid from h) t group by 1 order by 1;
select p.relname, count(*) from m join pg_class p on p.oid = m.tableoid group by 1 order by 1;
# Rows without a type of their own, which cannot be carried.
select distinct (n, b) from a;
select distinct (n, b) from a order by (n, b) limit 4;
select distinct row(k, id % 2) from b order by 1 desc limit 5;
select row(id, s) from a order by 1 limit 5;
select row(id, s) as r, (n, b) as t from a where k > 1 order by r desc, t limit 5;
select count(distinct (n, b)), count(distinct (k, s)) from a;
select n, count(distinct (b, s)) from a group by n order by n;
select n, array_agg(distinct (b, k)) from a group by n order by n;
select (n, b) as r, count(*), sum(x) from a group by 1 order by 1;
select distinct (a.n, q.n) from a join q on a.id = q.id order by 1;
select distinct on ((n, b)) id, n from a order by (n, b), id;
select (select row(id, s) from a order by id limit 1);
select array(select row(id, s) from a order by id limit 2);
select r from (select (id, s) as r from a) x order by r desc limit 3;
select r, count(*) from (select (n, b) as r from a union all select (n, b) from q) x group by r order by r;
select (id, s::text) from a where id < 9 union select (id, s::text) from b where id < 9 order by 1;
select max(c) from (select count(*) as c, (n, b) as r from a group by 2) x;
select id from a where (n, b) in (select n, b from q) order by id;
select id from a where (n, id) in ((1, 2), (3, 4), (-3, 11)) or (k, id) in (select k, id from b) order by id;
select rank() over (order by (n, b), id) as r, id from a order by 1, 2 limit 6;
select 1 from (select distinct 1 as c from a) s;
with t as materialized (select distinct 1 as c from c) select 1 from t;
select count(*) from (select distinct g, z from c) s;
# Texts lost brackets when they were written anew.
select (coalesce(array['x', s], array['y']))[2] from a order by id;
select id from a where (k > 7) <> all (array[false, true]);
select id from a where ((k > 7) = b) = (n is null) order by id;
# The same subquery in two places became two expressions.
select (select count(*) from c where c.id = 0) as c1 group by rollup ((select count(*) from c where c.id = 0));
select (select count(*) from b where b.id = a.n) from a group by (select count(*) from b where b.id = a.n) order by 1;
select distinct (select max(id) from q where q.n = a.n) from a order by (select max(id) from q where q.n = a.n);
# No columns at all.
select from a where id < 4;
# A modifier that only planning finds.
select coalesce(x, null) from a order by id limit 3;
# The fields of a row are columns that nobody has counted.
select (o).* from c order by id;
select (o).*, id from c order by id desc limit 5;
select id, (o).* from c where k > 3 order by 1, 2;
select distinct (o).* from c order by 1, 2;
select distinct (o).* from c;
select (o).y, count(*) from (select (o).*, o from c) s group by 1 order by 1;
select s.y, s.id from (select (o).*, id from c) s order by s.id limit 7;
select s.* from (select (o).*, k from c) s join a on a.k = s.k order by s.x, s.y, s.k limit 20;
select (o).* from c union select n, s from a order by 1, 2;
select (c.o).*, a.id from c join a on a.n = c.n order by a.id, c.id limit 9;
select (json_each(json_build_object('p', n))).* from a order by id, 1 limit 6;
select (jsonb_each_text(j)).*, id from b order by id, 1;
select (select count(*) from c where (o).x = a.n), (o).* from a join c using (k) order by a.id, c.id limit 8;
# System catalogs have columns that do not travel.
select (select count(*) from pg_class where relname = 'pg_class'), count(*) from a;
select id from a where id in (select relnatts from pg_class where relname = 'pg_attribute') order by id;
select (c).relname, a.id from pg_class c join a on a.id = c.relnatts where c.relname = 'pg_attribute';
select typname, a.id from pg_type join a on a.id = typlen where typname in ('bool', 'int8') order by 1, 2;
select a.id, array(select attname from pg_attribute where attrelid = 'pg_class'::regclass and attnum = a.id) from a order by 1 limit 5;
select t.schemaname, count(*) from pg_tables t, a where t.tablename = 'pg_class' group by 1;
select count(*) from information_schema.columns i join q on q.id = i.ordinal_position where i.table_name = 'pg_class';
with t as (select oid, typname from pg_type where typname = 'text') select t.typname, max(a.x) from t, a group by 1;
select array[row(k, id)], id from a order by id limit 3;
# An aggregate of the query around stands in a subquery.
select (select max(a.n)) from a;
select (select max(n)) from a where id > 10;
select (select sum(a.x) filter (where a.k > 3) from (values (1)) v(w)) from a;
select (select max((select b.n from b where b.k = a.k and b.id = a.id))) from a;
select (select string_agg(a.s, ',' order by a.id)) from a where id < 9;
select (select array_agg(a order by a.id)) from a where id < 4;
select (select (select count(a.n))) + 1 from a;
select (select m from (select min(a.d) as m) s) from a;
select (with t as (select max(a.id) as m) select m from t) from a;
select (select count(a.n) union all select null limit 1) from a;
select 1 from a order by (select max(a.id));
select t.m, r.name from (select (select max(a.n)) as m from a) t join r on r.id = t.m;
with t as (select (select count(a.n)) as m from a) select * from t;
select k, (select max(a.n)) from a group by k order by k;
select n, (select max(a.id)) from a group by n order by n;
select exists (select 1 from b where b.n < max(a.n)) from a;
select (select max(a.n + b.n) from b where b.id = 3) from a order by 1 limit 5;
# A constant among grouping sets is NULL in the rows of the other sets. PostgreSQL does
# not order by it.
select 1 as one, n, sum(id) from a group by grouping sets (1, 2);
select 'x' as t, n, count(*) from a group by rollup (t, n);
select * from (select 1 as one, n, sum(id) from a group by grouping sets (1, 2)) s where one = 1 order by n;
select 1 as one, 1 as uno, count(*) from a group by grouping sets (one, uno);
# A table without columns has rows all the same.
select a.id, t.one from a join (select 1 as one from hollow) t on t.one = a.n order by 1, 2;
select count(*) from a, hollow;
select a.id from a where exists (select from hollow) and id < 4 order by 1;
select a.id, t.* from a, lateral (select a.n, a.k from hollow union all select a.id, a.k from hollow) t (p, q) where a.id < 3 order by 1, 2, 3;
# The same subquery over a join of sharded tables in two places became two expressions.
select (select min(s.n) from b s join c o on o.k = s.k where s.n = a.n), count(*) from a group by (select min(s.n) from b s join c o on o.k = s.k where s.n = a.n) order by 1, 2;
select (select min(s.n) from b s join c o on o.k = s.k where s.k = a.k), count(*) from a group by (select min(s.n) from b s join c o on o.k = s.k where s.k = a.k) order by 1, 2;
select distinct on ((select min(s.n) from b s join c o on o.k = s.k where s.n = a.n)) (select min(s.n) from b s join c o on o.k = s.k where s.n = a.n) from a order by (select min(s.n) from b s join c o on o.k = s.k where s.n = a.n), 1;
select (select count(*) from b join c using (k) where b.n = a.n), (select count(*) from b join c using (k) where b.n < a.n) from a order by a.id;
# Conditions that are dropped left an AND of one operand.
select count(*) from h c join w e on 1 = 1 and c.n > 1 join a o on e.n = o.n where c.n > 1;
select count(*) from h c join w e on true and true join a o on e.n = o.n where true;
select count(*) from h c join w e on (true and (c.n = e.n and true)) or false join a o on e.n = o.n and (1 = 1 or c.id = 1) where true and (true and c.id > 2);
# Rows that have no type of their own are ordered by their columns.
select id from a order by (n, id);
select id from a order by row(s, id) desc limit 5;
select id, n from a order by (n, id) desc nulls last, id limit 7 offset 2;
select -id as id, n from a order by (n, -id) limit 5;
select n as id, id as n from a order by (a.n, a.id) limit 5;
select a.id, b.id from a join b using (k) order by (a.n, b.n, a.id, b.id) limit 9;
select row(a.*) is null from a where k = 1 order by row(a.*) limit 3;
