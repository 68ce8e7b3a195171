# TRUNCATE of tables in all places, in one command.
@setup
create table regions (id int primary key, name text);
create table users (id serial primary key, region int references regions, name text);
create table posts (user_id int references users, id serial, body text, primary key (user_id, id));
create table settings (id serial primary key, region int references regions, v text);
create table notes (id int generated always as identity primary key, user_id int references users, v text);
create table loose (id int primary key, v text);
create table events (id int, day date not null, note text, primary key (id, day)) partition by range (day);
create table events_2024 partition of events for values from ('2024-01-01') to ('2025-01-01');
create table events_rest partition of events default;

@weft
select weft.reference_table('regions');
select weft.shard_table('users', 'id');
select weft.shard_table('posts', 'user_id');
select weft.shard_table('events', 'id');

@data
truncate regions, users, posts, settings, notes, loose, events restart identity cascade;
insert into regions select g, 'r' || g from generate_series(1, 4) g;
insert into users (region, name) select 1 + g % 4, 'u' || g from generate_series(1, 12) g;
insert into posts (user_id, body) select 1 + g % 12, 'p' || g from generate_series(1, 30) g;
insert into settings (region, v) select 1 + g % 4, 's' || g from generate_series(1, 5) g;
insert into loose select g, 'l' || g from generate_series(1, 5) g;
insert into events select g, date '2024-11-01' + g * 5, 'e' || g from generate_series(1, 20) g;

@tables

@route
truncate loose, posts;
@tables
@route
select count(*) from posts;
insert into posts (user_id, id, body) values (3, 1, 'after') returning id;

truncate table only posts, only loose continue identity;
insert into posts (user_id, id, body) values (4, 1, 'after'), (5, 2, 'after') returning user_id, id;
@tables

# Sequences restart, also those that weft draws values of in advance.
@route
truncate posts, settings restart identity;
insert into posts (user_id, body) values (4, 'first'), (5, 'second') returning user_id, id;
insert into settings (v) values ('first') returning id;
@tables

# What references them, at home and everywhere.
@error
truncate users;
truncate regions;
truncate users, posts;
truncate loose, regions, users, posts, notes;
truncate only events;
truncate events, nowhere;
truncate nowhere, events;
truncate users restrict;
@tables
@route
truncate users cascade;
@tables
@route
insert into users (id, region, name) values (1, 2, 'new');
insert into posts (user_id, body) values (1, 'new') returning body;
truncate regions, loose restart identity cascade;
@tables

@route
insert into regions values (1, 'x');
insert into users (region, name) values (1, 'a'), (1, 'b'), (1, 'c') returning id;
insert into settings (region, v) values (1, 'a') returning id;
truncate regions, users, posts, settings, notes;
@tables

# Partitions.
@route
truncate events_2024, loose;
select count(*) from events;
@tables
@route
truncate events;
@tables

# In blocks.
@route
insert into loose values (1, 'x');
insert into users (id, name) values (1, 'x'), (2, 'y'), (3, 'z');
begin;
insert into users (id, name) values (4, 'y');
savepoint s;
truncate users, loose restart identity cascade;
select count(*) from users;
insert into users (name) values ('first') returning id;
rollback to s;
select count(*) from users;
truncate loose, posts;
commit;
@tables
@route
begin;
truncate users, loose restart identity cascade;
rollback;
@tables
@route
begin;
truncate users, loose restart identity cascade;
insert into users (name) values ('in the block') returning id;
insert into loose values (9, 'z');
commit;
insert into users (name) values ('after') returning id;
@tables

# A trigger that raises an error keeps all tables as they are.
@route
create function keep() returns trigger language plpgsql as $$ begin raise exception 'kept'; end $$;
create trigger keep before truncate on posts execute function keep();
set weft.statement_triggers = 'per_shard';
@error
truncate posts, loose;
truncate users cascade;
@tables
@route
reset weft.statement_triggers;
drop trigger keep on posts;
drop function keep();
