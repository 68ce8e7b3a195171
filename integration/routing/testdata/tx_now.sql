# now() is one value in a transaction, whatever shards its statements go to: in their
# text, and in defaults. The shard that joins first tells it.
@setup
create table events (k int primary key, note text, at timestamptz default now(), day date default current_date, late timestamptz default now() + interval '1 hour');
create table numbered (id serial primary key, v int, at timestamptz not null default current_timestamp);
create table prices (id int primary key, price int, at timestamptz default now());
create table diary (id serial, what text, at timestamptz default transaction_timestamp());
create table named (k int primary key, email text unique, at timestamptz default now());
create view recent as select k, at, now() as asked from events where at <= now();

@weft
select weft.shard_table('events', 'k');
select weft.shard_table('numbered', 'id');
select weft.reference_table('prices');
select weft.shard_table('named', 'k');

@data
truncate events, numbered, diary, named;
delete from prices;
insert into events (k, note, at) select k, 'old', '2020-01-01' from generate_series(1, 8) k;

@route
begin;
insert into events (k) values (11);
insert into events (k) values (12);
insert into events (k) values (13);
insert into events (k, note) values ($1, $2) returning k, at = now() as same, late - at as hour;
  -- int4:14 | text:a
  -- int4:15 | text:b
  -- int4:16 | text:c
insert into events values (17), (18), (19);
insert into events values (20, 'given', now()), (21, 'default', default);
insert into events (k, at) select 22, now();
insert into events (k) select k + 100 from events where k in (11, 12, 13);
insert into events (k, note) values (23, 'x') on conflict (k) do update set at = now();
insert into events (k, note) values (1, 'x') on conflict (k) do update set at = now(), note = excluded.note;
insert into events (k, note) values (2, 'x') on conflict (k) do update set at = excluded.at;
insert into numbered (v) values (1);
insert into numbered (v) values (2) returning v, at = now() as same;
insert into numbered (v) values (3), (4), (5);
insert into numbered (v, at) values (6, default);
insert into diary (what) values ('home');
insert into diary (what) select 'also home';
insert into diary default values;
insert into named (k, email) values (1, 'a'), (2, 'b');
insert into named (k, email) values (3, 'c');
insert into named (k, email) values (4, 'd') returning at = now() as same;
insert into prices (id, price) values (1, 10);
insert into prices (id, price, at) values (2, 10, now()) returning at = now() as same;
update prices set at = now() where id = 2;
update events set at = now() where k = 3;
update events set at = current_timestamp where k = 4 returning at = now() as same;
update events set at = now() where k = $1;
  -- int4:5
  -- int4:6
  -- int4:7
update diary set at = now() where what = 'home';
delete from events where k = 8 and at < now() returning k, now() - now() as none;
select k, at = now() as same from events where k = 15;
select k, at = now() as same from events where k = 16 for update;
select k, asked = now() as same from recent where k in (14, 15) order by k;
select count(*), count(distinct at), bool_and(at = now()) from events where note is distinct from 'old' or k < 8;
select count(*), count(distinct at), bool_and(at = now()), bool_and(late = now() + interval '1 hour') from events where k > 10;
select count(*), bool_and(at = now()) from numbered;
select count(*), bool_and(at = now()) from diary;
select count(*), bool_and(at = now()) from named;
select count(*), bool_and(at = now()) from prices;
select count(distinct t) from (select at as t from events where k > 10 union all select at from numbered union all select at from diary union all select at from prices union all select now()) x;
select now() = transaction_timestamp() as same;
commit;
select count(distinct at) from (select at from events where k > 10 union all select at from numbered union all select at from diary union all select at from named) x;

begin;
update events set note = 'first' where k = 2;
insert into prices (id, price) values (3, 10), (4, 10);
insert into prices (id, price, at) values (5, 10, now());
update prices set at = now() where id = 1;
select count(*), bool_and(at = now()) from prices where id <> 2;
rollback;
begin;
update events set note = 'first' where k = 1;
insert into prices (id, price) values (3, 10), (4, 10);
insert into prices (id, price, at) values (5, 10, now());
update prices set at = now() where id = 1;
select count(*), bool_and(at = now()) from prices where id <> 2;
rollback;

begin;
insert into events (k) values (51);
with x as (insert into events (k) values (52) returning k, at) select k, at = now() as same from x;
with x as (insert into events (k) values (53) returning k, at) select k, at = now() as same from x;
with x as (insert into events (k) values (54) returning k, at) select k, at = now() as same from x;
rollback;

# A statement that is given the time is still one of one shard.
begin;
set local weft.scatter = off;
insert into events (k) values (51);
insert into events (k) values (52);
insert into events (k) values (53);
insert into numbered (v) values (7) returning at = now() as same;
insert into numbered (v) values (8) returning at = now() as same;
select k, at = now() as same from events where k = 51;
select k, at = now() as same from events where k = 52;
select k, at = now() as same from events where k = 53;
rollback;

# Chained, and with savepoints: each transaction has its own.
begin;
insert into events (k) values (31);
savepoint s;
insert into events (k) values (32);
insert into events (k) values (33);
rollback to s;
insert into events (k) values (34);
insert into events (k) values (35);
commit and chain;
insert into events (k) values (36);
insert into events (k) values (37);
insert into events (k) values (38);
commit;
select count(distinct at) from events where k between 31 and 35;
select count(distinct at) from events where k between 36 and 38;
select count(distinct at) from events where k between 31 and 38;

# The home shard comes late, or the clock is where nothing is stored.
begin;
select k from events where k = 2;
insert into diary (what) values ('late');
insert into events (k) values (41);
insert into events (k) values (42);
select count(distinct at) from (select at from events where k > 40 union all select at from diary where what = 'late') x;
rollback;
begin isolation level repeatable read;
insert into events (k) values (43);
insert into events (k) values (44);
insert into events (k) values (45);
select count(distinct at), bool_and(at = now()) from events where k > 40;
commit;
