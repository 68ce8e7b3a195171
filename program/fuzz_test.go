package program

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	fuzzFor  = flag.Duration("for", 0, "how long TestDifferential runs programs; 0: some 200 of them")
	fuzzSeed = flag.Uint64("seed", 1, "the first program of TestDifferential; 0: another one each time")
)

// generator writes programs.
type generator struct {
	*rand.Rand
	b      strings.Builder
	depth  int
	loops  []string // labels of the loops around
	fresh  int
	set    bool // RETURN NEXT is allowed
	inside bool // a handler is around
}

func (g *generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) line(format string, args ...any) {
	fmt.Fprintf(&g.b, strings.Repeat(" ", g.depth)+format+"\n", args...)
}

// The expressions of a type. Some fail when they are evaluated.
func (g *generator) int(d int) string {
	if d <= 0 {
		return g.pick("i", "j", "1", "0", "-3", "7", "2147483647", "NULL", "sm", "arr[1]", "r.x", "p.x", "rw.a", "i", "j", "k", "outer_block.i")
	}
	switch g.IntN(9) {
	case 0:
		return g.int(d-1) + g.pick(" + ", " - ", " * ", " / ", " % ") + g.int(d-1)
	case 1:
		return "length(" + g.str(d-1) + ")"
	case 2:
		return "coalesce(" + g.int(d-1) + ", " + g.int(d-1) + ")"
	case 3:
		return "(SELECT " + g.pick("count(*)::int", "max(a)", "sum(a)::int") + " FROM t WHERE " + g.where(d-1) + ")"
	case 4:
		return "CASE WHEN " + g.bool(d-1) + " THEN " + g.int(d-1) + " ELSE " + g.int(d-1) + " END"
	case 5:
		return "(" + g.num(d-1) + ")::int"
	case 6:
		return g.pick("array_length(arr, 1)", "cardinality(arr)", "noisy(3)", "abs(i)", "greatest(i, j, 2)", "(SELECT i)", "(SELECT a FROM t WHERE a = i)")
	}
	return g.int(0)
}

func (g *generator) num(d int) string {
	if d <= 0 {
		return g.pick("n", "1.5", "0.005", "-2.50", "n", "rw.c", "1e3", "NULL::numeric")
	}
	return g.pick(g.num(d-1)+g.pick(" + ", " * ", " - ", " / ")+g.num(d-1), "round("+g.num(d-1)+", 1)", g.int(d-1)+" * 1.0", "(SELECT sum(c) FROM t)")
}

func (g *generator) str(d int) string {
	if d <= 0 {
		return g.pick("s", "v", "'abc'", "''", "'it''s'", "NULL", "r.y", "p.y", "rw.b", "s", "E'a\\nb'", "'x,\"y\"'", "'12'", "ch")
	}
	switch g.IntN(6) {
	case 0:
		return g.str(d-1) + " || " + g.str(d-1)
	case 1:
		return g.int(d-1) + " || " + g.str(d-1)
	case 2:
		return g.pick("upper", "lower", "quote_nullable", "trim") + "(" + g.str(d-1) + ")"
	case 3:
		return "(SELECT " + g.pick("max(b)", "string_agg(b, s ORDER BY a)") + " FROM t WHERE " + g.where(d-1) + ")"
	case 4:
		return g.pick("format('%s-%s', i, s)", "arr::text", "p::text", "to_jsonb(p)::text", "row_to_json(rw)::text", "r::text", "md::text", "(p).y", "array_to_string(arr, ',')")
	}
	return g.str(0)
}

func (g *generator) bool(d int) string {
	if d <= 0 {
		return g.pick("found", "b", "true", "false", "NULL", "i = j", "s IS NULL", "i > 2", "p IS NULL", "b")
	}
	switch g.IntN(6) {
	case 0:
		return g.int(d-1) + g.pick(" < ", " = ", " >= ", " <> ") + g.int(d-1)
	case 1:
		return "NOT (" + g.bool(d-1) + ")"
	case 2:
		return "(" + g.bool(d-1) + ")" + g.pick(" AND ", " OR ") + "(" + g.bool(d-1) + ")"
	case 3:
		return "EXISTS (SELECT FROM u WHERE id = " + g.int(0) + ")"
	case 4:
		return "i = ANY (arr)"
	}
	return g.str(d-1) + " = " + g.str(d-1)
}

// where is a condition on t. Now and then a name is a column and a variable.
func (g *generator) where(d int) string {
	return g.pick("a = "+g.int(d), "a <= "+g.int(0), "b = "+g.str(0), "c > "+g.num(0), "true", "t.a = i AND "+g.bool(0), "a IN (SELECT id FROM u WHERE v <> s)", "c IS NOT NULL", "k = a")
}

// value is an expression of any type.
func (g *generator) value(d int) string {
	return g.pick(g.int(d), g.num(d), g.str(d), g.bool(d), "arr", "p", "rw", "'{5,6}'", "'(3,w)'", "md", "'sad'", "ARRAY[i, 2]", "r")
}

func (g *generator) statements(n int) {
	g.depth++
	for range 1 + g.IntN(n) {
		g.statement()
	}
	g.depth--
}

func (g *generator) statement() {
	if g.b.Len() > 6000 {
		g.line("NULL;")
		return
	}
	deep := g.depth > 5
	switch k := g.IntN(34); {
	case k < 8:
		g.assign()
	case k < 11:
		g.line("RAISE %s '%% %%', %s, %s;", g.pick("NOTICE", "INFO", "WARNING"), g.value(1), g.value(0))
	case k < 13:
		g.sql()
	case k < 15:
		g.into()
	case k == 15 && !deep:
		g.line("IF %s THEN", g.bool(2))
		g.statements(2)
		if g.IntN(2) == 0 {
			g.line("ELSIF %s THEN", g.bool(1))
			g.statements(2)
		}
		if g.IntN(2) == 0 {
			g.line("ELSE")
			g.statements(2)
		}
		g.line("END IF;")
	case k == 16 && !deep:
		g.caseStmt()
	case k < 21 && !deep:
		g.loop()
	case k < 24 && !deep:
		g.block()
	case k == 24:
		g.raise()
	case k == 25:
		if len(g.loops) > 0 {
			g.line("%s %s WHEN %s;", g.pick("EXIT", "CONTINUE"), g.pick(append(g.loops, "")...), g.bool(1))
		}
	case k == 26:
		g.line("GET DIAGNOSTICS i = ROW_COUNT;")
	case k == 27:
		g.execute()
	case k == 28:
		g.line("PERFORM %s;", g.pick("noisy("+g.int(0)+")", "* FROM t WHERE "+g.where(1), g.value(1), "a FROM t ORDER BY a LIMIT 1"))
	case k == 29:
		g.cursor()
	case k == 30 && g.set:
		g.line("%s", g.pick("RETURN NEXT i;", "RETURN NEXT "+g.value(1)+";", "RETURN QUERY SELECT a FROM t WHERE "+g.where(1)+" ORDER BY a;",
			"RETURN QUERY EXECUTE 'SELECT id FROM u WHERE id <> $1 ORDER BY 1' USING i;", "RETURN;"))
	case k == 31 && g.inside:
		g.line("%s", g.pick("RAISE NOTICE '% %', SQLSTATE, SQLERRM;", "RAISE;", "GET STACKED DIAGNOSTICS s = MESSAGE_TEXT, ch = RETURNED_SQLSTATE;", "GET STACKED DIAGNOSTICS s = CONSTRAINT_NAME;"))
	case k == 32:
		g.line("ASSERT %s;", g.pick("i IS NULL OR true", g.bool(1)))
	case k == 33:
		g.line("CALL %s;", g.pick("bump(i, s)", "half(j, s)", "bump(k, ch)"))
	default:
		g.line("NULL;")
	}
}

func (g *generator) assign() {
	target := g.pick("i", "j", "n", "s", "v", "b", "sm", "ch", "md", "k", "r.x", "p.x", "p.y", "rw.a", "rw.c", "rw.b", "arr["+g.int(0)+"]", "arr[2]", "outer_block.j")
	var e string
	switch {
	case g.IntN(5) == 0:
		e = g.value(1)
	case strings.Contains("i j sm k r.x p.x rw.a", target) || strings.HasPrefix(target, "arr"):
		e = g.int(2)
	case target == "n" || target == "rw.c":
		e = g.num(2)
	case target == "b":
		e = g.bool(2)
	case target == "md":
		e = g.pick("'sad'", "'happy'", "NULL", g.str(0))
	default:
		e = g.str(2)
	}
	if g.IntN(8) == 0 {
		target, e = g.pick("arr", "p", "rw", "r"), g.pick("arr || 4", "ARRAY[i, j]", "'{1,2}'", "NULL", "p", "rw", "ROW(i, s)", "(j, 'q'::text)", "ROW(1, 'b', n)", "'{{1,2},{3,4}}'", "r")
	}
	g.line("%s %s %s;", target, g.pick(":=", ":=", "="), e)
}

func (g *generator) sql() {
	g.line("%s;", g.pick(
		"INSERT INTO t VALUES ("+g.int(1)+", "+g.str(1)+", "+g.num(0)+")",
		"INSERT INTO u VALUES ("+g.int(0)+", "+g.str(0)+")",
		"INSERT INTO u VALUES (i, s) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
		"UPDATE t SET b = "+g.str(1)+", c = "+g.num(1)+" WHERE "+g.where(1),
		"DELETE FROM t WHERE "+g.where(1),
		"UPDATE u SET v = s WHERE id = "+g.int(0),
		"INSERT INTO t SELECT id, v, n FROM u WHERE id < "+g.int(0),
		"INSERT INTO t SELECT rw.*", "SELECT 1", "TRUNCATE u",
		"INSERT INTO t (a) SELECT x FROM generate_series(1, 2) x",
		"CREATE TEMP TABLE z ON COMMIT DROP AS SELECT i AS q, s",
	))
}

func (g *generator) into() {
	strict := g.pick("", "", "", "STRICT ")
	g.line("%s;", g.pick(
		"SELECT a, b INTO "+strict+"i, s FROM t WHERE "+g.where(1)+" ORDER BY a, b, c",
		"SELECT a AS x, b AS y INTO "+strict+"r FROM t WHERE "+g.where(1)+" ORDER BY a, b, c",
		"SELECT "+g.int(1)+" AS x, "+g.str(1)+" AS y, i, s INTO r",
		"SELECT * INTO "+strict+"rw FROM t WHERE "+g.where(0)+" ORDER BY a, b, c",
		"SELECT a, b INTO p FROM t ORDER BY a, b, c",
		"SELECT max(a) INTO n FROM t WHERE "+g.where(1),
		"INSERT INTO t (a, b) VALUES ("+g.int(0)+", s) RETURNING a, c INTO j, n",
		"UPDATE t SET c = c + 1 WHERE a = "+g.int(0)+" RETURNING b INTO s",
		"DELETE FROM u WHERE id = "+g.int(0)+" RETURNING * INTO r",
		"SELECT i, count(*) INTO j, k FROM t GROUP BY i",
		"SELECT k AS x, 'k' AS y INTO r FROM t WHERE a = k ORDER BY b LIMIT 1",
	))
}

func (g *generator) caseStmt() {
	test := g.pick("", g.int(1), g.str(1))
	g.line("CASE %s", test)
	for range 1 + g.IntN(2) {
		when := g.bool(1)
		if test != "" {
			when = g.pick(g.int(0), g.int(0)+", "+g.int(0), g.str(0))
		}
		g.line("WHEN %s THEN", when)
		g.statements(2)
	}
	if g.IntN(3) > 0 {
		g.line("ELSE")
		g.statements(2)
	}
	g.line("END CASE;")
}

func (g *generator) loop() {
	g.fresh++
	label := fmt.Sprintf("l%d", g.fresh)
	g.line("<<%s>>", label)
	g.loops = append(g.loops, label)
	switch g.IntN(8) {
	case 0, 1:
		g.line("FOR %s IN %s LOOP", g.pick("i", "q"), g.pick("1..3", "REVERSE 3..1", "1..6 BY 2", "0.."+"least("+g.int(0)+", 2)", "1..NULL", "(j)..j + 1"))
	case 2, 3:
		g.line("FOR %s IN SELECT a AS x, b AS y FROM t WHERE %s ORDER BY a, b, c LOOP", g.pick("r", "r", "i, s", "p"), g.where(1))
	case 4:
		g.line("FOR rw IN EXECUTE 'SELECT * FROM t WHERE a < $1 ORDER BY a, b, c' USING %s LOOP", g.int(0))
	case 5:
		g.line("FOREACH %s IN ARRAY %s LOOP", g.pick("i", "k"), g.pick("arr", "ARRAY[1, NULL, 3]", "'{}'::int[]", "'{{1,2},{3,4}}'::int[]"))
	case 6:
		g.line("FOR rr IN cur(%s) LOOP", g.int(0))
		g.depth++
		g.line("RAISE NOTICE '%%', rr.a;")
		g.depth--
	case 7:
		g.line("FOREACH arr SLICE 1 IN ARRAY '{{1,2},{3,4}}'::int[] LOOP")
	}
	g.statements(3)
	g.loops = g.loops[:len(g.loops)-1]
	g.line("END LOOP%s;", g.pick("", " "+label))
}

func (g *generator) block() {
	if g.IntN(2) == 0 {
		g.line("DECLARE")
		g.line(" %s := %s;", g.pick("i int", "k bigint", "s varchar(4)", "n numeric(4,1)", "j CONSTANT int", "b bool NOT NULL", "ch char(3)", "md mood", "k t.a%TYPE", "sm i%TYPE"), g.value(1))
	}
	g.line("BEGIN")
	g.statements(3)
	if g.IntN(3) > 0 {
		was := g.inside
		g.inside = true
		g.line("EXCEPTION WHEN %s THEN", g.pick("OTHERS", "OTHERS", "division_by_zero OR data_exception", "SQLSTATE '22P02'", "unique_violation", "plpgsql_error", "integrity_constraint_violation"))
		g.statements(2)
		if g.IntN(2) == 0 {
			g.line("WHEN OTHERS THEN RAISE NOTICE '%% %%', SQLSTATE, SQLERRM;")
		}
		g.inside = was
	}
	g.line("END;")
}

func (g *generator) raise() {
	g.line("%s;", g.pick(
		"RAISE EXCEPTION 'e % %', "+g.value(1)+", i", "RAISE EXCEPTION USING ERRCODE = '22012', MESSAGE = 'm', HINT = "+g.str(0),
		"RAISE unique_violation USING DETAIL = 'd'", "RAISE SQLSTATE 'XX123'", "RAISE NOTICE 'n %%' USING HINT = 'h', ERRCODE = 'data_exception'", "RAISE WARNING '%', "+g.str(1)))
}

func (g *generator) execute() {
	g.line("EXECUTE %s;", g.pick(
		"'SELECT a, b FROM t WHERE a = $1' INTO i, s USING "+g.int(1),
		"'INSERT INTO u VALUES ($1, $2)' USING "+g.int(0)+", s", g.str(1), "'SELECT 1/' || "+g.int(0)+" INTO j",
		"format('UPDATE t SET b = %L WHERE a = %s', s, i)", "'SELECT * FROM t ORDER BY 1, 2, 3' INTO rw", "'SELECT 1 AS x' INTO STRICT r"))
}

func (g *generator) cursor() {
	g.line("%s;", g.pick("OPEN cur("+g.int(0)+")", "FETCH cur INTO i", "CLOSE cur", "MOVE NEXT FROM cur", "FETCH FIRST FROM cur INTO rw", "FETCH RELATIVE 0 FROM cur INTO r",
		"OPEN ref FOR SELECT a, b FROM t WHERE "+g.where(1)+" ORDER BY a, b, c", "FETCH ref INTO i, s", "CLOSE ref", "FETCH ABSOLUTE 1 FROM ref INTO p"))
}

// program writes a body.
func (g *generator) program() string {
	if n := g.IntN(6); n < 2 {
		g.b.WriteString([]string{"#variable_conflict use_column\n", "#variable_conflict use_variable\n"}[n])
	}
	g.b.WriteString("<<outer_block>>\nDECLARE\n i int := 2; j int; k int := 1; n numeric := 1.25; s text := 'str'; v varchar(5) := 'var'; b bool := true;\n" +
		" sm small := 3; ch char(4) := 'c'; arr int[] := '{1,2,3}'; r record; p pair := (1, 'p'); rw t%ROWTYPE; md mood := 'happy'; ref refcursor := 'refc';\n" +
		" cur SCROLL CURSOR (lo int) FOR SELECT * FROM t WHERE t.a >= lo ORDER BY 1, 2, 3;\nBEGIN\n SELECT 1 AS x, 'rec'::text AS y INTO r;\n")
	if g.IntN(3) == 0 {
		g.statements(8)
	} else { // an error ends one statement only
		for range 2 + g.IntN(10) {
			g.line("BEGIN")
			g.statements(2)
			g.line("EXCEPTION WHEN OTHERS OR assert_failure THEN RAISE NOTICE '%% %%', SQLSTATE, SQLERRM; END;")
		}
	}
	g.line("RAISE NOTICE '%% %% %% %% %% %% %%', i, j, n, s, arr, p, r;")
	g.b.WriteString("END")
	return g.b.String()
}

// TestDifferential lets PostgreSQL and Run run programs that are made at random. Both see the same rows, notices,
// errors and tables, or Run refuses.
func TestDifferential(t *testing.T) {
	c := connect(t)
	if err := c.simple(tables + "SET statement_timeout = '30s';"); err != nil {
		t.Fatal(err)
	}
	seed := *fuzzSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1e9
	}
	cache := NewCache()
	ran, no, failed, different := 0, map[string]int{}, 0, 0
	for end := time.Now().Add(*fuzzFor); time.Now().Before(end) || *fuzzFor == 0 && ran < 200; seed++ {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), set: seed%3 == 0}
		body := g.program()
		create, call := "DO "+dollar(body), ""
		if g.set {
			create, call = "CREATE FUNCTION f() RETURNS SETOF int LANGUAGE plpgsql AS "+dollar(body), "SELECT * FROM f()"
		}
		want := c.native(create, call)
		got := c.ours(t.Context(), create, nil, cache)
		ran++
		if refused(got) {
			no[got.err]++
			continue
		}
		if strings.HasPrefix(want.err, "42601") && got.err == "" || want.err != "" {
			got.rows = want.rows
		}
		if want.err != "" {
			failed++
		}
		want.context, got.context = last(want.context), last(got.context)
		if strings.Contains(want.context, "compilation of") {
			want.context, got.context = "", ""
		}
		if staleLine(body, want) {
			got.forgetLines()
			want.forgetLines()
		}
		if !reflect.DeepEqual(got, want) {
			if different++; different <= 3 {
				t.Errorf("seed %d\n%s\n%s", seed, body, difference(got, want))
			}
		}
	}
	t.Logf("%d programs, %d of them end with an error, %d differ, refused: %v", ran, failed, different, no)
	if ran < 5 || different > 0 {
		t.Errorf("%d programs differ of %d", different, ran)
	}
}

// difference shows what is not alike.
func difference(got, want outcome) string {
	var b strings.Builder
	a, c := append(got.rows, got.notices...), append(want.rows, want.notices...)
	for i := range max(len(a), len(c)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(c) {
			y = c[i]
		}
		if x != y {
			fmt.Fprintf(&b, "got  %s\nwant %s\n", x, y)
			break
		}
	}
	fmt.Fprintf(&b, "got  %s %s %s\nwant %s %s %s", got.err, got.context, got.tables, want.err, want.context, want.tables)
	return b.String()
}

var lineNumber = regexp.MustCompile(`line (\d+) at`)

// staleLine reports whether PostgreSQL names the line of a declaration of a variable instead of that of a statement, as it
// does after the variable's value has failed (PostgreSQL 15).
func staleLine(body string, o outcome) bool {
	lines := strings.Split(body, "\n")
	for _, s := range append(o.notices, o.context) {
		if m := lineNumber.FindStringSubmatch(s); m != nil && !strings.Contains(s, "noisy") {
			if n, _ := strconv.Atoi(m[1]); n > 1 && n <= len(lines) && strings.TrimSpace(lines[n-2]) == "DECLARE" {
				return true
			}
		}
	}
	return false
}

func (o *outcome) forgetLines() {
	o.context = lineNumber.ReplaceAllString(o.context, "")
	o.notices = slices.Clone(o.notices)
	for i, n := range o.notices {
		o.notices[i] = lineNumber.ReplaceAllString(n, "")
	}
}

// last is the last line of a CONTEXT, which names the line of the program.
func last(context string) string { return context[strings.LastIndexByte(context, '\n')+1:] }
