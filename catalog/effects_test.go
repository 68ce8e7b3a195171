package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/catalog"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// load asks a real server for the effects of what setup has made.
func load(t *testing.T, c *pgx.Conn) *catalog.Effects {
	t.Helper()
	results, err := c.PgConn().Exec(context.Background(), catalog.EffectsQuery).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, r := range results[0].Rows {
		var row []string
		for _, v := range r {
			row = append(row, string(v))
		}
		rows = append(rows, row)
	}
	return catalog.NewEffects(rows)
}

// TestEffects makes functions on a real server and asks which of them may
// change the session that calls them.
func TestEffects(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	srv := pgtest.Start(t, pgserver.Config{})
	c, err := pgx.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	plpgsql := func(body string) string { return "LANGUAGE plpgsql AS $f$ BEGIN " + body + " END $f$" }
	sql := func(body string) string { return "LANGUAGE sql AS $f$ " + body + " $f$" }
	for i, tc := range []struct {
		body    string
		changes bool
		unread  bool
	}{
		{plpgsql("NULL;"), false, false},
		{plpgsql("UPDATE t SET a = 1;"), false, false},
		{plpgsql("UPDATE t\nSET a = 1;"), false, false},
		{plpgsql("INSERT INTO t VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2;"), false, false},
		{plpgsql("PERFORM pg_advisory_xact_lock(1);"), false, false},
		{plpgsql("PERFORM offset_of_reset(1); PERFORM settle();"), false, false},
		{plpgsql("PERFORM set_config('a.b', 'c', false);"), true, false},
		{plpgsql("PERFORM pg_catalog.set_config('a.b', 'c', false);"), true, false},
		{plpgsql("SET work_mem = '5MB';"), true, false},
		{plpgsql("set local work_mem = '5MB';"), true, false},
		{plpgsql("NULL;\n\tSET work_mem = '5MB';"), true, false},
		{plpgsql("NULL; -- why\n SET work_mem = '5MB';"), true, false},
		{plpgsql("NULL; /* why */ RESET ALL;"), true, false},
		{plpgsql("IF true THEN SET work_mem = '5MB'; END IF;"), true, false},
		{plpgsql("IF true THEN NULL; ELSE RESET work_mem; END IF;"), true, false},
		{plpgsql("LOOP RESET work_mem; EXIT; END LOOP;"), true, false},
		{plpgsql("EXECUTE 'SET work_mem = ''5MB''';"), true, false},
		{plpgsql("EXECUTE format('SET work_mem = %L', '5MB');"), true, false},
		{plpgsql("EXECUTE $q$SET work_mem = '5MB'$q$;"), true, false},
		{plpgsql("EXECUTE $$ SET work_mem = '5MB' $$;"), true, false},
		{plpgsql("CREATE TEMP TABLE x(a int);"), true, false},
		{plpgsql("CREATE TEMPORARY TABLE x(a int);"), true, false},
		{plpgsql("EXECUTE 'CREATE TABLE pg_temp.x(a int)';"), true, false},
		{plpgsql("SELECT 1 INTO TEMP x;"), true, false},
		{plpgsql("PERFORM pg_advisory_lock(1);"), true, false},
		{plpgsql("PERFORM pg_try_advisory_lock_shared(1, 2);"), true, false},
		{plpgsql("PERFORM pg_advisory_unlock_all();"), true, false},
		{plpgsql("PERFORM setseed(0.5);"), true, false},
		{plpgsql("EXECUTE 'LISTEN x';"), true, false},
		{plpgsql("EXECUTE 'DEALLOCATE ALL';"), true, false},
		{plpgsql("EXECUTE 'PREPARE x AS SELECT 1';"), true, false},
		{plpgsql("EXECUTE 'DISCARD ALL';"), true, false},
		{plpgsql("EXECUTE 'LOAD ''x''';"), true, false},
		{plpgsql("EXECUTE 'DECLARE x CURSOR WITH  HOLD FOR SELECT 1';"), true, false},
		{sql("SELECT 1"), false, false},
		{sql("SELECT set_config('a.b', 'c', false)"), true, false},
		{sql("SET work_mem = '5MB'; SELECT 1"), true, false},
		{sql("SELECT 1; RESET work_mem"), true, false},
		{plpgsql("EXECUTE what;"), false, true},
		{plpgsql("EXECUTE 'RES' || 'ET ROLE';"), false, true},
		{plpgsql("EXECUTE format(what, 1);"), false, true},
		{plpgsql("EXECUTE format('INSERT INTO %I VALUES (1)', 'p');"), false, false},
		{plpgsql("EXECUTE 'SELECT 1 FROM ' || quote_ident('t');"), false, false},
		{plpgsql("EXECUTE $q$ UPDATE t SET a = 1 $q$;"), false, false},
	} {
		name := fmt.Sprintf("F%d", i)
		_, err := c.Exec(ctx, fmt.Sprintf("SET check_function_bodies = off; CREATE FUNCTION %q() RETURNS void %s", name, tc.body), pgx.QueryExecModeSimpleProtocol)
		if err != nil {
			t.Fatalf("%s: %v", tc.body, err)
		}
		e := load(t, c)
		if got := e.Touches([]string{fmt.Sprintf("f%d", i)}, false); (got == catalog.Touched) != tc.changes || (got == catalog.Unread) != tc.unread {
			t.Errorf("%s: %v", tc.body, got)
		}
		if e.Touches([]string{"lower"}, true) != catalog.Untouched {
			t.Errorf("%s: every write is suspected", tc.body)
		}
		if _, err := c.Exec(ctx, fmt.Sprintf("DROP FUNCTION %q", name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name, setup string
		calls       []string
		writes      bool
		touches     bool
	}{
		{"nothing", "", []string{"lower"}, true, false},
		{"a builtin's name", "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS 'BEGIN RESET ALL; END'", []string{"lower"}, true, false},
		{"who calls it", "CREATE FUNCTION g() RETURNS void LANGUAGE sql AS 'SELECT f()'; CREATE FUNCTION h() RETURNS void LANGUAGE sql AS 'SELECT public.G()'", []string{"h"}, false, true},
		{"who does not", "CREATE FUNCTION i() RETURNS int LANGUAGE sql AS 'SELECT 1'", []string{"i"}, false, false},
		{"a trigger", "CREATE FUNCTION tf() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM f(); RETURN new; END'", nil, true, true},
		{"a trigger and a read", "", nil, false, false},
		{"a view", "CREATE VIEW v AS SELECT f()::text", nil, false, true},
		{"dropped", "DROP VIEW v; DROP FUNCTION f(), g(), h(), i(), tf()", []string{"f"}, true, false},
		{"a view of a builtin", "CREATE VIEW v AS SELECT pg_advisory_lock(1)::text", nil, false, true},
		{"dropped again", "DROP VIEW v", nil, false, false},
		{"weft's own", `CREATE SCHEMA weft; CREATE TABLE w (a int);
			CREATE FUNCTION weft.noted() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN EXECUTE 'SET work_mem = 1'; RETURN NULL; END $f$;
			CREATE TRIGGER noted AFTER INSERT ON w EXECUTE FUNCTION weft.noted();
			CREATE FUNCTION weft.altered() RETURNS event_trigger LANGUAGE plpgsql AS $f$ BEGIN DROP TABLE IF EXISTS nosuch; END $f$;
			CREATE EVENT TRIGGER altered ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION weft.altered()`, nil, true, false},
		{"an event trigger and a read", `CREATE FUNCTION et() RETURNS event_trigger LANGUAGE plpgsql AS $f$ BEGIN DROP TABLE IF EXISTS nosuch; END $f$;
			CREATE EVENT TRIGGER et ON ddl_command_end WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION et()`, nil, false, false},
		{"a default", "CREATE TABLE d(a text DEFAULT set_config('a.b', 'c', false))", nil, false, true},
	} {
		if _, err := c.PgConn().Exec(ctx, tc.setup).ReadAll(); err != nil {
			t.Fatal(err)
		}
		if got := load(t, c).Touches(tc.calls, tc.writes); (got == catalog.Touched) != tc.touches {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// TestPlaceholders: the custom parameters that functions name are known.
func TestPlaceholders(t *testing.T) {
	e := catalog.NewEffects([][]string{
		{"f", "t", "f", "f", "BEGIN PERFORM set_config('App.Tenant', $1, false); SET my.other = 'x'; PERFORM set_config('work_mem', '1MB', true); END"},
		{"g", "f", "f", "f", "BEGIN RETURN current_setting('not.mine'); END"},
	})
	for _, want := range []string{"app.tenant", "my.other"} {
		if !slices.Contains(e.Placeholders, want) {
			t.Errorf("%s is not in %v", want, e.Placeholders)
		}
	}
	if slices.Contains(e.Placeholders, "not.mine") {
		t.Errorf("%v", e.Placeholders)
	}
	if none := catalog.NewEffects(nil); none.Touches([]string{"f"}, true) != catalog.Untouched || none.Placeholders != nil {
		t.Error("effects of nothing")
	}
}
