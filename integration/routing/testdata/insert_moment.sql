# Keys and defaults that are random, or tell the time: one time for all shards.
@setup
create table k_uuid (k uuid primary key default gen_random_uuid(), v text);
create table k_time (k timestamptz default now(), v text, at timestamptz default current_timestamp, d date default current_date);
create table k_date (k date default current_date, v text);
create table stamped (k int, v text, at timestamptz(3) default now(), t time default localtime(2), r uuid default gen_random_uuid());

@weft
select weft.shard_table('k_uuid', 'k');
select weft.shard_table('k_time', 'k');
select weft.shard_table('k_date', 'k');
select weft.shard_table('stamped', 'k');

@data
truncate k_uuid, k_time, k_date, stamped;

@mask k at r
@route
insert into k_uuid (v) values ('a'), ('b'), ('c') returning v;
insert into k_uuid values (default, 'd'), (gen_random_uuid(), 'e'), ('00000000-0000-0000-0000-000000000001', 'f') returning v;
insert into k_uuid (v) select 'sel ' || g from generate_series(1, 20) g;
select count(distinct k), count(*) from k_uuid;
insert into k_time (v) values ('a'), ('b'), ('c') returning v, k = at, k = now(), d = current_date;
insert into k_time (k, v) values (now(), 'n'), (now() + '1 day', 'n'), ('2024-01-01 00:00+00', 'n'), (clock_timestamp(), 'n'), ('today', 'n') returning v, k > '2023-01-01';
insert into k_time (v) select 'sel ' || g from generate_series(1, 5) g returning v;
select count(distinct k), count(distinct at) from k_time where v in ('a', 'b', 'c');
insert into k_date (v) values ('a'), ('b') returning k = current_date;
insert into k_date values ('today', 'a'), ('tomorrow', 'b'), ('2024-02-29', 'c'), (date '2024-01-01' + 5, 'd') returning v;
insert into stamped (k, v) values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd') returning v;
insert into stamped (k, v, at) values (11, 'a', default), (12, 'b', now()), (13, 'c', '2024-01-01 00:00+00') returning k, v;
insert into stamped (k, v) select k, 'push' from stamped;
insert into stamped (k, v) select k + 1, 'elsewhere' from stamped where v = 'push' order by k returning k, v;
select v, count(*), count(distinct at), count(distinct t), count(distinct r) from stamped where v <> 'a' and v <> 'b' and v <> 'c' group by v order by v;
select count(distinct at), count(distinct t), count(distinct r) from stamped where k <= 4 and v in ('a', 'b', 'c', 'd');
insert into stamped (k, v) values ($1, 'p'), ($2, 'p'), ($3, 'p') returning k, v, at = now()::timestamptz(3);
  -- int4:101 | int4:102 | int4:103
begin;
insert into stamped (k, v) values (201, 'one'), (202, 'one'), (203, 'one');
insert into stamped (k, v) values (204, 'one'), (205, 'one'), (206, 'one');
select count(distinct at), bool_and(at = now()::timestamptz(3)) from stamped where v = 'one';
commit;
