# Functions in SQL over sharded tables, wherever they stand in a query.
@setup
create function f_sum(i int8) returns numeric language sql stable as 'select sum(x) from a where k = i';
create function f_vol(int8) returns int8 language sql as $$select count(*) from b where k = $1$$;
create function f_first(i int8) returns text language sql stable as $$select s from b where k = i and s is not null order by id desc$$;
create function f_named(k int8) returns int4 language sql stable as $$select max(c.id) from c where c.k = $1$$;
create function f_strict(i int8, n int4) returns int8 language sql stable strict as $$select count(*) from a where a.k = i or a.n = f_strict.n$$;
create function f_strict1(i int8) returns int8 language sql stable strict as $$select count(*) from a where a.k = i$$;
create function f_none(i int8) returns int4 language sql stable as $$select id from a where k = i and id > 1000 limit 3$$;
create function f_default(i int8, lo int4 default 3, hi int4 default 30) returns int8 language sql stable as $$select count(*) from a where k = i and id between lo and hi$$;
create function f_cast(i int8) returns int4 language sql stable as $$select count(*) from a where k = i$$;
create function f_twice(i int8) returns numeric language sql stable as $$select f_sum(i) * 2 + f_vol(i)$$;
create function f_atomic(i int8) returns int8 language sql stable begin atomic select count(*) from a where a.k = i and a.n is not null; end;
create function f_return(i int8) returns numeric language sql stable return (select max(x) from a where a.k = f_return.i);
create function f_all(lo int4) returns int8 language sql stable as $$select count(*) from a where n > lo$$;
create function f_union(i int8) returns int4 language sql stable as $$select id from a where k = i union all select id from b where k = i order by 1 limit 2$$;
create function f_with(i int8) returns int8 language sql stable as $$with z as (select id from a where k = i) select count(*) from z$$;
create function f_q(i int4) returns int8 language sql stable as $$select count(*) from q where q.k = i$$;
create function f_ref(i int8, j int4) returns text language sql stable as $$select r.name || a.id from a join r on r.id = a.n where a.k = i and r.id < j order by a.id limit 1$$;
create function f_home(i int8) returns int8 language sql stable as $$select count(*) from a join h on h.id = a.id where a.k = i$$;
create function f_word(t text) returns int8 language sql stable as $$select count(*) from u where code = t$$;
create function f_overloaded(i int8) returns int8 language sql stable as $$select count(*) from a where k = i$$;
create function f_overloaded(i int8, j int8) returns int8 language sql stable as $$select count(*) from a where k in (i, j)$$;
create function f_out(i int8, out total int8) language sql stable as $$select sum(id) from a where k = i$$;
create function f_day(i int4, d date default date '2024-01-03') returns numeric language sql stable as $$select sum(x) from p where tenant = i and day = d$$;
create function t_rows(i int8) returns setof a language sql stable as $$select * from a where k = i and n is not null order by id$$;
create function t_table(i int8, floor int4 default 0) returns table (id int8, word text, total numeric) language sql stable as $$select b.id, b.s, b.n + 0.5 from b where b.k = i and b.n >= floor$$;
create function t_ids(i int8) returns setof int4 language sql stable as $$select id from c where k = i$$;
create function t_one(i int8) returns table (sole int4) language sql stable as $$select id from c where k = i$$;
create function t_strict(i int8, j int4) returns setof int4 language sql strict stable as $$select id from a where k = i or n = j$$;
create function t_vol(i int8) returns setof int4 language sql as $$select id from a where k = i$$;
create function t_outs(i int8, out n int4, out cnt int8) returns setof record language sql stable as $$select n, count(*) from a where a.k = i group by a.n$$;
create function s_definer(i int8) returns int8 language sql stable security definer as $$select count(*) from a where k = i$$;
create function s_path(i int8) returns int8 language sql stable set search_path = public as $$select count(*) from a where k = i$$;
create function f_collated(i int4) returns text language sql stable as $$select max(s) from u where id = i$$;
create function f_text(t text) returns text language sql stable as $$select max(code) from u where code >= t$$;
create view v_f as select k, id, f_sum(k) as total, f_vol(a.k) as others from a where n > 1;
create view v_t as select a.k, a.id, t.id as other, t.word from a cross join lateral t_table(a.k, 2) t;

@route
select f_sum(1);
select f_sum(1), f_vol(2);
select f_sum(k) from a where k = 2 order by id;
select id, f_sum(k), f_vol(k) from a order by id;
select id, f_vol(k + 1) from a order by id;
select distinct k, f_first(k) from a order by 1;
select k, f_named(k) from b order by 1, id;
select id, f_strict(k, n) from a order by id;
select id, f_strict1(k) from b order by id;
select f_strict1(null), f_strict1(3);
select id, f_none(k) as none from a where id < 20 order by id;
select id, f_default(k), f_default(k, 10), f_default(i => k, hi => 12), f_default(k, hi => 40, lo => 20) from a order by id;
select id, f_cast(k) + 1, f_cast(k)::text || 'x', f_twice(k) from a order by id;
select id, f_atomic(k), f_return(k) from a order by id;
select r.id, f_all(r.id), f_q(r.id) from r order by id;
select id from a where f_sum(k) > 20 order by id;
select id from a where f_all(n) > 20 and k > 2 order by id;
select f_union(k), count(*) from a group by f_union(k) order by 1;
select k, f_sum(k), count(*) from a group by k order by f_sum(k) nulls first, k;
select k, f_with(k), sum(n) from a group by k having f_with(k) > 2 order by k;
select sum(f_q(q.k)), max(f_sum(k8.k)) from (select k, id from q) q cross join lateral (select q.k::int8 as k) k8;
select id, f_ref(k, 6) from a order by id;
select id, f_home(k) from a order by id;
select f_home(k) from a where k = 1 and id < 20 order by id;
select id, f_word(s), f_word(code) from u order by id;
select id, f_overloaded(k), f_overloaded(k, 1) from a order by id;
select id, f_out(k) from a order by id;
select tenant, f_day(tenant), f_day(tenant, day) from p order by id;
select case when n > 2 then f_sum(k) else f_vol(k) end, coalesce(f_first(k), 'none'), array[f_vol(k), 1] from a order by id;
select (select f_sum(h.k)), id from h order by id;
select id from b where k in (select f_vol(k) from a) order by id;
select a.id, b.id from a join b on b.k = a.k and f_cast(a.k) > b.n order by 1, 2;
select f_sum(k), rank() over (order by f_sum(k)) from a order by 1, 2;
select f_sum(f_vol(k)) from a order by 1;
with z as (select k, f_sum(k) as v from a) select v, count(*) from z group by v order by 1;
select f_sum(1) union select f_sum(2) order by 1;
select * from t_rows(1);
select * from t_rows(1) order by id;
select x.id, x.s from t_rows(2) x where x.id > 4 order by 1;
select t.* from t_table(1) t order by 1;
select t.a, t.total, word from t_table(2, -3) as t (a) order by 1;
select count(*) from t_table(floor => 1, i => 2);
select * from t_ids(1) order by 1;
select * from t_ids(1) as n order by n;
select n.x from t_ids(2) as n (x) order by 1;
select sole from t_one(1) order by 1;
select * from t_outs(1) order by 1;
select a.id, t.* from a, t_table(a.k) t where a.id < 30 order by 1, 2;
select a.id, t.id from a left join t_table(a.k, 4) t on true order by 1, 2;
select a.id, i from a cross join t_ids(a.k + 1) i where a.n > 0 order by 1, 2;
select a.id, i from a, t_strict(a.k, a.n) i where a.id < 12 order by 1, 2;
select b.id, t.id from b, lateral t_rows(b.k) t where t.n > b.n order by 1, 2;
select h.id, v from h, t_vol(h.k) v order by 1, 2;
select r.id, t.n, t.cnt from r, t_outs(r.id) t order by 1, 2;
select count(*), max(t.n) from t_rows(1) t, t_rows(2) u where t.n = u.n;
select a.id from a where a.id in (select t.id from t_table(a.k) t) order by 1;
select a.id from a where exists (select from t_ids(a.k) i where i > a.id) order by 1;
select * from f_sum(1);
select * from f_sum(2) as z;
select *, f_sum(k) from a order by f_sum(k) nulls first, id;
select distinct f_vol(k), f_sum(k) from a order by f_vol(k), f_sum(k) desc nulls last;
select a.id, row_to_json(t) from a, t_table(a.k) t order by 1, t.id;
select a.id, o.total from a, f_out(a.k) o where a.n > 1 order by 1;
select s_definer(1), s_path(1);
select id, s_definer(k), s_path(k) from a where k = 1 order by id;
select * from v_f order by id;
select id, others from v_f where k = 1 order by id;
select x.id, y.total from v_f x join v_f y on x.k = y.k order by 1, 2;
select * from v_t order by 2, 3, 4;
select other from v_t where k = 2 order by 1;
select f_sum($1);
-- int8:1
-- unknown:2
-- int8:NULL
-- unknown:NULL
select id, f_default(k, $1), f_strict1($2) from a where id < $3 order by id;
-- int4:5 | int8:2 | int4:20
-- unknown:5 | unknown:NULL | unknown:9
select t.id, t.word from t_table($1, $2) t order by 1;
-- int8:1 | int4:2
-- int8:NULL | int4:2
-- unknown:2 | unknown:-5
select id, f_sum(k) from a where k = $1 order by id;
-- int8:1
select a.id, t.id from a, t_table(a.k) t where a.k = $1 order by 1, 2;
-- int8:2

@maybe
select id, f_text('a') from h order by 1;
select f_collated(id) from u order by f_collated(id);
select f_text(s) from u order by f_text(s);
select f_text(s) from a order by f_text(s);

@error
select f_sum(s) from a;
select f_sum(1.5);
select f_sum(k, 2) from a;
select f_default(k, lo => 2, lo => 3) from a;
select f_sum(k) from a group by n;
select t.id, t.nosuch from t_rows(1) t;
select * from t_table(1) as t (p, q, r, s);
