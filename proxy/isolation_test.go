package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/wire"
)

// one is a pool with a single backend, so that two clients cannot but share
// it.
var one = pool.Config{MaxPerShard: 1, QueueTimeout: patience}

// TestNoStateIsShared lets one client leave every kind of state on the only
// backend, and another look for it. Then the first must still have it.
func TestNoStateIsShared(t *testing.T) {
	setup := `CREATE TABLE t(id serial PRIMARY KEY, v text);
		CREATE SCHEMA s1; CREATE TABLE s1.where_am_i AS SELECT 's1' AS s; CREATE TABLE where_am_i AS SELECT 'public' AS s;
		CREATE FUNCTION f_custom() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('my.v', 'secret', false); END $$;
		CREATE FUNCTION f_set() RETURNS void LANGUAGE plpgsql AS $$ BEGIN SET work_mem = '5MB'; END $$;
		CREATE FUNCTION f_dynamic() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'SET work_mem = ''5MB'''; END $$;
		CREATE FUNCTION f_computed(what text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; END $$;
		CREATE FUNCTION f_joined() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'S' || 'ET work_mem = ''5MB'''; END $$;
		CREATE FUNCTION f_dollar() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE $q$SET work_mem = '5MB'$q$; END $$;
		CREATE FUNCTION f_body() RETURNS text LANGUAGE sql BEGIN ATOMIC SELECT set_config('work_mem', '5MB', false); END;
		CREATE FUNCTION f_calls() RETURNS void LANGUAGE sql AS 'SELECT f_set()';
		CREATE FUNCTION f_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('work_mem', '5MB', false); RETURN new; END $$;
		CREATE TABLE tr(x int); CREATE TRIGGER tr BEFORE INSERT ON tr FOR EACH ROW EXECUTE FUNCTION f_trigger();
		CREATE FUNCTION f_temp() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CREATE TEMP TABLE tt AS SELECT 'secret' AS s; END $$;
		CREATE FUNCTION f_lock() RETURNS void LANGUAGE sql AS 'SELECT pg_advisory_lock(7)';
		CREATE PROCEDURE p_set() LANGUAGE plpgsql AS $$ BEGIN SET work_mem = '5MB'; COMMIT; END $$`
	db := database(t, setup)
	const (
		mem    = "SHOW work_mem"
		custom = "SELECT current_setting('my.v', true)"
		locks  = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
	)
	for _, tc := range []struct {
		name  string
		leave string // what the first client does; "extended:" sends it that way
		look  string
		mine  string // what the first client sees then and ever after
		other string // what the other one sees; "" if it must wait for a backend
		first bool   // nobody has asked weft anything before
	}{
		{"set", "SET work_mem = '5MB'", mem, "5MB", "4MB", false},
		{"set extended", "extended:SET work_mem = '5MB'", mem, "5MB", "4MB", false},
		{"set in transaction", "BEGIN; SET work_mem = '5MB'; COMMIT", mem, "5MB", "4MB", false},
		{"set rolled back", "BEGIN; SET work_mem = '5MB'; ROLLBACK", mem, "4MB", "4MB", false},
		{"set local", "BEGIN; SET LOCAL work_mem = '5MB'; COMMIT", mem, "4MB", "4MB", false},
		{"set over savepoint", "BEGIN; SET work_mem = '5MB'; SAVEPOINT a; SET work_mem = '6MB'; ROLLBACK TO a; COMMIT", mem, "5MB", "4MB", false},
		{"set after error", "BEGIN; SAVEPOINT a; SELECT 1/0;;ROLLBACK TO a;;SET work_mem = '5MB';;COMMIT", mem, "5MB", "4MB", false},
		{"set and fail", "SET work_mem = '5MB'; SELECT 1/0", mem, "4MB", "4MB", false},
		{"set_config", "SELECT set_config('work_mem', '5MB', false)", mem, "5MB", "4MB", false},
		{"update pg_settings", "UPDATE pg_settings SET setting = '5120' WHERE name = 'work_mem'", mem, "5MB", "4MB", false},
		{"set by function", "SELECT f_set()", mem, "5MB", "4MB", false},
		{"set by function at first", "SELECT f_set()", mem, "5MB", "4MB", true},
		{"set by trigger at first", "INSERT INTO tr VALUES (1)", mem, "5MB", "4MB", true},
		{"set by dynamic function", "SELECT f_dynamic()", mem, "5MB", "4MB", false},
		{"set by dollar-quoted dynamic function", "SELECT f_dollar()", mem, "5MB", "4MB", false},
		{"set by computed text", "SELECT f_computed($q$SET work_mem = '5MB'$q$)", mem, "5MB", "4MB", false},
		{"set by joined text", "SELECT f_joined()", mem, "5MB", "4MB", false},
		{"role by computed text", "SELECT f_computed('SET ROLE pg_monitor')", "SELECT current_user", "pg_monitor", "postgres", false},
		{"set by sql body", "SELECT f_body()", mem, "5MB", "4MB", false},
		{"set by function that calls", "SELECT f_calls()", mem, "5MB", "4MB", false},
		{"set by function, extended", "extended:SELECT f_set()", mem, "5MB", "4MB", false},
		{"set by procedure", "CALL p_set()", mem, "5MB", "4MB", false},
		{"set by block", "DO $$ BEGIN SET work_mem = '5MB'; END $$", mem, "5MB", "4MB", false},
		{"set by trigger", "INSERT INTO tr VALUES (1)", mem, "5MB", "4MB", false},
		{"set by prepared", "PREPARE p AS SELECT set_config('work_mem', '5MB', false); EXECUTE p", mem, "5MB", "4MB", false},
		{"set by cursor", "BEGIN; DECLARE c CURSOR FOR SELECT set_config('work_mem', '5MB', false); FETCH c; COMMIT", mem, "5MB", "4MB", false},
		{"set by explain", "EXPLAIN ANALYZE SELECT set_config('work_mem', '5MB', false)", mem, "5MB", "4MB", false},
		{"set by create table as", "CREATE TABLE made AS SELECT set_config('work_mem', '5MB', false); DROP TABLE made", mem, "5MB", "4MB", false},
		{"set by copy", "COPY (SELECT set_config('work_mem', '5MB', false)) TO STDOUT", mem, "5MB", "4MB", false},
		{"custom", "SET my.v = 'secret'", custom, "secret", "∅", false},
		{"custom local", "BEGIN; SET LOCAL my.v = 'secret'; COMMIT", custom, "", "∅", false},
		{"custom by function", "SELECT f_custom()", custom, "secret", "∅", false},
		{"custom by block", "DO $$ BEGIN PERFORM set_config('my.v', 'secret', false); END $$", custom, "secret", "∅", false},
		{"custom by computed name", "SELECT set_config('my.' || 'v', 'secret', false)", custom, "secret", "", false},
		{"custom by computed block", "DO $$ BEGIN PERFORM set_config('my.' || 'v', 'secret', false); END $$", custom, "secret", "∅", false},
		{"role", "SET ROLE pg_monitor", "SELECT current_user", "pg_monitor", "postgres", false},
		{"session authorization", "SET SESSION AUTHORIZATION pg_monitor", "SELECT session_user", "pg_monitor", "postgres", false},
		{"search_path", "SET search_path = s1, public", "SELECT s FROM where_am_i", "s1", "public", false},
		{"schema", "SET SCHEMA 's1'", "SELECT s FROM where_am_i", "s1", "public", false},
		{"time zone", "SET TIME ZONE INTERVAL '-08:30' HOUR TO MINUTE", "SELECT '2020-01-01 00:00Z'::timestamptz", "2019-12-31 15:30:00-08:30", "2020-01-01 00:00:00+00", false},
		{"names", "SET NAMES 'latin1'", "SHOW client_encoding", "LATIN1", "UTF8", false},
		{"characteristics", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SHOW transaction_read_only", "on", "off", false},
		{"statement_timeout", "SET statement_timeout = '12345ms'", "SHOW statement_timeout", "12345ms", "0", false},
		{"statement_timeout in transaction", "BEGIN; SET statement_timeout = '12345ms'; COMMIT", "SHOW statement_timeout", "12345ms", "0", false},
		{"application_name", "SET application_name = 'me'", "SHOW application_name", "me", "", false},
		{"prepare", "PREPARE p AS SELECT 'secret'", "EXECUTE p", "secret", `error 26000 prepared statement "p" does not exist`, false},
		{"prepare in block", "DO $$ BEGIN EXECUTE 'PREPARE p AS SELECT 2'; END $$", "EXECUTE p", "2", "", false},
		{"listen", "LISTEN ch", "SELECT pg_listening_channels()", "ch", "", false},
		{"temporary table", "CREATE TEMP TABLE tt AS SELECT 'secret' AS s", "SELECT s FROM tt", "secret", "", false},
		{"temporary table by function", "SELECT f_temp()", "SELECT s FROM tt", "secret", "", false},
		{"temporary table by select", "SELECT 'secret' AS s INTO TEMP tt", "SELECT s FROM tt", "secret", "", false},
		{"temporary view", "CREATE TEMP VIEW tt AS SELECT 'secret' AS s", "SELECT s FROM tt", "secret", "", false},
		{"temporary function", "CREATE FUNCTION pg_temp.tf() RETURNS text LANGUAGE sql AS 'SELECT ''secret'''", "SELECT pg_temp.tf()", "secret", "", false},
		{"advisory lock", "SELECT pg_advisory_lock(7)", locks, "1", "", false},
		{"advisory lock by function", "SELECT f_lock()", locks, "1", "", false},
		{"advisory lock of transaction", "BEGIN; SELECT pg_advisory_xact_lock(7); COMMIT", locks, "0", "0", false},
		{"cursor with hold", "DECLARE h CURSOR WITH HOLD FOR SELECT 'secret' FROM generate_series(1, 9)", "FETCH 1 FROM h", "secret", "", false},
		{"seed", "SELECT setseed(0.5)", "SELECT 1", "1", "", false},
		{"load", "LOAD 'plpgsql'", "SELECT 1", "1", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := one
			if tc.other == "" { // it will wait in vain
				p.QueueTimeout = 200 * time.Millisecond
			}
			w := startWeft(t, p)
			a, b := dial(t, w.addr, db), dial(t, w.addr, db)
			if !tc.first {
				b.exec("SELECT 1")
			}
			leave(a, tc.leave)
			for range 2 {
				if got := b.query(tc.look); got != tc.other && !(tc.other == "" && strings.HasPrefix(got, "error 53300")) {
					t.Errorf("the other client: %q, want %q", got, tc.other)
				}
				if got := a.query(tc.look); got != tc.mine {
					t.Errorf("the client itself: %q, want %q", got, tc.mine)
				}
			}
			// The end of the first must leave nothing either.
			a.send(terminate())
			deadline := time.Now().Add(patience)
			got := b.query(tc.look)
			for strings.HasPrefix(got, "error 53300") && time.Now().Before(deadline) {
				got = b.query(tc.look)
			}
			if got == tc.mine && tc.mine != tc.other && tc.look != "SELECT 1" {
				t.Errorf("after its end: %q", got)
			}
		})
	}
}

// leave runs texts parted by ";;", each as a message of its own.
func leave(c *client, text string) {
	c.tb.Helper()
	if sql, ok := strings.CutPrefix(text, "extended:"); ok {
		c.run(sql)
		return
	}
	for sql := range strings.SplitSeq(text, ";;") {
		c.query(sql)
	}
}

// TestUnnamedStatementOfAnother has a client that never parsed anything bind
// the unnamed statement, whatever was skipped before.
func TestUnnamedStatementOfAnother(t *testing.T) {
	w := startWeft(t, one)
	const missing = "error 26000 unnamed prepared statement does not exist"
	for _, before := range [][][]byte{
		{},
		{synced()},
		{bind("", "nosuch"), parse("", "SELECT 'skipped'"), synced()},
		{bind("", "nosuch"), bind("", ""), synced()},
		{bind("", ""), bind("", ""), synced()},
		{closing('S', ""), synced()},
		{parse("", "SELECT nosuch"), synced()},
		{parse("", "SELECT nosuch"), bind("", ""), synced()},
		{bind("", "nosuch"), closing('S', ""), synced()},
	} {
		a, b := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
		if got := a.run("SELECT 'secret'"); got != "secret" {
			t.Fatal(got)
		}
		if len(before) > 0 {
			b.send(before...)
			b.untilReady()
		}
		b.send(bind("", ""), execute("", 0), synced())
		if got := values(b.untilReady()); got != missing {
			t.Errorf("after %q: %q", slices.Concat(before...), got)
		}
		a.send(bind("", ""), execute("", 0), synced())
		if got := values(a.untilReady()); got != "secret" {
			t.Errorf("its owner after %q: %q", slices.Concat(before...), got)
		}
	}
}

// TestCustomParameterOfAnother has a client come back to the backend it used
// last, after another has set a custom parameter there.
func TestCustomParameterOfAnother(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 2})
	a, b := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	const ask = "SELECT current_setting('my.secret', true)"
	if got := a.query(ask); got != "∅" {
		t.Fatalf("at first: %q", got)
	}
	b.exec("SET my.secret = 'x'")
	if got := a.query(ask); got != "∅" {
		t.Errorf("after another client set it: %q", got)
	}
}

// TestListenWithOneBackend: who listens needs no backend of its own, and how
// notifications arrive does not depend on how many there are.
func TestListenWithOneBackend(t *testing.T) {
	w := startWeft(t, one)
	a, b := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	began := time.Now()
	if got := a.query("LISTEN ch"); got != "" {
		t.Fatalf("LISTEN: %s", got)
	}
	b.exec("NOTIFY ch, 'hello'")
	if got := a.until(wire.NotificationResponse); got[len(got)-1] != "Notification ch hello" {
		t.Errorf("heard %q", got)
	}
	if took := time.Since(began); pgtest.Late(t, took, time.Second) {
		t.Errorf("it took %v", took)
	}
}

// TestListenSurvivesSavepoint: an error that was rolled back to a savepoint
// does not undo what came after.
func TestListenSurvivesSavepoint(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 4})
	c := dial(t, w.addr, "postgres")
	for _, sql := range []string{"BEGIN", "SAVEPOINT a", "SELECT 1/0", "ROLLBACK TO a", "LISTEN ch", "COMMIT"} {
		c.query(sql)
	}
	if got := c.query("SELECT pg_listening_channels()"); got != "ch" {
		t.Errorf("listens to %q", got)
	}
}

// TestListenKeepsEncoding: notifications come in the database's encoding,
// whatever another client left on the backend.
func TestListenKeepsEncoding(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 4})
	utf8, latin := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	latin.exec("SET client_encoding = 'LATIN1'")
	utf8.exec("LISTEN ch")
	dial(t, w.addr, "postgres").exec("NOTIFY ch, 'é'")
	if got := utf8.until(wire.NotificationResponse); got[len(got)-1] != "Notification ch é" {
		t.Errorf("heard %q", got)
	}
}

// TestPrepareAfterFailure: a PREPARE that failed does not take the place of
// the next one.
func TestPrepareAfterFailure(t *testing.T) {
	w := startWeft(t, one)
	c := dial(t, w.addr, "postgres")
	for _, sql := range []string{"BEGIN", "SAVEPOINT a", "PREPARE bad AS SELECT nosuch", "ROLLBACK TO a", "PREPARE good AS SELECT 'good'"} {
		c.query(sql)
	}
	if got := c.query("EXECUTE good"); got != "good" {
		t.Errorf("EXECUTE good: %q", got)
	}
	c.query("COMMIT")
	if got := c.query("EXECUTE bad"); !strings.HasPrefix(got, "error 26000") {
		t.Errorf("EXECUTE bad: %q", got)
	}
}

// TestPreparedAfterDDL: a statement prepared after a change of its table is
// served, however the change came about and whatever older one of the same
// text the backend knows.
func TestPreparedAfterDDL(t *testing.T) {
	for name, change := range map[string][]string{
		"alter":                 {"ALTER TABLE t ADD COLUMN b int"},
		"in transaction":        {"BEGIN", "ALTER TABLE t ADD COLUMN b int"},
		"in block":              {"DO $$ BEGIN ALTER TABLE t ADD COLUMN b int; END $$"},
		"in block, transaction": {"BEGIN", "DO $$ BEGIN ALTER TABLE t ADD COLUMN b int; END $$"},
		"by function":           {"SELECT f_alter()"},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t, `CREATE TABLE t(a int);
				CREATE FUNCTION f_alter() RETURNS void LANGUAGE plpgsql AS $$ BEGIN ALTER TABLE t ADD COLUMN b int; END $$`)
			w := startWeft(t, one)
			c := dial(t, w.addr, db)
			round := func(name string) string {
				c.send(parse(name, "SELECT * FROM t"), describe('S', name), bind("", name), execute("", 0), synced())
				return fmt.Sprint(c.untilReady())
			}
			if got := round("old"); !strings.Contains(got, "RowDescription a:23") {
				t.Fatal(got)
			}
			for _, sql := range change {
				c.exec(sql)
			}
			if got := round("new"); !strings.Contains(got, "RowDescription a:23:4:0 b:23") {
				t.Errorf("after it: %s", got)
			}
		})
	}
}

// TestDeallocateInBlock: what a block does to the backend's statements does
// not break those of other clients.
func TestDeallocateInBlock(t *testing.T) {
	w := startWeft(t, one)
	a, b := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	a.send(parse("s", "SELECT 'kept'"), synced())
	a.untilReady()
	b.exec("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")
	a.send(bind("", "s"), execute("", 0), synced())
	if got := values(a.untilReady()); got != "kept" {
		t.Errorf("after another client's DEALLOCATE ALL: %q", got)
	}
}

// TestFailedInjection: a statement that weft makes for a client and that fails
// is the client's error, and nobody else's later.
func TestFailedInjection(t *testing.T) {
	db := database(t, "CREATE TABLE t(a int)")
	w := startWeft(t, pool.Config{MaxPerShard: 2})
	a, b, c := dial(t, w.addr, db), dial(t, w.addr, db), dial(t, w.addr, db)
	a.exec("PREPARE p AS SELECT * FROM t")
	a.exec("PREPARE q AS SELECT 'q'")
	b.exec("BEGIN") // takes the backend that knows them
	direct(t, db, "DROP TABLE t")
	for range 2 {
		if got := a.run("EXECUTE p"); !strings.HasPrefix(got, "error 42P01") {
			t.Errorf("EXECUTE p: %q", got)
		}
	}
	a.send(bind("", "nosuch"), parse("", "EXECUTE q"), bind("", ""), execute("", 0), synced())
	a.untilReady()
	if got := a.run("EXECUTE q"); got != "q" {
		t.Errorf("EXECUTE q: %q", got)
	}
	if got := c.run("LISTEN x"); got != "" {
		t.Errorf("LISTEN by another client: %q", got)
	}
}

// TestSwitchThatFails: a client whose role is gone cannot be given a backend
// as it wants it, and is told so once and for all.
func TestSwitchThatFails(t *testing.T) {
	db := database(t, "CREATE ROLE doomed")
	w := startWeft(t, one)
	a, b := dial(t, w.addr, db), dial(t, w.addr, db)
	a.exec("SET ROLE doomed")
	b.exec("SELECT 1")
	direct(t, db, "DROP ROLE doomed")
	a.send(query("RESET ROLE"))
	m, err := a.read()
	if severity, _ := wire.ErrorField(m.body, 'S'); err != nil || severity != "FATAL" {
		t.Errorf("RESET ROLE: %v %v", m, err)
	}
	if got := b.query("SELECT current_user"); got != "postgres" {
		t.Errorf("the other client: %q", got)
	}
}

// TestHiddenEffects: what changes a session need not stand in its text.
func TestHiddenEffects(t *testing.T) {
	const f = `CREATE FUNCTION f(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('work_mem', $1, false); RETURN $1; END $$;`
	for name, tc := range map[string]struct{ setup, sql string }{
		"view":             {"CREATE VIEW v AS SELECT set_config('work_mem', '5MB', false)", "SELECT * FROM v"},
		"view of function": {f + "CREATE VIEW v AS SELECT f('5MB')", "SELECT * FROM v"},
		"view of view":     {f + "CREATE VIEW v0 AS SELECT f('5MB'); CREATE VIEW v AS SELECT * FROM v0", "TABLE v"},
		"default":          {"CREATE TABLE d(x text DEFAULT set_config('work_mem', '5MB', false), y int)", "INSERT INTO d(y) VALUES (1)"},
		"default function": {f + "CREATE TABLE d(x text DEFAULT f('5MB'), y int)", "INSERT INTO d(y) VALUES (1)"},
		"operator":         {f + "CREATE OPERATOR ### (RIGHTARG = text, FUNCTION = f)", "SELECT ### '5MB'::text"},
		"check":            {f + "CREATE TABLE d(y text CHECK (f(y) IS NOT NULL))", "INSERT INTO d VALUES ('5MB')"},
		"rule":             {f + "CREATE TABLE d(y text); CREATE RULE r AS ON INSERT TO d DO ALSO SELECT f('5MB')", "INSERT INTO d VALUES ('x')"},
		"domain":           {f + "CREATE DOMAIN dom AS text CHECK (f(value) IS NOT NULL)", "SELECT '5MB'::dom"},
		"aggregate": {
			`CREATE FUNCTION f(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('work_mem', '5MB', false); RETURN $1; END $$;
			CREATE AGGREGATE agg(text) (SFUNC = f, STYPE = text, INITCOND = '')`, "SELECT agg('x')",
		},
		"policy": {
			f + `CREATE TABLE d(y text); INSERT INTO d VALUES ('5MB'); ALTER TABLE d ENABLE ROW LEVEL SECURITY; ALTER TABLE d FORCE ROW LEVEL SECURITY;
			CREATE POLICY p ON d USING (f(y) IS NOT NULL); GRANT SELECT ON d TO pg_monitor; GRANT EXECUTE ON FUNCTION f TO pg_monitor`,
			"SET LOCAL ROLE pg_monitor; SELECT * FROM d",
		},
		"cast": {
			`CREATE TYPE ct AS (a int);
			CREATE FUNCTION f(ct) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('work_mem', '5MB', false); RETURN 'x'; END $$;
			CREATE CAST (ct AS text) WITH FUNCTION f(ct)`, "SELECT row(1)::ct::text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(t, tc.setup)
			w := startWeft(t, one)
			a, b := dial(t, w.addr, db), dial(t, w.addr, db)
			b.exec("SELECT 1")
			a.exec(tc.sql)
			if got := b.query("SHOW work_mem"); got != "4MB" {
				t.Errorf("another client: %s", got)
			}
			if got := a.query("SHOW work_mem"); got != "5MB" {
				t.Errorf("the client itself: %s", got)
			}
		})
	}
}

// TestSignalsWithOneBackend: naming an idle session does not wait for a
// backend that will not come.
func TestSignalsWithOneBackend(t *testing.T) {
	w := startWeft(t, pool.Config{MaxPerShard: 1, QueueTimeout: 10 * time.Second})
	a, b := dial(t, w.addr, "postgres"), dial(t, w.addr, "postgres")
	began := time.Now()
	got := a.query(fmt.Sprintf("SELECT pg_cancel_backend(%d)", b.pid))
	if took := time.Since(began); pgtest.Late(t, took, 3*time.Second) {
		t.Errorf("%q after %v", got, took)
	}
}
