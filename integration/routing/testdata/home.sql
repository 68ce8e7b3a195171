# Tables that nobody declared, statements without tables, session state, roles
# and what else goes to the home shard.
@include shop
@setup
create table notes (id serial primary key, body text, tags text[], doc jsonb);
create table parent (id int primary key, v text);
create table child (id int primary key, parent_id int references parent on delete cascade);
create view note_view as select id, upper(body) as body from notes;
create function add(a int, b int) returns int language sql immutable as 'select a + b';
create function note_count() returns bigint language sql stable as 'select count(*) from notes';
create procedure put_note(b text) language sql as 'insert into notes (body) values (b)';
create materialized view note_mat as select count(*) as n from notes;
create schema other;
create table other.settings (key text primary key, value text);
grant usage on schema public, other to alice;
grant select on customers to alice;
grant select on products to alice;
grant select on settings to alice;
@data
truncate notes, parent, child, other.settings restart identity;
refresh materialized view note_mat;

@route
insert into notes (body, tags, doc) values ('a', '{x,y}', '{"k": 1}') returning *;
insert into notes (body) select 'note ' || g from generate_series(1, 5) g;
select * from notes order by id;
select * from note_view order by id;
update notes set body = body || '!' where id > 3 returning id, body;
delete from notes where id = 6;
insert into parent values (1, 'p'), (2, 'q');
insert into child values (1, 1), (2, 1), (3, 2);
delete from parent where id = 1;
select * from child;
select p.id, count(c.*) from parent p left join child c on c.parent_id = p.id group by p.id order by 1;
select add(1, 2);
select note_count();
call put_note('by procedure');
refresh materialized view note_mat;
select * from note_mat;
select s.key, n.body from settings s, notes n order by 1, 2;
with d as (delete from notes where id = 2 returning *) select count(*) from d;
select doc->>'k', tags[1] from notes where id = 1;
create temporary table scratch (a int, b text);
insert into scratch values (1, 'x'), (2, 'y');
select * from scratch s join settings t on true order by 1, 3;
drop table scratch;
set search_path = other, public;
insert into settings values ('here', 'other') returning *;
select * from settings order by 1;
select name from customers where id = 3;
show search_path;
reset search_path;
select * from settings order by 1;
select * from other.settings order by 1;
set application_name = 'routing';
show application_name;
select name from customers where id = 4;
select current_setting('application_name') from customers where id = 5;
set role alice;
select current_user, session_user from customers where id = 5;
select name from customers where id = 6;
select current_user;
@error
insert into customers (id, name) values (777, 'forbidden');
select * from orders where customer_id = 3;
delete from settings;
select nextval('customers_id_seq');
insert into customers (name) values ('forbidden');
@route
select p.name from products p order by id;
reset role;
select current_user;
do $$ begin perform 1; end $$;
explain (costs off) select * from settings where key = 'x';
analyze settings;
select pg_advisory_lock(1), pg_advisory_unlock(1);
select count(*) from pg_class where relname = 'customers';
select now() = now() as same, current_date = current_date as day;
select generate_series(1, 3) order by 1;
select g, g * 2 from generate_series(1, 3) g order by 1;
begin;
lock table settings in share mode nowait;
lock table settings in access exclusive mode;
commit;
listen channel;
notify channel, 'x';
unlisten *;
show server_version_num;
comment on table settings is 'home';
select obj_description('settings'::regclass);
discard all;
select 'still here';

@error
lock table nosuch;
select * from other.nosuch;
set role nosuch;
set nosuch.x.y;

@maybe
select note_count() from customers where id = 3;
select add(1, id::int) from customers where id = 3;
select name, (select count(*) from notes) from customers where id = 3;
create table copy_of as select * from customers where id = 3;
select * from copy_of;
drop table if exists copy_of;
vacuum settings;
copy settings to stdout;

@tables
