package schema

import (
	"strings"
	"testing"
)

// TestBelongings: what the user has made at home before is on all shards after the
// first declaration, and what mentions a table follows that table.
func TestBelongings(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE ROLE belong_a LOGIN PASSWORD 'x'; CREATE ROLE belong_b; GRANT belong_b TO belong_a; ALTER ROLE belong_a SET work_mem = '5MB'`)
	t.Cleanup(func() {
		for _, n := range names {
			on(t, n, c.db).run(t, "DROP OWNED BY belong_a, belong_b CASCADE; DROP ROLE IF EXISTS belong_a, belong_b")
		}
	})
	c.home(`CREATE SCHEMA lib AUTHORIZATION belong_b; GRANT USAGE ON SCHEMA lib TO PUBLIC; GRANT CREATE ON SCHEMA public TO belong_a;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO belong_a;
CREATE TABLE a (id bigint PRIMARY KEY); CREATE TABLE b (id bigint PRIMARY KEY); CREATE TABLE h (id bigint);
CREATE TYPE lib.mood AS ENUM ('a', 'b'); CREATE DOMAIN lib.pos AS int CHECK (VALUE > 0); CREATE TYPE lib.pair AS (m lib.mood, p lib.pos);
CREATE TYPE lib.span AS RANGE (SUBTYPE = float8);
CREATE FUNCTION lib.base(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
CREATE FUNCTION lib.uses(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT lib.base($1)';
CREATE FUNCTION lib.modern(int) RETURNS int LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT lib.base($1); END;
REVOKE ALL ON FUNCTION lib.uses(int) FROM PUBLIC; GRANT EXECUTE ON FUNCTION lib.uses(int) TO belong_a; COMMENT ON FUNCTION lib.uses(int) IS 'uses';
CREATE FUNCTION reads_b() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM b';
CREATE FUNCTION reads_home() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM h';
CREATE FUNCTION row_of(b) RETURNS bigint LANGUAGE sql AS 'SELECT ($1).id';
CREATE PROCEDURE nothing() LANGUAGE plpgsql AS 'BEGIN NULL; END'`)
	c.home(`CREATE AGGREGATE lib.total(int) (SFUNC = int4pl, STYPE = int, INITCOND = '0', COMBINEFUNC = int4pl, PARALLEL = SAFE);
CREATE AGGREGATE lib.any_number(*) (SFUNC = int8inc, STYPE = bigint, INITCOND = '0');
CREATE FUNCTION lib.same(int, text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1::text = $2';
CREATE FUNCTION lib.other(int, text) RETURNS bool LANGUAGE sql IMMUTABLE AS 'SELECT $1::text <> $2';
CREATE OPERATOR lib.=== (LEFTARG = int, RIGHTARG = text, FUNCTION = lib.same, RESTRICT = eqsel);
CREATE OPERATOR lib.!== (LEFTARG = int, RIGHTARG = text, FUNCTION = lib.other, NEGATOR = OPERATOR(lib.===));
CREATE FUNCTION lib.to_pair(int) RETURNS lib.pair LANGUAGE sql IMMUTABLE AS 'SELECT ROW(''a'', $1)::lib.pair';
CREATE CAST (int AS lib.pair) WITH FUNCTION lib.to_pair(int) AS ASSIGNMENT;
CREATE COLLATION lib.c2 (LOCALE = 'C')`)
	use := `SELECT concat(lib.uses(1), lib.modern(2), lib.total(3), lib.any_number(*), 1 OPERATOR(lib.===) '1', 1 OPERATOR(lib.!==) '1', (7::lib.pair)::text, 'b'::lib.mood, lib.span(1, 2),
  obj_description('lib.uses(int)'::regprocedure), has_function_privilege('belong_a', 'lib.uses(int)', 'execute'), has_schema_privilege('belong_a', 'public', 'create'),
  pg_has_role('belong_a', 'belong_b', 'usage'), (SELECT rolcanlogin FROM pg_roles WHERE rolname = 'belong_a'), (SELECT count(*) FROM pg_default_acl),
  (SELECT nspowner::regrole FROM pg_namespace WHERE nspname = 'lib'))`
	c.shard("a", "id")
	if told := c.told(); strings.Contains(told, "cannot be made") {
		t.Fatalf("told:\n%s", told)
	}
	got := c.each(use)
	if got["home"] == "" || got["east"] != got["home"] || got["west"] != got["home"] {
		t.Errorf("%v", got)
	}
	functions := "SELECT string_agg(proname, ',' ORDER BY proname) FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
	if got := c.each(functions); got["east"] != "nothing" {
		t.Errorf("%v", got)
	}
	if told := c.told(); strings.Contains(told, "cannot be made") {
		t.Errorf("told:\n%s", told)
	}
	c.home(`CREATE OR REPLACE FUNCTION lib.base(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 10'`)
	c.shard("b", "id")
	if got := c.each(functions); got["east"] != "nothing,reads_b,row_of" || got["west"] != got["east"] {
		t.Errorf("%v", got)
	}
	if got := c.each("SELECT lib.uses(1)"); got["east"] != "11" {
		t.Errorf("a function that has changed at home: %v", got)
	}
	c.same()
}

// same fails unless all shards are alike.
func (c *cluster) same() {
	c.Helper()
	list, err := c.mover.Diff(c.context(), c.db, "postgres")
	c.must(err)
	for _, d := range list {
		c.Errorf("%s: %s: %s", d.Shard, d.Object, d.What)
	}
}

// TestDiff: each kind of difference is found, on its shard, and nothing else.
func TestDiff(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE TYPE mood AS ENUM ('a', 'b'); CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TABLE a (id bigint PRIMARY KEY, m mood, n int DEFAULT 5 CHECK (n > 0)); CREATE INDEX a_n ON a (n); CREATE VIEW v AS SELECT id FROM a; GRANT SELECT ON a TO PUBLIC`)
	c.shard("a", "id")
	c.same()
	for _, tc := range []struct{ there, back, object, what string }{
		{"DROP INDEX a_n", "CREATE INDEX a_n ON public.a USING btree (n)", "table a", "lacks: CREATE INDEX a_n"},
		{"CREATE INDEX a_x ON a (m)", "DROP INDEX a_x", "table a", "has: CREATE INDEX a_x"},
		{"ALTER TABLE a ADD COLUMN x int", "ALTER TABLE a DROP COLUMN x", "table a", "has: a x integer"},
		{"ALTER TABLE a ALTER n SET DEFAULT 6", "ALTER TABLE a ALTER n SET DEFAULT 5", "table a", "n integer DEFAULT 6"},
		{"ALTER TABLE a DROP CONSTRAINT a_n_check", "ALTER TABLE a ADD CONSTRAINT a_n_check CHECK (n > 0)", "table a", "lacks: a CONSTRAINT a_n_check"},
		{"REVOKE SELECT ON a FROM PUBLIC", "GRANT SELECT ON a TO PUBLIC", "table a", "GRANT SELECT"},
		{"ALTER TYPE mood ADD VALUE 'c'", "", "type public.mood", "'c'"},
		{"CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT 2'", "CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT 1'", "function public.f(integer)", "SELECT 2"},
		{"DROP VIEW v", "CREATE VIEW v AS SELECT id FROM a", "view public.v", "is missing"},
		{"CREATE TABLE stray (id int)", "DROP TABLE stray", "table stray", "is not on the home shard"},
		{"CREATE FUNCTION stray() RETURNS int LANGUAGE sql AS 'SELECT 1'", "DROP FUNCTION stray()", "function public.stray()", "is not on the home shard"},
	} {
		on(t, "west", c.db).run(t, tc.there)
		list, err := c.mover.Diff(c.context(), c.db, "postgres")
		c.must(err)
		found := false
		for _, d := range list {
			found = found || d.Shard == "west" && d.Object == tc.object && strings.Contains(d.What, tc.what)
			if d.Shard != "west" || d.Object != tc.object && d.Object != "type public.mood" {
				t.Errorf("%s: %+v", tc.there, d)
			}
		}
		if !found {
			t.Errorf("%s: %+v", tc.there, list)
		}
		if tc.back != "" {
			on(t, "west", c.db).run(t, tc.back)
		}
	}
	on(t, "west", c.db).run(t, "DROP TABLE a CASCADE")
	list, err := c.mover.Diff(c.context(), c.db, "postgres")
	c.must(err)
	if len(list) == 0 || list[0].What != "is missing" {
		t.Errorf("%+v", list)
	}
}

// TestRoleOfHome: a role that was made before anything was declared can declare tables.
func TestRoleOfHome(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE ROLE belong_c LOGIN; GRANT CREATE ON SCHEMA public TO belong_c`)
	t.Cleanup(func() {
		for _, n := range names {
			on(t, n, c.db).run(t, "DROP OWNED BY belong_c CASCADE; DROP ROLE IF EXISTS belong_c")
		}
	})
	c.home(`SET ROLE belong_c; CREATE TABLE mine (id bigint PRIMARY KEY); INSERT INTO mine SELECT generate_series(1, 100); RESET ROLE`)
	req := c.request("mine", "id")
	req.User = "belong_c"
	if err := c.proxy("p").Shard(c.context(), req, c.notice); err != nil {
		t.Fatal(err)
	}
	owners := c.each("SELECT pg_get_userbyid(relowner) || (SELECT count(*) > 0 FROM mine) FROM pg_class WHERE relname = 'mine'")
	for _, n := range names {
		if owners[n] != "belong_ctrue" {
			t.Errorf("%s: %q", n, owners[n])
		}
	}
}

// TestDatabaseOfHome: a server that has just become a shard has neither the role nor the database.
func TestDatabaseOfHome(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE ROLE belong_d LOGIN; GRANT CREATE ON SCHEMA public TO belong_d`)
	t.Cleanup(func() {
		for _, n := range names {
			on(t, n, c.db).run(t, "DROP OWNED BY belong_d CASCADE; DROP ROLE IF EXISTS belong_d")
		}
	})
	c.home(`SET ROLE belong_d; CREATE TABLE mine (id bigint PRIMARY KEY); INSERT INTO mine SELECT generate_series(1, 100); RESET ROLE`)
	for _, n := range names[1:] {
		on(t, n, "postgres").run(t, "DROP DATABASE "+c.db+" WITH (FORCE)")
	}
	req := c.request("mine", "id")
	req.User = "belong_d"
	if err := c.proxy("p").Shard(c.context(), req, c.notice); err != nil {
		t.Fatal(err)
	}
	rows := c.each("SELECT count(*) > 0 FROM mine")
	alike := c.each("SELECT format('%s %s %s', pg_get_userbyid(datdba), encoding, datcollate) FROM pg_database WHERE datname = current_database()")
	for _, n := range names {
		if rows[n] != "t" && rows[n] != "true" || alike[n] != alike[names[0]] {
			t.Errorf("%s: rows %q, database %q", n, rows[n], alike[n])
		}
	}
}
