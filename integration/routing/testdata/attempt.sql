# Functions that try an INSERT, as Sequelize's findOrCreate makes them.
@setup
create type mood as enum ('sad', 'happy');
create table users (id bigserial primary key, email text unique, born timestamptz, note text default 'n', m mood[] default '{sad}', check (id <> 130));
create table kinds (id int primary key, name text);
insert into users (id, email) select i, 'u' || i from generate_series(1, 20) i;
select setval('users_id_seq', 100);

@weft
select weft.shard_table('users', 'id');
select weft.reference_table('kinds');

@simple
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (201, 'a', '2024-01-02 03:04:05+00', 'it''s "so" \, (x)') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (201, 'b', null, null) returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (202, 'u7', null, '') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
select id, email from users where id > 200 order by id;
begin;
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (203, 'c', null, '') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (203, 'c', null, '') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (204, 'u8', null, '1') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (204, 'd', null, '1') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
update users set note = 'after' where id in (203, 204, 1);
commit;
select id, email, note from users where id > 200 order by id;
begin;
savepoint weft_attempt;
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (205, 'e', null, '') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (205, 'e', null, '') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
rollback to weft_attempt;
select count(*) from users;
rollback;
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (206, 'f', null, '') on conflict do nothing returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (206, 'f', null, '') on conflict do nothing returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response users, out code text, out what text) returns record as $f$ begin insert into users (id, email, born, note) values (1, 'z', null, '') returning * into response;exception when unique_violation or check_violation then get stacked diagnostics code = returned_sqlstate, what = constraint_name; end $f$ language plpgsql; select (x.response).m, code, x.what from pg_temp.f() as x where true; drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response users, out code text, out what text) returns record as $f$ begin insert into users (id, email, born, note) values (130, 'z', null, '') returning * into response;exception when unique_violation or check_violation then get stacked diagnostics code = returned_sqlstate, what = constraint_name; end $f$ language plpgsql; select (x.response).m, code, x.what from pg_temp.f() as x where true; drop function if exists pg_temp.f();
create or replace function pg_temp.f(out made bigint, out moods mood[]) returns record as $f$ begin insert into users (email) values ('drawn') returning id, m into made, moods; end $f$ language plpgsql; select made > 100, moods from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response kinds, out trouble text) returns record as $f$ begin insert into kinds values (1, 'one') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response).name, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response kinds, out trouble text) returns record as $f$ begin insert into kinds values (1, 'one') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response).name, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
select * from kinds;

@simple error
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (130, 'g', null, '') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (207, 'h', null, '') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response).nothing from pg_temp.f(); drop function if exists pg_temp.f();
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id) values (208), (209) returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
@simple
select id from users where id > 206 order by id;
begin;
@simple error
create or replace function pg_temp.f(out response "users", out trouble text) returns record as $f$ begin insert into users (id, email, born, note) values (130, 'g', null, '') returning * into response;exception when unique_violation then get stacked diagnostics trouble = pg_exception_detail; end $f$ language plpgsql; select (f.response)."id", (f.response).email, (f.response).born, (f.response).note, f.trouble from pg_temp.f(); drop function if exists pg_temp.f();
select 1;
@simple
rollback;

@tables
