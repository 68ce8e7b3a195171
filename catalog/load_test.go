package catalog_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/catalog"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// connect opens a connection that ends with the test.
func connect(tb testing.TB, srv *pgserver.Temp, database string) *pgx.Conn {
	tb.Helper()
	c, err := pgx.Connect(context.Background(), srv.ConnString(database))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close(context.Background()) })
	return c
}

// runner is what pool.Conn.Exec does.
func runner(c *pgx.Conn) func(string) ([][]string, error) {
	return func(sql string) ([][]string, error) {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		results, err := c.PgConn().Exec(ctx, sql).ReadAll()
		var rows [][]string
		for _, res := range results {
			for _, r := range res.Rows {
				row := make([]string, len(r))
				for i, v := range r {
					row[i] = string(v)
				}
				rows = append(rows, row)
			}
		}
		return rows, err
	}
}

func must(tb testing.TB, c *pgx.Conn, sql string) {
	tb.Helper()
	if _, err := runner(c)(sql); err != nil {
		tb.Fatalf("%.200s: %v", sql, err)
	}
}

func name(schema, name string) catalog.Name { return catalog.Name{Schema: schema, Name: name} }

// describe writes a schema's user objects as lines, so that a difference can be
// read. OIDs of user types become their names.
func describe(s *catalog.Schema, definitions bool) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for r := range s.Relations() {
		if r.System() {
			continue
		}
		id := fmt.Sprintf("%q", r.Name)
		add("%s kind %c owned by %q.%q security %v rules %v", id, r.Kind, r.OwnedBy, r.OwnedColumn, r.RowSecurity, r.Rules)
		if len(r.RuleTables)+len(r.RuleFunctions) > 0 {
			add("%s rules name %q and call %q", id, r.RuleTables, r.RuleFunctions)
		}
		if r.SecurityBarrier || r.SecurityInvoker {
			add("%s barrier %v invoker %v", id, r.SecurityBarrier, r.SecurityInvoker)
		}
		if r.Parent != nil {
			add("%s parent %q inherited %v", id, r.Parent.Name, r.Inherited)
		}
		for _, c := range r.Children {
			add("%s child %q", id, c.Name)
		}
		for _, c := range r.Columns {
			typ, base := fmt.Sprint(c.Type), fmt.Sprint(c.Base)
			if c.Type >= 16384 {
				typ = "user"
			}
			if c.Base >= 16384 {
				base = "user"
			}
			add("%s column %q type %s base %s %s mod %d notnull %v seq %q ident %q gen %v enum %v coll %q nd %v hasdef %v",
				id, c.Name, typ, base, c.TypeName, c.Mod, c.NotNull, c.Sequence, c.Identity, c.Generated, c.Enum, c.Collation, c.Nondeterministic, c.Default != "")
			// The default collation is that of the machine: TestBytewise.
			if bytewise := c.Bytewise && c.Collation != (catalog.Name{}); bytewise || c.DomainNotNull {
				add("%s column %q bytewise %v domain notnull %v", id, c.Name, bytewise, c.DomainNotNull)
			}
			if definitions {
				add("%s column %q num %d default %s", id, c.Name, c.Num, c.Default)
			}
		}
		for _, u := range r.Unique {
			add("%s unique %q %q primary %v partial %v exclusion %v", id, u.Name, u.Columns, u.Primary, u.Partial, u.Exclusion)
		}
		for _, k := range append(slices.Clone(r.ForeignKeys), r.Referenced...) {
			add("%s key %q of %q %q on %q %q", id, k.Name, k.Table, k.Columns, k.References, k.RefColumns)
			if definitions {
				add("%s key %q: %s", id, k.Name, k.Definition)
			}
		}
		for _, t := range r.Triggers {
			add("%s trigger %q %q", id, t.Name, t.Function)
		}
		if definitions && r.Definition != "" {
			add("%s is %s", id, strings.Join(strings.Fields(r.Definition), " "))
		}
	}
	for f := range s.AllFunctions() {
		add("function %q %c kind %c set %v opaque %v mentions %q", f.Name, f.Volatility, f.Kind, f.SetReturning, f.Opaque, f.Mentions)
	}
	slices.Sort(lines)
	return lines
}

// TestLoad compares what is loaded of a database full of odd things with
// testdata/odd.golden, every line of which was read and found right.
func TestLoad(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{})
	c := connect(t, srv, "postgres")
	setup, err := os.ReadFile("testdata/odd.sql")
	if err != nil {
		t.Fatal(err)
	}
	must(t, c, string(setup))
	// Names that the queries use must not be found elsewhere.
	must(t, c, `CREATE SCHEMA evil; CREATE FUNCTION evil.pg_get_expr(pg_node_tree, integer) RETURNS text LANGUAGE sql AS 'SELECT 1/0'; SET search_path = evil, pg_catalog, public`)
	must(t, c, `CREATE TEMP TABLE pg_class (a int); SET datestyle = 'German'; SET quote_all_identifiers = on`)
	s, err := catalog.Load(7, runner(c))
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != 7 || s.Incomplete || s.CustomEquality {
		t.Errorf("version %d, incomplete %v, equality %v", s.Version, s.Incomplete, s.CustomEquality)
	}
	got := strings.Join(describe(s, true), "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile("testdata/odd.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/odd.golden")
	if err != nil {
		t.Fatal(err)
	}
	differ(t, asWritten(t, c, string(want)), asWritten(t, c, got))

	for _, n := range []catalog.Name{name("pg_catalog", "pg_class"), name("pg_catalog", "pg_tables"), name("information_schema", "columns")} {
		if r := s.Relation(n); r == nil || r.OID == 0 || r.Columns != nil || !r.System() {
			t.Errorf("%v: %+v", n, r)
		}
	}
	if s.Relation(name("public", "pg_class")) != nil {
		t.Error("a temporary table is public")
	}
	for _, row := range func() [][]string {
		rows, err := runner(c)(`SELECT n.nspname, c.relname, c.oid, a.attname, a.atttypid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace
			JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped WHERE n.nspname IN ('public', 'app') AND relkind IN ('r', 'v')`)
		if err != nil || len(rows) < 50 {
			t.Fatal(len(rows), err)
		}
		return rows
	}() {
		r := s.Relation(name(row[0], row[1]))
		if r == nil || fmt.Sprint(r.OID) != row[2] || r.Column(row[3]) == nil || fmt.Sprint(r.Column(row[3]).Type) != row[4] {
			t.Errorf("%q: %+v", row, r)
		}
	}

	must(t, c, `CREATE FUNCTION eq(bigint, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'; CREATE OPERATOR public.= (LEFTARG = bigint, RIGHTARG = text, FUNCTION = eq)`)
	if s, err = catalog.Load(8, runner(c)); err != nil || !s.CustomEquality {
		t.Errorf("custom equality is not seen: %v", err)
	}
}

func differ(t *testing.T, want, got []string) {
	t.Helper()
	for _, l := range want {
		if !slices.Contains(got, l) {
			t.Errorf("missing: %s", l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			t.Errorf("surplus: %s", l)
		}
	}
}

// TestLoadBusy: a transaction that is changing a table keeps nobody from
// loading the rest.
func TestLoadBusy(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{})
	c, other := connect(t, srv, "postgres"), connect(t, srv, "postgres")
	must(t, c, `CREATE TABLE a (x int, y int GENERATED ALWAYS AS (x + 1) STORED); CREATE TABLE b (x int);
		CREATE VIEW va AS SELECT x FROM a; CREATE VIEW vva AS SELECT x FROM va; CREATE VIEW vb AS SELECT x FROM b;
		CREATE FUNCTION f() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count(*) FROM a; END`)
	must(t, other, "BEGIN; LOCK TABLE a")
	start := time.Now()
	s, err := catalog.Load(1, runner(c))
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); pgtest.Late(t, d, 2*time.Second) {
		t.Errorf("it took %v", d)
	}
	for n, busy := range map[string]bool{"a": true, "va": true, "vva": false, "vb": false} {
		if r := s.Relation(name("public", n)); r.Busy != busy || r.Kind == catalog.View && busy != (r.Definition == "") {
			t.Errorf("%s: %+v", n, r)
		}
	}
	if !s.Incomplete || len(s.Functions("f")[0].Mentions) != 1 {
		t.Errorf("incomplete %v, f %+v", s.Incomplete, s.Functions("f")[0])
	}
	must(t, other, "ROLLBACK")
	if s, err = catalog.Load(1, runner(c)); err != nil || s.Incomplete || s.Relation(name("public", "va")).Definition == "" {
		t.Errorf("afterwards: %v, %+v", err, s)
	}
}

// TestLoadErrors: what the server says is handed on, and rows that make no
// sense are refused.
func TestLoadErrors(t *testing.T) {
	boom := fmt.Errorf("boom")
	if _, err := catalog.Load(1, func(string) ([][]string, error) { return nil, boom }); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Error(err)
	}
	for _, row := range [][]string{{}, {"x"}, {"r", "1"}, {"r", "x", "s", "n", "r", "o", "f", "f", "f"}, {"r", "1", "s", "n", "", "o", "f", "f", "f"}, {"b", "x", "f"}, {"b", "a", "f"}, make([]string, 9)} {
		if _, err := catalog.Load(1, func(string) ([][]string, error) { return [][]string{row}, nil }); err == nil {
			t.Errorf("%q is taken", row)
		}
	}
}

// TestLoadMany shows that a large database is loaded in a second or so; with -v
// it says how long it took. Making the tables takes longer by far, so there are
// 2,000 of them; 10,000 took 1.3 s, of which 0.2 s were spent here and not by
// the server.
func TestLoadMany(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of tables")
	}
	srv := pgtest.Start(t, pgserver.Config{})
	c := connect(t, srv, "postgres")
	const tables = 2000
	for i := 0; i < tables; i += 500 {
		must(t, c, fmt.Sprintf(`DO $$ BEGIN FOR i IN %d..%d LOOP
			EXECUTE format('CREATE TABLE t%%s (id bigserial PRIMARY KEY, a int, b text DEFAULT ''b'', c timestamptz DEFAULT now(), d numeric(10,2), e text UNIQUE)', i);
			IF i %% 10 = 0 THEN EXECUTE format('CREATE VIEW v%%s AS SELECT id, b FROM t%%s', i, i);
			EXECUTE format('CREATE FUNCTION f%%s() RETURNS bigint LANGUAGE plpgsql AS ''BEGIN RETURN (SELECT count(*) FROM t%%s); END''', i, i); END IF;
		END LOOP; END $$`, i, i+499))
	}
	var took []time.Duration
	for range 3 {
		start := time.Now()
		var query time.Duration
		s, err := catalog.Load(1, func(sql string) ([][]string, error) {
			rows, err := runner(c)(sql)
			query = time.Since(start)
			return rows, err
		})
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
		t.Logf("%d tables: %v, of which the query %v", tables, took[len(took)-1], query)
		if r := s.Relation(name("public", "t1999")); r == nil || len(r.Columns) != 6 || len(r.Unique) != 2 || r.Columns[0].Sequence.Name != "t1999_id_seq" {
			t.Fatalf("%+v", r)
		}
		if f := s.Functions("f1990"); len(f) != 1 || len(f[0].Mentions) != 1 {
			t.Fatalf("%+v", f)
		}
	}
	if slices.Min(took) > 10*time.Second {
		t.Errorf("%v", took)
	}
}

// asWritten are the lines of a description, but for the texts of views on servers since
// 16, which leave out the names of tables that 15 writes.
func asWritten(t *testing.T, c *pgx.Conn, description string) []string {
	lines := strings.Split(description, "\n")
	var version int
	if err := c.QueryRow(t.Context(), "SELECT pg_catalog.current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if version < 160000 {
		return lines
	}
	return slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "} is SELECT ") || strings.Contains(l, "} is WITH ") })
}
