# WITH that changes rows on several shards.
@include shop

@setup
create table events (id bigint primary key, payload text, kind int, at date);
create table archive (id bigint, customer_id bigint, status text, total numeric(12,2), note text);
create table tags (id serial primary key, name text not null unique, made date default '2024-01-01');
create table kinds (kind int primary key, name text);
create table par (id int primary key, v int);
create table chi (id int, par int references par on delete cascade, primary key (par, id));
create table log (id bigserial, tenant int, what text, at date default '2024-01-01', primary key (tenant, id));

@weft
select weft.shard_table('events', 'id');
select weft.shard_table('log', 'tenant');
select weft.shard_table('par', 'id');
select weft.shard_table('chi', 'par');
select weft.reference_table('tags');
select weft.reference_table('kinds');

@data
truncate events;
truncate archive;
truncate par, chi;
insert into par select i, i from generate_series(1, 8) i;
insert into chi select i, i from generate_series(1, 8) i;
truncate tags, kinds restart identity;
truncate log restart identity;
insert into events values (101, 'e101', 1, '2024-01-01');
insert into events values (102, 'e102', 2, '2024-01-02');
insert into events values (103, null, 3, null);

@route
with d as (delete from orders where status = 'sent' returning *) insert into archive select * from d;
with d as (delete from orders where status = 'paid' and customer_id < 4 returning id, customer_id, status) insert into archive (id, customer_id, status) select * from d returning id, status;
with d as (delete from orders where customer_id = 8 returning id, note) insert into events (id, payload) select id, coalesce(note, 'none') from d returning *;
with d as (delete from events where kind is null returning id, payload) insert into orders (id, customer_id, note) select id, 5, payload from d returning id, customer_id, note;
with u as (update customers set balance = balance + 1 where region = 'us' returning id, balance) select count(*), sum(balance) from u;
with u as (update orders set note = 'cte' where total > 50 returning id, customer_id) select u.id, c.name from u join customers c on c.id = u.customer_id order by 1;
with u as (update orders set note = 'x' returning customer_id, total), s as (select customer_id, count(*) as n, sum(total) as t from u group by 1) update customers c set balance = s.t, name = 'n' || s.n from s where s.customer_id = c.id returning c.id, c.name, c.balance;
with i as (insert into events (id, payload, at) values (201, 'a', '2024-02-01'), (202, null, null), (203, 'c', '2024-02-03') returning id, at) select * from i order by id;
with i as (insert into events (id, kind) select max(id) + 1, 7 from events returning id), j as (insert into archive (id, note) select id, 'from i' from i returning id, note) select i.id, j.note from i, j;
with i as (insert into log (tenant, what) select id, name from customers where id < 5 returning tenant, what) select tenant, what from i order by 1;
with i as (insert into log (tenant, what) values (7, 'x'), (8, 'y') returning tenant, what, at) update settings set value = (select string_agg(what, ',' order by what) from i) where key = 'color' returning value;
with a as (delete from archive where status is null returning id) delete from events using a where a.id = events.id returning events.id;
with a as (update settings set value = 'cte' where key = 'size' returning key, value) update customers set region = a.value from a where customers.id > 9 returning id, region;
with a (x, y) as (update customers set region = 'named' where id < 4 returning id, name) select x, y from a order by x;
with d as (delete from order_items where qty = 2 returning order_id), o as (select id, status from orders) select count(*), count(distinct o.id), min(o.status) from d join o on o.id = d.order_id;
with d as (delete from order_items where product_id = 1 returning id) select (select count(*) from order_items) as before, count(*) from d;
with u as (update events set payload = 'p' where id > $1 returning id, payload) insert into archive (id, note) select id, payload || $2 from u returning id, note;
  -- int8:102 | text:q
with d as (delete from log returning tenant, what) insert into archive (customer_id, note) select tenant, what from d;
begin;
with d as (delete from orders returning *) insert into archive select * from d;
select count(*) from archive;
select count(*) from orders;
rollback;
begin;
update orders set note = 'any three' where id in (select id from orders order by random() limit 3);
select count(*) from orders where note = 'any three';
rollback;
update customers set name = 'draw ' || (select (random() * 0)::int) where id < 8 returning name;

# Reference tables beside sharded and home tables.
with t as (insert into tags (name) values ('new') on conflict (name) do nothing returning id, name) select name from t union all select name from tags where name = 'new';
with t as (insert into tags (name) values ('new') on conflict (name) do nothing returning id, name) select name from t union all select name from tags where name = 'new';
with t as (insert into tags (name) values ($1) returning id, name) insert into events (id, payload) select 900, name from t union all select 901, name || '!' from t returning id, payload;
  -- text:with
with e as (insert into events (id, payload) values (910, 'p910'), (911, 'p911') returning id, payload) insert into tags (name) select payload from e order by id returning name;
with e as (delete from events where id >= 910 returning payload) delete from tags using e where tags.name = e.payload returning tags.name;
with e as (update events set kind = 9 where id in (900, 901) returning payload) update tags set made = '2024-02-02' from e where e.payload = tags.name returning name, made;
with t as (insert into tags (name) values ('one'), ('two') returning name), k as (insert into kinds (kind, name) select 10 + ascii(name), name from t returning kind, name) select t.name, k.name from t left join k on k.name = t.name order by 1, 2;
with t as (delete from tags where name = 'one' returning name), s as (update settings set value = (select name from t) where key = 'size' returning value) insert into archive (id, note) select 77, value from s returning note;
with s as (update settings set value = 'red' where key = 'color' returning value), k as (insert into kinds values (1, 'red') on conflict (kind) do update set name = excluded.name returning kind) select kind, value from s, k;
with k as (update kinds set name = (select max(name) from customers) where kind = 1 returning name), c as (update customers set name = k.name || id from k where id < 3 returning customers.name) select * from c order by 1;
with k as (insert into kinds select 300 + id, 'k' from customers where id < 3) insert into archive (id, note) select count(*), 'before' from kinds where kind > 300;
with d as (delete from kinds where kind > 300) select count(*) from kinds where kind > 300;
with t as (insert into tags (name) select 'many ' || i from generate_series(1, 20) i returning name) update events set payload = (select count(*) from t) where id = 900 returning payload;
insert into events (id, payload) values (920, 'x'), (921, 'y'), (922, default);
with d as (delete from events where id in (920, 921) returning id, payload), i as (insert into log (tenant, what, at) values (61, 'a', default), (62, 'b', default) returning tenant, at) select d.id, i.tenant, i.at from d, i order by 1, 2;
begin;
with t as (insert into tags (name) values ('gone') returning id) insert into events (id, payload) select 999, 'gone' from t;
select count(*) from tags where name = 'gone';
savepoint s;
with t as (delete from tags returning name) insert into archive (note) select name from t;
rollback to s;
select count(*) from tags;
rollback;

# Foreign keys.
with p as (insert into par values (200, 1), (201, 1) returning id) insert into chi (id, par) select id, id from p returning id;
with c as (delete from chi where id in (200, 201) returning par) delete from par using c where par.id = c.par returning par.id;
with c as (update chi set id = chi.id + 10 where id < 4 returning par) update par set v = v + 1 from c where par.id = c.par returning par.id, v;
# The same table written twice: no write sees another one, and of a row that two would change one change takes place.
with a as (update orders set note = 'a' where status = 'new' returning id) update orders set note = 'b' where status = 'paid' and id < (select max(id) from a) returning id, note;
with a as (update orders set status = 'was new' where status = 'new' returning id, status) update orders set note = 'was ' || status where status in ('paid', 'was new') and exists (select from a) returning id, note;
with a as (update events set kind = 1 where id = 101 returning id), b as (update events set kind = 2 where id in (102, 103) returning id, kind) select a.id, b.id, b.kind from a, b order by 2;
with a as (update events set kind = 1 returning *) update events set kind = 2 where id in (select id from a) returning id;
with a as (update events set kind = 4 where id < 103 returning *), b as (update events set kind = 5 where kind = 4 and exists (select from a) returning id) select count(*), (select count(*) from b) from a;
with u as (update events set payload = 'up' where id = 950 returning *) insert into events (id, payload) select 950, 'in' where not exists (select from u) returning id, payload;
with u as (update events set payload = 'up' where id = 950 returning *) insert into events (id, payload) select 950, 'in' where not exists (select from u) returning id, payload;
with u as (update events e set payload = v.p from (values (950, 'vals'), (951, 'vals')) v (id, p) where v.id = e.id returning e.id) insert into events (id, payload) select v.id, v.p from (values (950, 'vals'), (951, 'vals')) v (id, p) where v.id not in (select id from u) returning id, payload;
with a as (delete from events where id in (950, 951) returning *) insert into events (id, payload, kind) select id, payload || '!', 8 from a returning id, payload, kind;
with a as (delete from events where id = 950 returning *) insert into events (id, payload) select id + 10, payload from a returning *;
with a as (insert into events (id, payload) values (970, 'a'), (971, 'b') returning id) insert into events (id, payload) select id + 10, 'of ' || id from a returning id, payload;
with a as (insert into events (id, payload) values (972, 'a'), (973, 'b') returning id, payload) update events e set kind = a.id - 900 from a where e.id = a.id - 2 returning e.id, e.kind, a.payload;
with a as (insert into events (id, payload) values (974, 'a') returning id) update events set kind = 0 where id > 970 and payload like 'o%' returning id;
with a as (insert into events (id, payload) values (975, 'new') returning id) delete from events e using a where e.id between 970 and a.id returning e.id;
with a as (delete from events where id = 980 returning id), b as (delete from events where id in (980, 981) and exists (select from a) returning id) select (select count(*) from a), (select count(*) from b where id <> 980);
with a as (update log set what = 'first' where tenant < 3 returning tenant), b as (update log set what = 'second' where tenant > 2 returning tenant), c as (insert into log (tenant, what) select tenant, 'third' from b union all select 50, 'third' from a returning tenant) select count(*) from c;
with a (x, y) as (update events set kind = 6 where id = 101 returning id, kind), b as (update events set kind = 7 where id = 102 returning events.*) select a.x, a.y, b.id, b.kind, b from a, b;
with a as (update events set kind = 61 where id = 101 returning *), b as (update events set kind = 62 where id = 102) select id, kind, payload from a;
with k as (insert into kinds select id, 'k' || id from customers where id > 9 returning kind), d as (delete from kinds where kind = 1 and exists (select from k) returning kind) select (select count(*) from k), (select count(*) from d), (select count(*) from kinds where kind = 1);
with k as (update kinds set name = 'twice' where kind = 10 returning *), l as (update kinds set name = 'again' where kind in (10, 11) and exists (select from k) returning kind, name) select l.* from k, l;
with a as (update settings set value = 'one' where key = 'color' returning key), b as (update settings set value = 'two' where exists (select from a) returning key), c as (update customers set region = b.key from b where id = 1 returning region) select * from c;
select key, value from settings order by key;
delete from log;
begin;
update events set kind = 70 where id = 101;
with a as (update events set kind = 71 where id = 102 returning id) update events set payload = 'in block' where kind = 70 and id < (select id from a) returning id, payload;
rollback;

@error
with d as (delete from events where id = 101 returning id) insert into events (id) select 102 from d;
with t as (insert into tags (name) values ('two') returning id) select count(*) from t;
with t as (insert into tags (name) values ('err') returning id) insert into events (id) select 900 from t;
with t as (insert into tags (name) values ('err') returning id) select nosuch from t;
with t as (insert into tags (name) values ('err') returning id) select * from nosuch;
with d as (delete from orders returning *) insert into archive select nosuch from d;
with d as (delete from events where id > 0 returning id) insert into archive (id) select id from d union all select 1 / (count(*) - count(*)) from d;
with i as (insert into events (id) values (101) returning id) select * from i;
with i as (insert into events (id) values (301), (301) returning id) select * from i;
with d as (delete from events returning id) insert into order_items (customer_id, order_id, qty) select 1, id, 0 from d;

@tables

@maybe
with a as (update orders set note = 'a' returning id) update orders set note = 'b' where id in (select id from a);
with a as (update orders set customer_id = 3 returning id) select * from a;
with d as (delete from events where id = 101) insert into events (id) values (101);
with d as (delete from events where id = 101 returning id) insert into events (id, kind) select id, 1 from d on conflict (id) do update set kind = 2;
with d as (insert into events (id) values (990)) delete from events where id = 991;
with u as (update archive set note = 'a' where id = 1 returning id) update archive set note = 'b' from u, orders o where o.id = u.id;
# Foreign keys are checked, and act, when all of the statement is done.
with d as (delete from customers where id in (7, 8) returning id) delete from orders using d where customer_id = d.id returning orders.id;
with d as (delete from par where v in (7, 8) returning id) delete from chi using d where par = d.id returning chi.id;
with d as (delete from par where v in (5, 6) returning id) update chi set id = chi.id + 1 from d where par = d.id returning chi.id;
with c as (insert into chi (id, par) values (1, 100), (2, 101) returning par) insert into par select par, 1 from c returning id;
with u as (update events set id = id + 1 where id = 101), i as (insert into events (id) values (101)) select 1;

@tables
