# INSERT … SELECT over several shards.
@include shop

@setup
create table archive (nr bigint, customer_id bigint, status text, total numeric(12,2), note text, at date default now());
create table other (x int, y text, customer_id bigint);
create table home (hid bigserial, name text, n numeric);
create table words (w text primary key, d date, n int);
create table tree (root int, node int, parent int, primary key (root, node), foreign key (root, parent) references tree);
create table numbered (name text, n int);
create table pairs (a int, b text);
insert into numbered values ('n1', 1), ('n2', 2), ('n3', 3);
insert into pairs values (1, 'x'), (2, 'y'), (3, 'z');
create table many (k int, n int, s text);

@weft
select weft.shard_table('archive', 'customer_id');
select weft.shard_table('other', 'x');
select weft.shard_table('words', 'w');
select weft.shard_table('tree', 'root');
select weft.shard_table('many', 'k');
select weft.shard_table('pairs', 'a');

@data
truncate archive, other;
truncate home restart identity;
truncate words, tree, many;

@route
# Each shard inserts its own.
insert into archive (nr, customer_id, status, total, note) select * from orders;
insert into archive select o.id + 10000, o.customer_id, o.status, o.total, c.name from orders o join customers c on c.id = o.customer_id where o.total > 20;
insert into archive (customer_id, total) select customer_id, sum(total) from orders group by customer_id;
insert into archive (customer_id, nr) select id, id from customers where region = 'us';
with big as (select * from orders where total > 50) insert into archive (nr, customer_id, note) select id + 20000, customer_id, 'big' from big;
insert into archive select nr + 1, customer_id from archive;
select count(*), count(distinct at) from archive;
# Rows that belong elsewhere.
insert into other (x, y, customer_id) select id, note, customer_id from orders where total > 40;
insert into other select id, status from orders where customer_id = 3 order by id;
insert into other (x, y) select x + 1000, y || '!' from other;
insert into other (x, y) select o.id, c.name from orders o join customers c on c.id + 100 = o.id;
insert into other (x, y) select max(id), min(status) from orders;
insert into other (x, y) select distinct id % 10, 'd' from orders;
insert into other (x, y) select id, 'limited' from orders order by id limit 3;
insert into other (x, y) select id, 'union' from customers union all select id, 'union' from orders;
insert into other (x, y) select row_number() over (order by id), 'w' from orders;
insert into other (x, y) select s.i, 'series' from generate_series(1, 10) s (i);
insert into other (x, y) select p.id, p.name from products p;
insert into words (w, n) table numbered;
insert into other (x, y) (table pairs order by 1 limit 2);
insert into other (x, y) values (1, 'a'), (2, 'b'), (3, 'c') order by 1 limit 2;
insert into other (x, y) select length(value), value from settings;
insert into other (y, x) select value, (select count(*) from orders) from settings;
with recursive r as (select 1 as n union all select n + 1 from r where n < 5) insert into other (x, y) select n, 'r' from r;
with c as (select id from customers where id < 4) insert into other (x, y) select id, 'cte' from c union all select id + 1, 'cte' from c;
insert into words (w, d, n) select 'bare ' || n, '2024-02-03', null from generate_series(1, 6) n;
insert into words (w) select name from customers;
insert into words (w, n) select 'len' || length(name), count(*) from customers group by 1;
insert into other (x, y) select $1 + id, $2 from customers where id < $3;
  -- int4:500 | text:p | int8:5
  -- int4:600 | text:NULL | int8:3
insert into other (x, y) select id, $1 from orders where total > $2 order by id;
  -- text:prm | numeric:50
insert into archive (nr, customer_id, note) select id, customer_id, $1 from orders where status = $2;
  -- text:prm | text:new
# Serials.
insert into customers (name) select 'serial ' || id from customers where id < 4 order by id;
insert into customers (name, region) select 'serial', status from orders where customer_id = 1 order by id;
insert into orders (customer_id, total) select id, balance from customers where id < 6 order by id;
insert into order_items (customer_id, order_id, qty) select customer_id, id, 2 from orders where id < 110 order by id;
insert into order_items (customer_id, id, order_id, qty) overriding user value select customer_id, 1, id, 2 from orders where id < 105 order by id;
select id, name from customers where id > 300 order by id;
select id, count(*) from order_items group by id having count(*) > 1;
# Into home tables.
insert into home (name, n) select name, balance from customers order by id;
insert into home (name, n) select region, sum(balance) from customers group by region order by 1;
insert into home (name) values ((select max(name) from customers)), ('plain'), (upper((select min(status) from orders)));
insert into home (name, n) select 'x', count(*) from orders returning hid, name, n;
insert into settings select 'k' || id, name from customers where id = 3 returning *;
# RETURNING.
insert into other (x, y) select id, note from orders where total > 60 order by id returning x, y;
insert into other (x, y) select id, note from orders where total > 60 order by id desc returning y || '!', x + 1 as z;
insert into archive (nr, customer_id) select id, customer_id from orders where customer_id < 4 order by id returning nr, customer_id, status;
insert into customers (name) select name || '2' from customers where id < 5 order by id returning id, name;
insert into home (name) select name from customers where id < 5 order by id returning *;
insert into other (x, y) select id, 'none' from orders where false returning *;
# A foreign key of the table on itself is looked at when all rows are there.
insert into tree select r, i, nullif(i + 1, 6) from generate_series(1, 8) r, generate_series(1, 5) i order by r, i;
# Many rows.
insert into many select i, i % 7, repeat('x', i % 50) from generate_series(1, 4000) i;
insert into many select k + 4000, n, s from many;
insert into many select n, k, s from many where k % 3 = 0;
select count(*), sum(k), sum(n), sum(length(s)) from many;
@tables

@route
begin;
insert into other (x, y) values (7001, 'new'), (7002, 'new'), (7003, 'new');
insert into other (x, y) select x + 10, 'newer' from other where x > 7000;
select x, y from other where x > 7000 order by x;
rollback;
select count(*) from other where x > 7000;

@error
insert into other (x, y) select id, name, id from customers;
insert into other (x, y) select name, 'x' from customers;
insert into other (x, nosuch) select id, name from customers;
insert into words (w) select name from customers;
insert into words (w) select null from customers;
insert into other (x, y) select 1 / (id - 3), 'x' from customers;
insert into orders (id, customer_id) select 9000 + id, id + 5000 from customers;
insert into customers (id, name) select id, name from customers;
insert into customers (id, name) select id + 6000, nullif(id, 5)::text from customers where id < 1000;
insert into order_items (customer_id, order_id, qty) select customer_id, id, 0 from orders where customer_id = 2;
insert into many select 2000000000 + k::bigint * 100000, 1 from many;
@tables
