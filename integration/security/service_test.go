package security_test

import (
	"testing"
	"time"

	"weft/pgserver/pgtest"
)

// TestRoleSettingsAreCopied: what a role has made its search_path is a name on the other
// shards too, and no text of a superuser's.
func TestRoleSettingsAreCopied(t *testing.T) {
	w := keeper(t)
	c := connect(t, w, "mallory", malloryPassword, "dbname="+keep)
	admin := connect(t, w, "postgres", "", "dbname="+keep)
	// A DO runs on the home shard alone, or is refused: then the shard itself is told.
	for _, path := range []string{
		"public,a;ALTER/**/ROLE/**/mallory/**/SUPERUSER;--", `public,"x""y; ALTER ROLE mallory SUPERUSER; --"`, "public,a';ALTER/**/ROLE/**/mallory/**/SUPERUSER;--", `public,a\';select/**/1`,
	} {
		c.say("DO $$ BEGIN PERFORM set_config('search_path'," + literal(path) + ", true); EXECUTE 'ALTER ROLE mallory SET search_path FROM CURRENT'; END $$")
		onDatabase(t, 0, keep, "BEGIN; SELECT set_config('search_path', "+literal(path)+", true); ALTER ROLE mallory SET search_path FROM CURRENT; COMMIT")
		onDatabase(t, 0, keep, "ALTER ROLE mallory SET app.note = "+literal(path))
		admin.must("CREATE TABLE inv(id bigint PRIMARY KEY)")
		admin.must("SELECT weft.shard_table('inv', 'id')")
		noneClimbed(t, path)
		const ask = "SELECT substr(c, 10) FROM pg_db_role_setting, unnest(setconfig) c WHERE setrole = 'mallory'::regrole AND setdatabase = 0 AND starts_with(c, 'app.note=')"
		if got := onDatabase(t, 1, keep, ask); got != path {
			t.Errorf("app.note is %q, not %q", got, path)
		}
		admin.must("DROP TABLE inv")
		for i := range world.target.Shards() {
			onShard(t, i, "ALTER ROLE mallory RESET ALL")
		}
	}
}

// TestServiceTrustsNoDatabase: what the owner of a database has set for everybody who
// connects, and operators in the way of PostgreSQL's own, do not reach weft's own
// connections: they neither run nor stop its work.
func TestServiceTrustsNoDatabase(t *testing.T) {
	w := keeper(t)
	const database = "hostile"
	for i := range world.target.Shards() {
		onShard(t, i, "CREATE DATABASE "+database+" OWNER builder")
	}
	admin := connect(t, w, "postgres", "", "dbname="+database)
	admin.must("CREATE TABLE pairs(id bigint PRIMARY KEY, n int)")
	admin.must("SELECT weft.shard_table('pairs', 'id')")
	admin.must("INSERT INTO pairs SELECT g, 0 FROM generate_series(1, 20) g")
	admin.must("GRANT SELECT, UPDATE ON pairs TO writer")
	for i := range world.target.Shards() {
		onDatabase(t, i, database, `SET SESSION AUTHORIZATION builder; CREATE SCHEMA evil;
			CREATE FUNCTION evil.pwn() RETURNS void LANGUAGE plpgsql AS $$ BEGIN IF (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) session_user)
				AND pg_catalog.current_setting('application_name') OPERATOR(pg_catalog.<>) 'test' THEN EXECUTE 'ALTER ROLE builder SUPERUSER'; END IF; END $$;
			CREATE FUNCTION evil.eq(text, text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.pwn(); RETURN $1 OPERATOR(pg_catalog.=) $2; END $$;
			CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.eq);
			CREATE FUNCTION evil.neq(name, name) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.pwn(); RETURN $1 OPERATOR(pg_catalog.=) $2; END $$;
			CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.neq);
			CREATE FUNCTION evil.lt(timestamptz, timestamptz) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.pwn(); RETURN $1 OPERATOR(pg_catalog.<) $2; END $$;
			CREATE OPERATOR evil.< (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = evil.lt);
			CREATE FUNCTION evil.mul(int, float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.pwn(); RETURN $1::float8 OPERATOR(pg_catalog.*) $2; END $$;
			CREATE OPERATOR evil.* (LEFTARG = int, RIGHTARG = float8, FUNCTION = evil.mul);
			CREATE FUNCTION evil.cat(text, oid) RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.pwn(); RETURN $1 OPERATOR(pg_catalog.||) $2::text; END $$;
			CREATE OPERATOR evil.|| (LEFTARG = text, RIGHTARG = oid, FUNCTION = evil.cat);
			CREATE FUNCTION evil.pg_prepared_xacts() RETURNS void LANGUAGE sql AS 'SELECT evil.pwn()';
			GRANT USAGE ON SCHEMA evil TO PUBLIC`)
		all := "SET SESSION AUTHORIZATION builder"
		for _, set := range []string{
			"search_path = evil, pg_catalog, public", "default_transaction_read_only = on", "default_transaction_isolation = 'serializable'", "default_transaction_deferrable = on",
			"statement_timeout = 1", "lock_timeout = 1", "idle_in_transaction_session_timeout = 1", "row_security = off", "standard_conforming_strings = off",
			"bytea_output = escape", "DateStyle = 'German'", "transform_null_equals = on", "client_encoding = 'LATIN1'", "quote_all_identifiers = on", "idle_session_timeout = 1",
		} {
			all += "; ALTER DATABASE " + database + " SET " + set
		}
		if got := onDatabase(t, i, database, all); got != "" {
			t.Fatal(got)
		}
	}
	// There are rows to sweep, and weft's connections are all new.
	for i := range world.target.Shards() {
		onDatabase(t, i, database, "SET search_path = pg_catalog; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		if got := onDatabase(t, i, database, `SET search_path = pg_catalog; BEGIN ISOLATION LEVEL READ COMMITTED NOT DEFERRABLE;
			INSERT INTO weft.decision (gid, participants, proof) SELECT 'weft:' || g, '', pg_catalog.left(weft.proof(o.key, ''), 16) FROM weft.own o, pg_catalog.generate_series(1, 20) g; COMMIT`); got != "" {
			t.Fatal(got)
		}
	}
	// The decisions have been swept: weft can write there.
	for until := time.Now().Add(pgtest.Patience); ; time.Sleep(200 * time.Millisecond) {
		left := 0
		for i := range world.target.Shards() {
			if onDatabase(t, i, database, "SELECT pg_catalog.count(*) FROM weft.decision") != "0" {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("decisions are left: weft's own connections cannot write")
		}
	}
	noneClimbed(t, "settings of a database")
}

// TestNobodyKeepsTheGate: a login without rights cannot lock what transactions of several shards go through, in any mode that
// keeps them out, by whatever way, nor name it, and they go on beside it.
func TestNobodyKeepsTheGate(t *testing.T) {
	w := keeper(t)
	writer := connect(t, w, "writer", victimPassword, "dbname="+keep)
	builder := connect(t, w, "builder", victimPassword, "dbname="+keep)
	builder.must("CREATE OR REPLACE FUNCTION built.does(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; RETURN 1; END $$")
	builder.must("GRANT USAGE ON SCHEMA built TO PUBLIC")
	commit := func(beside string) {
		t.Helper()
		began := time.Now()
		if got := writer.say("UPDATE users SET secret = 'a' WHERE id IN (1, 2, 3, 4, 5, 6)"); got != "" {
			t.Errorf("beside %s: %s", beside, got)
		}
		if d := time.Since(began); pgtest.Late(t, d, 2*time.Second) { // a guard comes after 5
			t.Errorf("beside %s: a commit took %v", beside, d)
		}
	}
	commit("nobody") // and the gate is there
	refused := func(c *client, what string) {
		t.Helper()
		if got := c.say(what); got != "42501" && got != "0A000" && got != "25P02" {
			t.Errorf("%s: %q", what, got)
		}
	}
	for _, mode := range []string{"SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"} {
		for _, gate := range []string{"weft.gate", "weft_gate.gate"} {
			lock := "LOCK TABLE " + gate + " IN " + mode + " MODE"
			for _, hold := range []string{
				lock,
				"DO $$ BEGIN " + lock + "; END $$",
				"DO $$ BEGIN EXECUTE '" + lock + "'; END $$",
				"SELECT built.does('" + lock + "')",
			} {
				c := connect(t, w, "mallory", malloryPassword, "dbname="+keep)
				c.must("BEGIN")
				refused(c, hold)
				commit(hold)
				_ = c.conn.Close(t.Context())
			}
		}
	}
	// Nor in any other mode, and nobody can make others wait by waiting for it: some commands ask for the lock first and for
	// the right to it afterwards.
	for _, what := range []string{
		"LOCK TABLE weft_gate.gate IN ACCESS SHARE MODE", "LOCK TABLE weft_gate.gate IN ROW EXCLUSIVE MODE", "SELECT FROM weft_gate.gate", "INSERT INTO weft_gate.gate DEFAULT VALUES",
		"PREPARE held AS INSERT INTO weft_gate.gate DEFAULT VALUES", "CREATE TEMP VIEW held AS SELECT FROM weft_gate.gate", "COMMENT ON TABLE weft_gate.gate IS NULL", "CREATE STATISTICS pg_temp.held ON a, b FROM weft_gate.gate",
		"CREATE RULE held AS ON INSERT TO weft_gate.gate DO NOTHING", "CREATE TRIGGER held AFTER INSERT ON weft_gate.gate EXECUTE FUNCTION suppress_redundant_updates_trigger()",
		"CREATE TEMP TABLE held (a int REFERENCES weft_gate.gate)", "CREATE TEMP TABLE held () INHERITS (weft_gate.gate)", "ALTER TABLE weft_gate.gate ADD a int", "TRUNCATE weft_gate.gate", "DROP TABLE weft_gate.gate",
		"SELECT weft.enter(NULL)", "SELECT weft.enter(repeat(''0'', 64))",
	} {
		c := connect(t, w, "mallory", malloryPassword, "dbname="+keep)
		c.must("BEGIN")
		refused(c, "DO $$ BEGIN EXECUTE '"+what+"'; END $$")
		commit(what)
		_ = c.conn.Close(t.Context())
	}
	// The gate of older proxies is not in the way of anybody, whatever is done to it, and holds no row.
	c := connect(t, w, "mallory", malloryPassword, "dbname="+keep)
	if got := c.say("DO $$ BEGIN EXECUTE 'INSERT INTO weft.gate DEFAULT VALUES'; END $$"); got != "23514" && got != "42501" && got != "0A000" {
		t.Errorf("a row: %q", got)
	}
	c.must("BEGIN")
	c.say("DO $$ BEGIN EXECUTE 'PREPARE held AS INSERT INTO weft.gate DEFAULT VALUES'; END $$")
	waits := connect(t, w, "mallory", malloryPassword, "dbname="+keep)
	done := make(chan string, 1)
	go func() {
		done <- waits.say("DO $$ BEGIN EXECUTE 'CREATE RULE held AS ON INSERT TO weft.gate DO NOTHING'; END $$")
	}()
	time.Sleep(200 * time.Millisecond)
	commit("one that waits at the gate of older proxies")
	c.say("ROLLBACK")
	if got := <-done; got == "" {
		t.Error("somebody else's table has got a rule")
	}
}

// TestForgedDecisions: rows of others among weft's decisions are in nobody's way, also if they
// have the names of transactions that are being committed, and go soon.
func TestForgedDecisions(t *testing.T) {
	w := keeper(t)
	writer := connect(t, w, "writer", victimPassword, "dbname="+keep)
	const forge = `DO $$ DECLARE p text := (SELECT substring(pg_get_constraintdef(oid) from '''([0-9a-f]{16})''') FROM pg_constraint WHERE conname = 'decision_database'); BEGIN
		INSERT INTO weft.decision(gid, participants, proof) SELECT 'weft:x:y:' || to_hex(g) || ':shard-0', '', p FROM generate_series(1, 2000) g; END $$`
	mallory := connect(t, w, "mallory", malloryPassword, "dbname="+keep)
	mallory.must("BEGIN")
	if got := mallory.say(forge); got == "" {
		if got := writer.say("UPDATE users SET secret = 'b' WHERE id IN (1, 2, 3, 4, 5, 6)"); got != "" {
			t.Errorf("beside an open transaction: %s", got)
		}
	}
	mallory.say("COMMIT")
	for until := time.Now().Add(pgtest.Patience); ; time.Sleep(200 * time.Millisecond) {
		left := 0
		for i := range world.target.Shards() {
			if onDatabase(t, i, keep, "SELECT count(*) FROM weft.decision WHERE starts_with(gid, 'weft:x:')") != "0" {
				left++
			}
		}
		if left == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("forged rows are left")
		}
	}
	for i := range world.target.Shards() {
		// Also one of the same name, whoever has guessed or seen it.
		const twice = `INSERT INTO weft.decision(gid, participants, proof) SELECT 'weft:x:twice', '', p || n FROM
			(SELECT substring(pg_get_constraintdef(oid) from '''([0-9a-f]{16})''') FROM pg_constraint WHERE conname = 'decision_database') c(p), generate_series(1, 2) n`
		if got := onDatabase(t, i, keep, twice); got != "" {
			t.Errorf("shard %d: a forged row of the same name is in the way: %s", i, got)
		}
		if got := onDatabase(t, i, keep, "SELECT count(*) FROM pg_prepared_xacts WHERE gid ~ '^weft:[^:]*:[^:]*:[0-9a-f]{1,31}:'"); got != "0" {
			t.Errorf("shard %d: a name that can be guessed", i)
		}
	}
}
