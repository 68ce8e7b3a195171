# Writes to a reference table: every copy has the same rows afterwards, whatever
# was called to make them.
@include shop
@setup
create table tags (id serial primary key, name text unique, made timestamptz not null default now(), r double precision default random(),
  u uuid default gen_random_uuid(), upper_name text generated always as (upper(name)) stored);
create table codes (a int not null, b text not null, v numeric(10,2), primary key (a, b));
create table loose (a int, b text);
create table always (id bigint generated always as identity primary key, v text);
create type mood as enum ('sad', 'ok', 'happy');
create table people (name text primary key, mood mood, tags text[], data jsonb, at timestamptz, span interval, raw bytea);
create table parents (id int primary key, v text);
create table children (id int primary key, parent int references parents on delete cascade on update cascade, v text);
create table local_notes (id int primary key, tag int references tags on delete set null, body text);
@weft
select weft.reference_table('tags');
select weft.reference_table('codes');
select weft.reference_table('loose');
select weft.reference_table('always');
select weft.reference_table('people');
select weft.reference_table('parents');
select weft.reference_table('children');
@data
delete from local_notes;
delete from tags;
truncate codes, loose, always, people, parents, children restart identity cascade;

@mask id made r u stamp

@route
insert into tags (name) values ('a') returning id, name, upper_name;
insert into tags (name) values ('b'), ('c'), ('d');
insert into tags (name) select 'n' || i from generate_series(1, 5) i returning name;
insert into tags (name) values ($1) returning name, upper_name;
  -- text:p1
  -- text:p2
insert into tags default values;
insert into tags (name) values ('a') on conflict do nothing;
insert into tags (name) values ('a'), ('e') on conflict (name) do update set name = excluded.name || '!', r = random() returning name;
insert into tags as t (name) values ('b') on conflict (name) do update set r = t.r + random() where t.name = 'b' returning t.name;
insert into tags (name) values ('b') on conflict (name) do update set r = 0 where false;
select count(*), count(distinct id), count(distinct u) from tags;
@tables
@route
update tags set r = random() where name like 'n%';
update tags set r = random(), u = gen_random_uuid(), made = clock_timestamp() returning name;
update tags set name = name || 'x' where name = $1 returning name, upper_name;
  -- text:c
  -- text:nobody
update tags t set name = t.name || s.value from settings s where t.name = 'd' and s.key = 'color' returning t.name, s.value;
update tags set made = default where name = 'p1';
delete from tags where name = 'p2' returning name;
delete from tags using settings where settings.key = 'size' and tags.name = 'n5' returning tags.name, settings.value;
delete from tags where id in (select id from tags where name like 'n%' order by r limit 2);
select count(*) from tags where name like 'n%';
delete from tags where name like 'n%';
insert into tags (name) values ('n1'), ('n2'), ('n3');
select count(*) from tags where name like 'n%';
with gone as (select 'n1' as name) delete from tags where name in (select name from gone);
insert into codes values (1, 'x', 1.5), (1, 'y', 2), (2, 'x', null);
update codes set v = coalesce(v, 0) + 1 returning a, b, v;
update codes set (b, v) = ('z', 9) where a = 2;
update codes set a = a + 10 where b = 'x';
delete from codes where v > 3 returning *;
insert into codes select a, b || '2', v from codes;

insert into loose values (1, 'one'), (1, 'one'), (2, 'two'), (null, null);
update loose set b = b || '!' where a = 1 returning a, b;
update loose set a = 7 where a is null;
delete from loose where a = 2;
insert into loose select i, 'g' from generate_series(10, 12) i;

@tables
@route
insert into always (v) values ('a'), ('b') returning v;
insert into always (id, v) overriding system value values (1000, 'c') returning v;
insert into always (v) select b from codes;
update always set v = v || id where v = 'c' returning v;
delete from always where id = 1000;

insert into people values ('ann', 'happy', '{a,b}', '{"k": [1, 2]}', '2024-01-01 00:00+00', '1 day 02:03', '\x00ff'), ('bob', 'sad', null, null, now(), null, '');
insert into people (name, mood, tags) values ($1, $2::text::mood, $3) returning name, mood;
  -- text:cy | text:ok | text[]:{x,NULL,"y z"}
update people set mood = 'ok', tags = tags || array['new'], data = '{"a": 1}', span = span * 2 where name = 'ann' returning mood, tags, data, span;
update people set at = 'infinity';
delete from people where mood = 'sad' returning name;

insert into parents values (1, 'p1'), (2, 'p2');
insert into children values (1, 1, 'c1'), (2, 1, 'c2'), (3, 2, 'c3');
update parents set id = 10 where id = 1;
select parent, count(*) from children group by parent order by parent;
delete from parents where id = 2;
select count(*) from children;
@tables
@error
insert into children values (9, 99, 'no parent');
insert into parents values (10, 'again');
insert into tags (nothing) values (1);
insert into codes values (1, null, 1);
update codes set a = 'x';
@route
begin;
insert into parents values (20, 'in block');
update parents set v = v || '!' where id = 20 returning v;
select v from parents where id = 20;
savepoint s;
delete from parents;
select count(*) from parents;
rollback to s;
select count(*) from parents;
insert into orders (id, customer_id, note) values (5001, 3, 'beside');
insert into settings values ('beside', 'x');
commit;

begin;
insert into parents values (30, 'gone');
rollback;
begin;
insert into parents values (31, 'failed');
@error
insert into parents values (31, 'failed');
select 1;
@route
rollback;
select count(*) from parents where id between 30 and 31;
begin isolation level repeatable read;
insert into parents values (40, 'rr');
update parents set v = 'rr2' where id = 40;
commit;
merge into codes c using (values (1, 'y', 5.0), (3, 'n', 1.0)) as s(a, b, v) on c.a = s.a and c.b = s.b when matched then update set v = s.v when not matched then insert values (s.a, s.b, s.v);
insert into local_notes select 1, min(id), 'x' from tags;
delete from tags where name like 'a%';
select tag is null from local_notes;
truncate loose;
update codes set v = (select count(*) from orders where orders.customer_id = codes.a) returning a, b, v;
update tags t set r = o.id from orders o where t.name = 'dblue' and o.id = 101 returning t.name, o.id;
delete from codes where not exists (select from customers c where c.id = codes.a) returning a, b;
update parents set v = (select max(note) from orders where total > 0) where id = 10 returning v;
explain (costs off) insert into parents values (77);
@tables
# Tables without a key, and keys that change: every copy runs the statement, over the same rows.
insert into loose select id, region from customers where id < 6;
update loose set b = (select max(note) from orders) where a = 1;
update loose set b = b || (select count(*) from orders where customer_id = loose.a) where a < 4 returning a, b;
update loose l set b = c.name from customers c where c.id = l.a and c.active returning l.a, l.b;
update loose set b = (select value from settings where key = 'size') where a = 5 returning b;
update loose set b = (select note from orders where note is not null order by random() limit 1) where a = 3;
update loose set a = a + (select count(*) from orders)::int where a = $1 returning a;
  -- int4:2
delete from loose where a in (select id from customers where id = 4) returning a;
delete from loose using orders o where o.customer_id = loose.a and o.status = 'sent' and loose.a = 3;
delete from loose where b = (select value from settings where key = 'size') and exists (select from customers c where c.id = loose.a);
with c as (select max(id) as id from customers where id < 100) update loose set b = 'max ' || c.id from c where a > 5;
update codes set a = a + 1000 where a in (select id from customers) returning a;
update codes set b = b || 'k' where b in (select left(note, 1) from orders) or a in (select id + 1000 from customers);
merge into tags using customers c on c.name = tags.name when matched then do nothing when not matched then insert (name) values (c.name);
merge into tags t using (select name || '?' as n from customers where id < 4) c on c.n = t.name when matched then update set r = 1 when not matched then insert (id, name) values (default, c.n);
merge into tags t using (values ('v1', 1), ('v2', 2)) v (n, i) on v.n = t.name when not matched and v.i > 1 then insert (name, r) values (v.n, v.i);
merge into always a using customers c on c.name = a.v when not matched then insert (v) values (c.name);
merge into parents p using local_notes n on n.id = p.id when matched then update set v = n.body when not matched then insert values (n.id + 1000, n.body);
merge into parents p using (select o.customer_id as id, max(s.value) as v from orders o join settings s on s.key = 'size' group by 1) x on x.id = p.id when matched then delete when not matched and x.id is not null then insert values (x.id, x.v);
merge into tags t using customers c on c.name = t.name when matched and c.id > 10 then delete;
begin;
merge into tags using (select 'block ' || id as n from customers) c on c.n = tags.name when not matched then insert (name) values (c.n);
select count(*) from tags where name like 'block%';
rollback;
@tables
@error
merge into tags using customers c on c.name = tags.name when not matched then insert (name) values (1 / (c.id - c.id));
update loose set a = (select id from customers);
@tables
@simple
insert into parents values (50, 'one'); insert into parents values (51, 'two'); update parents set v = 'three' where id = 51;
@tables
