@include shop

@route
insert into customers (id, name) values (50, 'fifty');
insert into customers (name, id) values ('fifty-one', 51);
insert into customers (name, region, id, balance) values ('fifty-two', 'us', 52, 1.25) returning *;
insert into customers values (53, 'fifty-three');
insert into customers values (54, 'fifty-four', 'x@y', default, 3, default, default) returning id, region, balance, active, created;
insert into public.customers (id, name) values ('55', 'fifty-five') returning id;
insert into customers as c (id, name) values (56, 'fifty-six') returning c.id as the_id, c.name || '!' as loud;
insert into customers (id, name) values (50 + 7, 'fifty-seven') returning id;
insert into customers (id, name) values (58::bigint, upper('fifty-eight')) returning name;
insert into customers (id, name) values (-59, 'negative') returning id;
insert into customers (id, name) values (60.0, 'numeric') returning id;
insert into customers (id, name) select 61, 'by select';
insert into customers (id, name) select 62, 'by select' where false;
insert into orders (id, customer_id, total) values (500, 50, 10);
insert into orders (id, customer_id, total) values (501, 50, 10), (502, 50, 20), (503, 50, 30) returning id, total;
insert into orders (id, customer_id, total) values (504, null, 10) returning *;
insert into orders (id) values (505) returning customer_id, status, total;
insert into orders values (506, 51);
insert into orders (id, customer_id, status) select 510 + id, customer_id, 'copy' from orders where customer_id = 50 and id < 503;
insert into orders (id, customer_id, total) select 600 + p.id, 51, p.price from products p;
insert into orders (id, customer_id, note) values (520, 51, (select name from customers where id = 51)) returning note;
insert into orders (id, customer_id, note) values (521, 51, (select max(name) from products)) returning note;
insert into order_items (customer_id, id, order_id, product_id) values (50, 1, 500, 1);
insert into order_items (product_id, order_id, customer_id, id, price) values (2, 500, 50, 2, 9.99) returning *;
with x as (select 53 as c) insert into orders (id, customer_id) values (530, 53);
with new as (insert into orders (id, customer_id) values (531, 53) returning id, customer_id) select * from new;
with c as (insert into customers (id, name) values (70, 'seventy') returning id) insert into orders (id, customer_id) values (532, 70) returning id;
insert into customers (id, name) values ($1, $2) returning id, name;
  -- int8:80 | text:eighty
  -- int8:81 | text:eighty-one
  -- unknown:82 | unknown:eighty-two
  -- int4:83 | varchar:eighty-three
insert into orders (customer_id, id, total, note) values ($2, $1, $3, $4);
  -- int8:800 | int8:80 | numeric:1.5 | text:x
  -- int8:801 | int8:81 | numeric:2.5 | text:NULL
  -- int8:802 | int8:82 | numeric:NULL | text:NULL
insert into orders (id, customer_id) values ($1, $2), ($3, $2) returning id;
  -- int8:810 | int8:80 | int8:811
  -- int8:812 | int8:81 | int8:813
insert into orders (id, customer_id) select $1, $2;
  -- int8:820 | int8:80
insert into customers (id, name) values ($1::bigint + 0, 'x') returning id;
  -- int8:90
select count(*) from orders where customer_id = 50;
select count(*) from orders where customer_id = 81;
insert into settings values ('new', 'value') returning *;

@route
# Conflicts.
insert into customers (id, name) values (50, 'again') on conflict do nothing;
insert into customers (id, name) values (50, 'again') on conflict (id) do nothing returning id;
insert into customers (id, name) values (50, 'renamed') on conflict (id) do update set name = excluded.name returning id, name;
insert into customers (id, name) values (50, 'renamed') on conflict (id) do update set name = excluded.name || customers.name where customers.region = 'eu' returning name;
insert into customers as c (id, name, balance) values (50, 'z', 5) on conflict on constraint customers_pkey do update set balance = c.balance + excluded.balance returning balance;
insert into customers (id, name) values (95, 'new') on conflict (id) do update set name = 'old' returning name, xmax = 0 as inserted;
insert into customers (id, name) values ($1, $2) on conflict (id) do update set name = $2 returning name;
  -- int8:50 | text:a
  -- int8:51 | text:b
  -- int8:96 | text:c
insert into order_items (customer_id, id, order_id, qty) values (50, 1, 500, 2) on conflict (customer_id, id) do update set qty = order_items.qty + excluded.qty returning qty;
insert into order_items (customer_id, id, order_id, qty) values (50, 1, 500, 2), (50, 9, 500, 3) on conflict (customer_id, id) do nothing returning id;

@error
insert into customers (id, name) values (50, 'twice');
insert into customers (id, name) values (101, null);
insert into customers (id) values (101);
insert into customers (id, nosuch) values (101, 'x');
insert into customers (id, name) values (101, 'x', 'y');
insert into customers (id, name) values ('x', 'x');
insert into orders (id, customer_id) values (900, 12345);
insert into order_items (customer_id, id, order_id, product_id) values (50, 77, 500, 999);
insert into order_items (customer_id, id, order_id, qty) values (50, 77, 500, 0);
insert into order_items (customer_id, id, order_id) values (null, 77, 500);
insert into customers (id, name, balance) values (102, 'x', 99999999999);
insert into customers (id, name) values ($1, $2);
  -- int8:50 | text:twice
  -- int8:103 | text:NULL
insert into settings values ('new', 'twice');

@maybe
insert into customers (id, name) values (1/0, 'x');
insert into customers (id, name) values (201, 'a'), (202, 'b'), (203, 'c'), (204, 'd');
insert into orders (id, customer_id) select 2000 + id, id from customers;
insert into orders (id, customer_id) select 3000 + id, customer_id from orders where customer_id = 50;
insert into customers (id, name) select 210, name from settings s, customers where id = 1 and key = 'color';
insert into customers (id, name) values ((select 211), 'x');
insert into customers (id, name) values (length('x') + 211, 'x');
insert into customers (id, name) values ($1, 'x'), ($2, 'y');
  -- int8:220 | int8:221
insert into products values (7, 'seven', 7);
insert into products (id, name, price) values ($1, $2, 1);
  -- int4:8 | text:eight
insert into customers (id, name) overriding system value values (230, 'x');

@tables
