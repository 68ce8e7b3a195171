@include shop

@route
select c.name, o.id from customers c join orders o on o.customer_id = c.id where c.id = 3 order by o.id;
select c.name, o.id from customers c join orders o on o.customer_id = c.id where o.customer_id = 3 order by o.id;
select c.name, o.id from customers c, orders o where o.customer_id = c.id and c.id = 3 order by o.id;
select c.name, o.id from orders o join customers c on c.id = o.customer_id where 3 = o.customer_id order by o.id;
select c.name, o.id from customers c inner join orders o on (c.id = o.customer_id and c.id = 3) order by o.id;
select c.name, o.id, i.qty from customers c join orders o on o.customer_id = c.id join order_items i on i.customer_id = o.customer_id and i.order_id = o.id where c.id = 2 order by i.id;
select c.name, o.id, i.qty from customers c join orders o on o.customer_id = c.id join order_items i on i.customer_id = c.id and i.order_id = o.id where i.customer_id = 2 order by i.id;
select i.id, p.name from order_items i join products p on p.id = i.product_id where i.customer_id = 2 order by i.id;
select p.name, sum(i.qty * p.price) from products p join order_items i on i.product_id = p.id where i.customer_id = 4 group by p.name order by 1;
select p.name, i.qty from order_items i right join products p on p.id = i.product_id and i.customer_id = 3 order by p.name, i.qty;
select c.name, o.id from customers c left join orders o on o.customer_id = c.id where c.id = 10;
select c.name, o.id from customers c left join orders o on o.customer_id = c.id where c.id = 3 order by 2;
select c.name, o.id from customers c left join orders o on o.customer_id = c.id and o.status = 'paid' where c.id = 3;
select c.name, o.id from customers c left join orders o on o.customer_id = c.id and o.customer_id = 3 where c.id = 3 order by 2;
select c.name, o.id from orders o right join customers c on o.customer_id = c.id where c.id = 3 order by 2;
select c.name, o.id from customers c full join orders o on o.customer_id = c.id where c.id = 3 and o.customer_id = 3 order by 2;
select c.name, o.id from customers c left join orders o on o.customer_id = c.id where c.id = 3 and o.customer_id = 3 order by 2;
select * from customers c cross join products p where c.id = 3 order by p.id;
select c.id, s.value from customers c, (values ('x')) s(value) where c.id = 3;
select a.id, b.id from orders a join orders b on a.customer_id = b.customer_id and a.id < b.id where a.customer_id = 5 order by 1, 2;
select a.id, b.id from orders a, orders b where a.customer_id = 5 and b.customer_id = 5 order by 1, 2;
select id, name from customers join (select customer_id as id, count(*) from orders where customer_id = 5 group by 1) o using (id) where id = 5;
select c.id, x.n from customers c, lateral (select count(*) n from orders o where o.customer_id = c.id) x where c.id = 5;
select c.id, x.id from customers c left join lateral (select o.id from orders o where o.customer_id = c.id order by o.id desc limit 1) x on true where c.id = 5;
select * from customers c natural join (select 5::bigint as id) x where c.id = 5;
select g, c.name from generate_series(1, 3) g, customers c where c.id = 5 order by g;
select c.name, u from customers c, unnest(array['a','b']) u where c.id = 5 order by u;
select count(*) from customers c join orders o on c.id = o.customer_id join order_items i on i.customer_id = c.id join products p on p.id = i.product_id where c.id = 1;
select * from products order by id;
select p.name, q.name from products p join products q on q.id = p.id + 1 order by 1;
select s.value, t.key from settings s join settings t using (key) order by 1;
select c.name, o.id from customers c join orders o on o.customer_id = c.id where c.id = $1 order by o.id;
  -- int8:1
  -- int8:5
  -- int8:12
  -- unknown:4
select c.name, o.id from customers c join orders o on o.customer_id = c.id where o.customer_id = $1 and o.status = $2;
  -- int8:1 | text:new
  -- int8:5 | text:paid
select c.id, o.id from customers c, orders o where c.id = $1 and o.customer_id = $2 order by 2;
  -- int8:3 | int8:3
select i.id, p.name from products p, order_items i where p.id = i.product_id and p.price > $2 and i.customer_id = $1 order by 1;
  -- int8:3 | numeric:3
  -- int8:4 | numeric:0
select c.name, count(o.*) from customers c left join orders o on o.customer_id = c.id where c.id = $1 group by c.id;
  -- int8:3
  -- int8:11
select c.*, o.* from customers c join orders o on c.id = o.customer_id and c.id = any ($1) order by o.id;
  -- int8[]:{6}

@maybe
# The condition of an outer join filters only one of its sides.
select c.id, o.id from customers c left join orders o on o.customer_id = c.id and c.id = 3 order by 1, 2;
select c.id, o.id from customers c left join orders o on o.customer_id = 3 order by 1, 2;
select c.id, o.id from customers c left join orders o on o.customer_id = c.id and o.customer_id = 3 order by 1, 2;
select c.id, o.id from customers c right join orders o on o.customer_id = c.id and c.id = 3 order by 1, 2;
select c.id, o.id from customers c full join orders o on o.customer_id = c.id and c.id = 3 and o.customer_id = 3 order by 1, 2;
select c.id, o.id from customers c full join orders o on o.customer_id = c.id where c.id = 3 order by 1, 2;
select c.id, o.id from orders o left join customers c on c.id = o.customer_id and c.id = 3 where o.status = 'new' order by 1, 2;
select c.id, o.id from customers c left join orders o on o.customer_id = c.id where o.customer_id = 3 order by 1, 2;
select c.id, o.id from customers c left join orders o on o.customer_id = c.id where o.customer_id is null order by 1, 2;
select c.id, o.id from customers c, orders o where c.id = 3 and o.customer_id = 4 order by 1, 2;
select c.id, o.id from customers c join orders o on o.id = c.id + 100 where c.id = 3;
select c.id, o.id from customers c join orders o on o.customer_id > c.id where c.id = 7 order by 2;
select c.id, o.id from customers c join orders o on true where c.id = 3 order by 2;
select c.id from customers c where exists (select from orders o where o.customer_id <> c.id) and c.id = 3;
select c.id, s.value from customers c, settings s where c.id = 3 order by 2;
select p.name, i.qty from products p left join order_items i on i.product_id = p.id order by 1, 2;
select p.name, i.qty from products p left join order_items i on i.product_id = p.id and i.customer_id = 3 order by 1, 2;
select c.id, o.id from customers c, orders o where c.id = $1 and o.customer_id = $2 order by 2;
  -- int8:3 | int8:4
  -- int8:1 | int8:2
select c.id, o.id from customers c join orders o on o.customer_id = c.id where c.id = 3 or o.customer_id = 3 order by 2;
select c.id, o.id from customers c join orders o on o.customer_id = c.id where c.id = 3 or o.id = 101 order by 2;
select c.id, o.id from customers c join orders o on coalesce(o.customer_id, 0) = c.id where c.id = 3 order by 2;
select c.id, x.id from customers c, lateral (select id from orders order by id limit 1) x where c.id = 3;
