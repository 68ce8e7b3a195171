# DELETE of rows on several shards.
@include shop

@setup
create table events (id bigint primary key, payload text, kind int);
create table archive (id bigint, note text);

@weft
select weft.shard_table('events', 'id');

@data
truncate events;
truncate archive;
insert into archive select i, 'old ' || i from generate_series(100, 130) i;
insert into events values (101, 'e101', 1);
insert into events values (102, 'e102', 2);
insert into events values (103, null, 3);
insert into events values (107, 'e107', 1);
insert into events values (114, 'e114', 1);
insert into events values (7, 'e7', 1);

@route
delete from order_items where qty = 1 and product_id = 6 returning id, price;
delete from order_items i using products p where p.id = i.product_id and p.price > 8 returning i.id, p.name;
delete from order_items i using orders o where o.customer_id = i.customer_id and o.id = i.order_id and o.status = 'sent' returning i.*;
delete from orders o where o.id in (select id from events where kind = 1) returning o.id;
delete from orders where total = (select max(total) from orders) returning id, total;
delete from orders where id in (select id from orders where status = 'new' order by total desc, id limit 2) returning id;
begin;
delete from orders where id in (select id from orders order by id limit 7 offset 2);
delete from orders where (customer_id, id) in (select customer_id, id from orders order by total nulls last, id limit 3) returning id;
delete from order_items where order_id in (select id from orders order by id desc limit 2);
delete from orders where id = any (array(select id from orders order by id limit $1)) returning id;
  -- int8:3
update orders set status = 'batch' where id in (select id from orders where status <> 'batch' order by id limit 4);
update orders set status = 'rest' where id in (select id from orders where status <> 'batch' order by id limit 4 offset 3) returning id, status;
select id, status from orders order by id;
rollback;
delete from orders o using orders p where p.id = o.id + 1 and p.status = 'paid' and o.status = 'new' returning o.id, p.id;
with gone as (select id from archive where id % 5 = 0) delete from orders using gone where gone.id = orders.id returning orders.id;
delete from archive a using orders o where o.id = a.id returning a.id;
delete from archive where id in (select id from events) returning id;
delete from events where not exists (select from orders o where o.id = events.id) returning id;
delete from orders where customer_id is null;
delete from orders where id = $1 or status = $2 returning id;
  -- int8:110 | text:nosuch
  -- int8:111 | text:sent
begin;
delete from order_items;
select count(*) from order_items;
rollback;
select count(*) from order_items;
delete from order_items;
delete from orders;
delete from customers where id <> 5 returning id;
delete from events;

@error
delete from events where nosuch = 1;
delete from customers where 1 / (id - 5) = 1;

@tables
