package planner_test

import (
	"context"
	"testing"

	"weft/catalog"
	"weft/directory"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/planner"
)

// steadyWorld declares tables t and u as sharded by id, and r as a reference table.
func steadyWorld(t *testing.T, schema *catalog.Schema) *planner.Env {
	t.Helper()
	snap := directory.New(64, "shard-0", []directory.Shard{{Name: "shard-0"}, {Name: "shard-1"}})
	for _, line := range []string{"sharded t id", "sharded u id", "reference r"} {
		planner.Declare(t, snap, schema, line)
	}
	return &planner.Env{Database: "app", Path: []string{"pg_catalog", "public"}, Home: "shard-0", Schema: schema, Tables: planner.NewTables(snap, "app")}
}

const steadySchema = `
CREATE TYPE mood AS ENUM ('glad', 'sad');
CREATE TYPE pair AS (a int, b int);
CREATE TABLE t (id bigint PRIMARY KEY, n int, at timestamptz DEFAULT now(), m mood);
CREATE TABLE u (id bigint PRIMARY KEY, p pair);
CREATE TABLE r (id int PRIMARY KEY, name text);
CREATE VIEW calm AS SELECT t.id, t.n FROM t WHERE t.n > 0;
CREATE VIEW wild AS SELECT t.id, random() AS x FROM t;
CREATE VIEW deep AS SELECT wild.id FROM wild;
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE FUNCTION lower(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE FUNCTION shout(t) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';
`

// Only queries that are proved to have one answer for all sessions of a role are steady.
func TestSteady(t *testing.T) {
	schema, err := catalog.FromDump(steadySchema)
	if err != nil {
		t.Fatal(err)
	}
	env := steadyWorld(t, schema)
	for sql, want := range map[string]bool{
		"select * from t where id = 7":                                                               true,
		"select n, at::text, m from public.t where id = $1 and n in (1, 2)":                          true,
		"select count(*), max(n), now(), current_user, current_setting('app.x') from t where id = 7": true,
		"select t.n, r.name from t join r on r.id = t.n where t.id = 7 order by 1 limit 3":           true,
		"with w as (select * from t where id = 7) select * from w":                                   true,
		"select * from (select n, row_number() over (order by n) from t where id = 7) x":             true,
		"select case n when 1 then 'a' else upper('b') end from t where id = 7":                      true,
		"select * from calm where id = 7":                                                            true,
		"select 7 = any (array[1, n]) from t where id = 7 union all select true from t where id = 7": true,
		"select to_char(at, 'YYYY'), extract(year from at) from t where id = 7":                      true,
		"select exists (select 1 from r where r.id = t.n) from t where id = 7":                       true,
		"select random() from t where id = 7":                                                        false,
		"select clock_timestamp() from t where id = 7":                                               false,
		"select gen_random_uuid() from t where id = 7":                                               false,
		"select * from t where id = 7 for update":                                                    false,
		"select * from t where id = 7 for key share":                                                 false,
		"update t set n = 1 where id = 7":                                                            false,
		"with w as (update t set n = 1 where id = 7 returning *) select * from w":                    false,
		"select pg_backend_pid() from t where id = 7":                                                false,
		"select inet_client_addr(), inet_client_port() from t where id = 7":                          false,
		"select pg_current_xact_id() from t where id = 7":                                            false,
		"select pg_current_snapshot() from t where id = 7":                                           false,
		"select txid_current() from t where id = 7":                                                  false,
		"select pg_sleep(1) from t where id = 7":                                                     false,
		"select current_query() from t where id = 7":                                                 false,
		"select currval('s') from t where id = 7":                                                    false,
		"select set_config('a.b', 'c', false) from t where id = 7":                                   false,
		"select statement_timestamp() from t where id = 7":                                           false,
		"select twice(n) from t where id = 7":                                                        false,
		"select lower('A') from t where id = 7":                                                      false,
		"select t.shout from t where id = 7":                                                         false,
		"select (t).shout from t where id = 7":                                                       false,
		"select t.random from t where id = 7":                                                        false,
		"select * from t tablesample bernoulli (50) where id = 7":                                    false,
		"select * from wild where id = 7":                                                            false,
		"select * from deep where id = 7":                                                            false,
		"select id from u where id = 7":                                                              false,
		"select n::mood from t where id = 7":                                                         false,
		"select n operator(public.=) 1 from t where id = 7":                                          false,
		"select 1":                             false,
		"select * from r":                      false,
		"explain select * from t where id = 7": false,
		"select * from t where id = 7; select * from t where id = 7":                                           false,
		"select n into x from t where id = 7":                                                                  false,
		"select t.n from t, pg_stat_activity where t.id = 7":                                                   false,
		"select xmlelement(name a) from t where id = 7":                                                        false,
		"declare c cursor for select * from t where id = 7":                                                    false,
		"select query_to_xml('select 1', true, true, '') from t where id = 7":                                  false,
		"select has_table_privilege('t', 'select') from t where id = 7":                                        false,
		"select pg_catalog.now(), pg_catalog.random() from t where id = 7":                                     false,
		"select 't'::regclass from t where id = 7":                                                             false,
		"select * from t where id = (select 7)":                                                                true,
		"values (1)":                                                                                           false,
		"select * from missing where id = 7":                                                                   false,
		"with t as (select 1 as id) select * from t":                                                           false,
		"select f.x from t, lateral (select random() as x) f where t.id = 7":                                   false,
		"select generate_series(1, n) from t where id = 7":                                                     false,
		"select n from t where id = 7 order by random()":                                                       false,
		"select count(*) filter (where random() > 0.5) from t where id = 7":                                    false,
		"select n from t where id = 7 limit (random() * 10)::int":                                              false,
		"select n, sum(n) over w from t where id = 7 window w as (partition by n order by clock_timestamp()) ": false,
		"select n from t where id = 7 group by n having random() > 0.5":                                        false,
		"select n from t where id = 7 and exists (select 1 from r where random() > 0.5)":                       false,
		"select (array[1, 2])[(random() + 1)::int] from t where id = 7":                                        false,
		"select coalesce(n, (random() * 9)::int) from t where id = 7":                                          false,
		"select jsonb_build_object('n', n, 'x', txid_current_snapshot()) from t where id = 7":                  false,
	} {
		if p := planOf(env, sql); p.Steady != want {
			t.Errorf("%s: steady is %v, want %v (%s)", sql, p.Steady, want, p)
		}
	}
	env.Path = []string{"public", "pg_catalog"}
	if planOf(env, "select * from t where id = 7").Steady {
		t.Error("a path on which built-in names come late")
	}
	env.Path, env.Temporary = []string{"pg_catalog", "public"}, map[string]bool{"r": true}
	if planOf(env, "select * from t where id = 7").Steady {
		t.Error("a session with temporary tables")
	}
}

// Code that no text names makes queries unsteady too: policies, operators and casts.
func TestSteadyStored(t *testing.T) {
	c := connect(t, pgtest.Start(t, pgserver.Config{}), "postgres")
	const query = "select n + 1 from t where id = 7"
	for _, step := range []struct {
		sql  string
		want bool
	}{
		{"create table t (id bigint primary key, n int, owner text); create table u (id bigint primary key); create table r (id int primary key)", true},
		{"alter table t enable row level security; create policy p on t using (owner = current_user and n > current_setting('app.n')::int)", true},
		{"create policy q on t for insert with check (random() > 0.5)", true},
		{"create policy o on t for select using (id in (select r.id from r where r.id > 0))", true},
		{"create policy w on t using (random() > 0.5)", false},
		{"drop policy w on t", true},
		{"create function f() returns boolean stable language sql as 'select true'; create policy w on t using (f())", false},
		{"drop policy w on t", true},
		{"create policy w on t using (pg_backend_pid() > 0)", false},
		{"alter table t disable row level security", true},
		{"create domain d as int; create function plus(d, d) returns int language sql as 'select 1'; create type y as (a int)", true},
		{"create function plus(y, int) returns int language sql as 'select 1'; create operator + (leftarg = y, rightarg = int, function = plus)", true},
		{"create function plus(bool, bool) returns int language sql as 'select 1'; create operator + (leftarg = bool, rightarg = bool, function = plus)", false},
		{"drop operator + (bool, bool)", true},
		{"create function c(y) returns int language sql as 'select 1'; create cast (y as int) with function c(y)", true},
		{"create function c(bool) returns bigint language sql as 'select 1'; create cast (bool as bigint) with function c(bool)", false},
	} {
		if _, err := c.Exec(context.Background(), step.sql); err != nil {
			t.Fatal(err)
		}
		if p := planOf(steadyWorld(t, load(t, c)), query); p.Steady != step.want {
			t.Errorf("after %s: steady is %v", step.sql, p.Steady)
		}
	}
}
