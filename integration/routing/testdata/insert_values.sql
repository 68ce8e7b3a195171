# INSERT … VALUES whose rows belong on several shards.
@include shop

# Under load numbers of a sequence are handed out in blocks.
@mask id
@route
insert into customers (id, name) values (201, 'a'), (202, 'b'), (203, 'c'), (204, 'd');
insert into customers (id, name) values (211, 'a'), (212, 'b'), (213, 'c'), (214, 'd') returning id, name;
insert into customers values (221, 'a'), (222, 'b'), (223, 'c') returning *;
insert into customers (name, id) values ('x''y', 231), (E'a\tb', 232), ($$dollar 'q'$$, 233), (U&'d\0061t', 234) returning *;
insert into customers as c (id, name, region) values (241, 'a', default), (242, 'b', 'us'), (243, lower('C'), upper('eu')) returning c.id, c.region, c.name || '!' as loud, (c.id + 1) * 2;
insert into public.customers (id, name, balance) values ('251', 'a', 1.5), (252, 'b', -2), (-253, 'c', 3 /* it's a comment, ( */), (254 -- and (another
, 'd', 4) returning id, balance;
insert into customers (name) values ('s1'), ('s2'), ('s3'), ('s4'), ('s5') returning id, name;
insert into customers (id, name) values (default, 's6'), (261, 's7'), (default, 's8') returning id, name;
insert into customers values (default, 's9'), (262, 's10') returning id;
insert into orders (customer_id, total) values (1, 1), (2, 2), (3, 3), (null, 4), (4, 5) returning id, customer_id, total, status;
insert into orders values (5000, 1), (5001, 2), (5002, null), (5003, 3);
insert into order_items (customer_id, order_id, product_id, qty) values (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3) returning customer_id, qty;
insert into order_items (customer_id, id, order_id) overriding system value values (1, 90, 1), (2, 91, 2), (3, 92, 3) returning *;
insert into customers (id, name, created) values (271, 'a', current_date), (272, 'b', now()::date), (273, 'c', CURRENT_TIMESTAMP(0)::date) returning id, created = current_date, created = now()::date;
insert into customers (id, name) values (50 + 231, 'a'), (282 * 1, 'b'), (283::bigint, 'c') returning id;
with unused as (select 1) insert into customers (id, name) values (284, 'a'), (285, 'b') returning id;
insert into customers (id, name) values ($1, $2), ($3, $4), ($5, $6) returning id, name;
  -- int8:1301 | text:a | int8:1302 | text:b | int8:1303 | text:c
  -- unknown:1304 | unknown:a | int4:1305 | varchar:b | int8:1306 | text:it's
insert into customers (id, name, email) values ($1, $3, $4), ($2, $3, $4), ($1 + 1000, $3 || '!', null) returning id, name, email;
  -- int8:1311 | int8:1312 | text:shared | varchar:e@x
  -- int8:1313 | int8:1314 | text:shared | varchar:NULL
insert into orders (customer_id, total, note) values ($1, $2, $3), ($4, $2, $3) returning customer_id, total, note;
  -- int8:1 | numeric:1.25 | text:n | int8:2
  -- int8:3 | numeric:NULL | text:NULL | int8:NULL
insert into customers (name) values ($1), ($2), ($3) returning id, name;
  -- text:p1 | text:p2 | text:p3
  -- unknown:p4 | varchar:p5 | text:NULLs
select id, name from customers where id > 200 order by id;
select currval('customers_id_seq') > 300;
begin;
insert into customers (id, name) values (401, 'a'), (402, 'b'), (403, 'c');
select count(*) from customers where id between 401 and 403;
insert into orders (id, customer_id) values (8001, 401), (8002, 402), (8003, 403) returning id;
rollback;
select count(*) from customers where id between 401 and 403;
begin;
insert into customers (id, name) values (411, 'a'), (412, 'b'), (413, 'c');
savepoint s;
insert into customers (id, name) values (421, 'a'), (422, 'b'), (423, 'c') returning id;
rollback to s;
insert into customers (id, name) values (431, 'a'), (432, 'b'), (433, 'c') returning id;
commit;
select id from customers where id between 411 and 433 order by id;

@tables

@error
# Nothing is written anywhere.
insert into customers (id, name) values (501, 'a'), (502, 'b'), (1, 'taken'), (503, 'c');
insert into customers (id, name) values (501, 'a'), (502, null), (503, 'c');
insert into customers (id, name) values (501, 'a'), (502, 'b', 'too many');
insert into customers (id, name) values (501, 'a'), (502);
insert into customers (id, name) values (501, 'a'), ('x', 'b');
insert into customers (id, nosuch) values (501, 'a'), (502, 'b');
insert into customers (id, name, balance) values (501, 'a', 1), (502, 'b', 1/0), (503, 'c', 3);
insert into customers (id, name, balance) values (501, 'a', 1), (502, 'b', 99999999999), (503, 'c', 3);
insert into orders (id, customer_id) values (9001, 1), (9002, 12345), (9003, 2);
insert into order_items (customer_id, order_id, qty) values (1, 1, 1), (2, 2, 0), (3, 3, 3);
insert into order_items (customer_id, order_id) values (1, 1), (null, 2), (3, 3);
insert into customers (id, name) values (501, 'a'), (501, 'b'), (502, 'c');
insert into customers (id, name) values (501, 'a'), (502, 'b') returning nosuch;
insert into customers (id, name) values ($1, 'x'), ($2, 'y');
  -- int8:501 | int8:1

@route
begin;
insert into customers (id, name) values (601, 'a'), (602, 'b'), (603, 'c');
@error
insert into customers (id, name) values (611, 'a'), (602, 'b'), (613, 'c');
@error
select 1;
@route
rollback;
select count(*) from customers where id > 500 and id < 700;

@tables
