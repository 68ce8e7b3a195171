# Statements that change rows which a query inside of them has locked: the queue
# that every worker takes its next jobs from. Connection b sees what is locked.
@setup
create table jobs (id int primary key, priority int, state text not null default 'new', worker text, n int default 0);
create table steps (job_id int, n int, what text, primary key (job_id, n));
create table wishes (id int primary key, job int, granted boolean default false);
create table done (id int primary key, state text);

@weft
select weft.shard_table('jobs', 'id');
select weft.shard_table('steps', 'job_id');
select weft.shard_table('done', 'id');

@data
truncate jobs, steps, wishes, done;
insert into jobs (id, priority) select i, i % 5 from generate_series(1, 24) i;
insert into steps select i, n, 'step ' || n from generate_series(1, 24) i, generate_series(1, 2) n;
insert into wishes select i, 25 - i from generate_series(1, 6) i;

@route
# One job: its shard is the only one that is written on.
begin;
set local weft.commit = 'single';
update jobs set state = 'taken', worker = 'a' where id = (select id from jobs where state = 'new' order by id limit 1 for update skip locked) returning *;
@conn b
begin;
set local weft.commit = 'single';
update jobs set state = 'taken', worker = 'b' where id = (select id from jobs where state = 'new' order by id limit 1 for update skip locked) returning *;
@conn c
update jobs set state = 'taken', worker = 'c' where id in (select id from jobs where state = 'new' order by id limit 2 for update skip locked) returning id, worker;
@conn
commit;
@conn b
rollback;
@conn
update jobs set worker = $1 where id = (select j.id from jobs j where j.state = $2 and priority > $3 order by j.id limit $4 for update skip locked) returning id, worker;
  -- text:d | text:new | int4:2 | int8:1
  -- text:e | text:nothing | int4:2 | int8:1
  -- text:f | text:new | int4:2 | int8:0
update jobs set state = 'taken' where (select id from jobs where state = 'none' order by id limit 1 for update) = id;

# Several, in all the ways there are to say so.
begin;
delete from jobs using (select id from jobs where state = 'new' order by priority desc, id limit 3 for update skip locked) as q where q.id = jobs.id returning jobs.id, q.id as picked;
@conn b
with picked as (select id, priority from jobs where state = 'new' order by priority desc, id limit 3 for update skip locked)
  update jobs j set state = 'taken', n = p.priority from picked p where p.id = j.id returning j.id, j.n;
with picked as (select * from jobs where state = 'new' order by id limit 3 for update skip locked)
  update jobs set n = n + 1 where id in (select id from picked) returning id, n;
with picked as (select * from jobs where state = 'new' order by id limit 3 for update skip locked)
  delete from jobs j using picked where j.id = picked.id and picked.priority > 0 returning j.id;
select id from jobs where state = 'new' order by id for update skip locked;
@conn
rollback;
@conn b
select id from jobs where state = 'new' order by id for update skip locked;
@conn
update jobs set n = 5 where id in (select id from jobs where priority = 1 for update) returning id;
update jobs set n = 6 where id = any (select id from jobs where priority = 1 for no key update) and n = 5 returning id;
update jobs set n = 7 where id in (select id from (select id from jobs order by id limit 6 for update) x order by id desc limit 2) returning id;
delete from steps using (select id from jobs order by id limit 2 for update) j where steps.job_id = j.id returning *;
delete from steps where (job_id, n) in (select job_id, n from steps order by job_id, n limit 3 for update skip locked) returning job_id, n;
update jobs set n = 8 where n = (select n from jobs where id = 7 for update) and priority = 2 returning id;
update jobs set n = (select n + 10 from jobs where id = 8 for update) where id in (10, 11) returning id, n;
update jobs set n = q.n from (select max(n) as n from (select n from jobs order by id limit 4 for update) x) q where id > 20 returning id, jobs.n;

# Home tables on either side.
update wishes set granted = true where job in (select id from jobs where state = 'new' order by id desc limit 3 for update skip locked) returning id;
begin;
update jobs set worker = 'wished' where id in (select job from wishes where not granted order by id limit 2 for update skip locked) returning id;
@conn b
select id from wishes order by id for update skip locked;
@conn
commit;

# Together with other writes.
begin;
with picked as (select * from jobs where state = 'new' order by id limit 2 for update skip locked),
  gone as (delete from jobs using picked where jobs.id = picked.id returning jobs.*)
  insert into done select id, state from gone returning id;
@conn b
with next as (update jobs set state = 'taken' where id = (select id from jobs where state = 'new' order by id limit 1 for update skip locked) returning id, state)
  select * from next;
@conn
commit;
insert into done select id, state from jobs where state = 'taken' order by id limit 1 for update returning id;
with u as (update jobs set n = 30 where id in (select id from jobs where state = 'new' order by id limit 2 for update) returning id)
  update wishes set granted = false from u where job = 24 returning wishes.id;

# Rows beside the one that changes.
begin;
update jobs set n = 40 where exists (select 1 from steps s where s.job_id = jobs.id and s.n = 2 for update) and id > 18 returning id;
@conn b
select job_id, n from steps order by 1, 2 for update skip locked;
@conn
rollback;

# They fail as they do in PostgreSQL.
@error
update jobs set n = 1 where id = (select id from jobs where priority = 2 for update);
update jobs set n = 1 where id in (select id from jobs limit 1 for update of nosuch);
@route
begin;
select id from jobs order by id desc limit 2 for update;
@conn b
begin;
@error
update jobs set n = 50 where id in (select id from jobs order by id desc limit 1 for update nowait);
select 1;
@route
rollback;
update jobs set n = 50 where id in (select id from jobs order by id limit 1 for update nowait) returning id;
@conn
rollback;
begin;
savepoint s;
update jobs set n = 60 where id in (select id from jobs order by id limit 2 for update skip locked) returning id;
rollback to s;
@conn b
select id from jobs order by id limit 2 for update skip locked;
@conn
commit;
begin isolation level repeatable read;
select count(*) from jobs;
@conn b
update jobs set n = 70 where id = 20;
@conn
@error
update jobs set n = 71 where id in (select id from jobs where id > 18 order by id limit 3 for update);
@route
rollback;

@maybe
update jobs set n = 1 where id in (select nosuch from jobs for update);
update jobs set n = 1 where exists (select 1 from jobs for update);
update jobs set n = 1 where ctid in (select ctid from jobs limit 1 for update);
update jobs set n = 1 where id in (select id from jobs order by id fetch first 3 rows with ties for update);
update jobs set n = 1 where id in (select id from jobs order by state limit 24 for update);
with a as (select 3 as three) update jobs set n = 1 where id in (select id from jobs where priority = (select three from a) for update);
with unused as (select id from jobs for update) update jobs set n = 80 where id = 12 or id = 13;
update jobs set id = id + 100 where id in (select id from jobs order by id limit 2 for update);
update jobs set n = 3 where id in (select j.id from jobs j join wishes w on w.job = j.id for update);
merge into jobs using (select id from jobs order by id limit 3 for update) q on q.id = jobs.id when matched then update set n = 90;
merge into jobs using (select id + 500 as id from jobs order by id limit 3 for update) q on q.id = jobs.id when not matched then insert (id) values (q.id);
with picked as (select id, state from jobs order by id limit 2 for update) insert into done select id + 300, state from picked returning id;
update jobs set n = 4 where id in (select s.job_id from steps s where s.n = jobs.n for update);
@tables
