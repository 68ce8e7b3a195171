package routing

import (
	"slices"
	"strings"
	"testing"
)

// TestCommandsInBodies: DO, functions and procedures with commands in them change all
// shards or none.
func TestCommandsInBodies(t *testing.T) {
	w := newWorld(t, "bodies")
	w.run("create table t (k int primary key, v int, email text)", "create table o (k int, id int, primary key (k, id))", "create table home (id int primary key)",
		"create table r (id int primary key, x text)",
		"select weft.shard_table('t', 'k')", "select weft.shard_table('o', 'k')", "select weft.reference_table('r')",
		"insert into t select g, g, 'e' || g from generate_series(1, 20) g")
	count := func(what string) string { return "select count(*)::text from " + what }
	for _, tc := range []struct{ sql, check, want string }{
		{"do $$ begin create type mood as enum ('sad', 'ok'); exception when duplicate_object then null; end $$", count("pg_type where typname = 'mood'"), "1"},
		{"do $$ begin create type mood as enum ('sad', 'ok'); exception when duplicate_object then null; end $$", count("pg_type where typname = 'mood'"), "1"},
		{"alter table t add column md mood", count("pg_attribute where attname = 'md'"), "1"},
		{"do $$ begin if not exists (select 1 from pg_roles where rolname = 'body_role') then create role body_role; end if; end $$", count("pg_roles where rolname = 'body_role'"), "1"},
		{"do $$ begin if not exists (select 1 from pg_namespace where nspname = 'sx') then create schema sx; end if; end $$", count("pg_namespace where nspname = 'sx'"), "1"},
		{`do $$ begin alter table "o" add constraint "o_fk" foreign key ("k") references "public"."t"("k") on delete cascade on update no action; exception when duplicate_object then null; end $$`, count("pg_constraint where conname = 'o_fk'"), "1"},
		{`do $$ begin alter table "o" add constraint "o_fk" foreign key ("k") references "public"."t"("k"); exception when duplicate_object then null; end $$`, count("pg_constraint where conname = 'o_fk'"), "1"},
		{"do $$ begin if not exists (select from information_schema.columns where table_name = 't' and column_name = 'w') then alter table t add column w int default 5; end if; end $$", count("pg_attribute where attname = 'w'"), "1"},
		{"do $$ begin if not exists (select from pg_constraint where conname = 't_w' and conrelid = 't'::regclass) then alter table t add constraint t_w check (w > 0); end if; end $$", count("pg_constraint where conname = 't_w'"), "1"},
		{"do $$ begin if not exists (select from pg_policies where policyname = 'p') then create policy p on t using (true); end if; end $$", count("pg_policy where polname = 'p'"), "1"},
		{"do $$ begin if not exists (select from pg_indexes where indexname = 't_v') then create index t_v on t (v); end if; end $$", count("pg_class where relname = 't_v'"), "1"},
		{"do $$ begin if not exists (select from pg_indexes where indexname = 't_email') then create unique index t_email on t (email); end if; end $$", count("pg_index where indexrelid = 'public.t_email'::regclass"), "1"},
		{"do $$ begin execute 'create type dyn as (a int)'; execute format('alter type %I add attribute %I text', 'dyn', 'b'); execute 'grant usage on schema public to ' || current_user; end $$", count("pg_attribute where attrelid = 'dyn'::regclass"), "2"},
		{"do $$ begin execute format('alter database %I set app.x = %L', current_database(), 'y'); end $$", count("pg_db_role_setting where 'app.x=y' = any (setconfig)"), "1"},
		{"create function mk() returns void language plpgsql as $$ begin alter type dyn rename to dyn2; end $$", count("pg_proc where proname = 'mk'"), "1"},
		{"select mk()", count("pg_type where typname = 'dyn2'"), "1"},
		{"create procedure mkp(x int) language plpgsql as $$ begin create type dyn3 as (a int); end $$", count("pg_proc where proname = 'mkp'"), "1"},
		{"call mkp(1 + 1)", count("pg_type where typname = 'dyn3'"), "1"},
		{"create function outer_mk() returns int language plpgsql as $$ begin perform mk2(); return 5; end $$; create function mk2() returns void language sql as 'create type dyn4 as enum ()'", count("pg_proc where proname = 'mk2'"), "1"},
		{"select * from outer_mk()", count("pg_type where typname = 'dyn4'"), "1"},
		{"do $$ begin if exists (select from pg_class where relname = 'nosuch') then drop table o; end if; end $$", count("pg_class where relname = 'o'"), "1"},
		{"insert into o select g, g from generate_series(1, 20) g", "select 1::text", "1"},
		{"do $$ begin if exists (select from pg_class where relname = 'o') then drop table o; end if; end $$", count("pg_class where relname = 'o'"), "0"},
		{"create table o (k int)", "select 1::text", "1"},
		{"insert into o values (1), (2), (3)", "select 1::text", "1"},
		{"do $$ declare x text := 'create type computed as enum ()'; begin execute x; end $$", count("pg_type where typname = 'computed'"), "1"},
	} {
		w.run(tc.sql)
		w.all(tc.check, tc.want)
	}
	w.run("set role body_role", "reset role", "grant select on t to body_role", "set role body_role", "select count(*) from t", "reset role")
	w.fails("insert into t (k, email) values (100, 'e3')", "23505")
	w.alike()

	for _, tc := range []struct{ sql, want string }{
		{"do $$ begin create type mixed as enum (); create table mixed_home (a int); end $$", "0A000"},
		{"do $$ begin create type mixed as enum (); insert into home values (1); end $$", "0A000"},
		{"do $$ begin create type mixed as enum (); perform nextval('x'); end $$", "0A000"},
		{"do $$ begin if exists (select from home) then create type mixed as enum (); end if; end $$", "0A000"},
		{"do $$ begin if exists (select from pg_class where relname = 'home') then create type mixed as enum (); end if; end $$", "0A000 the shards have not done the same: type public.mixed"},
		{"do $$ begin if exists (select from pg_class where relname = 'home') then alter table t add column mixed int; end if; end $$", "0A000 the shards have not done the same: relation public.t"},
		{"do $$ begin set local search_path = sx; create table h (a int); end $$", "0A000"},
		{"do $$ begin create type mixed as enum (); commit; end $$", "0A000"},
		{"do $$ begin create index concurrently on t (v); end $$", "0A000"},
		{"do $$ begin alter table t drop column k; end $$", "0A000"},
		{"select mk() from t", "0A000"},
		{"select mk(), 1", "0A000"},
		{"explain analyze select mk()", "0A000"},
		{"create table x as select mk()", "0A000"},
		{"insert into home select 1 from mk()", "0A000"},
	} {
		w.fails(tc.sql, tc.want)
	}
	w.all(count("pg_type where typname = 'mixed'"), "0")
	w.all(count("pg_attribute where attname = 'mixed'"), "0")
	// In a block, with a savepoint, and in a text of several statements.
	w.run("begin", "create table made (a int)", "do $$ begin create type b1 as enum (); end $$", "savepoint s",
		"do $$ begin create type b2 as enum (); end $$", "rollback to s", "commit",
		"do $$ begin create type b3 as enum (); end $$; do $$ begin create type b4 as enum (); end $$")
	w.all("select string_agg(typname, ' ' order by typname) from pg_type where typname ~ '^b[1-4]$'", "b1 b3 b4")
	w.run("begin", "do $$ begin drop type b1; end $$", "rollback", "prepare p as select 1", "begin")
	w.fails("do $$ begin if exists (select from pg_class where relname = 'home') then create type mixed as enum (); end if; end $$", "0A000")
	w.fails("select 1", "25P02")
	w.run("rollback")
	w.all("select string_agg(typname, ' ' order by typname) from pg_type where typname ~ '^b[1-4]$'", "b1 b3 b4")
	w.alike()
	w.run("drop owned by body_role", "drop role body_role")
}

// TestPasswordInBody: a role that DO makes has the same password on all shards.
func TestPasswordInBody(t *testing.T) {
	w := newWorld(t, "body_password")
	w.run("create table t (k int primary key)", "select weft.shard_table('t', 'k')",
		`do $x$ begin if not exists (select from pg_roles where rolname = 'pw1') then create role pw1 login password 'it''s'; end if; execute 'create role pw2 login password ''secret'''; end $x$`)
	for _, role := range []string{"pw1", "pw2"} {
		got := w.each("select rolpassword from pg_authid where rolname = '" + role + "'")
		if got[0] == "" || slices.ContainsFunc(got, func(s string) bool { return s != got[0] || !strings.HasPrefix(s, "SCRAM-SHA-256$") }) {
			t.Errorf("%s: %q", role, got)
		}
	}
	w.fails("do 'begin create role pw3 login password ''x''; end'", "0A000")
	w.fails("do $$ begin execute format('create role %I login password %L', 'pw3', 'x'); end $$", "0A000")
	w.run("create function pw() returns void language sql as $$ create role pw3 password 'x' $$")
	w.fails("select pw()", "0A000")
	w.run("do $$ begin drop role pw1; drop role if exists pw2; end $$")
	w.all("select count(*)::text from pg_roles where rolname ~ '^pw'", "0")
}
