# WITH that changes rows on several shards.
@include shop

@setup
create table events (id bigint primary key, payload text, kind int, at date);
create table archive (id bigint, customer_id bigint, status text, total numeric(12,2), note text);
create table log (id bigserial, tenant int, what text, at date default '2024-01-01', primary key (tenant, id));

@weft
select weft.shard_table('events', 'id');
select weft.shard_table('log', 'tenant');

@data
truncate events;
truncate archive;
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

@error
with d as (delete from orders returning *) insert into archive select nosuch from d;
with d as (delete from events where id > 0 returning id) insert into archive (id) select id from d union all select 1 / (count(*) - count(*)) from d;
with i as (insert into events (id) values (101) returning id) select * from i;
with i as (insert into events (id) values (301), (301) returning id) select * from i;
with d as (delete from events returning id) insert into order_items (customer_id, order_id, qty) select 1, id, 0 from d;

@tables

@maybe
with a as (update orders set note = 'a' returning id) update orders set note = 'b' where id in (select id from a);
with a as (update orders set customer_id = 3 returning id) select * from a;

@tables
