# Unique constraints and indexes that a sharded table gets later, as migrations send
# them, and what becomes of them. The shard key is none of their columns.
@setup
create table people (id int primary key, email text, phone varchar(20), code int, note text);
insert into people select i, 'e' || i, 'p' || i, i, 'n' || i % 3 from generate_series(1, 40) i;
create table empty (id int primary key, name text);
create table parts (id int, day date, tag text, n int) partition by range (day);
create table parts_1 partition of parts for values from ('2020-01-01') to ('2021-01-01');
create table parts_2 partition of parts for values from ('2021-01-01') to ('2022-01-01');
insert into parts select i, date '2020-06-01' + i * 10, 't' || i, i from generate_series(1, 40) i;
create table "Mixed %" ("Id" int primary key, "E%mail" text, "order" int);
insert into "Mixed %" select i, 'e' || i, i from generate_series(1, 20) i;
create table nokey (k int, name text not null, extra text);
insert into nokey select i, 'k' || i, 'x' from generate_series(1, 20) i;

@weft
select weft.shard_table('people', 'id');
select weft.shard_table('empty', 'id');
select weft.shard_table('parts', 'id');
select weft.shard_table('nokey', 'k');
select weft.shard_table('"Mixed %"', '"Id"');

@route
alter table people add constraint one_email unique (email);
@error
insert into people values (101, 'e7');
update people set email = 'e1' where id = 2;
@route
insert into people values (101, 'new');
select id from people where email = 'new';
delete from people where id = 101;
alter table people drop constraint one_email;
insert into people values (102, 'e7');
@error
alter table people add unique (email);
create unique index people_email on people (email);
alter table people add unique (note);
create unique index on people (note);
alter table people add primary key (email);
@route
insert into people values (103, 'e7');
delete from people where id > 100;

# In a block: taken back, or kept, with rows.
begin;
insert into people values (104, 'blocked');
create unique index people_email on people (email);
@error
insert into people values (105, 'blocked');
@route
rollback;
insert into people values (105, 'e7');
delete from people where id = 105;
begin;
savepoint a;
alter table people add unique (email);
rollback to a;
insert into people values (105, 'e7');
delete from people where id = 105;
create unique index people_email on people using btree (email) include (phone);
insert into people values (106, 'inside');
savepoint b;
@error
insert into people values (107, 'inside');
@route
rollback to b;
update people set email = 'inside2' where id = 106;
commit;
select id from people where email = 'inside2';
@error
insert into people values (108, 'inside2');
@route
insert into people values (108, 'inside');
insert into people values (109, 'e7') on conflict (email) do update set note = 'met' returning id, note;
update people set note = 'n1' where id = 7;

# Names and types change.
alter index people_email rename to people_mail_index;
alter table people rename column email to mail;
@error
insert into people values (110, 'e7');
@route
select id from people where mail = 'e7';
alter table people alter column mail type text using mail || '!';
select id from people where mail = 'e7!';
select id from people where mail = 'e7';
insert into people values (110, 'e7');
@error
insert into people values (111, 'e7!');
alter table people alter column mail type text using 'same';
@route
delete from people where id = 110;
alter table people alter column mail type varchar(100) using rtrim(mail, '!');
@error
insert into people values (111, 'e9');
@route
alter table people rename column mail to email;
drop index people_mail_index;
insert into people values (111, 'e9');
delete from people where id > 100;
alter table people alter column email type text;

# Several columns, a new column, a primary key, two indexes that are as unique.
create unique index people_email_phone on people (phone, email);
@error
insert into people values (120, 'e3', 'p3');
@route
insert into people values (120, 'e3', 'p4');
select id from people where email = 'e3' and phone = 'p4';
alter table people add column slug text unique;
insert into people (id, email, slug) values (121, 'a', 's'), (122, 'b', null), (123, 'c', null);
@error
insert into people (id, email, slug) values (124, 'd', 's');
alter table people add column flat text default 'x' unique;
@route
create unique index people_slug_2 on people (slug);
alter table people drop constraint people_slug_key;
@error
insert into people (id, email, slug) values (124, 'd', 's');
@route
alter table people add constraint slugs unique using index people_slug_2;
@error
insert into people (id, email, slug) values (124, 'd', 's');
@route
alter table people drop column slug;
drop index people_email_phone;
delete from people where id > 100;
alter table nokey add primary key (name);
@error
insert into nokey values (30, 'k5');
insert into nokey values (30, null);
@route
select k from nokey where name = 'k5';
alter table nokey drop constraint nokey_pkey;
alter table nokey alter column name drop not null;
insert into nokey values (30, 'k5');
delete from nokey where k = 30;
alter table nokey alter column name set not null;
alter table empty add unique (name), add column nick text unique;
insert into empty values (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', null);
@error
insert into empty values (4, 'a', 'z');
insert into empty values (4, 'd', 'y');
@route
alter table empty rename to full_one;
@error
insert into full_one values (4, 'a', 'z');
@route
alter table full_one rename to empty;
alter table empty disable trigger all;
insert into empty values (5, 'e', 'u');
alter table empty enable trigger all;
@error
insert into empty values (6, 'e', 'v');
@route
truncate empty;
alter table empty drop column nick, drop constraint empty_name_key;
insert into empty values (7, 'a'), (8, 'a');
truncate empty;

# Names that need quotes.
alter table "Mixed %" add constraint "One!" unique ("E%mail", "order");
@error
insert into "Mixed %" values (31, 'e3', 3);
@route
select "Id" from "Mixed %" where "order" = 3 and "E%mail" = 'e3';
alter table "Mixed %" drop constraint "One!";
insert into "Mixed %" values (31, 'e3', 3);
@error
alter table "Mixed %" add constraint "One!" unique ("E%mail", "order");
@route
delete from "Mixed %" where "Id" = 31;

# While others write.
create unique index concurrently people_conc on people (email);
@error
insert into people values (125, 'e3');
@route
select id from people where email = 'e3';
drop index concurrently people_conc;
insert into people values (125, 'e3');
@error
create unique index concurrently people_conc on people (email);
@route
insert into people values (126, 'e3');
delete from people where id > 100;
drop index if exists people_conc;

# What no lookup can keep is refused, or right.
@maybe
create unique index people_lower on people (lower(email));
drop index if exists people_lower;
create unique index people_some on people (email) where id > 5;
drop index if exists people_some;
alter table people add constraint later unique (email) deferrable initially deferred;
alter table people drop constraint if exists later;
create unique index people_nulls on people (email) nulls not distinct;
drop index if exists people_nulls;
create unique index people_c on people (email collate "C");
drop index if exists people_c;
@route
insert into people values (131, 'E1'), (132, 'e9');
delete from people where id > 100;

# WHERE c IS NOT NULL leaves out nothing that could meet: it is as good as a whole index. Whichever
# index of several goes, the others are kept.
create unique index people_whole on people (email);
create unique index people_partly on people (email) where email is not null;
drop index people_whole;
@error
insert into people values (141, 'e3');
@route
insert into people values (142, null), (143, null), (144, 'e44');
@error
update people set email = 'e44' where id = 3;
@route
insert into people values (145, 'e44'), (146, 'e46') on conflict (email) where email is not null do nothing;
select id from people where email = 'e46';
create unique index people_whole on people (email);
drop index people_partly;
@error
insert into people values (147, 'e44');
@route
begin;
drop index people_whole;
create unique index people_whole on people (email) where (email is not null);
commit;
reindex index people_whole;
alter index people_whole rename to people_renamed;
@error
insert into people values (148, 'e44');
@route
alter table people add constraint people_con unique (email);
drop index people_renamed;
@error
insert into people values (149, 'e44');
@route
alter table people drop constraint people_con, add constraint people_con2 unique (email);
@error
insert into people values (150, 'e44');
@simple
alter table people drop constraint people_con2; create unique index people_text on people (email) where email is not null;
@error
insert into people values (151, 'e44');
@route
reindex index concurrently people_text;
@error
insert into people values (152, 'e44');
@route
drop index people_text;
insert into people values (153, 'e44');
delete from people where id > 100;

# Partitions come and go with their rows.
alter table parts add constraint part_tag unique (tag, day);
@error
insert into parts values (50, '2020-06-11', 't1');
@route
select id from parts where tag = 't30' and day = '2021-03-28';
alter table parts detach partition parts_2;
select id from parts where tag = 't30' and day = '2021-03-28';
select id from parts_2 where tag = 't30' and day = '2021-03-28';
create table parts_3 partition of parts for values from ('2021-01-01') to ('2022-01-01');
insert into parts values (51, '2021-03-28', 't30');
@error
insert into parts values (52, '2021-03-28', 't30');
insert into parts_2 values (53, '2021-03-28', 't30');
@route
drop table parts_3;
insert into parts_2 values (54, '2021-03-29', 't30');
alter table parts_2 drop constraint parts_2_tag_day_key;
alter table parts attach partition parts_2 for values from ('2021-01-01') to ('2022-01-01');
@error
insert into parts values (55, '2021-03-29', 't30');
@route
select id from parts where tag = 't30' and day = '2021-03-29';
delete from parts where id > 40;
alter table parts drop constraint part_tag;
select count(*) from parts;
@tables
