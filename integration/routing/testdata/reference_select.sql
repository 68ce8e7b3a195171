# INSERT … SELECT from sharded tables into reference tables: the rows are read once,
# and every copy gets the same.
@include shop
@setup
create table regions (name text primary key, customers bigint, balance numeric, r double precision default random());
create table numbered (id serial primary key, name text unique, at timestamptz default now());
create table loose (a bigint, b text);
create view v_regions as select name, customers, r as random from regions;
@weft
select weft.reference_table('regions');
select weft.reference_table('numbered');
select weft.reference_table('loose');
@data
truncate regions, numbered, loose restart identity;
@mask r random at
@route
insert into regions select coalesce(region, 'none'), count(*), sum(balance) from customers group by 1;
@tables
@mask r random at id
@route
insert into regions (name, customers) select c.name, count(*) from customers c join orders o on o.customer_id = c.id group by 1 returning name, customers;
insert into regions (name, customers) select region, count(*) from customers group by 1 on conflict do nothing;
insert into regions (name, customers) select coalesce(region, 'none'), 100 from customers group by 1 on conflict (name) do update set customers = excluded.customers + regions.customers returning name, customers;
insert into regions (name, customers) select region, count(*) from customers where id < 0 group by 1 on conflict do nothing returning name;
insert into loose select id, name from customers where id < 0 returning a;
begin;
insert into loose select id, name from customers where id < 0 returning *;
rollback;
insert into numbered (name) select name from customers order by id;
insert into numbered (name, at) select 'o' || id, now() from orders where customer_id = 2;
insert into numbered (name) select 'x' || c.id || s.key from customers c, settings s where c.id < 4 on conflict (name) do nothing;
insert into loose select id, name from customers where id in (1, 2, 3, 4);
insert into loose select o.id, p.name from orders o join order_items i on i.order_id = o.id and i.customer_id = o.customer_id join products p on p.id = i.product_id;
insert into loose select a + 1000, b from loose where a in (select id from customers);
insert into loose (b) select 'tot' || sum(total) from orders;
insert into loose values ((select count(*) from orders), 'count'), (1, (select max(name) from customers));
with big as (select customer_id, sum(total) as s from orders group by 1) insert into loose select customer_id, s::text from big where s > 5;
insert into v_regions select name || '!', id from customers where id < 6;
insert into regions (name, customers) select $1 || id, $2 from customers where id > 10;
  -- text:p | int8:5
  -- text:q | int8:6
begin;
update customers set name = name || '+' where id < 5;
insert into loose select id, name from customers where id < 6;
insert into regions (name) select name from customers where name like '%+';
rollback;
begin;
insert into regions (name) select 'blk' || id from customers;
commit;
select count(*) from regions;
@tables
@error
insert into regions (name) select region from customers;
insert into regions (name) select 'same' from customers;
insert into regions (name, customers) select name || '?', 1 / (id - 3) from customers;
insert into regions (name, customers) select name, name from customers;
@tables
