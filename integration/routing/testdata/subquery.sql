@include shop
@setup
create view active_customers as select * from customers where active;
create view customer_orders as select c.id as customer, c.name, o.id as order_id, o.total from customers c join orders o on o.customer_id = c.id;
create view renamed (a, b) as select id, name from customers;
create view nested as select customer, count(*) as n, sum(total) as total from customer_orders group by customer;
create view cheap as select * from products where price < 5;
create view united as select id, name from customers where region = 'eu' union all select id, name from customers where region = 'us';

@route
select id from customers where id = 3 and exists (select 1 from orders o where o.customer_id = customers.id);
select id from customers c where c.id = 3 and exists (select 1 from orders o where o.customer_id = c.id and o.customer_id = 3);
select id from customers where id = 3 and id in (select customer_id from orders where customer_id = 3);
select id from customers where id = 10 and not exists (select from orders where customer_id = 10);
select name, (select count(*) from orders where customer_id = 3) from customers where id = 3;
select name, (select count(*) from orders o where o.customer_id = c.id) from customers c where id = 3;
select * from (select * from customers where id = 3) x;
select * from (select * from customers) x where x.id = 3;
select * from (select id as k, name from customers) x where x.k = 3;
select * from (select * from (select * from orders) y where y.total > 0) x where x.customer_id = 3 order by id;
select x.customer_id, x.n from (select customer_id, count(*) n from orders where customer_id = 3 group by customer_id) x;
select x.customer_id, x.n from (select customer_id, count(*) n from orders group by customer_id) x where x.customer_id = 3;
with x as (select * from customers where id = 3) select * from x;
with x as (select * from customers where id = 3), y as (select * from orders where customer_id = 3) select x.name, y.id from x join y on y.customer_id = x.id order by 2;
with x as (select * from orders where customer_id = 3) select count(*) from x a, x b;
with x as materialized (select * from customers where id = 3) select name from x;
with x as (select 3 as k) select c.name from customers c, x where c.id = 3;
with recursive t(n) as (select 1 union all select n + 1 from t where n < 3) select t.n, c.name from t, customers c where c.id = 3 order by 1;
with recursive t as (select id, 1 as depth from orders where customer_id = 3 union all select t.id, depth + 1 from t where depth < 2) select * from t order by 1, 2;
with p as (select * from products) select i.id, p.name from order_items i join p on p.id = i.product_id where i.customer_id = 3 order by 1;
select id from customers where id = 3 union select id from orders where customer_id = 3 order by 1;
select id from customers where id = 3 union all select id from customers where id = 3;
select id from orders where customer_id = 3 intersect select id from orders where customer_id = 3 and status = 'new';
select id from orders where customer_id = 3 except select id from orders where customer_id = 3 and status = 'new' order by 1;
(select id from orders where customer_id = 3 order by id limit 1) union all (select id from orders where customer_id = 3 order by id desc limit 1) order by 1;
select id from customers where id = 3 union select id from products order by 1;
select * from active_customers where id = 3;
select name from active_customers a where a.id = 3 and a.region = 'eu';
select * from customer_orders where customer = 3 order by order_id;
select * from renamed where a = 3;
select * from nested where customer = 3;
select * from cheap order by id;
select a.name, o.id from active_customers a join orders o on o.customer_id = a.id where a.id = 3 order by 2;
select * from united where id = 3;
select * from (select id from customers where id = 3 union all select customer_id from orders where customer_id = 3) u order by 1;
select * from (values (3), (4)) v(x) join customers c on c.id = v.x where c.id = 3;
select count(*) from (select distinct status from orders where customer_id = 3) d;
select array(select id from orders where customer_id = 3 order by id);
select * from customers c where c.id = 3 and c.balance > (select avg(total) * 0 from orders where customer_id = 3);
select * from customers c where c.id = 3 and c.balance > all (select total * 0 from orders o where o.customer_id = c.id);
select name from customers c where id = $1 and exists (select from orders o where o.customer_id = $1);
  -- int8:3
  -- int8:12
with x as (select * from customers where id = $1) select x.id, o.id from x join orders o on o.customer_id = x.id order by 2;
  -- int8:3
  -- int8:4
select * from customer_orders where customer = $1 order by order_id;
  -- int8:3
  -- int8:4
  -- unknown:5
select id from customers where id = $1 union all select id from orders where customer_id = $1 order by 1;
  -- int8:3
  -- int8:4
select (select name from customers where id = $1), (select count(*) from orders where customer_id = $1);
  -- int8:3
  -- int8:9

@maybe
select * from customers where id in (select customer_id from orders) order by id;
select id from customers c where c.id = 3 and exists (select from orders o where o.status = 'new');
select id from customers c where c.id = 3 and exists (select from orders o where o.customer_id = 4);
select name, (select count(*) from orders) from customers where id = 3;
select * from (select * from customers order by id limit 3) x where x.id = 3;
select * from (select *, row_number() over (order by id) from customers) x where x.id = 3;
select * from (select *, count(*) over () from customers) x where x.id = 3;
select * from (select *, count(*) over (partition by id) from customers) x where x.id = 3;
select * from (select distinct region, id from customers) x where x.id = 3;
select * from (select max(id) as id from customers) x where x.id = 12;
select * from (select region, max(id) as id from customers group by region) x where x.id = 12;
with x as (select * from customers) select * from x where id = 3;
with x as materialized (select * from customers) select * from x where id = 3;
with x as (select * from customers), y as (select * from x where id = 3) select y.name, (select count(*) from x) from y;
with customers as (select 3::bigint as id, 'shadow'::text as name) select * from customers where id = 3;
with orders as (select * from orders) select count(*) from orders where customer_id = 3;
select id from customers where id = 3 union select id from customers where id = 4 order by 1;
select id from customers where id = 3 union select id from customers order by 1;
select id from customers except select id from customers where id = 3 order by 1;
select id from customers where id = 3 union all select id from settings s, customers where id = 4 order by 1;
select * from united order by id;
select * from nested order by customer;
select * from customer_orders where order_id = 107;
select count(*) from active_customers;
select * from customers where id = (select min(customer_id) from orders);
select * from customers c where c.id = 3 and c.balance >= (select max(balance) * 0 from customers);
with recursive t as (select id from customers where id = 3 union all select c.id from customers c join t on c.id = t.id + 1) select * from t order by 1;
select * from customers c where exists (select from orders o where o.customer_id = c.id and o.customer_id = 3) order by id;
select * from customers c where c.id = any (select customer_id from orders where customer_id = 3);
