package routing

import (
	"slices"
	"testing"
)

// kinds are commands of every kind of object that PostgreSQL has, each on the home shard,
// on all shards or refused, and what each shard is to say then: x is the same value
// everywhere, home: "home" on the home shard and nothing else elsewhere.
var kinds = []struct{ sql, check, want string }{
	{"create type comp as (a int, b int)", "", ""},
	{"alter type comp rename attribute b to bb", "select string_agg(attname, ' ' order by attnum) from pg_attribute where attrelid = 'comp'::regclass", "a bb"},
	{"alter type comp add attribute c text, drop attribute a", "select string_agg(attname, ' ' order by attnum) from pg_attribute where attrelid = 'comp'::regclass and not attisdropped", "bb c"},
	{"comment on column comp.bb is 'x'", "select col_description('comp'::regclass, 2)", "x"},
	{"alter type comp rename to comp2", "select count(*)::text from pg_type where typname = 'comp2'", "1"},
	{"create schema extra", "", ""},
	{"alter type comp2 set schema extra", "select typnamespace::regnamespace::text from pg_type where typname = 'comp2'", "extra"},
	{"create domain dom as int check (value > 0)", "", ""},
	{"alter domain dom rename constraint dom_check to dc", "select conname from pg_constraint where contypid = 'dom'::regtype", "dc"},
	{"alter domain dom set default 3", "select typdefault from pg_type where typname = 'dom'", "3"},
	{"create role kind_owner", "", ""},
	{"grant create on schema public to kind_owner", "select has_schema_privilege('kind_owner', 'public', 'create')::text", "true"},
	{"create function ff(int) returns int language sql immutable as 'select $1'", "", ""},
	{"alter function ff(int) owner to kind_owner", "select proowner::regrole::text from pg_proc where proname = 'ff'", "kind_owner"},
	{"alter function ff(int) cost 7", "select procost::text from pg_proc where proname = 'ff'", "7"},
	{"create extension if not exists plpgsql", "", ""},
	{"alter function ff(int) depends on extension plpgsql", "select count(*)::text from pg_depend where objid = 'ff(int)'::regprocedure and deptype = 'x'", "1"},
	{"alter function ff(int) no depends on extension plpgsql", "select count(*)::text from pg_depend where objid = 'ff(int)'::regprocedure and deptype = 'x'", "0"},
	{"create aggregate agg(int) (sfunc = int4pl, stype = int)", "", ""},
	{"comment on aggregate agg(int) is 'y'", "select obj_description('agg(int)'::regprocedure, 'pg_proc')", "y"},
	{"create operator === (leftarg = int, rightarg = int, function = int4eq)", "", ""},
	{"alter operator === (int, int) set (restrict = eqsel)", "select oprrest::text from pg_operator where oprname = '==='", "eqsel"},
	{"create cast (int as extra.comp2) without function", "42P17", ""},
	{"create text search configuration tsc (copy = simple)", "", ""},
	{"alter text search configuration tsc rename to tsd", "select count(*)::text from pg_ts_config where cfgname = 'tsd'", "1"},
	{"create collation coll from \"C\"", "", ""},
	{"alter collation coll owner to kind_owner", "select collowner::regrole::text from pg_collation where collname = 'coll'", "kind_owner"},
	{"create statistics stt on k, v from t", "", ""},
	{"alter statistics stt set statistics 5", "select stxstattarget::text from pg_statistic_ext where stxname = 'stt'", "5"},
	{"create index t_ix on t (v)", "", ""},
	{"alter index t_ix rename to t_iy", "select count(*)::text from pg_class where relname = 't_iy'", "1"},
	{"alter index t_iy depends on extension plpgsql", "select count(*)::text from pg_depend where objid = 't_iy'::regclass and deptype = 'x'", "1"},
	{"alter table t set (fillfactor = 80)", "select reloptions::text from pg_class where relname = 't'", "{fillfactor=80}"},
	{"alter table t enable row level security", "select relrowsecurity::text from pg_class where relname = 't'", "true"},
	{"create policy pp on t using (true)", "", ""},
	{"alter policy pp on t rename to pq", "select polname from pg_policy", "pq"},
	{"alter table t disable row level security", "", ""},
	{"comment on table t is 'z'", "select obj_description('t'::regclass, 'pg_class')", "z"},
	{"alter default privileges in schema public grant select on tables to kind_owner", "select count(*)::text from pg_default_acl", "1"},
	{"alter default privileges in schema public revoke select on tables from kind_owner", "select count(*)::text from pg_default_acl", "0"},
	{"alter database r_kinds set work_mem = '5MB'", "select count(*)::text from pg_db_role_setting s join pg_database d on d.oid = setdatabase where datname = 'r_kinds'", "1"},
	{"alter database r_kinds reset all", "select count(*)::text from pg_db_role_setting s join pg_database d on d.oid = setdatabase where datname = 'r_kinds'", "0"},
	{"alter database r_kinds connection limit 90", "select datconnlimit::text from pg_database where datname = 'r_kinds'", "90"},
	{"grant create on database r_kinds to kind_owner", "select has_database_privilege('kind_owner', 'r_kinds', 'create')::text", "true"},
	{"alter database r_kinds owner to kind_owner", "select datdba::regrole::text from pg_database where datname = 'r_kinds'", "kind_owner"},
	{"comment on database r_kinds is 'db'", "select shobj_description(oid, 'pg_database') from pg_database where datname = 'r_kinds'", "db"},
	{"alter database r_kinds owner to current_user", "select datdba::regrole::text from pg_database where datname = 'r_kinds'", "postgres"},
	{"alter database template1 connection limit 5", "0A000", ""},
	{"grant set on parameter work_mem to kind_owner", "select count(*)::text from pg_parameter_acl", "1"},
	{"revoke set on parameter work_mem from kind_owner", "select count(*)::text from pg_parameter_acl", "0"},
	{"create publication pub for table t", "0A000", ""},
	{"create publication pub for all tables", "0A000", ""},
	{"create publication pub for tables in schema public", "0A000", ""},
	{"create publication pub for table home", "select count(*)::text from pg_publication", "home"},
	{"alter publication pub add table t", "0A000", ""},
	{"alter publication pub set table t", "0A000", ""},
	{"drop publication pub", "select count(*)::text from pg_publication", "0"},
	{"create subscription sub connection 'host=nowhere' publication p with (connect = false)", "0A000", ""},
	{"create function ev() returns event_trigger language plpgsql as $$ begin create type bad as enum (); end $$", "", ""},
	{"create event trigger evt on ddl_command_end execute function ev()", "0A000", ""},
	{"create function ev2() returns event_trigger language plpgsql as $$ begin raise notice 'x'; end $$", "", ""},
	{"create event trigger evt on ddl_command_end execute function ev2()", "select count(*)::text from pg_event_trigger where evtname = 'evt'", "home"},
	{"drop event trigger evt", "", ""},
	// Functions over rows of home tables, and those whose home table is gone.
	{"create function over(x home) returns int language sql as 'select 1'", "select count(*)::text from pg_proc where proname = 'over'", "home"},
	{"comment on function over(home) is 'h'", "", ""},
	{"alter function over(home) owner to kind_owner", "", ""},
	{"drop function over(home)", "select count(*)::text from pg_proc where proname = 'over'", "0"},
	{"create function giving() returns home[] language sql as 'select null::home[]'", "select count(*)::text from pg_proc where proname = 'giving'", "home"},
	{"drop function giving", "select count(*)::text from pg_proc where proname = 'giving'", "0"},
	{"create function holding() returns int language plpgsql as $$ declare n home[]; begin return 1; end $$", "select count(*)::text from pg_proc where proname = 'holding'", "home"},
	{"drop function holding()", "select count(*)::text from pg_proc where proname = 'holding'", "0"},
	{"create table gone (a int)", "", ""},
	{"create function of_gone() returns bigint language sql as 'select count(*) from gone'", "select count(*)::text from pg_proc where proname = 'of_gone'", "home"},
	{"drop table gone", "", ""},
	{"drop function of_gone(), ff(int)", "select count(*)::text from pg_proc where proname in ('of_gone', 'ff')", "0"},
	// Sequences that no column owns.
	{"create sequence s1", "select count(*)::text from pg_class where relname = 's1'", "home"},
	{"alter table t alter column w set default nextval('s1')", "select count(*)::text from pg_class where relname = 's1'", "1"},
	{"insert into t (k) select g from generate_series(501, 508) g", "select (count(w) = count(*))::text from t where k > 500", "true"},
	{"alter sequence s1 increment by 2 maxvalue 100000", "select concat_ws(' ', seqincrement, seqmax) from pg_sequence where seqrelid = 's1'::regclass", "2 100000"},
	{"alter sequence s1 owned by t.w", "select count(*)::text from pg_depend where objid = 's1'::regclass and deptype = 'a'", "1"},
	{"alter sequence s1 owned by none", "select count(*)::text from pg_depend where objid = 's1'::regclass and deptype = 'a'", "0"},
	{"alter sequence s1 restart with 5000", "", ""},
	{"alter sequence s1 rename to s2", "select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 't'::regclass and adnum = 3", "nextval('s2'::regclass)"},
	{"alter sequence s2 set schema extra", "select count(*)::text from pg_class where relname = 's2' and relnamespace = 'extra'::regnamespace", "1"},
	{"grant usage on sequence extra.s2 to kind_owner", "select has_sequence_privilege('kind_owner', 'extra.s2', 'usage')::text", "true"},
	{"drop sequence extra.s2", "2BP01", ""},
	{"drop schema extra cascade", "select count(*)::text from pg_attrdef where adrelid = 't'::regclass", "0"},
	{"insert into t (k) values (600), (601), (602)", "select count(w)::text from t where k >= 600", "0"},
	{"create sequence s3", "", ""},
	{"alter table t alter column w set default 5 + nextval('s3')", "", ""},
	{"drop sequence s3 cascade", "select count(*)::text from pg_attrdef where adrelid = 't'::regclass", "0"},
	// Citus takes names of columns as they are; a temporary table is its session's.
	{`create table "Camel" ("userId" int primary key)`, "", ""},
	{`select create_distributed_table('"Camel"', 'userId')`, `select count(*)::text from pg_class where relname = 'Camel'`, "1"},
	{`create temp table tempo (k int)`, "", ""},
	{`select weft.shard_table('tempo', 'k')`, "42809", ""},
	{"create table idt (k int, b bigint generated by default as identity)", "", ""},
	{"select weft.shard_table('idt', 'k')", "", ""},
	{"insert into idt (k) select g from generate_series(1, 8) g", "", ""},
	{"alter table idt alter column b type int", "select format_type(seqtypid, null) from pg_sequence where seqrelid = 'idt_b_seq'::regclass", "integer"},
	{"insert into idt (k) select g from generate_series(11, 18) g", "", ""},
	// Key columns that become wider.
	{"create table wide (k varchar(10), n numeric(6,2), v int, primary key (k, n))", "", ""},
	{"select weft.shard_table('wide', 'k, n')", "", ""},
	{"insert into wide select 'k' || g, g / 4.0, g from generate_series(1, 20) g", "", ""},
	{"alter table wide alter column k type varchar(20), alter column n type numeric(8,2)", "select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'wide'::regclass and attname = 'k'", "character varying(20)"},
	{"alter table wide alter column n type numeric", "0A000", ""},
	{"alter table wide alter column k type text, alter column n type numeric(10,2)", "select format_type(atttypid, atttypmod) from pg_attribute where attrelid = 'wide'::regclass and attname = 'k'", "text"},
	{"alter table wide alter column n type numeric(8,1)", "0A000", ""},
	{"alter table wide alter column k type varchar(10)", "0A000", ""},
	{"insert into wide values ('a key of more than twenty bytes', 1.23456, 99)", "", ""},
	{"update wide set v = 100 where k = 'a key of more than twenty bytes' and n = 1.23", "select coalesce(max(v), 100)::text from wide where v >= 99", "100"},
	{"insert into wide values ('k8', 2, 0)", "23505", ""},
	{"reassign owned by kind_owner to current_user", "select count(*)::text from pg_proc where proowner = 'kind_owner'::regrole", "0"},
	{"drop owned by kind_owner", "", ""},
	{"drop role kind_owner", "select count(*)::text from pg_roles where rolname = 'kind_owner'", "0"},
}

// TestKindsOfObjects: a command of whatever kind changes all shards, or the home shard if
// that alone has the object, or it is refused.
func TestKindsOfObjects(t *testing.T) {
	w := newWorld(t, "kinds")
	w.run("create table t (k int primary key, v int, w int)", "create table home (id int primary key)",
		"select weft.shard_table('t', 'k')", "insert into t select g, g, g from generate_series(1, 20) g")
	for _, tc := range kinds {
		switch {
		case len(tc.check) == 5:
			w.fails(tc.sql, tc.check)
		case tc.check == "":
			w.run(tc.sql)
		case tc.want == "home":
			w.run(tc.sql)
			if got := w.each(tc.check); !slices.Equal(got, []string{"1", "0", "0", "0"}) {
				t.Errorf("%s: %q, want the home shard's alone", tc.sql, got)
			}
		default:
			w.run(tc.sql)
			got := w.each(tc.check)
			if slices.ContainsFunc(got, func(s string) bool { return s != tc.want }) {
				t.Errorf("%s: %s: %q, want %q everywhere", tc.sql, tc.check, got, tc.want)
			}
		}
	}
	w.alike()
}
