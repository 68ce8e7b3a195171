package plpgsql

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
	"weft/program/progtest"
)

var (
	forFlag   = flag.Duration("for", 0, "how long TestRandom runs programs; 0: 60 of them")
	seedFlag  = flag.Uint64("seed", 1, "the first program of TestRandom")
	countFlag = flag.Int("programs", 60, "how many programs TestRandom runs")
	showFlag  = flag.Int("show", 3, "how many differences TestRandom shows")
)

// more are statements over a reference table and a home table, and some whose rows change shards or come from two tables.
var more = []string{
	"INSERT INTO ref VALUES (i, s) ON CONFLICT (id) DO NOTHING",
	"UPDATE ref SET name = s WHERE id = 1",
	"SELECT name INTO s FROM ref WHERE id = i",
	"SELECT t.b, ref.name INTO s, v FROM t JOIN ref ON ref.id = t.a ORDER BY t.a, t.b, t.c, ref.name LIMIT 1",
	"INSERT INTO home VALUES (j, s)",
	"SELECT count(*), max(note) INTO j, s FROM home",
	"SELECT count(*), max(u.v) INTO j, s FROM t JOIN u ON u.id = t.a",
	"UPDATE t SET a = a + 10 WHERE a = i",
	"INSERT INTO t VALUES (i, 'a', 1), (i + 1, 'b', 2), (i + 2, 'c', 3)",
	"DELETE FROM t USING u WHERE u.id = t.a AND u.v = 'y'",
	"UPDATE u SET v = v || '!'",
	"INSERT INTO u SELECT a + 20, b FROM t WHERE a < 3",
	"PERFORM 1 FROM t WHERE a = i FOR UPDATE",
	"WITH gone AS (DELETE FROM u WHERE id = j RETURNING id) SELECT count(*) INTO k FROM gone",
	"SELECT count(DISTINCT b), string_agg(b, ',' ORDER BY b) INTO j, s FROM t WHERE a <> i",
	"FOR r IN SELECT a % 2 AS x, max(b) AS y FROM t GROUP BY 1 ORDER BY 1 LOOP RAISE NOTICE '% %', r.x, r.y; END LOOP",
	"FOR r IN SELECT a AS x, b AS y, rank() OVER (ORDER BY a, b, c) AS z FROM t ORDER BY 1, 2, 3 LOOP RAISE NOTICE '%', r; END LOOP",
	"FOR r IN UPDATE u SET v = s WHERE id = i RETURNING id AS x, v AS y LOOP RAISE NOTICE '%', r; END LOOP",
	"INSERT INTO t SELECT * FROM t WHERE a < j",
	"INSERT INTO u VALUES (i, 'dup'), (i, 'dup')",
	"PERFORM grow(i)", "k := grow(j)", "SELECT grow(k) INTO j", "i := grow(3)", "j := total()",
	"CALL shift(k, s)", "CALL shift(j, outer_block.s)",
	"FOR r IN SELECT * FROM listed(i) LOOP RAISE NOTICE '%', r; END LOOP",
	"SELECT * INTO i, s FROM both_of(k)",
	"n := sql_total(i)", "j := sql_grow(k, s)", "PERFORM sql_grow(i, v)", "FOR r IN SELECT * FROM sql_listed(j) LOOP RAISE NOTICE '%', r; END LOOP",
	"BEGIN i := grow(j); EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS s = PG_EXCEPTION_CONTEXT; RAISE NOTICE '%', s; END",
	"BEGIN INSERT INTO u VALUES (1, s); EXCEPTION WHEN OTHERS THEN GET STACKED DIAGNOSTICS s = PG_EXCEPTION_DETAIL, v = CONSTRAINT_NAME; RAISE NOTICE '% %', s, v; END",
	"j := helped(k, s)",
	"GET DIAGNOSTICS s = PG_CONTEXT", "SET LOCAL work_mem = '1MB'", "PERFORM set_config('my.value', s, true)", "s := current_setting('my.value', true)",
}

// called are routines over sharded tables that the programs call.
const called = `
CREATE FUNCTION grow(n int) RETURNS int LANGUAGE plpgsql AS $$ DECLARE got int; BEGIN
  INSERT INTO t VALUES (n + 100, 'grown', n) RETURNING a INTO got;
  UPDATE u SET v = 'g' || n WHERE id = n; RAISE NOTICE 'grow % %', n, FOUND;
  RETURN got / (n - 3); END $$;
CREATE FUNCTION helped(k int, w text) RETURNS int LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN
  UPDATE t SET b = left(w, 9) WHERE a = k; GET DIAGNOSTICS n = ROW_COUNT; INSERT INTO u VALUES (k, left(w, 5)) ON CONFLICT (id) DO NOTHING; RAISE NOTICE 'helped % %', k, n; RETURN n; END $$;
CREATE FUNCTION total() RETURNS numeric STABLE LANGUAGE plpgsql AS $$ BEGIN RETURN (SELECT sum(c) FROM t); END $$;
CREATE FUNCTION listed(lo int) RETURNS TABLE (x int, y text) LANGUAGE plpgsql AS $$ BEGIN
  RETURN QUERY SELECT a, b FROM t WHERE a >= lo ORDER BY a, b, c; RAISE NOTICE 'listed %', FOUND; x := lo; RETURN NEXT; END $$;
CREATE FUNCTION both_of(k int, OUT x int, OUT y text) LANGUAGE plpgsql AS $$ BEGIN SELECT a, b INTO x, y FROM t WHERE a = k ORDER BY a, b; END $$;
CREATE FUNCTION sql_total(lo int) RETURNS numeric STABLE LANGUAGE sql AS $$ SELECT sum(c) FROM t WHERE a >= lo $$;
CREATE FUNCTION sql_grow(n int, w text) RETURNS int LANGUAGE sql AS $$ INSERT INTO t VALUES (n + 200, w, n); UPDATE u SET v = left(w, 5) WHERE id = n; SELECT 6 / (n - 2) FROM t WHERE a >= n $$;
CREATE FUNCTION sql_listed(lo int) RETURNS TABLE (x int, y text) STRICT LANGUAGE sql AS $$ SELECT a, b FROM t WHERE a >= lo ORDER BY a, b, c $$;
CREATE PROCEDURE shift(INOUT n int, INOUT w text) LANGUAGE plpgsql AS $$ BEGIN
  UPDATE t SET b = w WHERE a >= n; GET DIAGNOSTICS n = ROW_COUNT; w := w || n; END $$
`

// attempt is a random program, and how it is called.
type attempt struct {
	seed   uint64
	body   string
	create string // nothing for a DO
	call   string
	// block: the client has a transaction open.
	block bool
	// keeps: the routine may go whole to a shard. The block, if there is one, has been on another shard before.
	keeps bool
}

// newAttempt makes the program of a seed.
func newAttempt(seed uint64) attempt {
	shape := progtest.Shape{More: more}
	a := attempt{seed: seed, block: seed%4 != 0}
	kind := seed % 8
	if seed%3 == 0 {
		return a.keeper(kind)
	}
	switch kind {
	case 6, 7:
		return a.script(kind == 7)
	case 1:
		shape.Set = true
	case 2:
		shape.Scalar, shape.Given = true, true
	case 3:
		shape.Set, shape.Given = true, true
	case 4:
		shape.Given, shape.Ends = true, !a.block
	default:
		shape.Ends = !a.block
	}
	a.body = progtest.Body(seed, shape)
	as := " LANGUAGE plpgsql AS $body$" + a.body + "$body$"
	switch kind {
	case 1:
		a.create, a.call = "CREATE FUNCTION f() RETURNS SETOF int"+as, "SELECT * FROM f()"
	case 2:
		a.create, a.call = "CREATE FUNCTION f(given_i int, given_s text DEFAULT 'def') RETURNS int"+as, "SELECT f(3)"
	case 3:
		a.create, a.call = "CREATE FUNCTION f(given_i int, given_s text) RETURNS SETOF int"+as, "SELECT f(1 + 1, 'two')"
	case 4:
		a.create, a.call = "CREATE PROCEDURE f(given_i int, INOUT given_s text)"+as, "CALL f(4, 'four')"
	default:
		a.call = "DO $body$" + a.body + "$body$"
	}
	return a
}

// keeper makes the attempt one of a routine that keeps to a key.
func (a attempt) keeper(kind uint64) attempt {
	shape := progtest.Shape{Keeps: true, Given: true, Set: kind == 1 || kind == 3, Scalar: kind == 0 || kind == 2 || kind == 6}
	a.keeps = true
	a.body = progtest.Body(a.seed, shape)
	typ := []string{"int", "int", "smallint"}[a.seed/24%3]
	key := []string{"3", "4", "NULL", "'7'", "9", "2 + 1"}[a.seed/72%6]
	if typ == "smallint" {
		key = "(" + key + ")::smallint"
	}
	as := " LANGUAGE plpgsql AS $body$" + a.body + "$body$"
	switch {
	case shape.Set:
		a.create, a.call = "CREATE FUNCTION f(given_i "+typ+", given_s text DEFAULT 'def') RETURNS SETOF int"+as, "SELECT * FROM f("+key+")"
	case shape.Scalar:
		a.create, a.call = "CREATE FUNCTION f(given_i "+typ+", given_s text) RETURNS int"+as, "SELECT f(given_s => 'two', given_i => "+key+")"
	default:
		a.create, a.call = "CREATE PROCEDURE f(given_i "+typ+", INOUT given_s text)"+as, "CALL f("+key+", 'four')"
	}
	return a
}

// script makes the attempt one of a function in SQL.
func (a attempt) script(set bool) attempt {
	a.body = progtest.Script(a.seed)
	returns, call := "int", "SELECT f("
	if set {
		returns, call = "SETOF int", "SELECT * FROM f("
	}
	a.create = "CREATE FUNCTION f(" + progtest.ScriptArguments + ") RETURNS " + returns + " LANGUAGE sql AS $body$" + a.body + "$body$"
	a.call = call + progtest.ScriptValues + ")"
	return a
}

// outcome is what a client sees of a program, and what the program leaves behind.
type outcome struct {
	rows    []string
	notices []string
	err     *pgconn.PgError
	tables  string
	whole   bool // EXPLAIN says that one shard runs the routine
}

// try runs a program on one of the servers, and takes back what it has done.
func (p *peer) try(t *testing.T, a attempt) (o outcome) {
	t.Helper()
	must := func(sql string) string {
		got := p.simple(sql)
		if !strings.Contains(got, "<nil>") {
			t.Fatalf("seed %d: %s: %s", a.seed, sql, got)
		}
		return got
	}
	if a.create != "" {
		if got := p.simple(a.create); !strings.Contains(got, "<nil>") {
			return outcome{rows: []string{got}}
		}
	}
	if a.block {
		must("BEGIN")
		if a.keeps && a.seed%2 == 0 {
			must("SELECT count(*) FROM t WHERE a = 2")
		}
		must("SAVEPOINT before")
	}
	if a.keeps && strings.HasPrefix(a.call, "SELECT") {
		if a.block {
			must("SAVEPOINT planned")
		}
		o.whole = strings.Contains(p.simple("EXPLAIN "+a.call), "runs as a whole on shard")
		if a.block {
			must("ROLLBACK TO planned")
		}
	}
	ctx, stop := patience()
	defer stop()
	results, err := p.conn.Exec(ctx, a.call).ReadAll()
	if err != nil && !errors.As(err, &o.err) {
		t.Fatalf("seed %d: %v\n%s", a.seed, err, a.body)
	}
	for _, r := range results {
		if r.Err != nil {
			continue // rows that come before an error are nobody's
		}
		for _, row := range r.Rows {
			o.rows = append(o.rows, shown(row))
		}
		o.rows = append(o.rows, r.CommandTag.String())
	}
	o.notices, p.notices = p.notices, nil
	if a.block && o.err != nil {
		must("ROLLBACK TO before")
	}
	for _, sql := range []string{
		"SELECT * FROM t ORDER BY 1, 2, 3", "SELECT * FROM u ORDER BY 1", "SELECT * FROM ref ORDER BY 1", "SELECT * FROM home ORDER BY 1, 2",
	} {
		rows, _, _ := strings.Cut(must(sql), "<nil>") // what follows is whether a transaction is open
		o.tables += rows + "\n"
	}
	if a.block {
		must("ROLLBACK")
	}
	switch {
	case strings.HasPrefix(a.create, "CREATE FUNCTION"):
		must("DROP FUNCTION f")
	case a.create != "":
		must("DROP PROCEDURE f")
	}
	p.notices = nil
	return o
}

// refused reports whether weft did not run the program to its end, and says so.
func (o outcome) refused() bool {
	return o.err != nil && o.err.Code == "0A000" && o.err.Routine == "" && o.err.Hint != ""
}

// failure is what is compared of the error.
func (o outcome) failure() string {
	if o.err == nil {
		return ""
	}
	return failure(o.err)
}

// forget forgets names that may differ: those that PostgreSQL gives cursors, and that of the domain which the test of a CASE is of,
// where weft knows only the type below the domain.
func (o outcome) forget() {
	plainly := func(s string) string {
		return strings.ReplaceAll(unnamed.ReplaceAllString(s, "<unnamed portal>"), "operator does not exist: small ", "operator does not exist: integer ")
	}
	for i, n := range o.notices {
		o.notices[i] = plainly(n)
	}
	if o.err != nil {
		o.err.Message = plainly(o.err.Message)
	}
}

// statementNumber is where a function in SQL has failed.
var statementNumber = regexp.MustCompile(`statement \d+`)

// differ says what is not alike, or nothing.
func (a attempt) differ(want, got outcome, pristine string) string {
	want.forget()
	got.forget()
	contexts := slices.Clone(want.notices)
	if want.err != nil {
		contexts = append(contexts, want.err.Where)
	}
	if progtest.StaleLine(a.body, contexts...) {
		for _, o := range []outcome{want, got} {
			for i, n := range o.notices {
				o.notices[i] = progtest.WithoutLines(n)
			}
			if o.err != nil {
				o.err.Where = progtest.WithoutLines(o.err.Where)
			}
		}
	}
	if want.err != nil && got.err != nil && strings.Contains(want.err.Where, "during startup") {
		// PostgreSQL plans all statements of a function in SQL before the first runs, and so evaluates what is constant.
		got.err.Where = statementNumber.ReplaceAllString(got.err.Where, "during startup")
	}
	if got.refused() {
		if len(got.notices) > len(want.notices) || !slices.Equal(got.notices, want.notices[:len(got.notices)]) {
			return "before the refusal: " + firstDifferent(got.notices, want.notices) + "\n" + got.failure()
		}
		if got.tables != pristine && !strings.Contains(a.body, "COMMIT") {
			return "the refused program has left\n" + got.tables
		}
		return ""
	}
	var b strings.Builder
	if !slices.Equal(want.notices, got.notices) {
		b.WriteString("notices: " + firstDifferent(got.notices, want.notices) + "\n")
	}
	if !slices.Equal(want.rows, got.rows) {
		b.WriteString("rows: " + firstDifferent(got.rows, want.rows) + "\n")
	}
	if x, y := want.failure(), got.failure(); x != y {
		fmt.Fprintf(&b, "PostgreSQL: %s\nweft:       %s\n", x, y)
	}
	if want.tables != got.tables {
		fmt.Fprintf(&b, "PostgreSQL: %s\nweft:       %s\n", want.tables, got.tables)
	}
	return b.String()
}

func firstDifferent(got, want []string) string {
	at := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return "nothing"
	}
	for i := range max(len(got), len(want)) {
		if at(got, i) != at(want, i) {
			return fmt.Sprintf("%d\nPostgreSQL: %s\nweft:       %s", i, at(want, i), at(got, i))
		}
	}
	return ""
}

// randomData fills the tables of TestRandom.
var randomData = []string{
	"DELETE FROM t", "DELETE FROM u", "DELETE FROM ref", "DELETE FROM home",
	"INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, NULL, 3.25), (4, 'four', 4), (6, 'six', 0.5), (7, 'seven', 7)",
	"INSERT INTO u VALUES (1, 'x'), (2, 'y'), (5, 'z'), (7, NULL)",
	"INSERT INTO ref VALUES (1, 'r1'), (2, 'r2')",
	"INSERT INTO home VALUES (1, 'home')",
}

// TestRandom runs random programs over sharded tables. weft does with them what one PostgreSQL does, or refuses.
func TestRandom(t *testing.T) {
	const database = "plpgsql_random"
	harness.Weft(t).CreateDatabase(t, database)
	harness.Postgres(t).CreateDatabase(t, database)
	w := &world{connect(t, harness.Postgres(t), database), connect(t, harness.Weft(t), database), database}
	w.both(t, progtest.Tables+"CREATE TABLE ref (id int PRIMARY KEY, name text); CREATE TABLE home (id int, note text);"+progtest.Types)
	for _, sql := range []string{"SELECT weft.shard_table('t', 'a')", "SELECT weft.shard_table('u', 'id')", "SELECT weft.reference_table('ref')"} {
		if got := w.weft.simple(sql); !strings.Contains(got, "<nil>") {
			t.Fatalf("%s: %s", sql, got)
		}
	}
	for _, sql := range strings.Split(called, ";\nCREATE ") {
		w.both(t, "CREATE "+strings.TrimPrefix(strings.TrimSpace(sql), "CREATE "))
	}
	w.both(t, "SET statement_timeout = '150s'")
	ran, whole, failed, different, refused := 0, 0, 0, 0, map[string]int{}
	pristine, now := "", [2]string{}
	for end, seed := time.Now().Add(*forFlag), *seedFlag; time.Now().Before(end) || *forFlag == 0 && ran < *countFlag; seed++ {
		if now[0] != pristine || now[1] != pristine || pristine == "" {
			for _, sql := range randomData {
				w.both(t, sql)
			}
			pristine = w.weft.try(t, attempt{call: "SELECT 1"}).tables
		}
		a := newAttempt(seed)
		want, got := w.plain.try(t, a), w.weft.try(t, a)
		if got.whole {
			whole++
		}
		if now = [2]string{pristine, pristine}; !a.block {
			now = [2]string{want.tables, got.tables}
		}
		if ran++; want.err != nil {
			failed++
		}
		if got.refused() {
			refused[fmt.Sprintf("%s (%s), as by seed %d", got.err.Message, got.err.Hint, seed)]++
		}
		if d := a.differ(want, got, pristine); d != "" {
			if different++; different <= *showFlag {
				t.Errorf("seed %d, in a block: %v\n%s%s\n%s", seed, a.block, a.create, a.call, d)
			}
		}
	}
	t.Logf("%d programs, %d of them went whole to a shard, %d end with an error, %d differ", ran, whole, failed, different)
	for message, n := range refused {
		t.Logf("refused %d times: %s", n, message)
	}
	if different > 0 {
		t.Errorf("%d programs differ of %d", different, ran)
	}
}
