# Rows that are locked over several shards: connection b sees which, by SKIP
# LOCKED and NOWAIT.
@include shop

@setup
create table jobs (id int primary key, queue text not null default 'a', priority int, due timestamptz, words text collate "C", state text default 'new');
create table steps (job_id int, n int, what text, primary key (job_id, n));

@weft
select weft.shard_table('jobs', 'id');
select weft.shard_table('steps', 'job_id');

@data
truncate jobs, steps;
insert into jobs (id, priority, due, words) select i, i % 5, timestamptz '2026-01-01' + i * interval '1 h', chr(122 - i) from generate_series(1, 20) i;
insert into steps select i, n, 'step ' || n from generate_series(1, 20) i, generate_series(1, 2) n;

@route
# All rows that match.
begin;
select id from jobs where priority = 3 order by id for update;
@conn b
select id from jobs order by id for update skip locked;
@error
select id from jobs order by id for update nowait;
select id from jobs where priority = 3 for share nowait;
@route
select id from jobs where priority = 3 order by id for key share skip locked;
select id from jobs where priority = 2 order by id for update nowait;
@conn
commit;
@conn b
select id from jobs order by id for update nowait;
@conn

# The first ones: no others stay locked.
begin;
select id, state from jobs order by id limit 5 for update;
@conn b
select id from jobs order by id for update skip locked;
@conn
commit;
begin;
select id from jobs order by due desc, id limit 3 offset 2 for update;
@conn b
select id from jobs order by id for update skip locked;
@conn
rollback;
begin;
select id, priority from jobs order by priority desc nulls last, id limit 6 for no key update;
select words from jobs order by words limit 2 for share;
@conn b
select id from jobs order by id for update skip locked;
select id from jobs order by id for key share skip locked;
select id from jobs order by id for share skip locked;
@conn
rollback;
begin;
select id from jobs order by id limit $1 offset $2 for update;
  -- int8:3 | int8:1
  -- int8:1 | int8:18
  -- int8:0 | int8:3
@conn b
select id from jobs order by id for update skip locked;
@conn
rollback;
begin;
select id from jobs order by id limit 0 for update;
select id from jobs order by id limit 3 for update;
select id from jobs order by id limit 4 for update;
select id from jobs where id > 10 order by id limit 100 for update;
@conn b
select id from jobs order by id for update skip locked;
@conn
rollback;
begin;
select id from jobs order by id offset 15 for update;
@conn b
select id from jobs order by id for update skip locked;
@conn
rollback;

# SKIP LOCKED: a queue. Each worker gets the next ones.
begin;
select id from jobs order by id limit 4 for update skip locked;
@conn b
begin;
select id from jobs order by id limit 4 for update skip locked;
@conn c
begin;
select id from jobs order by priority, id limit 5 for update skip locked;
@conn d
select id from jobs order by id for update skip locked;
@conn
update jobs set state = 'done' where id in (1, 2, 3, 4);
commit;
@conn b
rollback;
@conn d
select id from jobs order by id for update skip locked;
select id, state from jobs where state = 'new' order by id limit 3 for update skip locked;
@conn c
select id from jobs order by id limit 7 for update skip locked;
@conn d
select id from jobs order by id for update skip locked;
@conn c
commit;
@conn

# NOWAIT looks at no row that is not wanted.
begin;
select id from jobs where id in (5, 6, 7) order by id limit 3 for update;
@conn b
select id from jobs order by id limit 4 for update nowait;
select id from jobs order by id desc limit 4 for update nowait;
select id from jobs order by id limit 4;
@error
select id from jobs order by id limit 5 for update nowait;
@route
begin;
select id from jobs order by id limit 2 for update nowait;
@error
select id from jobs order by id limit 5 for update nowait;
select 1;
@route
rollback;
select id from jobs order by id limit 4 for update nowait;
@conn
rollback;

# Any rows: so many.
begin;
select 1 as one from jobs limit 7 for update;
@conn b
select 1 as one from jobs limit 100 for update skip locked;
begin;
select 1 as one from jobs limit 9 for update skip locked;
select 1 as one from jobs limit 30 offset 3 for update skip locked;
@conn c
select 1 as one from jobs limit 100 for update skip locked;
@conn b
rollback;
@conn
rollback;

# Savepoints give locks back.
begin;
select id from jobs order by id limit 2 for update;
savepoint s;
select id from jobs order by id desc limit 2 for update;
@conn b
select id from jobs order by id for update skip locked;
@conn
rollback to s;
@conn b
select id from jobs order by id for update skip locked;
@conn
update jobs set state = 'x' where id = 1;
commit;
select id, state from jobs order by id limit 3 for update;

# Joins.
begin;
select j.id, s.n from jobs j join steps s on s.job_id = j.id order by j.id, s.n limit 3 for update of j;
select j.id, s.n from jobs j join steps s on s.job_id = j.id where j.id > 5 order by j.id desc, s.n limit 3 for update of s;
@conn b
select id from jobs order by id for update skip locked;
select job_id, n from steps order by 1, 2 for update skip locked;
@conn
rollback;
begin;
select j.id, s.n from jobs j, steps s where s.job_id = j.id order by j.id, s.n limit 3 for update;
@conn b
select id from jobs order by id for update skip locked;
select job_id, n from steps order by 1, 2 for update skip locked;
@conn
commit;
begin;
select i.customer_id, i.id, p.name from order_items i join products p on p.id = i.product_id order by 1, 2 limit 4 for update of i;
@conn b
select customer_id, id from order_items order by 1, 2 for update skip locked;
select id from products order by id for update skip locked;
@conn
commit;
begin;
select i.customer_id, i.id, p.name from order_items i join products p on p.id = i.product_id order by 1, 2 for share of i;
@conn b
select id from products order by id for update nowait;
@error
select id from order_items where customer_id = 3 for update nowait;
@route
@conn
commit;

# Repeatable read.
begin isolation level repeatable read;
select id from jobs order by id limit 3 for update;
@conn b
update jobs set priority = 9 where id = 10;
@conn
select id from jobs order by id limit 9 for update;
@error
select id from jobs order by id limit 10 for update;
@route
rollback;
# Who locks rows on some shards and writes on one needs no two phases.
begin;
set local weft.commit = 'single';
select id from jobs where id = 1 for update;
select id from jobs where id = 2 for update;
select id from jobs where id = 3 for no key update;
select id from jobs where id = 4 for share;
select id from jobs order by id limit 8 for update;
select id from jobs where priority = 2 order by id for update;
update jobs set state = 'alone' where id = 5;
commit;
select id, state from jobs where state = 'alone' order by id for update;
begin isolation level repeatable read;
set local weft.read = 'atomic';
select id from jobs order by id limit 3 for update;
commit;
@error
select id from jobs order by id limit 1 for update of nosuch;
@route
begin read only;
@error
select id from jobs order by id limit 1 for update;
@route
rollback;

@maybe
select id from jobs order by id limit -1 for update;
select id from jobs order by nosuch limit 1 for update;
select count(*) from jobs for update;
select id from jobs order by state, id limit 3 for update;
select j.id from jobs j join settings s on s.key = 'size' order by 1 limit 2 for update of j;
select i.id, p.name from order_items i join products p on p.id = i.product_id order by i.customer_id, i.id for update;
select * from (select id from jobs order by id limit 3 for update) x order by id;
update jobs set state = 'taken' where id = (select id from jobs order by id limit 1 for update skip locked) returning id;
select id from jobs order by id fetch first 3 rows with ties for update;
@tables
