# Partitions of a sharded table: made, attached, detached, dropped; with rows.
@setup
create table events (id int, day date not null, note text, primary key (id, day)) partition by range (day);
create table events_2024 partition of events for values from ('2024-01-01') to ('2025-01-01');
create table events_rest partition of events default;
insert into events select g, date '2024-01-01' + g * 20, 'n' || g from generate_series(1, 60) g;

@weft
select weft.shard_table('events', 'id');

@route
select * from events where id = 3;
select count(*) from events;
select * from events_2024 order by id;

create table events_2026 partition of events for values from ('2030-01-01') to ('2031-01-01') partition by hash (id);
create table events_2026_0 partition of events_2026 for values with (modulus 2, remainder 0);
create table events_2026_1 partition of events_2026 for values with (modulus 2, remainder 1);
insert into events values (1000, '2030-02-02', 'sub') returning tableoid::regclass::text;
insert into events_2026 values (1001, '2030-02-02', 'sub');
select * from events_2026 where id = 1000;
select * from events_2026 order by id;
update events_2026 set note = 'changed' where id = 1001;
delete from events_2026 where id = 1000;
select * from events_2026 order by id;

create table events_2035 partition of events (note default 'none', unique (id, note), check (id > 0)) for values from ('2035-01-01') to ('2036-01-01');
insert into events (id, day) values (1002, '2035-02-02');
insert into events_2035 (id, day) values (1003, '2035-02-02') returning *;
@error
insert into events values (1003, '2035-03-03', 'none');
insert into events values (-1, '2035-03-03', 'none');
@route
drop table events_2035;

create index events_note on events (note);
create unique index events_id_day_note on events (id, day, note);
alter index events_note rename to events_by_note;
drop index events_id_day_note;
alter table events add column extra int default 7;
select * from events_2026 order by id;

# A table without rows becomes a partition, in and out of a block.
create table events_2027 (like events including all);
alter table events attach partition events_2027 for values from ('2032-01-01') to ('2033-01-01');
insert into events values (2, '2032-05-05', 'attached'), (2, '2032-05-06', 'attached');
select * from events_2027 where id = 2 order by day;
begin;
create table events_2028 (like events including defaults);
alter table events attach partition events_2028 for values from ('2033-01-01') to ('2034-01-01');
insert into events values (5, '2033-05-05', 'in the block');
select * from events where id = 5 order by day;
commit;
select * from events_2028 order by id;

# One that is rolled back is no partition.
begin;
create table events_2029 (like events including all);
alter table events attach partition events_2029 for values from ('2034-01-01') to ('2035-01-01');
rollback;
@error
select * from events_2029;
@route
create table events_2029 (like events including all);
begin;
savepoint s;
alter table events attach partition events_2029 for values from ('2034-01-01') to ('2035-01-01');
rollback to s;
commit;
insert into events_2029 values (9, '2040-01-01', 'home');
select * from events_2029;
drop table events_2029;

# Detached, it is a table of its own, with its rows where they are.
alter table events detach partition events_2027;
select * from events_2027 order by id, day;
select * from events_2027 where id = 2 order by day;
insert into events_2027 values (4, '2032-07-07', 'own');
update events_2027 set note = 'mine' where id = 4;
select count(*) from events;
@conn b
select * from events_2027 order by id, day;
@conn
alter table events attach partition events_2027 for values from ('2032-01-01') to ('2033-01-01');
select count(*) from events;
@error
alter table events attach partition events_2027 for values from ('2032-01-01') to ('2033-01-01');
alter table events attach partition nosuch for values from ('2039-01-01') to ('2040-01-01');
alter table events detach partition nosuch;
create table events_2024 partition of events for values from ('2050-01-01') to ('2051-01-01');
create table overlaps partition of events for values from ('2032-01-01') to ('2033-01-01');
insert into events_2027 values (4, '2024-07-07', 'wrong partition');
@route
begin;
alter table events detach partition events_2028;
insert into events_2028 (id, day, note) values (77, '2050-01-01', 'free');
select * from events_2028 where id = 77;
rollback;
select * from events_2028 order by id;
drop table events_2028;
@error
alter table events detach partition events_2026_0;
@route
alter table events_2026 detach partition events_2026_0;
drop table events_2026_0;
@route
drop table events_2026;
select count(*) from events;

# What stays home stays home.
create table plain_parts (id int, v text) partition by list (v);
create table plain_a partition of plain_parts for values in ('a');
create table plain_b (like plain_parts);
insert into plain_b values (1, 'b');
alter table plain_parts attach partition plain_b for values in ('b');
insert into plain_parts values (2, 'a');
select * from plain_parts order by id;
alter table plain_parts detach partition plain_b;
drop table plain_parts;

# Rows of a home table would have to move.
create table full_part (like events including all);
insert into full_part values (3, '2060-01-01', 'row');
@maybe
alter table events attach partition full_part for values from ('2060-01-01') to ('2061-01-01');
@route
drop table full_part;
drop table plain_b;
create table events_2027_b (like events including all);
drop table events_2027_b;
alter table events drop column extra;
alter table events detach partition events_2027;
drop table events_2027;
drop index events_by_note;
