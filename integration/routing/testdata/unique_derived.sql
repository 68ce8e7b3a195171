# Unique indexes of expressions and of a part of the rows, without the shard key: there when the table is declared, or made later.
@setup
create type mood as enum ('on', 'off', 'gone');
create table users (id int primary key, email varchar(80), login text, slug text, org int, deleted_at timestamptz, state mood not null default 'on', data jsonb, main bool default false, was text, found int);
create unique index users_email on users (lower(email));
create unique index users_slug on users (org, slug) where deleted_at is null;
create unique index users_main on users (org) where main and state in ('on', 'off');
create unique index users_ref on users ((data ->> 'ref'), (was || '!')) include (login);
insert into users select i, 'User' || i || '@x.org', 'l' || i, 's' || i % 10, i / 10, case when i % 7 = 0 then timestamptz '2024-05-05' end, 'on', jsonb_build_object('ref', i), false, 'w' || i, i from generate_series(1, 40) i;
create table filled (id int primary key, name text, gone bool not null default false, n int);
insert into filled select i, 'N' || i % 20, i > 20, i from generate_series(1, 40) i;
create table parts (id int, day date, tag text, live bool) partition by range (day);
create table parts_1 partition of parts for values from ('2020-01-01') to ('2021-01-01');
create table parts_2 partition of parts for values from ('2021-01-01') to ('2022-01-01');
create table "Mixed %" ("Id" int primary key, "E%mail" text, "order" int, new text);
create unique index on "Mixed %" (lower("E%mail"), "order") where new is distinct from 'x%s';

@weft
select weft.shard_table('users', 'id');
select weft.shard_table('filled', 'id');
select weft.shard_table('parts', 'id');
select weft.shard_table('"Mixed %"', '"Id"');

@error
insert into users (id, email) values (101, 'USER7@x.org');
insert into users (id, email) values (101, 'a@x.org'), (102, 'b@x.org'), (103, 'B@X.org');
update users set email = upper('user9@x.org') where id = 8;
update users set email = 'same';
insert into users (id, data, was) values (101, '{"ref": 7}', 'w7');
@route
insert into users (id, email) values (101, 'new@x.org'), (102, null), (103, null);
insert into users (id, data, was) values (104, '{"ref": 7}', 'w8'), (105, '{"ref": 7}', null), (106, '{"ref": 7}', null);
update users set email = 'NEW@x.org' where id = 101;
@error
insert into users (id, email) values (107, 'new@X.org');
@route
delete from users where id = 101;
insert into users (id, email) values (107, 'new@X.org');
update users set email = email || 'x' where id < 20;

# The predicate: soft delete and back.
@error
insert into users (id, org, slug) values (110, 0, 's3');
@route
insert into users (id, org, slug) values (110, 0, 's7');
insert into users (id, org, slug, deleted_at) values (111, 0, 's3', '2024-05-05'), (112, 0, 's3', '2024-05-05');
update users set deleted_at = '2024-05-05' where id = 3;
update users set deleted_at = null where id = 111;
@error
update users set deleted_at = null where id = 3;
update users set deleted_at = null where id in (112, 3);
update users set deleted_at = null where org = 0;
@route
delete from users where id = 111;
update users set deleted_at = null where id = 3;
update users set main = true where id in (1, 11, 21);
@error
update users set main = true where id = 2;
@route
update users set main = true, state = 'gone' where id = 2;
@error
update users set state = 'off' where id = 2;
@route
update users set main = id = 2 where org = 0;
@error
update users set state = 'on', main = true where id in (1, 2, 4);
@route
update users set state = 'off' where id = 2;
@error
update users set main = true where id = 4;
@route
@tables

# Blocks and savepoints, parameters.
begin;
insert into users (id, email) values (120, 'block@x.org');
savepoint a;
@error
insert into users (id, email) values (121, 'BLOCK@x.org');
@route
rollback to a;
delete from users where id = 120;
insert into users (id, email) values (121, 'BLOCK@x.org');
savepoint b;
update users set email = 'other@x.org' where id = 121;
rollback to b;
commit;
@error
insert into users (id, email) values (122, 'Block@x.org');
@route
begin;
update users set email = 'gone@x.org' where id = 121;
rollback;
@error
insert into users (id, email) values (122, 'Block@x.org');

# ON CONFLICT by another constraint.
@route
insert into users (id, email) values (121, 'z') on conflict (id) do update set email = 'Up@x.org' returning email;
insert into users (id, email) values (121, 'z') on conflict (id) do nothing;
@error
insert into users (id, email) values (122, 'uP@x.org') on conflict (id) do nothing;
insert into users (id, email) values (121, 'z') on conflict (id) do update set email = 'user30@x.org';
@route
insert into users (id, email) values (123, 'uP@x.org') on conflict do nothing;
insert into users (id, email) values (123, 'uP@x.org') on conflict (lower(email)) do nothing;
insert into users (id, email) values (123, 'uP@x.org') on conflict (lower(email)) do update set login = 'met';
insert into users (id, org, slug) values (123, 1, 's1') on conflict (org, slug) where deleted_at is null do nothing;
@error
insert into users (id, org, slug) values (123, 1, 's1') on conflict (org, slug) do nothing;

# An index that is made later, with and without offenders.
@error
create unique index on filled (lower(name));
create unique index on filled (name) where n > 5;
@route
create unique index filled_name on filled (lower(name)) where not gone;
@error
insert into filled values (51, 'n7');
update filled set gone = false where id = 27;
@route
insert into filled values (52, 'n7', true);

# One index takes the place of another.
create unique index filled_name_2 on filled (lower(name)) where not gone;
drop index filled_name;
@error
insert into filled values (51, 'n7');
@route
alter index filled_name_2 rename to filled_name;
begin;
drop index filled_name;
create unique index filled_name on filled (lower(name)) where not gone;
commit;
@error
insert into filled values (51, 'n7');
@route
alter table filled rename column name to label;
alter table filled rename column gone to away;
@error
insert into filled values (51, 'n7');
@route
insert into filled values (53, 'n30');
update filled set away = true where id = 53;
alter table filled alter column n type bigint;
drop index filled_name;
insert into filled values (51, 'n7');
@error
create unique index filled_name on filled (lower(label)) where not away;
@route
begin;
delete from filled where id = 51;
create unique index filled_name on filled (lower(label)) where not away;
insert into filled values (54, 'inside');
commit;
@error
insert into filled values (55, 'Inside');
@route
alter table filled drop column away;
insert into filled values (55, 'Inside');
create unique index on filled ((n % 1000)) where label is not null and n > 0;
truncate filled;
insert into filled select i, 'N' || i, i from generate_series(1, 20) i;
@error
insert into filled select 100, 'x', 1005;
@route
alter type mood rename value 'off' to 'paused';
update users set main = false where id = 11;
update users set main = true, state = 'paused' where id = 11;
@error
update users set main = true where id = 12;
@route
@tables

# Partitions.
insert into parts select i, date '2020-06-01' + i * 10, 't' || i, true from generate_series(1, 40) i;
@maybe
create unique index parts_tag on parts (lower(tag), day) where live;
@error
insert into parts values (101, '2020-06-11', 'T1', true);
@route
insert into parts values (101, '2020-06-11', 'T1', false);
@error
update parts set live = true where id = 101;
@route

# Names that look like marks.
insert into "Mixed %" values (1, 'A%s', 1, 'n'), (2, 'a%s', 1, 'x%s'), (3, 'a%s', 2, 'n');
@error
insert into "Mixed %" values (4, 'A%S', 1, null);
update "Mixed %" set new = 'n' where "Id" = 2;
@route
alter table "Mixed %" rename column new to old;
@error
update "Mixed %" set old = 'n' where "Id" = 2;
@tables
