# ON CONFLICT where the row in the way is on another shard, with several rows; serial
# columns; values that change hands.
@setup
create table users (id int primary key, email text unique, handle text, n int not null default 0 check (n < 100), weight numeric(6,2) unique, unique (handle));
create table tickets (id serial, tenant int, code text unique, note text, primary key (tenant, id));

@weft
select weft.shard_table('users', 'id');
select weft.shard_table('tickets', 'tenant');

@data
truncate users;
truncate tickets restart identity;
insert into users select i, 'e' || i, 'h' || i, 0, i from generate_series(1, 20) i;

@route
insert into users (id, email, n) values (101, 'e1', 1), (102, 'new2', 2), (103, 'e3', 3) on conflict (email) do nothing;
insert into users (id, email, n) values (111, 'e1', 1), (112, 'new3', 2), (113, 'e3', 3), (114, 'e1', 4) on conflict (email) do nothing returning id, n;
insert into users (id, email, n) values (121, 'e1', 1), (122, 'new4', 2), (123, 'e3', 3) on conflict (email) do update set n = users.n + excluded.n returning id, email, n;
insert into users (id, email, n) values ($1, $2, 1), ($3, $4, 2) on conflict (email) do update set n = excluded.n, email = excluded.email returning id, email, n;
  -- int4:131 | text:e5 | int4:132 | text:e6
  -- int4:133 | text:new5 | int4:134 | text:new6
  -- int4:135 | text:NULL | int4:136 | text:new6
insert into users (id, email) values (141, 'e1'), (142, 'two'), (143, 'two'), (144, null), (145, null) on conflict (email) do nothing returning id;
insert into users (id, email, handle) values (151, 'e9', 'x1'), (152, 'x2', 'h9'), (153, 'x3', 'x3'), (3, 'x4', 'x4') on conflict do nothing returning id, email, handle;
insert into users (id, email, handle) values (161, 'y1', 'h3'), (162, 'y2', 'y2') on conflict on constraint users_handle_key do update set n = 7 where users.id = 3 returning id, handle;
insert into users (id, email, handle) values (1, 'd1', 'd1'), (154, 'd1', 'd2'), (155, 'd2', 'd2'), (156, 'd3', 'd1'), (157, 'd3', 'd4') on conflict do nothing returning id, email;
@maybe
insert into users (id, weight) values (171, 1.004), (172, 3) on conflict (weight) do nothing returning id, weight;
@route
insert into users (id, weight) values (175, 3), (173, 50.5) on conflict (weight) do nothing returning id, weight;
insert into users (id, weight) values (174, 50.50) on conflict (weight) do update set n = 8 returning id, weight, n;
select id, email from users where email in ('e1', 'two', 'x2', 'x4', 'y1') order by id;
select id from users where weight = 1;
select id from users where weight = 50.5;
@error
insert into users (id, email) values (181, 'same'), (182, 'same') on conflict (email) do update set n = 1;
insert into users (id, email) values (181, 'e1'), (182, 'e1') on conflict (email) do update set n = 1;
insert into users (id, email) values (1, 'z1'), (182, 'e2') on conflict (email) do update set n = 1;
insert into users (id, email, n) values (181, 'e2', 1), (182, 'z2', 100) on conflict (email) do nothing;
insert into users (id, email, n) values (181, 'z3', 1), (182, 'e3', 2) on conflict (email) do update set n = 1000;
insert into users (id, email, handle) values (181, 'z4', 'h1'), (182, 'e3', 'z4') on conflict (email) do nothing;
@route
select count(*), sum(n) from users;
insert into users (id, email) values (181, 'z1'), (182, 'z2'), (183, 'z3'), (184, 'z4'), (185, 'same');
begin;
insert into users (id, email) values (191, 'b1'), (192, 'b2') on conflict (email) do nothing;
insert into users (id, email) values (193, 'b1'), (194, 'b3') on conflict (email) do update set n = 5 returning id;
savepoint a;
insert into users (id, email) values (195, 'b3'), (196, 'b4') on conflict (email) do update set n = 6 returning id;
rollback to a;
insert into users (id, email) values (197, 'b4'), (198, 'b2') on conflict (email) do update set n = 9 returning id;
commit;
select id, email, n from users where email in ('b1', 'b2', 'b3', 'b4') order by id;

# A serial is drawn once.
insert into tickets (tenant, code) values (1, 'a') returning id;
insert into tickets (tenant, code) values (2, 'b') returning id;
insert into tickets (tenant, code) values ($1, $2) returning id;
  -- int4:3 | text:c
  -- int4:4 | text:d
insert into tickets (tenant, code) values (5, 'e'), (6, 'f') returning id;
insert into tickets (tenant, code) values (7, 'g') on conflict (code) do nothing returning id;
insert into tickets (tenant, code) values (8, 'a') on conflict (code) do update set note = 'again' returning id, tenant;
insert into tickets (tenant, code) values (9, 'h') returning id;
@error
insert into tickets (tenant, code) values (9, 'a');
@route
insert into tickets (tenant, code) values (9, 'i'), (9, 'b'), (1, 'j') on conflict (code) do nothing returning id, code;
insert into tickets (tenant, code) values (9, 'k') returning id;

# Values change hands.
update users set email = 'moved' where id = 7;
insert into users (id, email) values (201, 'e7');
begin;
delete from users where id = 8;
insert into users (id, email) values (202, 'e8');
update users set email = 'e8x' where id = 202;
insert into users (id, email) values (8, 'e8');
commit;
with gone as (delete from users where id in (9, 10) returning id, email) select count(*) from gone;
insert into users (id, email) values (9, 'e10'), (10, 'e9');
update users set email = email || '!' where id < 20;
update users set email = 'all' || id;
@error
update users set email = 'one';
update users set email = 'all11' where id in (12, 13);
update users set email = case id when 11 then 'all12' else 'all11' end where id in (11, 12);
update users set email = 'all' || (11 + (id - 10) % 8) where id between 11 and 18;
@maybe
with x as (insert into users (id, email) values (211, 'w1') returning id) insert into users (id, email) select 212, 'w2' from x;
with x as (update users set email = 'freed' where id = 13 returning id) insert into users (id, email) values (213, 'all13');
insert into users (id, email) select 220 + i, 'all' || i from generate_series(1, 5) i on conflict (email) do nothing;
insert into users (id, email) values (231, 'e' || 1), (232, lower('E3')) on conflict (email) do nothing;
@route
select id, email from users where id > 200 order by id;
select count(*), count(distinct email) from users;
@tables
