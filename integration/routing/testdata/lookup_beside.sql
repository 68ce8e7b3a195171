# ON CONFLICT by a unique index without the shard key: the statement runs on the shard of the row in the way, which
# keeps its key, and has no other rows of the new row's key.
@setup
create table p (id int primary key, email text unique, name text, hits int not null default 0, gone bool not null default false);
create unique index p_name on p (lower(name)) where not gone;
create table o (pid int, n int, primary key (pid, n));
create table hooked (id int primary key, email text unique, hits int);
create table noted (pid int not null, what text);
create function hook() returns trigger language plpgsql as $$ begin
  insert into noted values (new.id, new.email); new.hits := (select count(*) from o where pid = new.id); return new; end $$;
create trigger hook before insert on hooked for each row execute function hook();
create table later (id int primary key, email text unique, hits int default 0);
create function after_it() returns trigger language plpgsql as 'begin insert into noted values (new.id, tg_op); return null; end';
create trigger after_it after insert or update on later for each row execute function after_it();

@weft
select weft.shard_table('p', 'id');
select weft.shard_table('o', 'pid');
select weft.shard_table('noted', 'pid');
select weft.shard_table('hooked', 'id');
select weft.shard_table('later', 'id');

@data
truncate p, o, hooked, noted, later;
insert into p select i, 'e' || i, 'N' || i from generate_series(1, 20) i;
insert into o select i, j from generate_series(1, 60) i, generate_series(1, i % 7 + 1) j;
insert into hooked select i, 'e' || i from generate_series(1, 10) i;
insert into later select i, 'e' || i from generate_series(1, 10) i;
truncate noted;

@maybe
# The key is changed, and the row leaves the index with it.
insert into p (id, email) values ($1, $2) on conflict (email) do update set id = excluded.id, email = null;
  -- int4:31 | text:e1
  -- int4:32 | text:e2
  -- int4:33 | text:e3
insert into p (id, email) values (34, 'e4') on conflict (email) do update set id = 44, email = null;
insert into p (id, email) values (35, 'e5') on conflict (email) do update set id = 45, email = null;
insert into p (id, email) values (36, 'e6') on conflict (email) do update set (email, id) = (null, 46);
insert into p (id, email) values (36, 'e6') on conflict (email) do update set (email, id) = (select null, 47);
insert into p (id, email) values (7, 'e7') on conflict (email) do update set id = excluded.id, email = null;
insert into p (id, email) values (51, 'e1'), (52, 'e2') on conflict (email) do update set id = excluded.id;
insert into p (id, name) values ($1, $2) on conflict (lower(name)) where not gone do update set id = excluded.id, gone = true;
  -- int4:61 | text:n11
  -- int4:62 | text:n12
  -- int4:63 | text:n13
insert into p (id, name) values (64, 'n14') on conflict (lower(name)) where not gone do update set id = 74, gone = true;
insert into p (id, name) values (65, 'n15') on conflict (lower(name)) where not gone do update set id = 75, gone = true;
@route
insert into p (id, email) values (38, 'e8') on conflict (email) do update set id = p.id, hits = 1 returning id;
select id, email, name, gone from p order by id;
@tables

# Rows of the new row's key.
@maybe
insert into p (id, email) values (31, 'e16')
  on conflict (email) do update set hits = 9 where exists (select 1 from o where pid = 31) returning id, hits;
insert into p (id, email) values (32, 'e17')
  on conflict (email) do update set hits = 9 where exists (select 1 from o where pid = 32) returning id, hits;
insert into p (id, email) values ($1, $2)
  on conflict (email) do update set hits = (select count(*) from o where pid = $1) returning id, hits;
  -- int4:33 | text:e18
  -- int4:34 | text:e19
  -- int4:35 | text:e20
insert into p (id, email) values (36, 'e16') on conflict (email) do update set hits = 2 returning (select count(*) from o where pid = 36);
insert into p (id, email) values (37, 'e17') on conflict (email) do update set hits = 2 returning (select count(*) from o where pid = 37);
insert into p (id, email, hits) values (38, 'e18', (select count(*) from o where pid = 38))
  on conflict (email) do update set hits = excluded.hits returning id, hits;
insert into p (id, email, hits) values (39, 'e19', (select count(*) from o where pid = 39))
  on conflict (email) do update set hits = excluded.hits returning id, hits;
insert into p (id, name) values (40, 'N20')
  on conflict (lower(name)) where not gone do update set hits = 3 returning (select count(*) from o where pid = 40);
insert into p (id, name) values (41, 'N19')
  on conflict (lower(name)) where not gone do update set hits = 3 returning (select count(*) from o where pid = 41);
with x as (select count(*) as c from o where pid = 42) insert into p (id, email) values (42, 'e16')
  on conflict (email) do update set hits = 5 returning (select c from x);
with x as (select count(*) as c from o where pid = 43) insert into p (id, email) values (43, 'e17')
  on conflict (email) do update set hits = 5 returning (select c from x);
with x as (delete from o where pid = 44 returning n) insert into p (id, email) values (44, 'e18') on conflict (email) do nothing;
with x as (delete from o where pid = 45 returning n) insert into p (id, email) values (45, 'e19') on conflict (email) do nothing;

# Two INSERTs in one statement.
with a as (insert into p (id, email) values (46, 'e16') on conflict (email) do nothing returning id)
insert into p (id, email) values (46, 'e17') on conflict (email) do nothing;
with a as (insert into p (id, email) values (47, 'e16') on conflict (email) do nothing returning id)
insert into p (id, email) values (47, 'e17') on conflict (email) do update set hits = 35;
with a as (insert into p (id, email) values (48, 'new') on conflict (email) do nothing returning id)
insert into p (id, email) values (48, 'e18') on conflict (email) do update set hits = 36;
with a as (insert into p (id, email) values (49, 'e18') on conflict (email) do update set hits = 37 returning id)
delete from p where id = 49;
with a as (insert into p (id, email) values (50, 'e19') on conflict (email) do update set hits = 38 returning id) select * from a;

# A trigger before the row is stored runs for the new row.
insert into hooked (id, email) values ($1, $2) on conflict (email) do update set hits = excluded.hits returning id, hits;
  -- int4:31 | text:e1
  -- int4:32 | text:e2
  -- int4:33 | text:e3
  -- int4:34 | text:new
insert into hooked (id, email) values ($1, $2) on conflict (email) do nothing;
  -- int4:41 | text:e4
  -- int4:42 | text:e5
  -- int4:43 | text:e6
insert into hooked (id, email) values (51, 'e4'), (52, 'e5'), (53, 'e6') on conflict do nothing;
@route
insert into hooked (id, email) values (1, 'other') on conflict (id) do update set hits = excluded.hits + 1 returning id, hits;
insert into later (id, email) values ($1, $2) on conflict (email) do update set hits = later.hits + 1 returning id, hits;
  -- int4:31 | text:e1
  -- int4:32 | text:e2
  -- int4:33 | text:e3
  -- int4:34 | text:new
select id, hits, email from hooked order by id;
@tables
