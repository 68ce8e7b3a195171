# Rows that are locked over several shards: connection b sees which, by SKIP
# LOCKED and NOWAIT.
@include shop

@setup
create table jobs (id int primary key, queue text not null default 'a', priority int, due timestamptz, words text collate "C", state text default 'new');
create table steps (job_id int, n int, what text, primary key (job_id, n));
create table tenants (id int primary key, name text not null, busy int default 0);
create table places (id int primary key, name text);

@weft
select weft.shard_table('jobs', 'id');
select weft.shard_table('steps', 'job_id');
select weft.shard_table('tenants', 'id');

@data
truncate jobs, steps, tenants, places;
insert into tenants (id, name) values (0, 'zebra'), (1, 'Apple'), (2, 'apple'), (3, 'b-b'), (4, 'bb');
insert into places values (1, 'one'), (2, 'two'), (3, 'three');
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

# Joins that no shard can answer: a row that is returned is locked, and no other.
@route
begin;
select j.id, t.name from jobs j join tenants t on t.id = j.priority order by j.id limit 3 for update of j;
@conn b
select id from jobs order by id for update skip locked;
select id from tenants order by id for update nowait;
select j.id, t.name from jobs j join tenants t on t.id = j.priority order by j.id limit 3 for update of j skip locked;
begin;
select j.id, t.name from jobs j join tenants t on t.id = j.priority order by j.id limit $1 for update of j skip locked;
  -- int8:4
@conn c
select id from jobs order by id for update skip locked;
select j.id from jobs j, tenants t where t.id = j.priority and t.name = 'apple' order by j.id desc limit 1 for no key update of j skip locked;
@conn b
rollback;
@error
select j.id, t.name from jobs j join tenants t on t.id = j.priority order by j.id limit 3 for update of j nowait;
@route
@conn
rollback;
# Both tables; some of them passed over, others waited for; all rows that match.
begin;
select j.id, t.id from jobs j join tenants t on t.id = j.priority where j.id < 4 order by 1 for update;
@conn b
select id from jobs order by id for key share skip locked;
select id from tenants order by id for key share skip locked;
select j.id, t.id as t from jobs j join tenants t on t.id = j.priority order by 1 limit 2 for update skip locked;
select j.id, t.id as t from jobs j join tenants t on t.id = j.priority order by 1 limit 2 for update of j skip locked for key share of t skip locked;
select j.id, t.id as t from jobs j join tenants t on t.id = j.priority where t.id not in (1, 2, 3) order by 1 limit 2 for update of t nowait for share of j skip locked;
@conn
rollback;
begin;
select j.id, t.id as t, j.due, j.words from jobs j left join tenants t on t.id = j.priority + 1 where j.id > $1 order by j.id limit 3 for share of j;
  -- int4:2
select t.id, s.n from tenants t join steps s on s.n = t.id order by t.id, s.job_id limit 5 for update of t;
@conn b
select id from jobs order by id for update skip locked;
select id from jobs order by id for share nowait;
select id from tenants order by id for update skip locked;
select job_id, n from steps order by 1, 2 for update nowait;
@conn
commit;
# Reference tables are locked on the home shard, home tables there too.
begin;
select j.id, p.name from jobs j join products p on p.id = j.priority order by j.id limit 2 for update;
select j.id, p.name from jobs j join places p on p.id = j.id order by j.id limit 2 for update of p;
@conn b
select id from products order by id for update skip locked;
select id from places order by id for update skip locked;
select id from jobs order by id for update skip locked;
select j.id, p.name from jobs j join products p on p.id = j.priority order by j.id limit 2 for update skip locked;
select j.id, p.name from jobs j join places p on p.id = j.id order by j.id limit 2 for update skip locked;
@conn
rollback;
# An order that only PostgreSQL knows.
begin;
select id, name from tenants order by name, id limit 2 for update;
select row(id, queue) from jobs where id < 4 order by 1 for update;
@conn b
select id from tenants order by id for update skip locked;
select id, name from tenants order by name desc, id limit 2 for update skip locked;
select id from jobs order by id for update skip locked;
@conn
rollback;
# Nothing to lock; writes of rows that were locked; what the transaction itself has written.
begin;
select j.id from jobs j join tenants t on t.id = j.priority where t.name = 'nobody' for update;
insert into tenants (id, name) values (9, 'new');
update jobs set priority = 9 where id = 7;
select j.id, t.name from jobs j join tenants t on t.id = j.priority where t.id = 9 for update;
update tenants set busy = busy + 1 where id = 9;
select j.id, t.name, t.busy from jobs j join tenants t on t.id = j.priority where t.id = 9 for update of t;
rollback;
begin isolation level repeatable read;
select id from tenants where id = 1;
@conn b
update tenants set busy = 5 where id = 3;
@conn
select j.id, t.id from jobs j join tenants t on t.id = j.priority where t.id = 1 order by 1 limit 2 for update;
@error
select j.id, t.id from jobs j join tenants t on t.id = j.priority where t.id = 3 order by 1 limit 2 for update;
@route
rollback;
with names as (select id, name from tenants) select j.id, n.name from jobs j join names n on n.id = j.priority order by 1 limit 3 for update;
select j.id, n.c from jobs j join (select n, count(*) as c from steps group by n) n on n.n = j.priority order by 1 limit 3 for update of j;
select 1 from jobs j join tenants t on t.id = j.priority limit 0 for update;
begin read only;
@error
select j.id from jobs j join tenants t on t.id = j.priority for update;
@route
rollback;
@error
select j.id from jobs j join tenants t on t.id = j.priority for update of nosuch;
select 1 / (j.id - 1) from jobs j join tenants t on t.id = j.priority order by j.id for update;
@maybe
select count(*) from jobs j join tenants t on t.id = j.priority for update;
select j.id, t.id from jobs j left join tenants t on t.id = j.priority + 1 for update;
select j.id from jobs j join tenants t on t.id = j.priority order by j.id limit 3 offset 2 for update;
select j.id, random() < 2 from jobs j join tenants t on t.id = j.priority order by j.id limit 3 for update;
select j.id from jobs j join tenants t on t.id = j.priority order by j.id fetch first 3 rows with ties for update of j;
select (select count(*) from tenants), id from jobs order by id limit 2 for update;
select id from jobs where priority in (select id from tenants) order by id limit 2 for update;

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
