package routing

import (
	"fmt"
	"strings"
	"testing"

	"weft/integration/pair"
)

// TestKeysInTriggers: a trigger that has given NEW, OLD or a variable another key, in
// whatever words, does not touch rows by it; one that has not runs as in PostgreSQL.
func TestKeysInTriggers(t *testing.T) {
	db := database(t, "trigger_keys")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table t (k int primary key, v int, w bigint)", "create table log (k int, what text, n int default 0)", "create table r (id int primary key, x text)",
		"insert into t select g, g, g from generate_series(1, 20) g", "insert into log select g, 'first' from generate_series(1, 20) g", "insert into r select g, 'x' from generate_series(1, 8) g",
		"create procedure five(inout a int) language plpgsql as 'begin a := 5; end'", "create procedure look(a int) language plpgsql as 'begin perform a; end'",
		"create function tf() returns trigger language plpgsql as 'begin return null; end'", "create trigger a after update on t for each row execute function tf()",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{"select weft.shard_table('t', 'k')", "select weft.shard_table('log', 'k')", "select weft.reference_table('r')"} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	const insert, update = "; insert into log values (new.k, 'new')", "; update log set n = n + 1 where k = x"
	for _, test := range []struct {
		declare, body string
		runs          bool
	}{
		{"", "null" + insert, true},
		{"x int := new.k;", "null" + update, true},
		{"x int; n int;", "x := old.k; select count(*) into n from log where k = x" + update, true},
		{"x int := new.k; y record;", "for y in select * from log where k = x loop update log set n = n + 1 where k = x; end loop", true},
		{"x int := new.k;", "new.v := 7; select 8 into new.w" + insert + update, true},
		{"x int := new.k;", "call look(new.v)" + update, true},
		{"", "select 5 into new.k" + insert, false},
		{"", "new := row(5, 1, 1)" + insert, false},
		{"a alias for new;", "a.k := 5" + insert, false},
		{"", `new."k" := 5` + insert, false},
		{"", "call five(new.k)" + insert, false},
		{"a alias for new;", "call five(a.k)" + insert, false},
		{"", "select id, id, id into new from r where id = 5" + insert, false},
		{"", "for new in select id, id, id from r loop insert into log values (new.k, 'new'); end loop", false},
		{"", "execute 'select 5' into new.k" + insert, false},
		{"", "get diagnostics new.k = row_count" + insert, false},
		{"c cursor for select id, id, id from r;", "open c; fetch c into new; close c" + insert, false},
		{"", "select 5 into old.k; delete from log where k = old.k", false},
		{"x int := new.k;", "call five(x)" + update, false},
		{"x int := new.k;", "call five(a => x)" + update, false},
		{"x int := new.k; y alias for x;", "y := 5" + update, false},
		{"x int := new.k;", "<<b>> declare z int; begin x := 5; end" + update, false},
		{"x int := new.k;", "select 5 into x" + update, false},
		{"x int := new.k;", "foreach x in array array[5, 6] loop update log set n = 3 where k = x; end loop", false},
		{"x int := new.k;", "for x in 5..6 loop update log set n = 3 where k = x; end loop", false},
	} {
		p.Both(t, "function", "create or replace function tf() returns trigger language plpgsql as $$ <<top>> declare "+test.declare+" begin "+test.body+"; return null; end $$")
		for _, sql := range []string{"update t set v = v + 1", "update t set v = v + 1 where k in (3, 4)", "update t set v = v + 1 where k = 7"} {
			wrong, _, got := p.Run(pair.Simple, sql, nil)
			if wrong != "" || got.Refused() == test.runs {
				t.Errorf("%s: %s: %s%s", test.body, sql, wrong, got.Message)
			}
		}
	}
	pair.SameTables(t, db, nil)
	pair.Verified(t, p.Weft.Conn)
}

// TestRowsOfNamesakes: a variable of a trigger function whose type may be that of a temporary table, or of one in another schema, is not taken for the
// row: PL/pgSQL fills it by place.
func TestRowsOfNamesakes(t *testing.T) {
	db := database(t, "trigger_namesakes")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table tasks (tenant int primary key, id int)", "create table log (tenant int, id int)", "create schema s2",
		"create function tf() returns trigger language plpgsql as 'declare r tasks; k tasks.tenant%type; begin r := new; k := new.tenant; insert into log values (r.tenant, r.id), (k, 0); return null; end'",
		"create trigger a after insert on tasks for each row execute function tf()",
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{"select weft.shard_table('log', 'tenant')", "select weft.shard_table('tasks', 'tenant')"} {
		declare(t, p, pair.Statement{SQL: sql})
	}
	const insert = "insert into public.tasks values (%d, %d)"
	next := 0
	runs := func(want bool) {
		t.Helper()
		for range 3 {
			next++
			wrong, _, got := p.Run(pair.Simple, fmt.Sprintf(insert, next, next+50), nil)
			if wrong != "" || got.Refused() == want {
				t.Errorf("%d: %s%s", next, wrong, got.Message)
			}
		}
	}
	runs(true)
	p.Both(t, "temporary", "create temporary table tasks (id int, tenant int)")
	runs(false)
	p.Both(t, "temporary", "drop table pg_temp.tasks")
	runs(true)
	for _, sql := range []string{"create type s2.tasks as (id int, tenant int)", "create table s2.tasks (id int, tenant int)"} {
		p.Both(t, "namesake", sql)
		p.Both(t, "namesake", "set search_path = s2, public")
		runs(false)
		p.Both(t, "namesake", "reset search_path")
		p.Both(t, "namesake", strings.Join(append([]string{"drop"}, strings.Fields(sql)[1:3]...), " "))
	}
	runs(true)
	pair.SameTables(t, db, nil)
	pair.Verified(t, p.Weft.Conn)
}
