package security_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/auth"
	"weft/integration/harness"
)

// keep is a database with tables that have lookups: what weft keeps in schema weft, and
// its functions, are what the attacks of these tests go at.
const keep = "keep"

var keeping struct {
	sync.Once
	target *harness.Target
}

// keeper makes the database and returns a weft that mallory, who may do nothing in
// it, and writer, who may write its tables, are let into.
func keeper(t *testing.T) *harness.Target {
	t.Helper()
	shards(t)
	keeping.Do(func() {
		for i := range world.target.Shards() {
			onShard(t, i, "CREATE DATABASE "+keep)
			onShard(t, i, "CREATE ROLE writer LOGIN PASSWORD '"+world.victim+"'; CREATE ROLE builder LOGIN PASSWORD '"+world.victim+"'")
			onDatabase(t, i, keep, "CREATE SCHEMA IF NOT EXISTS built AUTHORIZATION builder; GRANT CREATE ON DATABASE "+keep+" TO builder")
		}
		admin := connect(t, world.target, "postgres", "", "dbname="+keep)
		admin.must("CREATE TABLE users(id bigint PRIMARY KEY, email text UNIQUE, secret text)")
		admin.must("SELECT weft.shard_table('users', 'id')")
		admin.must("CREATE TABLE orders(id bigint, user_id bigint, note text, PRIMARY KEY (user_id, id))")
		admin.must("SELECT weft.shard_table('orders', 'user_id')")
		admin.must("INSERT INTO users SELECT g, 'u' || g || '@x.org', 'secret' || g FROM generate_series(1, 20) g")
		admin.must("GRANT SELECT, INSERT, UPDATE, DELETE ON users, orders TO writer")
	})
	return start(t, []auth.User{
		{Name: "mallory", Password: world.mallory},
		{Name: "writer", Password: world.victim},
		{Name: "builder", Password: world.victim},
	})
}

// onDatabase runs SQL in a database of a shard itself, as the superuser, and returns its
// last value.
func onDatabase(tb testing.TB, shard int, database, sql string) string {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	// Whatever the database's owner has set.
	const plain = " statement_timeout=0 idle_session_timeout=0 default_transaction_read_only=off application_name=test"
	c, err := pgx.Connect(ctx, world.target.Shards()[shard].ConnString(database)+plain)
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close(ctx)
	return (&client{tb: tb, conn: c.PgConn()}).say(sql)
}

// noneClimbed fails if a shard has made somebody a superuser, and takes it back.
func noneClimbed(t *testing.T, how string) {
	t.Helper()
	const roles = "('mallory', 'writer', 'builder', 'victim', 'helper')"
	for i := range world.target.Shards() {
		if got := askShard(t, i, "SELECT coalesce(string_agg(rolname, ','), '') FROM pg_roles WHERE rolsuper AND rolname IN "+roles); got != "" {
			t.Errorf("%s: %s is a superuser on shard %d", how, got, i)
			for _, r := range strings.Split(got, ",") {
				onShard(t, i, "ALTER ROLE "+r+" NOSUPERUSER")
			}
		}
	}
}

// TestDefinersTrustNoPath: every function of weft's that runs with its owner's rights
// names the path it looks things up in, and temporary objects come last in it: where pg_temp is
// not named it comes first.
func TestDefinersTrustNoPath(t *testing.T) {
	keeper(t)
	for i := range world.target.Shards() {
		ctx := t.Context()
		c, err := pgx.Connect(ctx, world.target.Shards()[i].ConnString("app"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := c.Query(ctx, "SELECT datname FROM pg_database WHERE datallowconn")
		if err != nil {
			t.Fatal(err)
		}
		databases, err := pgx.CollectRows(rows, pgx.RowTo[string])
		_ = c.Close(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, db := range databases {
			const bad = `SELECT coalesce(string_agg(p.oid::regprocedure::text, ' '), '') FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
				WHERE n.nspname = 'weft' AND (p.prosecdef OR p.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype))
				AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)`
			if got := onDatabase(t, i, db, bad); got != "" {
				t.Errorf("shard %d, database %s: %s", i, db, got)
			}
		}
		const some = "SELECT count(*) > 5 FROM pg_proc WHERE pronamespace = 'weft'::regnamespace AND prosecdef"
		if got := onDatabase(t, i, keep, some); got != "t" {
			t.Errorf("shard %d: there is nothing to look at", i)
		}
	}
}

// TestTemporaryObjects: temporary types, tables, views and functions of a client's that
// are called like PostgreSQL's own are not what weft's functions use.
func TestTemporaryObjects(t *testing.T) {
	w := keeper(t)
	// A temporary function that changes roles is refused: these say as whom they run.
	const evil = `CREATE FUNCTION pg_temp.evil(bigint) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN IF current_user <> session_user THEN RAISE WARNING 'runs as %', current_user; END IF; RETURN true; END $$;
		CREATE FUNCTION pg_temp.evil(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN IF current_user <> session_user THEN RAISE WARNING 'runs as %', current_user; END IF; RETURN true; END $$;
		CREATE FUNCTION pg_temp.evil() RETURNS oid LANGUAGE plpgsql AS $$ BEGIN IF current_user <> session_user THEN RAISE WARNING 'runs as %', current_user; END IF; RETURN 1; END $$`
	for _, plant := range []string{
		"CREATE DOMAIN pg_temp.int8 AS bigint CHECK (pg_temp.evil(value))",
		"CREATE DOMAIN pg_temp.text AS pg_catalog.text CHECK (pg_temp.evil(value))",
		"CREATE DOMAIN pg_temp.bool AS pg_catalog.bool CHECK (pg_temp.evil(1))",
		"CREATE DOMAIN pg_temp.name AS pg_catalog.name CHECK (pg_temp.evil(1))",
		"CREATE DOMAIN pg_temp.json AS pg_catalog.json CHECK (pg_temp.evil(1))",
		"CREATE DOMAIN pg_temp.regclass AS pg_catalog.regclass CHECK (pg_temp.evil(1))",
		"CREATE TEMP VIEW pg_trigger AS SELECT pg_temp.evil() AS tgrelid, 'x'::name AS tgname, 'O'::\"char\" AS tgenabled",
		"CREATE TEMP VIEW pg_class AS SELECT pg_temp.evil() AS oid, 'x'::name AS relname, 'r'::\"char\" AS relkind",
		"CREATE TEMP VIEW pg_locks AS SELECT pg_temp.evil() AS relation, NULL::int AS pid, 'RowExclusiveLock'::text AS mode",
		"CREATE TEMP VIEW pg_attribute AS SELECT pg_temp.evil() AS attrelid, 'x'::name AS attname, 1::int2 AS attnum, pg_temp.evil() AS atttypid, false AS attisdropped",
		"CREATE TEMP VIEW pg_index AS SELECT pg_temp.evil() AS indexrelid, pg_temp.evil() AS indrelid",
		"CREATE TEMP VIEW lookup AS SELECT pg_temp.evil() AS owner", "CREATE TEMP VIEW change AS SELECT pg_temp.evil() AS tx", "CREATE TEMP VIEW own AS SELECT 'x'::text AS key",
	} {
		for _, use := range []string{
			`DO $$ BEGIN PERFORM weft."users_email:apply"('','1:777:7a7a'); END $$`,
			`DO $$ DECLARE f record; BEGIN FOR f IN SELECT p.oid, p.proname, p.pronargs FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'weft'::pg_catalog.regnamespace AND p.prosecdef LOOP
				BEGIN EXECUTE pg_catalog.format('SELECT weft.%I(%s)', f.proname, pg_catalog.array_to_string(pg_catalog.array_fill('NULL'::pg_catalog.text, ARRAY[f.pronargs::pg_catalog.int4]), ','));
				EXCEPTION WHEN OTHERS THEN NULL; END; END LOOP; END $$`,
			"CREATE TEMP TABLE t(a int); ALTER TABLE t ADD b int; CREATE INDEX ON t (a); DROP TABLE t",
		} {
			c := connect(t, w, "mallory", malloryPassword, "dbname="+keep)
			c.must(evil)
			c.must(plant)
			c.say(use)
			if i := slices.IndexFunc(c.notices, func(n string) bool { return strings.HasPrefix(n, "runs as ") }); i >= 0 {
				t.Errorf("%s: %s: %s", plant, use, c.notices[i])
			}
			_ = c.conn.Close(context.Background())
		}
		noneClimbed(t, plant)
	}
}

// TestNamesAreNoText: a table, schema or column may be called what it likes; no name becomes
// a part of the texts that weft makes of it.
func TestNamesAreNoText(t *testing.T) {
	w := keeper(t)
	c := connect(t, w, "builder", victimPassword, "dbname="+keep)
	c.must(`CREATE SCHEMA r; CREATE SCHEMA s`)
	c.must(`CREATE FUNCTION r."s."() RETURNS text LANGUAGE plpgsql AS $$ BEGIN IF current_user <> 'builder' THEN EXECUTE 'ALTER ROLE builder SUPERUSER'; END IF; RETURN 'x'; END $$`)
	c.must(`CREATE TABLE s."()::text AS v1,1 AS k1 OFFSET 1)x)q)z GROUP BY n--" (id bigint PRIMARY KEY, "@rows@" text)`)
	c.must(`SELECT weft.shard_table('s."()::text AS v1,1 AS k1 OFFSET 1)x)q)z GROUP BY n--"', 'id')`)
	c.must(`ALTER TABLE s."()::text AS v1,1 AS k1 OFFSET 1)x)q)z GROUP BY n--" ADD UNIQUE ("@rows@")`)
	noneClimbed(t, "a column called @rows@")
	group := 16
	if *long {
		group = 1
	}
	for i := 0; i < len(hostileNames); i += group {
		takeNames(t, c, hostileNames[i:min(len(hostileNames), i+group)])
	}
	noneClimbed(t, "hostile names")
}

// hostileNames end, open or mark something in one of the texts that weft makes.
var hostileNames = []string{
	`@rows@`, `@gone@`, `@entries@`, `$d$`, `$f$`, `$weft$`, `$1`, `%`, `%s`, `%I`, `%[1]s`, `%!s(MISSING)`, `it's`, `a"b`, `a""b`, `"`, `'`, `''`, `a\b`, `\`, `\'`, `a'; --`, `a"; --`,
	"line\nbreak", "tab\tand\rreturn", `/*`, `*/`, `--`, `;`, `,`, `.`, `:`, `{`, `}`, ` `, ` lead`, `ä€😀`, `ﬀ`, `UPPER`, `select`, `table`, `new_rows`, `old_rows`, `v1`, `k1`, `r`, `e`,
	strings.Repeat("n", 63), strings.Repeat("é", 31), strings.Repeat("x", 60) + `"'\`, `U&"\0041"`, `E'\''`, `pg_temp`, `weft`, `null`, `ctid2`, `tableoid2`,
}

// takeNames takes names through the life of a table that is called by the first of them
// and has a column for each: declared with lookups, written, read by them, renamed, copied in
// and out, a reference table, and back. Values are the names too.
func takeNames(t *testing.T, c *client, names []string) {
	t.Helper()
	name := names[0]
	table := "s." + ident(name)
	quiet := func(sql string) bool {
		t.Helper()
		if _, err := c.conn.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Errorf("%q: %s: %v", name, sql, err)
			return false
		}
		return true
	}
	expect := func(want, sql string) {
		t.Helper()
		if got := c.say(sql); got != want {
			t.Errorf("%q: %s: %s", name, sql, got)
		}
	}
	var columns, values, dots []string
	for _, n := range names {
		columns = append(columns, ident(n)+" text CHECK ("+ident(n)+" <> 'no')")
		values = append(values, literal(n))
		dots = append(dots, ident(n)+" = "+ident(n)+" || '.'")
	}
	last := ident(names[len(names)-1])
	if !quiet("CREATE TABLE " + table + " (id bigint PRIMARY KEY, " + strings.Join(columns, ", ") + ", UNIQUE (" + ident(name) + "))") {
		return
	}
	quiet("INSERT INTO " + table + " (id, " + ident(name) + ") SELECT g, 'before ' || g FROM generate_series(1, 3) g")
	quiet("SELECT weft.shard_table(" + literal(table) + ", 'id')")
	quiet("ALTER TABLE " + table + " ADD UNIQUE (" + last + ", " + ident(name) + ")")
	quiet("INSERT INTO " + table + " VALUES (10, " + strings.Join(values, ", ") + ")")
	quiet("INSERT INTO " + table + " (id, " + ident(name) + ") VALUES (11, 'eleven'), (12, 'twelve')")
	for _, n := range names {
		expect("10", "SELECT id FROM "+table+" WHERE "+ident(n)+" = "+literal(n))
	}
	for _, scs := range []string{"off", "on"} {
		quiet("SET standard_conforming_strings = " + scs)
		expect("10", "SELECT id FROM "+table+" WHERE "+ident(name)+" = "+literal(name))
		expect("23505", "INSERT INTO "+table+" (id, "+ident(name)+") VALUES (20, "+literal(name)+")")
		quiet("UPDATE " + table + " SET " + strings.Join(dots, ", ") + " WHERE id IN (11, 12)")
	}
	expect("11", "SELECT id FROM "+table+" WHERE "+ident(name)+" = 'eleven..'")
	copied(t, c, table)
	other := ident("other " + name[:min(len(name), 20)])
	quiet("ALTER TABLE " + table + " RENAME COLUMN " + ident(name) + " TO " + other)
	quiet("DELETE FROM " + table + " WHERE " + other + " = 'twelve..'")
	expect("5", "SELECT count(*) FROM "+table)
	quiet("COMMENT ON COLUMN " + table + "." + last + " IS " + literal(name))
	quiet("SELECT weft.unshard_table(" + literal(table) + ")")
	expect("5", "SELECT count(*) FROM "+table)
	quiet("SELECT weft.reference_table(" + literal(table) + ")")
	quiet("UPDATE " + table + " SET " + other + " = " + literal(name) + " || 'b' WHERE id = 1")
	expect("t", "SELECT "+other+" = "+literal(name)+" || 'b' FROM "+table+" WHERE id = 1")
	quiet("DROP TABLE " + table)
}

// copied takes all rows out by COPY and back in.
func copied(t *testing.T, c *client, table string) {
	t.Helper()
	var rows bytes.Buffer
	if _, err := c.conn.CopyTo(t.Context(), &rows, "COPY "+table+" TO STDOUT"); err != nil {
		t.Errorf("COPY %s TO: %v", table, err)
		return
	}
	c.must("DELETE FROM " + table)
	if tag, err := c.conn.CopyFrom(t.Context(), &rows, "COPY "+table+" FROM STDIN"); err != nil || tag.RowsAffected() != 6 {
		t.Errorf("COPY %s FROM: %v, %v", table, tag, err)
	}
}

// ident and literal quote for both values of standard_conforming_strings.
func ident(s string) string { return pgx.Identifier{s}.Sanitize() }

func literal(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		q = "E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}

// TestLookupsAreWeftsAlone: nobody but weft reads or writes a lookup, be it by its
// functions, as triggers of other tables, or by fetching notes that weft is to fetch.
func TestLookupsAreWeftsAlone(t *testing.T) {
	w := keeper(t)
	mallory := connect(t, w, "mallory", malloryPassword, "dbname="+keep)
	writer := connect(t, w, "writer", victimPassword, "dbname="+keep)
	for _, c := range []*client{mallory, writer} {
		for _, call := range []string{
			`weft."users_email:find"(encode('u5@x.org', 'hex'), '')`, `weft."users_email:find"(encode('u5@x.org', 'hex'), NULL)`, `weft."users_email:apply"('0:1:7a7a', '0:1:7a7a', '')`,
			`weft."users_email:apply"('', '0:1:7a7a', repeat('0', 64))`, `weft."users_email:settle"('0:1:7a7a', '0:1:7a7a', '')`, `weft."users_email:claim"('0:1:7a7a', '')`,
			`weft."users_email:fill"('users', true)`, `weft.drain(10, '')`, `weft.drain(10, NULL)`, `weft.lookup_follow('{"do":"anew","name":"users_email","table":"public.users"}', '')`,
			`weft.prove('drain', '')`, `weft.lookup_make('users_email')`, `weft.lookup_functions('users_email')`, `weft.lookup_drop('users_email')`,
		} {
			// weft runs the block, and has no function of such a name for clients: 42883, as for a SELECT of it.
			for _, sql := range []string{"DO $$ BEGIN PERFORM " + call + "; END $$", "SELECT " + call} {
				if got := c.say(sql); got != "42501" && got != "0A000" && got != "42883" {
					t.Errorf("%s: %s", sql, got)
				}
			}
		}
		for i := range world.target.Shards() {
			if got := onDatabase(t, i, keep, `SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p WHERE pronamespace = 'weft'::regnamespace AND prosecdef
				AND has_function_privilege('mallory', p.oid, 'EXECUTE') AND prorettype <> ALL ('{trigger,event_trigger}'::regtype[]) AND NOT 'proof' = ANY (coalesce(proargnames, '{}')) AND proname <> 'server'`); got != "" {
				t.Errorf("shard %d: without a proof: %s", i, got)
			}
		}
	}
	if got := writer.say("INSERT INTO users VALUES (5005, 'u5@x.org', 'dup')"); got != "23505" {
		t.Errorf("a value that is there: %s", got)
	}
	if got := writer.say("SELECT id FROM users WHERE email = 'u5@x.org'"); got != "5" {
		t.Errorf("a value that is there, by the lookup: %s", got)
	}
	// A table of her own with the lookup's triggers.
	for i := range world.target.Shards() {
		onDatabase(t, i, keep, "GRANT CREATE ON SCHEMA public TO mallory")
	}
	mallory.must("CREATE TEMP TABLE forged(id bigint, email text, secret text)")
	mallory.say(`DO $$ BEGIN EXECUTE 'CREATE TRIGGER a AFTER INSERT ON forged REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION weft."users_email:note"()'; END $$`)
	mallory.say(`DO $$ BEGIN EXECUTE 'CREATE TRIGGER b AFTER INSERT ON forged FOR EACH ROW EXECUTE FUNCTION weft."users_email:row"()'; END $$`)
	if got := mallory.say("INSERT INTO forged VALUES (1, 'u4444@x.org', 'x')"); got != "" && got != "42501" && got != "0A000" {
		t.Errorf("a forged trigger: %s", got)
	}
	if got := writer.say("INSERT INTO users VALUES (4444, 'u4444@x.org', 'x')"); got != "" {
		t.Errorf("a value that nobody has: %s", got)
	}
	// Notes that somebody else has fetched.
	if got := writer.say("BEGIN; INSERT INTO users VALUES (4445, 'u4445@x.org', 'x'); DO $$ BEGIN PERFORM weft.drain(10, ''); END $$; COMMIT"); got != "42501" {
		t.Errorf("fetching one's own notes: %s", got)
	}
	writer.say("ROLLBACK")
	if got := writer.say("SELECT count(*) FROM users WHERE email = 'u4445@x.org'"); got != "0" {
		t.Errorf("and its row: %s", got)
	}
}
