# Which values a sequence gives is weft's to choose, as it is PostgreSQL's with
# CACHE: never one twice, never one from before a setval. So conditions on ids
# are compared here, not ids; TestSequences compares what the functions say.
@include shop
@setup
create table accounts (id integer generated always as identity primary key, name text);
create table tickets (id serial primary key, account_id int not null, title text default 'untitled');
create table tokens (id uuid primary key default gen_random_uuid(), account_id int, label text);
create table devices (id uuid primary key default gen_random_uuid(), label text);
create sequence free_seq increment 10 start 100;
create table numbered (n bigint default nextval('free_seq'), k int not null);
@weft
select weft.shard_table('accounts', 'id');
select weft.shard_table('tickets', 'account_id');
select weft.shard_table('tokens', 'account_id');
select weft.shard_table('devices', 'id');
select weft.shard_table('numbered', 'k');
@data
alter sequence free_seq increment 10;
truncate accounts, tickets, tokens, devices, numbered restart identity;
select setval('free_seq', 100, false);

@mask id n
@route
insert into customers (name) values ('first') returning id;
insert into customers (name) values ('second') returning id, name, id between 301 and 499 as fits;
insert into customers (name, email) values ('third', 'x') returning *;
insert into customers values (default, 'fourth') returning id;
insert into customers (id, name) values (default, 'fifth') returning id;
insert into orders (customer_id) values (1) returning id, id between 901 and 1900 as fits;
insert into orders (customer_id, total) values (2, 5), (2, 6), (2, 7) returning id, total;
insert into orders (id, customer_id) values (default, 3) returning id;
insert into orders (id, customer_id) values (default, 3), (7777, 3) returning id > 900 as fits;
insert into orders (customer_id, note) values ($1, $2) returning id, note;
  -- int8:1 | text:a
  -- int8:2 | text:b
  -- int8:3 | text:c
select count(*), count(distinct id) from orders where customer_id = 2;
insert into order_items (customer_id, order_id) values (2, 2) returning id;
insert into order_items (customer_id, order_id) values (2, 3) returning id;
insert into accounts (name) values ('a') returning id;
insert into accounts (name) values ('b') returning id;
insert into accounts default values returning id;
insert into accounts (id, name) values (default, 'd') returning id;
insert into accounts (id, name) overriding system value values (100000, 'e') returning id = 100000 as fits;
insert into accounts (name) values ($1) returning id, name;
  -- text:g
  -- text:h
insert into tickets (account_id) values (1) returning *;
insert into tickets (account_id, title) values (1, 'x'), (1, default) returning *;
insert into tickets values (default, 2, 'positional') returning id;
select title from tickets where account_id = 1 order by id;
insert into numbered (k) values (1) returning n, n % 10 as rest;
insert into numbered (k) values (2) returning n, n % 10 as rest;
insert into numbered (n, k) values (default, 3) returning n, n % 10 as rest;
select nextval('free_seq') % 10 as rest;
insert into numbered (n, k) values (nextval('free_seq'), 3) returning n, n % 10 as rest;
select setval('free_seq', 10000);
insert into numbered (k) values (4) returning n, n > 10000 as later;
select nextval('free_seq') > 10000 as later, 'beside';
select setval('free_seq', 200000, false);
insert into numbered (k) values (4) returning n, n >= 200000 as later;
select currval('free_seq') >= 200000 as later;
select lastval() >= 200000 as later;
alter sequence free_seq restart with 5000;
insert into numbered (k) values (5) returning n, n between 5000 and 9999 as restarted;
alter sequence free_seq increment 1;
insert into numbered (k) values (5) returning n, n between 5000 and 19999 as restarted;
select nextval('customers_id_seq') > 305 as later;
insert into customers (name) values ('after nextval') returning id, id > 305 as later;
select setval('customers_id_seq', 5000);
insert into customers (name) values ('after setval') returning id, id > 5000 as later;
select setval(pg_get_serial_sequence('customers', 'id'), 60000, true);
insert into customers (name) values ('after setval') returning id, id > 60000 as later;
select nextval(pg_get_serial_sequence('customers', 'id')) > 60000 as later;
begin;
insert into customers (id, name) values (70001, 'in a transaction');
insert into orders (customer_id) values (70001) returning customer_id;
rollback;
begin;
insert into customers (name) values ('in a transaction') returning id, id > 60000 as later;
rollback;
insert into customers (name) values ('gaps are kept') returning id, id > 60000 as later;

# uuid keys: only their shape can be compared.
insert into devices (label) values ('a') returning label, id is not null as made, length(id::text) as len;
insert into devices (id, label) values (default, 'b') returning label, id is not null as made;
insert into devices (id, label) values ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'c') returning *;
insert into devices (id, label) values ('{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12}', 'd') returning *;
select label from devices where id = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11';
insert into tokens (account_id, label) values (1, 't') returning label;
insert into tokens (account_id, label) values (1, 'u'), (1, 'v') returning label;
insert into devices (label) values ($1) returning label;
  -- text:p1
  -- text:p2

@maybe
insert into customers (name) values ('m1'), ('m2'), ('m3') returning name;
insert into tickets (account_id, title) values (3, 'x'), (4, 'y') returning title;
insert into orders (customer_id) select 2 returning customer_id;
insert into accounts (id, name) overriding user value values (100001, 'f') returning name;
select setval('customers_id_seq', (select max(id) from customers where id = 601));
select last_value >= 5000 from free_seq;
begin;
insert into customers (id, name) values (70002, 'x');
select currval('customers_id_seq') > 60000 as later;
rollback;

@tables
