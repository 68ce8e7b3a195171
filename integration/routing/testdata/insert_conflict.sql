# ON CONFLICT with rows on several shards.
@setup
create table kv (k int primary key, v text, n int not null default 0, constraint positive check (n >= 0));
create table pairs (a int, b text, v int, primary key (a, b));
create table partial (k int, kind text, v int);
create unique index partial_live on partial (k, kind) where v > 0;
create table gen (k int primary key, twice int generated always as (k * 2) stored, v text);
create unique index gen_twice on gen (k, twice);
create table home (k int primary key, v text);
create table labels (id int primary key, name text);
create table owned (num bigserial primary key, o int not null, n int);

@weft
select weft.reference_table('labels');
select weft.shard_table('owned', 'o');
select weft.shard_table('kv', 'k');
select weft.shard_table('pairs', 'a');
select weft.shard_table('partial', 'k');
select weft.shard_table('gen', 'k');

@data
truncate kv, pairs, partial, gen, labels, owned;
truncate home;
insert into labels values (1, 'l1'), (2, 'l2');
insert into owned (num, o, n) values (100001, 1, 1), (100002, 2, 2);
insert into kv values (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'), (5, 'five');
insert into pairs values (1, 'x', 1), (2, 'x', 2), (3, 'x', 3);
insert into partial values (1, 'x', 1), (2, 'x', 0), (3, 'x', 3);
insert into gen values (1, default, 'g1'), (2, default, 'g2');

@mask num
@route
insert into kv values (3, 'c'), (6, 'f'), (1, 'a'), (7, 'g') on conflict do nothing;
insert into kv values (3, 'c'), (8, 'f'), (1, 'a'), (9, 'g'), (10, 'h') on conflict do nothing returning k, v;
insert into kv values (11, 'c'), (12, 'f'), (13, 'a') on conflict (k) do nothing returning k, v;
insert into kv values (3, 'c'), (1, 'a'), (2, 'b') on conflict (k) do nothing returning k, v;
insert into kv values (21, 'x'), (21, 'y'), (22, 'z'), (1, 'one'), (23, 'w') on conflict (k) do nothing returning *;
insert into kv values (3, 'c'), (31, 'f'), (1, 'a'), (32, 'g') on conflict (k) do update set v = excluded.v, n = kv.n + 1 returning k, v, n;
insert into kv as t values (3, 'c'), (41, 'f'), (1, 'a'), (42, 'g'), (2, 'b') on conflict (k) do update set v = t.v || excluded.v where t.k <> 3 returning k, v, t.n, t.xmax <> 0;
insert into kv (k, v) values (4, 'c'), (5, 'f') on conflict on constraint kv_pkey do update set n = 9, v = default returning *;
insert into kv (k, v) values (4, 'c'), (5, 'f'), (6, 'x') on conflict (k) do update set (v, n) = (excluded.v, excluded.n + 5) returning *;
insert into kv (k, v) values (4, 'c'), (5, 'f'), (6, 'x') on conflict (k) do update set k = excluded.k, v = 'same' returning *;
insert into kv (k, v) values ($1, $3), ($2, $3) on conflict (k) do update set v = $3 || kv.v returning *;
  -- int4:1 | int4:51 | text:p
  -- int4:52 | int4:2 | text:q
insert into kv (k, v) values ($1, $3), ($2, $4) on conflict do nothing returning k, v;
  -- int4:1 | int4:61 | text:p | text:q
  -- int4:62 | int4:63 | text:p | text:q
insert into pairs values (1, 'x', 10), (1, 'y', 11), (2, 'y', 12), (3, 'x', 13) on conflict (a, b) do update set v = excluded.v + pairs.v returning *;
insert into pairs values (1, 'x', 10), (1, 'z', 11), (2, 'z', 12), (3, 'x', 13) on conflict (b, a) do nothing returning *;
insert into partial values (1, 'x', 10), (2, 'x', 11), (3, 'x', 12), (4, 'x', 13) on conflict (k, kind) where v > 0 do update set v = 100 returning *;
insert into gen (k, v) values (1, 'a'), (2, 'b'), (3, 'c') on conflict (k, twice) do update set v = excluded.v || excluded.twice returning *;
insert into kv (k, v) select k + 1, 'sel' from kv where k < 5 on conflict (k) do nothing;
insert into kv (k, v) select k + 1, 'upd' from kv where k < 5 on conflict (k) do update set v = excluded.v;
insert into kv (k, v) select k, v || '!' from kv where k in (1, 2, 3, 4) on conflict (k) do update set v = excluded.v;
insert into kv (k, v) select k, v || '?' from kv where k in (1, 2, 3, 4) on conflict (k) do nothing;
insert into home values (1, 'h'), (2, 'h') on conflict do nothing;
insert into home select k, v from kv where k < 5 on conflict (k) do update set v = home.v || excluded.v;
select * from kv order by k;
select * from home order by k;
@tables
# Subqueries in ON CONFLICT and RETURNING.
insert into kv values (1, 'a') on conflict (k) do update set n = (select count(*) from pairs);
insert into kv values (1, 'a') on conflict (k) do update set v = (select max(name) from labels), n = (select count(*) from home) returning *;
insert into kv values (1, 'a'), (2, 'b'), (301, 'c') on conflict (k) do update set v = (select name from labels where id = excluded.k);
insert into kv values (1, 'a'), (2, 'b'), (302, 'c') on conflict (k) do update set n = kv.n + (select count(*) from pairs) returning k, v, n;
insert into kv values (1, 'a'), (2, 'b'), (303, 'c') on conflict (k) do update set n = (select sum(p.v) from pairs p where p.a = excluded.k), v = excluded.v || (select count(*) from home) returning *;
insert into kv values (1, 'a'), (2, 'b'), (303, 'c') on conflict (k) do update set v = 'w' where kv.k in (select p.a from pairs p join home h on h.k = p.a where h.v <> excluded.v) returning *;
insert into kv values (1, 'a'), (2, 'b'), (303, 'c') on conflict (k) do update set (v, n) = (select max(p.b), count(*) from pairs p where p.a >= kv.k) returning *;
insert into kv as t (k, v) values (3, 'a'), (4, 'b') on conflict (k) do update set v = (select string_agg(v, ',' order by k) from kv where k < 3) returning t.*;
insert into kv (k, v) values ($1, $2), (304, $2) on conflict (k) do update set n = (select count(*) from pairs where b <> $2) returning *, (select max(v) from home where k < $1);
  -- int4:5 | text:x
  -- int4:6 | text:y
insert into kv (k, v, n) values (305, 'd', default), (306, 'e', default) on conflict (k) do nothing returning k, n, (select count(*) from gen);
insert into kv (k, v) values (307, 'one') returning k, (select count(*) from pairs), (select p.v from pairs p where p.a = 2 and p.b = 'x');
insert into kv (k, v) values (308, 'one'), (309, 'two') returning k, (select max(v) from home where k < kv.k), exists (select from pairs where a = kv.k - 308);
insert into kv (k, v) select k + 400, v from home returning k, (select count(*) from kv);
insert into kv (k, v) select k, 'both' from home on conflict (k) do update set n = (select max(a) from pairs), v = (select name from labels l where l.id = kv.k) returning k, v, n, (select count(*) from home);
insert into pairs (a, b, v) select a, 'new', v from pairs where b = 'x' on conflict (a, b) do update set v = (select count(*) from kv) returning a, (select count(*) > 5 from kv);
with c as (select count(*) as c from pairs) insert into kv values (1, 'a'), (310, 'b') on conflict (k) do update set n = (select c from c) returning k, n;
with c as (select k, v from home), d as (select max(k) as m from c) insert into kv (k, v) select k + 500, v from c returning k, (select m from d);
insert into owned (o, n) values (1, 1), (2, 2), (3, 3) returning o, n, (select count(*) from pairs where a = o);
insert into owned (num, o, n) values (default, 1, 1), (default, 2, 2) returning o, (select count(*) from owned);
begin;
insert into kv values (1, 'block'), (2, 'block'), (311, 'c') on conflict (k) do update set v = excluded.v || (select count(*) from home);
select v from kv where k < 3;
rollback;
@tables

@error
# No row is updated twice.
insert into kv values (71, 'a'), (72, 'b'), (71, 'c') on conflict (k) do update set v = excluded.v;
insert into kv values (71, 'a'), (72, 'b'), (71, 'c') on conflict (k) do update set v = excluded.v returning k;
insert into kv values (1, 'a'), (72, 'b'), (1, 'c'), (73, 'd') on conflict (k) do update set v = excluded.v where kv.k > 0 returning k;
insert into kv (k, v) select a, b from (values (71, 'a'), (72, 'b'), (71, 'c')) x (a, b) on conflict (k) do update set v = excluded.v;
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict (v) do nothing;
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict (k) do update set n = -1;
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict on constraint nosuch do nothing;
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict (k) do update set n = -(select count(*) from pairs);
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict (k) do update set n = (select a from pairs);
insert into kv values (71, 'a'), (72, 'b'), (71, 'c') on conflict (k) do update set n = (select count(*) from pairs);
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict (k) do update set n = (select count(*) from nosuch);
@tables

@maybe
# A key that changes.
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict (k) do update set k = kv.k + 100;
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict (k) do update set k = (select max(k) from kv);
insert into kv values (1, 'a'), (2, 'b') on conflict (k) do update set v = (select random()::text);
insert into kv values (1, 'a'), (2, 'b') on conflict (k) do update set v = (select v from home order by k limit 1 for update);
insert into owned (num, o, n) values (1, 1, 1), (2, 2, 2) on conflict (num) do update set n = (select count(*) from pairs);
insert into kv values (1, 'a'), (72, 'b'), (73, 'd') on conflict (k) do update set v = (select max(v) from kv);
