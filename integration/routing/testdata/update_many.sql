# UPDATE of rows on several shards: run inside each, or over rows that are lent.
@include shop

@setup
create table events (id bigint primary key, payload text, kind int, at timestamptz);
create table tags (customer_id bigint, tag varchar(5), weight float4, codes int[], primary key (customer_id, tag));
create view open_orders as select id, customer_id, total from orders where status = 'new';
create view dear as select id, price from products where price > 4;
create view dearest as select id from products order by price desc limit 1;
create table archive (id bigint, note text);

@weft
select weft.shard_table('events', 'id');
select weft.shard_table('tags', 'customer_id');

@data
truncate events;
truncate tags;
truncate archive;
insert into archive select i, 'old ' || i from generate_series(100, 130) i;
insert into events (id, payload, kind, at) values (101, 'e101', 1, '2024-01-01 00:00+00');
insert into events (id, payload, kind, at) values (102, 'e102', 2, '2024-01-02 00:00+00');
insert into events (id, payload, kind, at) values (103, null, 3, '2024-01-03 00:00+00');
insert into events (id, payload, kind, at) values (107, 'e107', 1, null);
insert into events (id, payload, kind, at) values (114, 'e114', 1, '2024-01-05 00:00+00');
insert into events (id, payload, kind, at) values (7, 'e7', 1, '2024-01-05 00:00+00');
insert into tags values (1, 'a', 1.5, '{1,2}');
insert into tags values (2, 'b', 2.5, '{}');
insert into tags values (3, 'c', null, null);
insert into tags values (4, 'd', 4.5, '{4,null}');
insert into tags values (5, 'e', 0, '{5}');

@route
# As it is, inside each shard.
update customers set name = name || '!';
update customers set balance = balance + 1 where region = 'us' returning id, balance;
update customers c set name = upper(c.name), region = default where c.id in (1, 2, 3, 4) returning *;
update only customers set active = not active returning id, active;
update customers set name = 'nobody' where name = 'nosuch';
update customers set (name, region) = (name || '?', 'r' || id) where id < 5 returning name, region;
update customers c set balance = (select coalesce(sum(o.total), 0) from orders o where o.customer_id = c.id) returning id, balance;
update customers c set (name, balance) = (select max(o.status), min(o.total) + 1 from orders o where o.customer_id = c.id) where exists (select 1 from orders o where o.customer_id = c.id) returning id, name, balance;
update orders o set note = c.name from customers c where c.id = o.customer_id and c.active returning o.id, o.note, c.region;
update orders o set note = c.name || i.id from customers c join order_items i on i.customer_id = c.id where c.id = o.customer_id and i.order_id = o.id and i.qty = 2 returning o.id, o.note;
update order_items i set price = p.price * 2 from products p where p.id = i.product_id and p.price > 5 returning i.id, i.price, p.name;
update orders set status = 'q' where id = 105 returning id, status, total;
update orders o set total = x.s from (select customer_id, order_id, sum(qty) as s from order_items group by 1, 2) x where x.order_id = o.id and x.customer_id = o.customer_id returning o.id, o.total;
with big as (select customer_id, count(*) as n from orders group by customer_id) update customers c set balance = big.n from big where big.customer_id = c.id returning c.id, c.balance;
update customers set name = 'has' where id in (select customer_id from orders where status = 'paid') returning id;
update customers set name = 'has not' where not exists (select from orders o where o.customer_id = customers.id) returning id;
update customers c set name = 'v' || v.customer_id from open_orders v where v.customer_id = c.id and v.total > 50 returning c.id, c.name;
update order_items set qty = qty + 1 where product_id in (select id from dear) returning id;
update orders o set note = p.name from (select i.order_id, i.customer_id, min(l.name) as name from order_items i, lateral (select name from products where products.id = i.product_id) l where i.qty > 1 group by 1, 2) p where p.order_id = o.id and p.customer_id = o.customer_id returning o.id, o.note;
update orders o set note = 'lateral' from order_items i, lateral (select name from products where products.id = i.product_id) p where i.order_id = o.id and i.customer_id = o.customer_id and i.qty > 1 returning o.id, o.note;
update tags set codes[1] = 9, weight = weight * 2 returning *;
update customers set created = current_date where id > 6;
update customers set created = date '2024-02-02' returning id, created;

# What stands elsewhere is lent.
update orders o set note = e.payload from events e where e.id = o.id returning o.id, o.note, e.kind, e.at;
update orders o set note = e.payload from events e where e.id = o.id and e.kind = 1 returning *;
update customers set name = (select value from settings where key = 'color') where id % 2 = 0 returning id, name;
update customers set name = s.key || s.value from settings s where s.key = 'size' returning id, name, s.value;
update orders set total = (select avg(total) from orders) where total > (select avg(total) from orders) returning id, total;
update orders set status = 'top' where id in (select id from orders order by total desc nulls last, id limit 5) returning id;
update orders set status = 'next' where (id, total) in (select id, total from orders where total is not null order by total, id offset 2 limit 4) returning id;
update orders set note = 'dearest ' || (select id from dearest) where id < 105 returning note;
update orders set note = (select name from products order by price desc, id limit 1) where id > 120 returning note;
update orders o set note = (select e.payload from events e where e.id = o.id) returning o.id, o.note;
update orders o set note = (select e.payload || e.kind from events e where e.id <= o.id order by e.id desc limit 1) returning o.id, o.note;
update orders o set total = p.total + 1 from orders p where p.id = o.id + 1 returning o.id, o.total, p.id;
update customers c set balance = x.n from (select kind, count(*) as n from events group by kind) x where x.kind = c.id returning c.id, c.balance;
with e as (select id, payload from events where kind = 1), m as (select max(id) as top from e) update orders o set note = e.payload || m.top from e, m where e.id = o.id returning o.id, o.note;
with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) update customers set region = 'r' || r.n from r where r.n = customers.id returning id, region;
update customers set region = 'in' where id in (select kind from events union select id from products where price > 8) returning id;
update customers set region = 'out' where id not in (select kind from events where kind is not null) returning id;
update customers set region = 'any' where region = any (select 'r' || kind from events) or id > all (select id from products) returning id;
update customers c set email = a.note from archive a, orders o where a.id = o.id and o.customer_id = c.id and o.status = 'new' returning c.id, c.email;
update settings set value = (select count(*) from orders);
update settings s set value = c.name from customers c where c.id = 3 or c.name = s.key returning s.key, s.value, c.id;
update archive a set note = o.note from orders o join customers c on c.id = o.customer_id where o.id = a.id and c.region <> 'zz' returning a.id, a.note;
update archive set note = 'p' from products p, events e where p.id = archive.id - 100 and e.kind = p.id returning archive.id;
update tags t set weight = e.kind from events e where e.kind = t.customer_id and e.id in (101, 102, 103) and t.codes <> '{7}' returning t.*, e.payload;
update tags t set codes = x.c from (select array_agg(id order by id) as c, kind from events group by kind) x where x.kind = t.customer_id returning t.codes;
update events set at = (select max(at) from events) where at is null returning id, at at time zone 'UTC' as at;
update orders set note = u.x from (values (101, 'x'), (102, 'y')) u (id, x) where u.id = orders.id returning orders.id, note;
update orders set note = g.g::text from generate_series(101, 103) g where g.g = orders.id returning orders.id, note;

# Parameters.
update customers set balance = balance + $1, name = $2 where region = $3 returning id, balance, name;
  -- numeric:1.5 | text:n | text:asia
  -- numeric:2 | text:m | text:eu
update orders o set note = e.payload || $1 from events e where e.id = o.id and e.kind = $2 returning o.id, o.note;
  -- text:p | int4:1
  -- text:q | int4:3
update customers set name = $1 where id = any ($2) returning id;
  -- text:arr | int8[]:{1,2,5}
update customers set name = $1 where id in (select kind from events where kind < $2) returning id, name;
  -- text:inner | int4:3

# In a block, with own writes seen.
begin;
update customers set region = 'blk' where id < 7;
update orders o set note = c.region from customers c where c.id = o.customer_id;
update archive a set note = o.note from orders o where o.id = a.id;
select count(*) from archive where note = 'blk';
update events set payload = (select count(*)::text from customers where region = 'blk');
rollback;
begin;
update customers set region = 'kept' where id < 7;
savepoint a;
update customers set region = 'lost';
rollback to a;
commit;
select region, count(*) from customers group by 1 order by 1;

@error
update customers set name = null;
update customers set nosuch = 1;
update customers set balance = 'x';
update order_items set qty = 0;
update order_items set product_id = 999;
update customers set balance = 1 / (id - 3);
update customers set name = (select payload from events) where id = 3;
update customers set name = e.payload from events e where e.nosuch = 1;
update customers set name = id from events;
update tags set tag = 'toolong';

@tables

@maybe
update customers set name = 'drawn ' || (nextval('customers_id_seq') > 0);
update orders set note = ctid::text;

@tables
