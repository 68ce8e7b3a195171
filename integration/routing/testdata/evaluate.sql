# Commands on the schema that run functions for rows that are there, and temporary objects,
# which the catalog does not have. What is not refused must be right.
@include shop

@setup
create function all_orders() returns bigint language sql stable as 'select count(*) from orders';
create function is_customer(x bigint) returns boolean language sql immutable as 'select exists (select 1 from customers where id = x)';
create function number(x bigint) returns bigint language sql immutable as 'select count(*) + x from orders';
create function all_settings() returns bigint language sql stable as 'select count(*) from settings';
create function set_note() returns trigger language plpgsql as $$ begin new.a := all_orders(); return new; end $$;
create table notes (id bigint, n bigint);
insert into notes select id, 0 from customers;
create domain customer_id as bigint;
create table by_domain (id customer_id);
insert into by_domain select id from customers;
create table numbered (id bigserial primary key, x int);
create table defaulted (a int, b bigint default all_orders());

@weft
select weft.shard_table('numbered', 'id');

@maybe
alter table notes add column c bigint default all_orders();
alter table notes alter column n type bigint using all_orders();
alter table notes add constraint known check (is_customer(id)) not valid;
alter table notes validate constraint known;
alter table notes drop constraint if exists known;
alter table notes add check (is_customer(id));
alter table notes add column g bigint generated always as (number(id)) stored;
create unique index on notes ((number(id)));
create index on notes (id) where is_customer(id);
select * from notes order by id;
alter table customers add column c bigint default all_orders();
alter table customers add column d bigint default all_settings();
alter table customers add column e bigint check (is_customer(e)) default 3;
alter table customers alter column balance type numeric using all_orders();
alter table customers add check (is_customer(id));
create index on customers (number(id));
alter table products add column c bigint default all_settings();
alter table products add check (number(id) > 0);
select * from customers order by id;
select * from products order by id;
alter domain customer_id add constraint c1 check (is_customer(value));
alter domain customer_id add constraint c2 check (is_customer(value)) not valid;
alter domain customer_id validate constraint c2;
alter domain customer_id drop constraint if exists c2;
create temp table t1 (a int, b bigint default all_orders());
create temp table t2 (a bigint check (is_customer(a)));
create temp table t3 (a bigint, b bigint generated always as (number(a)) stored);
create temp table t4 (like defaulted including all);
create temp table t5 () inherits (defaulted);
create temp table t6 (a bigint);
alter table t6 add column b bigint default all_orders();
alter table t6 alter a set default all_orders();
create trigger tr before insert on t6 for each row execute function set_note();
create function pg_temp.f() returns bigint language sql as 'select all_orders()';
create function pg_temp.g() returns bigint language sql as 'select all_settings()';
create domain pg_temp.d as bigint default all_orders();
create domain pg_temp.c as bigint check (is_customer(value));
create domain pg_temp.positive as bigint check (value > 0);
create view pg_temp.v as select all_orders() as n;
create temp view w as select 1 as n where all_orders() > 5;
create view pg_temp.x as select count(*) from orders;
insert into t6 (a) values (1) returning *;
select pg_temp.g();
select pg_temp.g(), name from customers where id = 3;
select sum(pg_temp.g()) from customers;
update customers set balance = pg_temp.g() where id = 3;
select id::pg_temp.positive from customers where id = 3;
select id::pg_temp.positive from customers order by id;
insert into numbered select from generate_series(1, 3);

@error
select (-id)::pg_temp.positive from customers where id = 3;

@tables
