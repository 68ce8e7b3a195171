# Statements that look as if they named a key, and statements that name it in
# ways that are easily overlooked. Nothing here must be answered; everything that is
# answered must be right.
@include shop
@setup
create view constant_id as select 5::bigint as id, name, id as real_id from customers;
create view swapped as select customer_id as id, id as customer_id, status from orders;
create view shifted (id, name) as select id + 1, name from customers;
create view limited as select * from customers order by id limit 3;
create view outer_join as select c.id, o.customer_id, o.status from customers c left join orders o on o.customer_id = c.id and o.status = 'paid';
create view grouped as select region, max(id) as id from customers group by region;
create view distinct_region as select distinct on (region) region, id from customers order by region, id;
create view windowed as select id, name, rank() over (order by balance) as r from customers;
create view self as select a.id, b.id as other from customers a, customers b where b.id = a.id + 1;
create view of_view as select id, real_id from constant_id where real_id = 7;
create view united as select id, name from customers union all select customer_id, status from orders;
create view filtered as select * from customers where id = 4;
create view ref_view as select p.id, p.name from products p;
create schema shadow;
create table shadow.customers (id bigint, name text);
insert into shadow.customers values (5, 'shadow');
create function always_five() returns bigint language sql immutable as 'select 5::bigint';
create function volatile_five() returns bigint language sql volatile as 'select 5::bigint';

@maybe
select * from constant_id where id = 5 order by real_id;
select * from constant_id where real_id = 5;
select * from constant_id where id = 4 order by real_id;
select * from of_view where id = 5;
select * from of_view where id = 4;
select * from of_view;
select * from swapped where id = 3 order by customer_id;
select * from swapped where customer_id = 107;
select * from shifted where id = 5;
select * from limited where id = 5;
select * from limited where id = 2;
select * from outer_join where customer_id = 3;
select * from outer_join where id = 3 order by 1, 2;
select * from outer_join where customer_id is null order by id;
select * from outer_join where id = 10;
select * from grouped where id = 12;
select * from distinct_region where id = 1;
select * from distinct_region where id = 4;
select * from windowed where id = 4;
select * from self where id = 4;
select * from self where other = 4;
select * from self where id = 4 and other = 5;
select * from united where id = 3 order by name;
select * from united where name = 'paid' order by id;
select * from filtered;
select * from filtered where id = 5;
select count(*) from filtered f join orders o on o.customer_id = f.id;
select r.name, i.id from ref_view r join order_items i on i.product_id = r.id where i.customer_id = 2 order by i.id;

select * from (select id as name, name as id from customers) x where id = '5';
select * from (select id as name, name as id from customers) x where name = 5;
with x (name, id) as (select id, name from customers) select * from x where id = '5';
with x (name, id) as (select id, name from customers) select * from x where name = 5;
with x (a) as (select id from customers) select * from x where a = 5;
select * from customers c (name, id) where id = '5';
select * from customers c (a, b) where a = 5;
select * from (customers c join orders o on o.customer_id = c.id) j (a, b, c, d, e, f, g, h, i) where a = 5 order by h;
select * from (select 5 as id) c join customers using (id);
select * from (select 5 as id) c natural join customers;
select * from customers natural join (select id, 'x' as tag from customers where id = 5) y;
select c.* from customers c join orders o using (id) where c.id = 5;
select customer_id from orders join order_items using (customer_id, id) where customer_id = 3;
select j.customer_id from orders join order_items using (customer_id) as j where j.customer_id = 3 order by 1;
select * from customers where customers = row(5, 'x');
select customers.id from customers, lateral (select customers.id as k) l where l.k = 5;
select c.id from customers c where (select c.id) = 5;
select c.id from customers c where exists (select 1 where c.id = 5);
select c.id from customers c where c.id = (select c.id from (select 5 as id) c);
select c.id from customers c where exists (select from orders c where c.customer_id = 5) order by 1;
select id from customers c where exists (select from orders where customer_id = id and id = 5);
select c.id from customers c where 5 in (select c.id);
select c.id from customers c where 5 = any (select c.id);
select c.id from customers c where c.id = any (array[c.id]) order by 1;
select c.id from customers c where c.id in (5, c.id) order by 1;
select c.id from customers c where c.id = 5 or true order by 1;
select c.id from customers c where c.id = 5 and false;
select c.id from customers c where (c.id = 5) = false order by 1;
select c.id from customers c where (c.id = 5) is unknown;
select c.id from customers c where (c.id = 5) is not true order by 1;
select c.id from customers c where (c.id = 5) in (true, false) order by 1;
select c.id from customers c where not not (c.id = 5);
select c.id from customers c where not (c.id <> 5 or c.name = 'x');
select c.id from customers c where not (c.id <> 5 and c.name = 'x') order by 1;
select c.id from customers c where c.id = 5 = true;
select c.id from customers c where c.id operator(pg_catalog.=) 5;
select c.id from customers c where c.id = always_five();
select c.id from customers c where c.id = volatile_five();
select c.id from customers c where c.id = 5::bigint::int2;
select c.id from customers c where c.id = '5'::text::int;
select c.id from customers c where c.id::int2 = 5;
select c.id from customers c where c.id::numeric = 5;
select c.id from customers c where c.id = '0x5';
select c.id from customers c where c.id = ' 5 ';
select c.id from customers c where c.id = '+5';
select c.id from customers c where c.id = '5.0';
select c.id from customers c where c.id = 5e0;
select c.id from customers c where c.id = 50e-1;
select c.id from customers c where c.id = 5.00000000000000000001;
select c.id from customers c where c.id = 5 / 1;
select c.id from customers c where c.id = 11 / 2;
select c.id from customers c where c.id = 11 % 6;
select c.id from customers c where c.id = 2 ^ 2;
select c.id from customers c where c.id = 1 << 2;
select c.id from customers c where c.id = +5;
select c.id from customers c where c.id = - - 5;
select c.id from customers c where c.id = -(-5);
select c.id from customers c where c.id = @ -5;
select c.id from customers c where c.id = 9223372036854775807 + 1;
select c.id from customers c where c.id = 2147483647 + 1;
select c.id from customers c where c.id = 2147483648 - 2147483643;
select c.id from customers c where c.id = 5 collate "C";
select c.id from customers c where c.id = case when true then 5 end;
select c.id from customers c where c.id = coalesce(null, 5);
select c.id from customers c where c.id = (array[5, 6])[1];
select c.id from customers c where c.id = extract(day from date '2024-01-05');
select c.id from customers c where c.id = (5, 6).f1;
select c.id from customers c where c.id between 5 and 5;
select c.id from customers c where c.id >= 5 and c.id <= 5;
select c.id from customers c where (c.id, c.id) = (5, 5);
select c.id from customers c where (c.id, c.id) = (5, 6);
select c.id from customers c where row(c.id) = row(5);
select c.id from customers c where (c.id, 1) = (5, 1);
select c.id from customers c where (c.id, 1) = (5, 2);
select c.id from customers c where (c.id, c.name) in (select 5, 'customer 5');
select c.id from customers c where (c.id, c.name) = any (select 5::bigint, 'customer 5');
select c.id from customers c where (c.id, c.name) is not distinct from (5, 'customer 5');
select c.id from customers c where c.id = 5 union select c.id from customers c order by 1;
select c.id from customers c where c.id = 5 union all (select c.id from customers c where c.id = 5 limit 0);
select id from customers where id = 5 except all select id from customers where id = 6;
select id from customers where id = 6 intersect select id from customers where id <> 5;
select (select name from customers where id = 5) from customers where id = 6;
select (select name from customers where id = c.id + 1) from customers c where id = 6;
select c.id, (select sum(total) from orders) from customers c where id = 6;
select c.id from customers c where id = 6 order by (select count(*) from orders);
select c.id from customers c where id = 6 group by c.id having count(*) < (select count(*) from customers);
select c.id from customers c where id = 6 limit (select count(*) from customers);
select count(*) filter (where id = 6) from customers;
select sum(id) over (), id from customers where id = 6;
select a.id from customers a where a.id = 6 and exists (select from customers b where b.id = 7);
select a.id from customers a left join customers b on b.id = 6 where a.id = 6 and b.id is null;
select a.id, b.id from customers a left join customers b on a.id = 6 and b.id = 6 order by 1;
select a.id, b.id from customers a left join customers b on a.id = b.id where b.id = 6 or b.id is null order by 1;
select a.id from customers a where a.id = 6 and a.id not in (select customer_id from orders where customer_id is not null);
select a.id from customers a where a.id = 11 and not exists (select from orders o where o.customer_id = a.id);
select a.id from customers a where not exists (select from orders o where o.customer_id = a.id and a.id = 6) order by 1;
select a.id, x.n from customers a cross join lateral (select count(*) as n from orders o where o.customer_id >= a.id) x where a.id = 6;
select a.id, b.customer_id from customers a join orders b on a.id = b.customer_id + 0 where a.id = 6;
select a.id, b.customer_id from customers a join orders b on a.id = b.customer_id or b.status = 'new' where a.id = 6 order by 2;
select a.id, b.customer_id from customers a join orders b on a.id is not distinct from b.customer_id where a.id = 6;
select a.id, b.customer_id from customers a join orders b on a.id = b.customer_id::numeric where a.id = 6;
select a.id, b.customer_id from customers a join orders b on a.id::text = b.customer_id::text where a.id = 6;
select o.id from orders o, customers c where o.customer_id = c.id and c.id = o.id and o.id = 6;
select c.id from customers c, products p where c.id = p.id and p.id = 5;
select c.id from customers c, products p where c.id = p.id and p.id = 5::int2;
select c.id from customers c join products p on c.id = p.price where p.price = 6.0;
select c.id from customers c, settings s where c.id = length(s.value) and s.key = 'color';
select * from shadow.customers where id = 5;
select a.name, b.name from shadow.customers a join customers b on a.id = b.id where b.id = 5;
set search_path = shadow, public;
select * from customers where id = 5;
select c.name from customers c join orders o on o.customer_id = c.id where c.id = 5 order by 1;
set search_path = public, shadow;
select name from customers where id = 5;
reset search_path;
select name from only customers where id = 5;
select name from customers * where id = 5;
select tableoid::regclass::text, name from customers where id = 5;
select xmin is not null, name from customers where id = 5;
select c from customers c where c.id = 5;
select to_jsonb(c) from customers c where c.id = 5;
select count(c.*) from customers c where c.id = 5;
select * from customers where id = 5 limit all;
select * from customers where id = 5 offset 0;
select * from rows from (generate_series(1, 2), generate_series(5, 6)) r (a, b) join customers c on c.id = r.b where c.id = 5;
select * from unnest(array[5, 6]) u join customers c on c.id = u order by 1;
select * from unnest(array[5, 6]) u left join customers c on c.id = u and c.id = 5 order by 1;
select * from json_to_recordset('[{"id": 5}]') r (id bigint) join customers c using (id);
select '5'::bigint = id from customers where id = 5;
select $1::text from customers where id = 5;
  -- text:x
select name from customers where id = $1 and id = $2;
  -- int8:5 | int8:6
  -- int8:5 | int8:5
select name from customers where id = $1 or id = $2 order by 1;
  -- int8:5 | int8:6
  -- int8:5 | int8:5
select name from customers where id = $2 and name = $1;
  -- text:customer 5 | int8:5
select name from customers where id = $1 and balance = $1;
  -- numeric:5.5
  -- unknown:5
select name from customers where id = $1::int4;
  -- int4:5
  -- unknown:5
select name from customers where id = $1::numeric;
  -- numeric:5
  -- numeric:5.5
select name from customers where id = $1::text::int8;
  -- text:5
select name from customers where id = -$1;
  -- int8:-5
select name from customers where id = $1 - 1;
  -- int8:6
  -- int4:6
select name from customers where id = $1 * $2;
  -- int4:2 | int4:3
  -- int8:2 | int8:3
select name from customers where id = abs($1);
  -- int8:-5
select name from customers where (id, name) = ($1, $2);
  -- int8:5 | text:customer 5
select name from customers where id in (select $1);
  -- int8:5
select name from customers where id = any (array[$1, $2]) order by 1;
  -- int8:5 | int8:6
  -- int8:5 | int8:5
select name from customers where id = any ($1) order by 1;
  -- int8[]:{5,6}
  -- int8[]:{{5,5},{5,5}}
  -- int8[]:[0:1]={5,5}
  -- unknown:{ 5 , "5" }
  -- numeric[]:{5.0}
select name from customers where id <> all ($1) order by 1;
  -- int8[]:{1,2}
select name from customers where id = all ($1) order by 1;
  -- int8[]:{}
  -- int8[]:{5}

update customers set name = 'u' from orders o where o.customer_id = customers.id and o.id = 107;
update customers set name = 'u2' from orders o where o.customer_id = 3 and customers.id = 4;
update customers c set name = o.status from orders o where o.customer_id = c.id and c.id = 3 and o.id = 107;
update customers set name = 'sub' where id = (select 3);
update customers set name = (select name from customers where id = 4) where id = 3;
update customers set balance = balance + 1 where id in (select customer_id from orders where customer_id = 3);
update filtered set name = 'through a view' where id = 4;
update filtered set name = 'through a view 2';
insert into filtered (id, name) values (4444, 'through a view');
delete from filtered where name = 'nobody';
update swapped set status = 'swap' where id = 3;
update customers set id = 5 where id = 5;
update customers set id = id where id = 5;
update customers set (id, name) = (5, 'row') where id = 5;
update orders set customer_id = customer_id where customer_id = 5;
update orders set customer_id = 5 where customer_id = 5;
update orders set customer_id = 6 where customer_id = 5 and false;
insert into orders (id, customer_id) values (8000, 5) on conflict (id) do update set customer_id = 6;
insert into orders (id, customer_id) values (8000, 5) on conflict (id) do update set customer_id = excluded.customer_id returning customer_id;
insert into orders (id, customer_id) values (8001, (select 5));
insert into orders (id, customer_id) values (8002, (select id from customers where id = 5));
insert into orders (id, customer_id) select 8003, id from customers where id = 5;
insert into orders (id, customer_id) select 8004, id + 1 from customers where id = 5;
insert into orders (id, customer_id) select 8005, 6 from customers where id = 5;
insert into orders (id, customer_id) select 8006, c.id from customers c join orders o on o.customer_id = c.id where o.customer_id = 5 limit 1;
insert into orders (id, customer_id) select 8010 + row_number() over (), x from (values (5), (5)) v (x);
insert into orders (id, customer_id) select 8020 + row_number() over (), x from (values (5), (6)) v (x);
insert into orders (id, customer_id) values (8030, 5), (8031, null);
insert into orders (id, customer_id) values (8032, default);
insert into orders (customer_id, id) values (5, 8033) returning (select count(*) from orders);
insert into orders (customer_id, id) values (5, 8034) returning (select count(*) from orders where customer_id = 5);
with n as (insert into customers (id, name) values (70, 'n') returning id) insert into orders (id, customer_id) select 8040, id from n;
with n as (update customers set name = 'cte' where id = 5 returning id) delete from orders o using n where o.customer_id = n.id and o.id = 8033;
with n as (delete from orders where customer_id = 5 and id = 8034 returning *) insert into orders select * from n;
with n as (delete from orders where customer_id = 5 and id = 8034 returning *) insert into orders (id, customer_id) select id, 6 from n;
with n as (select 5 as k) update customers set name = 'cte 2' from n where customers.id = n.k;
merge into customers c using (select 5 as k) s on c.id = s.k when matched then update set name = 'merged';
merge into customers c using (values (5)) s (k) on c.id = s.k and c.id = 5 when matched then delete when not matched then insert (id, name) values (5, 'm');
delete from orders where customer_id = 5 and id in (select id from orders where customer_id = 6);
delete from order_items where (customer_id, id) in (select customer_id, id from order_items where customer_id = 2 limit 1);
delete from orders using customers c where orders.customer_id = c.id and c.id = 7;
truncate only order_items;
select * into copied from customers where id = 5;
select * from copied;
create table copied2 as select * from customers where id = 5;
select * from copied2;
create temporary table customers (id bigint, name text);
insert into customers values (5, 'temporary');
select * from customers where id = 5;
select c.name from customers c join orders o on o.customer_id = c.id where c.id = 5;
drop table pg_temp.customers;
select name from customers where id = 5;
drop table if exists copied;
drop table if exists copied2;

@tables
