# What all shards need goes to all of them; a list may name what is in different
# places.
@include shop
@setup
create table side (id int primary key, v text);

@route
# Lists of what is everywhere, at home and nowhere.
create table side2 (id int);
drop table if exists side2, nosuch;
create view on_customers as select id, name from customers;
create view on_side as select * from side;
drop view on_customers, on_side;
create view on_customers as select id, name from customers;
drop view if exists nosuch, on_customers;
grant select on customers, side to alice;
revoke all on customers, side from alice;
@error
lock table customers, side in access share mode;
@route
begin;
lock table customers, side in share mode;
select count(*) from customers;
commit;

# Types.
create type mood as enum ('sad', 'ok');
alter type mood add value 'happy';
alter type mood rename value 'ok' to 'fine';
create type pair as (a int, b text);
alter type pair add attribute c int;
create domain posint as int check (value > 0);
alter domain posint add constraint small check (value < 1000);
create type floats as range (subtype = float8);
alter table customers add column feeling mood default 'fine', add column two pair, add column n posint default 5, add column span floats;
insert into customers (id, name, feeling, two, n, span) values (900, 'typed', 'happy', row(1, 'x', 2), 7, '[1,2)') returning feeling, two, n, span;
select feeling, two, n, span from customers where id = 900;
select feeling, count(*) from customers group by 1 order by 1;
@error
insert into customers (id, name, n) values (901, 'bad', -1);
insert into customers (id, name, n) values (901, 'bad', 5000);
drop type mood;
@route
alter type mood rename to feelings;
select feeling::text from customers where id = 900;
delete from customers where id = 900;
alter table customers drop column feeling, drop column two, drop column n, drop column span;
drop type feelings, pair, floats;
drop domain posint;

# Functions, aggregates, operators, casts, collations.
create function twice(x int8) returns int8 language sql immutable as 'select x * 2';
create or replace function twice(x int8) returns int8 language sql immutable as 'select x + x';
select twice(id) from customers where id = 3;
select sum(twice(id)) from customers;
select id from customers where twice(id) = 6;
create aggregate mysum(int8) (sfunc = int8pl, stype = int8, initcond = '0');
select mysum(id) from orders where customer_id = 3;
select mysum(id) from orders;
create function same(a int8, b text) returns bool language sql immutable as 'select a::text = b';
create operator === (leftarg = int8, rightarg = text, function = same);
select id from customers where id === '3' order by id;
create function wrap(x int8) returns macaddr language sql immutable as $$ select ('00:00:00:00:00:0' || x % 10)::macaddr $$;
create cast (int8 as macaddr) with function wrap(int8);
select id::macaddr from customers where id = 3;
drop cast (int8 as macaddr);
drop function wrap(int8);
drop operator === (int8, text);
drop function same(int8, text);
drop aggregate mysum(int8);
alter function twice(int8) rename to double;
alter function double(int8) cost 5;
comment on function double(int8) is 'x';
drop function double(int8);
create collation c_too (locale = 'C');
select name from customers where id < 9 order by name collate c_too;
drop collation c_too;
create procedure nothing() language plpgsql as $$ begin null; end $$;
call nothing();
drop procedure nothing();

# Schemas, statistics, policies, triggers.
create schema extra;
create schema extra2 create table inside (id int primary key) create index on inside (id);
insert into extra2.inside values (1);
select * from extra2.inside;
alter table order_items set schema extra;
select count(*) from extra.order_items;
alter schema extra rename to extra3;
select count(*) from extra3.order_items;
alter table extra3.order_items set schema public;
drop schema extra3;
drop schema extra2 cascade;
create statistics cust_stat on name, region from customers;
alter statistics cust_stat set statistics 50;
comment on statistics cust_stat is 'about customers';
alter statistics cust_stat rename to cust_stats;
drop statistics cust_stats;
create policy only_some on customers for select using (id > 0);
alter policy only_some on customers using (id >= 0);
alter table customers enable row level security;
select count(*) from customers;
alter table customers disable row level security;
drop policy only_some on customers;
create function stamp() returns trigger language plpgsql as $$ begin new.note := coalesce(new.note, 'stamped'); return new; end $$;
create trigger stamps before insert on orders for each row execute function stamp();
insert into orders (id, customer_id) values (9100, 7) returning note;
alter table orders disable trigger stamps;
insert into orders (id, customer_id) values (9101, 7) returning note;
drop trigger stamps on orders;
drop function stamp();
delete from orders where customer_id = 7 and id in (9100, 9101);

# Failed DDL in a block, savepoints around it, rows beside it.
begin;
alter table customers add column fax text;
update customers set fax = '1' where id = 3;
savepoint a;
alter table customers add column nofax text;
rollback to a;
select fax from customers where id = 3;
commit;
select fax from customers where id = 3;
@error
select nofax from customers where id = 3;
@route
begin;
create index fax_index on customers (fax);
@error
alter table customers add column fax text;
select 1;
@route
rollback;
create index fax_index on customers (fax);
drop index fax_index;
alter table customers drop column fax;
begin;
savepoint b;
@error
alter table customers add column id int;
@route
rollback to b;
alter table customers add column ok int;
commit;
select ok from customers where id = 3;
alter table customers drop column ok;

@maybe
create rule no_rules as on delete to customers do instead nothing;
@tables
