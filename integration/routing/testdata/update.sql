@include shop

@route
update customers set name = 'one' where id = 1;
update customers set name = name || '!', balance = balance + 1 where id = 1 returning *;
update customers c set name = upper(c.name) where c.id = '2' returning c.name;
update only customers set active = false where id = 3;
update customers set (name, region) = ('three', 'us') where id = 3 returning name, region;
update customers set (name, region) = (select 'x', 'y') where id = 3 returning name, region;
update customers set region = default where id = 3 returning region;
update customers set name = 'nobody' where id = 999;
update orders set status = 'closed' where customer_id = 3;
update orders set status = 'open' where customer_id = 3 and total > 30 returning id, status;
update orders set total = total * 2 where customer_id = 4 and id in (110, 111);
update orders set note = 'orphan' where customer_id is null;
update orders o set note = c.name from customers c where c.id = o.customer_id and c.id = 5 returning o.id, o.note;
update orders o set total = x.s from (select order_id, sum(qty) as s from order_items where customer_id = 2 group by 1) x where x.order_id = o.id and o.customer_id = 2 returning o.id, o.total;
update order_items i set price = p.price from products p where p.id = i.product_id and i.customer_id = 3 returning i.id, i.price;
update customers set balance = (select sum(total) from orders where customer_id = 4) where id = 4 returning balance;
update customers set name = 'either' where id in (6, 6);
update customers set name = 'any' where id = any ('{6}');
with x as (update orders set status = 'x' where customer_id = 6 returning id) select count(*) from x;
with x as (select id from orders where customer_id = 7) update orders set status = 'y' from x where x.id = orders.id and orders.customer_id = 7 returning orders.id;
update customers set name = $2 where id = $1 returning id, name;
  -- int8:7 | text:seven
  -- int8:8 | text:eight
  -- unknown:9 | unknown:nine
update orders set total = total + $1, note = $3 where customer_id = $2 returning id, total;
  -- numeric:1.5 | int8:1 | text:n
  -- numeric:2 | int8:2 | text:NULL
update customers set name = $1 where id = $2 and name <> $1;
  -- text:x | int8:9
update customers set id = 9 where id = 9 returning id;
update settings set value = 'red' where key = 'color' returning *;
delete from order_items where customer_id = 1 and order_id = 101;
delete from order_items where customer_id = 1;
delete from orders where customer_id = 1 returning id;
delete from customers where id = 1 returning *;
delete from customers where id = 1;
delete from orders o where o.customer_id = '8' and o.status = 'new' returning o.id;
delete from order_items i using orders o where o.customer_id = i.customer_id and o.id = i.order_id and o.customer_id = 2 and o.status = 'new' returning i.id;
delete from order_items i using products p where p.id = i.product_id and p.price > 5 and i.customer_id = 3 returning i.id;
delete from orders where customer_id is null and id = 191;
with gone as (delete from orders where customer_id = 8 returning *) select id, status from gone order by id;
with gone as (delete from order_items where customer_id = 2 returning order_id) update orders set note = 'emptied' where customer_id = 2 returning id, note;
delete from orders where customer_id = $1 and status = $2 returning id;
  -- int8:6 | text:x
  -- int8:7 | text:nosuch
delete from customers where id = any ($1);
  -- int8[]:{8}
delete from settings where key = 'size';
select name from customers where id = 2 for update;
select id from orders where customer_id = 2 order by id for update;
select id from orders where customer_id = 2 order by id for no key update nowait;
select id from orders where customer_id = 2 order by id for share;
select id from orders where customer_id = 2 order by id limit 1 for update skip locked;
select o.id from orders o join customers c on c.id = o.customer_id where c.id = 2 order by 1 for update of o;
select id from customers where id = $1 for update;
  -- int8:2
  -- int8:3
select * from settings for update;

@error
update customers set name = null where id = 2;
update customers set nosuch = 1 where id = 2;
update customers set balance = 'x' where id = 2;
update order_items set qty = 0 where customer_id = 3;
update order_items set product_id = 999 where customer_id = 3;
delete from customers where id = 2;
update customers set name = 'x' where id = 'x';
update customers set balance = 1/0 where id = 2;

@maybe
update customers set name = 'all';
update customers set region = 'z' where region = 'us';
update customers set name = 'two' where id in (2, 3, 4);
update orders set status = 'q' where id = 105;
update customers set id = 4000 where id = 12 returning id;
update orders set customer_id = 5 where customer_id = 4;
update orders set customer_id = null where customer_id = 4;
update customers set id = id + 1 where id = 11;
update orders o set customer_id = c.id from customers c where c.id = o.customer_id and c.id = 3;
update orders o set note = c.name from customers c where c.id = o.customer_id;
update orders set note = (select name from customers where id = 5) where customer_id = 4;
update orders set note = (select value from settings limit 1) where customer_id = 4;
update products set price = price + 1 where id = 1;
delete from products where id = 6;
delete from order_items;
delete from orders where id = 105;
delete from orders where customer_id <> 4;
delete from orders where customer_id = 4 or status = 'new';
delete from orders using customers where customers.id = 4;
select id from customers order by id for update;
insert into customers (id, name) values (5, 'moved') on conflict (id) do update set id = 6000;

@tables
