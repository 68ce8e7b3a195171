# DO, functions and procedures with commands in them: what migrations send.
@include shop
@setup
create table side (id int primary key, v text);

@route
# drizzle and Prisma.
do $$ begin create type "public"."mood" as enum('sad', 'ok'); exception when duplicate_object then null; end $$;
do $$ begin create type "public"."mood" as enum('sad', 'ok'); exception when duplicate_object then null; end $$;
do $$ begin alter table "orders" add constraint "orders_again_fk" foreign key ("customer_id") references "public"."customers"("id") on delete no action on update no action; exception when duplicate_object then null; end $$;
do $$ begin alter table "orders" add constraint "orders_again_fk" foreign key ("customer_id") references "public"."customers"("id") on delete no action on update no action; exception when duplicate_object then null; end $$;
alter table customers add column feeling mood default 'ok';
select feeling, count(*) from customers group by 1 order by 1;
# By hand, and what knex, Rails and Django wrap into DO.
do $body$ declare found boolean; n int := 0; r record; begin select exists (select 1 from information_schema.columns where table_name = 'orders' and column_name = 'shipped') into found; if not found then raise notice 'adding a column'; alter table orders add column shipped date, add column weight int not null default 1; end if; for r in select conname from pg_constraint where conrelid = 'orders'::regclass and conname = 'nosuch' loop n := n + 1; end loop; if n = 0 and not exists (select from pg_constraint where conname = 'orders_weight') then alter table orders add constraint orders_weight check (weight > 0); end if; end $body$;
select shipped, weight, count(*) from orders group by 1, 2 order by 1, 2;
@error
update orders set weight = 0 where customer_id = 5;
@route
do $$ begin if not exists (select from pg_policies where tablename = 'orders' and policyname = 'mine') then create policy mine on orders using (true); end if; end $$;
do $$ begin if to_regclass('orders_total') is null then create index orders_total on orders (total); end if; end $$;
do $$ begin drop index if exists orders_total; exception when others then raise; end $$;
do $$ begin execute 'alter table orders add column extra text'; execute format('comment on column %I.%I is %L', 'orders', 'extra', 'it''s'); end $$;
select col_description('orders'::regclass, attnum) from pg_attribute where attrelid = 'orders'::regclass and attname = 'extra';
do $$ begin if exists (select from information_schema.columns where table_name = 'orders' and column_name = 'extra') then alter table orders rename column extra to more; end if; end $$;
select more from orders where customer_id = 5 limit 1;
# The rights, the views, the types.
do $$ begin create view on_orders as select id, customer_id, total from orders; end $$;
select count(*), sum(total) from on_orders;
do $$ begin execute 'grant select on on_orders to ' || current_user; end $$;
do $$ begin alter type mood add value if not exists 'happy'; alter type mood rename value 'sad' to 'blue'; end $$;
select enum_range(null::mood);
do $$ begin drop view on_orders; end $$;
# What is the home shard's stays there.
do $$ begin create table side2 (id int); alter table side2 add column v text; insert into side2 values (1, 'x'); end $$;
select * from side2;
do $$ begin if not exists (select from pg_constraint where conname = 'side_v') then alter table side add constraint side_v unique (v); end if; end $$;
do $$ begin drop table side2; end $$;
do $$ begin create temp table tmp (a int); insert into tmp values (1); end $$;
select * from tmp;
drop table tmp;
# Functions and procedures.
create function make_type(name text) returns int language plpgsql as $$ begin create type made as (a int); alter type made add attribute b text; return 7; end $$;
select make_type('x');
select row(1, 'x')::made from customers where id = 5;
select count(row(1, name)::made) from customers;
create procedure drop_type() language sql as 'drop type made';
begin;
savepoint a;
call drop_type();
rollback to a;
select count(row(1, name)::made) from customers;
commit;
@error
do $$ begin create type made as enum (); end $$;
do $$ begin alter table orders add constraint never check (total < 0); end $$;
do $$ begin raise exception 'no'; create type never as enum (); end $$;
do $$ begin alter table orders add column shipped date; end $$;
@route
begin;
do $$ begin alter table orders add column in_block int default 3; end $$;
select sum(in_block) from orders;
update orders set in_block = 4 where customer_id = 5;
select sum(in_block) from orders;
rollback;
@error
select sum(in_block) from orders;
@route
# Back to how it was.
do $$ begin alter table orders drop column shipped, drop column weight, drop column more, drop constraint orders_again_fk; drop policy mine on orders; alter table customers drop column feeling; drop type mood; drop type made; drop function make_type; drop procedure drop_type; end $$;
alter table side drop constraint side_v;
