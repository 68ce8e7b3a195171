# NULLS NOT DISTINCT without the shard key: NULL is a value like others, on all shards.
@setup
create extension if not exists citext;
create table slots (id int primary key, org int, room text, day date, n numeric(6,2), login citext, at timestamptz, flag bool, hits int not null default 0, unique nulls not distinct (org, room));
create unique index slots_login on slots (login) nulls not distinct where hits >= 0 and org is not null;
create unique index slots_day on slots (day, n, at, flag) nulls not distinct where room is null;
create table later (id int primary key, name text, n int);
create table loose (id int primary key, name text);

@weft
select weft.shard_table('slots', 'id');
select weft.shard_table('later', 'id');
select weft.shard_table('loose', 'id');

@data
truncate slots, later, loose;
insert into later select i, case when i > 1 then 'n' || i end, i from generate_series(1, 10) i;
insert into loose values (1, null), (2, null), (3, 'a');
insert into slots select i, i % 3, 'r' || i, null, null, 'Log' || i from generate_series(1, 12) i;

@error
insert into slots (id, org, room, login) values (101, 1, 'r1', 'x');
@route
insert into slots (id, org, room, login) values (102, 1, null, null);
insert into slots (id, org, room) values (103, null, 'r1');
insert into slots (id, org, room, day) values (104, null, null, '2021-01-01');
@error
insert into slots (id, org, room, login) values (105, 1, null, 'y');
insert into slots (id, org, room) values (105, null, 'r1');
insert into slots (id) values (105);
insert into slots (id, org, room) values (105, 7, 'y'), (106, 8, 'y');
insert into slots (id, org, room, login) values (105, 7, 'y', 'LOG3');
update slots set org = null, room = null where id = 3;
@route
update slots set room = E'\x01' where id = 104;
insert into slots (id, day) values (106, '2022-01-01');
insert into slots (id, room, login) values (107, E'\x01\x01', null);
insert into slots (id, room, day, n, at, flag) values (110, null, '2020-01-01', 1.50, '2020-01-01 10:00+00', true) on conflict do nothing returning id;
@error
insert into slots (id, room) values (108, E'\x01');
insert into slots (id, room) values (108, E'\x01\x01');
@route
set datestyle = 'German';
set timezone = 'America/New_York';
insert into slots (id, org, room, login, day, n, at, flag) values (111, 50, null, 'z1', '2020-01-01', 1.5, '2020-01-01 10:00+00', true) on conflict (day, n, at, flag) where room is null do update set hits = 1 returning id;
insert into slots (id, org, room, login, day, n, at, flag) values (112, 51, null, 'z2', '2020-01-01', 1.5, '2020-01-01 10:00+00', null) on conflict (day, n, at, flag) where room is null do update set hits = 2 returning id;
reset datestyle;
reset timezone;
insert into slots (id, org, room, login, flag) values (113, 60, null, 'z3', null) on conflict (day, n, at, flag) where room is null do update set hits = 3 returning id;
insert into slots (id, org, room) values ($1, $2, $3) on conflict (org, room) do update set hits = slots.hits + 1 returning id, hits;
  -- int4:121 | int4:1 | text:r1
  -- int4:122 | int4:NULL | text:r1
  -- int4:123 | int4:NULL | text:NULL
  -- int4:124 | int4:1 | text:NULL
insert into slots (id, org, room, login) values (131, 70, 'a', null), (132, 71, 'b', null), (133, 72, 'c', 'log4') on conflict do nothing returning id;
delete from slots where id = 106;
insert into slots (id, day, hits) values (134, '2030-01-01', 5) on conflict on constraint slots_org_room_key do nothing returning id;
insert into slots (id, day, hits) values (135, '2030-01-02', 5) on conflict on constraint slots_org_room_key do nothing returning id;
select id, org, room, login, hits from slots order by id;

# Made later.
create unique index later_name on later (name) nulls not distinct;
@error
insert into later values (11, null);
create unique index loose_name on loose (name) nulls not distinct;
alter table loose add unique nulls not distinct (name);
@route
insert into loose values (4, null);
insert into later values (11, 'new');
alter table later add constraint later_n unique nulls not distinct (n);
@error
insert into later values (12, 'other');
@route
insert into later values (12, 'other', 12);
alter table later rename column name to title;
@error
insert into later values (13, null, 13);
@route
alter table later drop constraint later_n;
drop index later_name;
insert into later values (13, null, null);
create unique index later_plain on later (n);
insert into later values (14, null, null);
drop index later_plain;
alter table later rename column title to name;
@tables
