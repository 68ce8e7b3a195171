# ON CONFLICT by unique indexes of expressions, of a part of the rows, of citext, without the shard key: the row in the way is on any shard.
@setup
create extension if not exists citext;
create type status as enum ('on', 'off', 'gone');
create table people (id int primary key, email varchar(12), org int, slug text, gone date, state status not null default 'on', login citext, code char(6), n numeric(6,2), live bool, hits int not null default 0, doc jsonb);
create unique index people_email on people (lower(email));
create unique index people_upper on people (upper(code));
create unique index people_slug on people (org, lower(slug)) where gone is null and state in ('on', 'off');
create unique index people_login on people (login);
create unique index people_twice on people ((n * 2)) where live;
create unique index people_ref on people ((doc ->> 'ref'), (doc ->> 'kind'));
create table hooked (id int primary key, email text, hits int default 0);
create unique index hooked_email on hooked (lower(email));
create function hook() returns trigger language plpgsql as 'begin if new.hits = 7 then new.email := new.email || ''!''; end if; return new; end';
create trigger hook before insert on hooked for each row execute function hook();
create table days (id int, day date, tag text, live bool default true, hits int default 0, primary key (id, day)) partition by range (day);
create table days_1 partition of days for values from ('2020-01-01') to ('2021-01-01');
create table days_2 partition of days for values from ('2021-01-01') to ('2022-01-01');
create unique index days_tag on days (lower(tag), day) where live;
create view few as select id, email, org as slug, slug as org, hits from people;

@weft
select weft.shard_table('people', 'id');
select weft.shard_table('hooked', 'id');
select weft.shard_table('days', 'id');

@data
truncate people, hooked, days;
insert into people select i, 'Mail' || i, i % 4, 'S' || i, case when i % 5 = 0 then date '2020-01-01' end, case when i = 7 then 'gone' else 'on' end::status, 'Log' || i, 'c' || i, i, i % 2 = 0, 0, jsonb_build_object('ref', i, 'kind', 'k') from generate_series(1, 20) i;
insert into hooked select i, 'H' || i from generate_series(1, 20) i;
insert into days select i, date '2020-06-01' + i, 'T' || i from generate_series(1, 20) i;

@route
# An expression.
insert into people (id, email) values ($1, $2) on conflict (lower(email)) do nothing;
  -- int4:101 | text:MAIL1
  -- int4:102 | text:mail2
  -- int4:103 | text:mAil3
  -- int4:104 | text:new4
  -- int4:105 | text:NEW4
  -- int4:106 | text:NULL
  -- int4:107 | text:NULL
insert into people (id, email) values ($1, $2) on conflict (lower(email)) do update set email = excluded.email, hits = people.hits + 1 returning id, email, hits;
  -- int4:111 | text:MAIL1
  -- int4:112 | text:mail2
  -- int4:113 | text:mAil3
  -- int4:114 | text:new5
  -- int4:115 | text:NEW5
insert into people (email, id) values (lower($2), $1) on conflict ((pg_catalog.lower((email)::text))) do update set hits = people.hits + 1 where people.hits > 1 returning id;
  -- int4:116 | text:MAIL1
  -- int4:117 | text:Mail5
  -- int4:118 | text:new4
insert into people (id, email) values (121, 'MAIL1'), (122, 'new6'), (123, 'mail3'), (124, 'NEW6') on conflict (lower(email)) do nothing returning id;
insert into people (id, email) values (125, 'MAIL1'), (126, 'new7'), (127, 'mail3') on conflict (lower(email)) do update set hits = 20, email = excluded.email returning id, email;
insert into people (id, email) values ($1, $2), ($3, upper($4)) on conflict (lower(email)) do update set hits = 30 returning id;
  -- int4:131 | text:mail9 | int4:132 | text:mail8
  -- int4:133 | text:new8 | int4:134 | text:new9
@error
insert into people (id, email) values (125, 'MAIL1'), (126, 'mail1') on conflict (lower(email)) do update set hits = 21;
insert into people (id, email) values (125, 'MAIL1 is too long') on conflict (lower(email)) do nothing;
insert into people (id, email, login) values (141, 'newer', 'LOG3') on conflict (lower(email)) do nothing;
insert into people (id, email, login) values (1, 'newer', 'newer') on conflict (lower(email)) do nothing;
insert into people (id, org, slug) values (141, 2, 's2') on conflict (org, lower(slug)) do nothing;
@maybe
insert into people (id, email) values (141, 'x') on conflict (initcap(code)) do nothing;
insert into people (id, email) values (141, 'x') on conflict (lower(code)) do nothing;
insert into people (id, email) values (141, 'mail1') on conflict (lower(email) collate "default") do nothing;
insert into people (id, org, slug) values (142, 2, 's2') on conflict (org, lower(slug)) where state in ('on', 'off') and (gone is null and true) do nothing;
insert into people (id, email) values (143, 'mail' || 1) on conflict (lower(email)) do nothing;
insert into people (id, email) select 144, 'mail1' on conflict (lower(email)) do nothing;
insert into few (id, email) values (145, 'mail1') on conflict (lower(email)) do nothing;
insert into people (id, email) values (146, 'mail1'), (147, 'mail2') on conflict (lower(email)) do update set email = 'other' || excluded.id;
with one as (insert into people (id, email) values (148, 'mail1') on conflict (lower(email)) do nothing returning id) select * from one;
insert into people (id, email) values (149, 'mail1') on conflict (lower(email)) do update set hits = (select count(*) from hooked) returning hits;
@route
insert into people (id, code) values ($1, $2) on conflict (upper(code)) do update set hits = 3 returning id, code;
  -- int4:151 | text:C1
  -- int4:152 | text:c2 
  -- int4:153 | text:new
  -- int4:154 | text:NEW  

# A part of the rows.
insert into people (id, org, slug) values ($1, $2, $3) on conflict (org, lower(slug)) where gone is null and state in ('on', 'off') do update set hits = 4 returning id, slug;
  -- int4:161 | int4:1 | text:s1
  -- int4:162 | int4:2 | text:S2
  -- int4:163 | int4:3 | text:s7
  -- int4:164 | int4:0 | text:s20
  -- int4:165 | int4:0 | text:S20
  -- int4:166 | int4:NULL | text:S20
insert into people (id, org, slug, gone, state) values ($1, $2, $3, $4, $5::status) on conflict (lower(slug), org) where state in ('on', 'off') and gone is null do nothing returning id;
  -- int4:171 | int4:1 | text:s1 | date:2020-02-02 | text:on
  -- int4:172 | int4:1 | text:s1 | date:NULL | text:gone
  -- int4:173 | int4:1 | text:s1 | date:NULL | text:off
  -- int4:174 | int4:1 | text:s11 | date:NULL | text:off
insert into people (id, n, live) values ($1, $2, $3) on conflict ((n * 2)) where live do update set hits = 5 returning id, n;
  -- int4:181 | numeric:4.001 | bool:true
  -- int4:182 | numeric:4.001 | bool:false
  -- int4:183 | numeric:5 | bool:true
  -- int4:184 | numeric:5.00 | bool:true
insert into people (id, n, live) values (185, 6, true), (186, 7.5, default), (187, 7.5, true), (188, 7.50, false) on conflict ((n * 2)) where live do nothing returning id;

# citext, several expressions.
insert into people (id, login) values ($1, $2) on conflict (login) do update set hits = 6, login = excluded.login returning id, login;
  -- int4:191 | text:LOG1
  -- int4:192 | text:log2
  -- int4:193 | text:new1
  -- int4:194 | text:NEW1
insert into people (id, doc) values ($1, $2) on conflict ((doc ->> 'ref'), (doc ->> 'kind')) do update set hits = 7 returning id;
  -- int4:201 | jsonb:{"ref": 1, "kind": "k"}
  -- int4:202 | jsonb:{"kind": "k", "ref": 2}
  -- int4:203 | jsonb:{"ref": 2}
  -- int4:204 | jsonb:{"ref": 22, "kind": "z"}
  -- int4:205 | jsonb:{"ref": 22, "kind": "z"}

# Any of them.
insert into people (id, email, login, code, org, slug) values ($1, $2, $3, $4, 1, $5) on conflict do nothing returning id;
  -- int4:1 | text:any1 | text:any1 | text:any1 | text:any1
  -- int4:211 | text:MAIL11 | text:any2 | text:any2 | text:any2
  -- int4:212 | text:any3 | text:LOG12 | text:any3 | text:any3
  -- int4:213 | text:any4 | text:any4 | text:C13 | text:any4
  -- int4:214 | text:any5 | text:any5 | text:any5 | text:S9
  -- int4:215 | text:any6 | text:any6 | text:any6 | text:any6
insert into people (id, email, login) values (221, 'mail14', 'all1'), (222, 'all2', 'log15'), (223, 'all3', 'all3'), (224, 'ALL3', 'all4'), (225, 'all5', 'ALL3') on conflict do nothing returning id;

# Blocks and savepoints.
begin;
insert into people (id, email) values (231, 'block1') on conflict (lower(email)) do nothing;
insert into people (id, email) values (232, 'BLOCK1') on conflict (lower(email)) do update set hits = 9 returning id;
savepoint a;
delete from people where id = 231;
insert into people (id, email) values (233, 'Block1') on conflict (lower(email)) do update set hits = 10 returning id;
rollback to a;
insert into people (id, email) values (234, 'Block1') on conflict (lower(email)) do update set hits = people.hits + 1 returning id, hits;
update people set email = 'block2' where id = 231;
insert into people (id, email) values (235, 'Block1') on conflict (lower(email)) do nothing returning id;
commit;
begin;
insert into people (id, email) values (236, 'undone') on conflict (lower(email)) do nothing;
rollback;
insert into people (id, email) values (237, 'UNDONE') on conflict (lower(email)) do nothing returning id;
select id, email, hits, login, slug, code, n, live from people order by id;

# A trigger may store another value.
insert into hooked (id, email, hits) values ($1, $2, $3) on conflict (lower(email)) do update set hits = hooked.hits + 1 returning id, email, hits;
  -- int4:101 | text:h1 | int4:1
  -- int4:102 | text:h2 | int4:1
  -- int4:103 | text:new | int4:1
  -- int4:104 | text:NEW | int4:1
@maybe
insert into hooked (id, email, hits) values (111, 'h3', 7) on conflict (lower(email)) do nothing returning id, email;
insert into hooked (id, email, hits) values (112, 'h30', 7), (113, 'h31', 1) on conflict (lower(email)) do nothing returning id, email;

# Partitions.
@route
insert into days (id, day, tag) values ($1, $2, $3) on conflict (lower(tag), day) where live do update set hits = days.hits + 1 returning id, hits;
  -- int4:101 | date:2020-06-02 | text:t1
  -- int4:102 | date:2020-06-03 | text:t2
  -- int4:103 | date:2021-06-02 | text:t1
  -- int4:104 | date:2021-06-02 | text:T1
insert into days (id, day, tag, live) values (105, '2020-06-02', 't1', false) on conflict (lower(tag), day) where live do nothing;
select * from days order by id;
@tables
