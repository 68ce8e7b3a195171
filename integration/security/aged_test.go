package security_test

import (
	_ "embed"
	"strings"
	"testing"
	"time"

	"weft/auth"
	"weft/pgserver/pgtest"
)

// schemaOf8 is schema weft as a weft made it whose functions trusted the caller's temporary
// objects, and anybody's calls: version 8, with the first version of lookups.
//
//go:embed testdata/weft-8.sql
var schemaOf8 string

// TestAgedSchema: a proxy that starts brings databases that an older weft has made up to
// date: their functions trust nobody, and lookups that were there go on.
func TestAgedSchema(t *testing.T) {
	keeper(t)
	const aged = "aged"
	for i := range world.target.Shards() {
		onShard(t, i, "CREATE DATABASE "+aged)
	}
	admin := connect(t, world.target, "postgres", "", "dbname="+aged)
	admin.must("CREATE TABLE users(id bigint PRIMARY KEY, email text UNIQUE)")
	admin.must("SELECT weft.shard_table('users', 'id')")
	admin.must("INSERT INTO users SELECT g, 'u' || g || '@x.org' FROM generate_series(1, 20) g")
	admin.must("GRANT SELECT, INSERT, UPDATE, DELETE ON users TO writer")
	const bad = `SELECT count(*) FROM pg_proc p WHERE pronamespace = 'weft'::regnamespace AND (prosecdef OR prorettype IN ('trigger'::regtype, 'event_trigger'::regtype))
		AND (NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false) OR prosecdef AND has_function_privilege('mallory', p.oid, 'EXECUTE')
			AND prorettype <> ALL ('{trigger,event_trigger}'::regtype[]) AND NOT 'proof' = ANY (coalesce(proargnames, '{}')) AND proname <> 'server')`
	for i := range world.target.Shards() {
		// In one transaction: the proxies that run would put schema weft back in between.
		sql := strings.Join([]string{
			`CREATE TABLE public.kept AS SELECT o.key, l.* FROM weft.own o, weft.lookup l; CREATE TABLE public.entries AS SELECT * FROM weft.users_email`,
			`DROP EVENT TRIGGER weft_lookup_altered; DROP EVENT TRIGGER weft_lookup_dropped; DROP SCHEMA weft CASCADE`,
			strings.Replace(schemaOf8, "pg_catalog.gen_random_uuid()::text || pg_catalog.gen_random_uuid()::text", "(SELECT key FROM public.kept)", 1),
			`SELECT weft.lookup_add(k.name, k.owner, (SELECT array_agg(a.attname::text ORDER BY u.i) FROM unnest(k.columns) WITH ORDINALITY u(n, i) JOIN pg_attribute a ON a.attrelid = k.owner AND a.attnum = u.n),
				(SELECT array_agg(a.attname::text ORDER BY u.i) FROM unnest(k.keys) WITH ORDINALITY u(n, i) JOIN pg_attribute a ON a.attrelid = k.owner AND a.attnum = u.n),
				k.types, k.single, k.index, 'public', k.id_sql, k.bucket_sql, '') FROM public.kept k`,
			`SELECT weft.lookup_make(name) FROM public.kept`,
			`INSERT INTO weft.users_email SELECT * FROM public.entries; DROP TABLE public.entries, public.kept`,
			`CREATE VIEW public.over_shards AS SELECT name FROM weft.shards`,
			`SELECT 'bad: ' || (` + bad + `)`,
		}, ";\n")
		if got := onDatabase(t, i, aged, sql); !strings.Contains(got, "bad: ") || strings.Contains(got, "bad: 0") {
			t.Fatalf("shard %d has not been made old: %s", i, got)
		}
	}
	w := start(t, []auth.User{{Name: "mallory", Password: world.mallory}, {Name: "writer", Password: world.victim}})
	for i := range world.target.Shards() {
		for until := time.Now().Add(pgtest.Patience); ; time.Sleep(50 * time.Millisecond) {
			got := onDatabase(t, i, aged, bad)
			if got == "0" {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("shard %d: %s functions are as they were", i, got)
			}
		}
	}
	// A table of weft's gets more columns, and a view over it stays.
	const wider = `SELECT count(*) FROM pg_attribute WHERE attrelid = 'weft.shards'::regclass AND attname = 'state' AND to_regclass('public.over_shards') IS NOT NULL`
	for i := range world.target.Shards() {
		if got := onDatabase(t, i, aged, wider); got != "1" {
			t.Errorf("shard %d: weft.shards is as it was, or the view over it is gone", i)
		}
	}
	mallory := connect(t, w, "mallory", malloryPassword, "dbname="+aged)
	for _, call := range []string{`weft."users_email:find"(encode('u5@x.org', 'hex'))`, `weft."users_email:apply"('', '0:1:7a7a')`, `weft.drain(10)`} {
		if got := mallory.say("DO $$ BEGIN PERFORM " + call + "; END $$"); got != "42883" && got != "42501" && got != "0A000" {
			t.Errorf("%s: %s", call, got)
		}
	}
	writer := connect(t, w, "writer", victimPassword, "dbname="+aged)
	for _, tc := range [][2]string{
		{"SELECT id FROM users WHERE email = 'u5@x.org'", "5"},
		{"INSERT INTO users VALUES (500, 'u5@x.org')", "23505"},
		{"INSERT INTO users VALUES (21, 'u21@x.org')", ""},
		{"UPDATE users SET email = 'v1@x.org' WHERE id = 1", ""},
		{"SELECT id FROM users WHERE email = 'v1@x.org'", "1"},
		{"INSERT INTO users VALUES (501, 'u1@x.org')", ""},
		{"BEGIN; UPDATE users SET email = email || '.' WHERE id IN (2, 3, 4, 6); COMMIT; SELECT id FROM users WHERE email = 'u6@x.org.'", "6"},
	} {
		if got := writer.say(tc[0]); got != tc[1] {
			t.Errorf("%s: %s, want %s", tc[0], got, tc[1])
		}
	}
	noneClimbed(t, "an old schema")
}
