package planner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/plan"
)

// roundTrip writes each statement of a text through a template and fills in the
// literals it had. It returns the texts with the literals given by fill.
func roundTrip(t *testing.T, sql string) (out []string, a *analysis, lits []string) {
	t.Helper()
	var s parser.Scanner
	if !s.Scan([]byte(sql), parser.Options{}) {
		return nil, nil, nil
	}
	tree, err := parser.ParseTree(sql, parser.Options{})
	if err != nil {
		return nil, nil, nil
	}
	a = &analysis{out: &plan.Plan{}, held: map[int]bool{}}
	a.client = text{sql: sql, tree: tree, literals: s.Literals}
	for _, l := range s.Literals {
		lits = append(lits, sql[l.Start:l.End])
	}
	for _, raw := range tree.Statements {
		if raw.Stmt.GetSelectStmt() == nil {
			continue
		}
		text, err := a.gatherer().render(raw.Stmt)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		got := text.Append(nil, &plan.Fill{Literal: func(dst []byte, i int) []byte { return append(dst, lits[i]...) }})
		want, err := parser.Deparse(raw.Stmt)
		if err != nil {
			t.Fatal(err)
		}
		x, err := pg.Fingerprint(string(got))
		if err != nil {
			t.Fatalf("%s\n=> %s: %v", sql, got, err)
		}
		if len(tree.Statements) == 1 {
			want = sql
		}
		y, _ := pg.Fingerprint(want)
		if x != y {
			t.Errorf("%s\n=> %s\nis another statement", sql, got)
		}
		// The fingerprint does not see constants. Their values must be the same.
		if g, w := constants(t, string(got)), constants(t, sql); len(tree.Statements) == 1 && g != w {
			t.Errorf("%s\n=> %s\nhas constants %s, want %s", sql, got, g, w)
		}
		out = append(out, string(got))
	}
	return out, a, lits
}

// constants lists the constants of a text.
func constants(t *testing.T, sql string) string {
	t.Helper()
	tree, err := pg.Parse(sql)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	parser.Walk(tree.Stmts[0], func(m any) bool {
		if c, ok := m.(*pg.A_Const); ok {
			c.Location = 0
			b.WriteString(c.String() + "; ")
		}
		return true
	})
	return strings.ReplaceAll(b.String(), "  ", " ")
}

func TestTemplate(t *testing.T) {
	for _, sql := range []string{
		`SELECT 1, -1, - 1, +1, - - 1, -(1), 1.5, -1.5e3, 'x', E'a\nb', $$q$$, $a$b$a$, B'101', X'1F', NULL, true, false`,
		`SELECT -2147483648, 2147483648, -9223372036854775808, 9223372036854775808`,
		`SELECT a - -1, a--1
 , -1::int, (-1)::int, 2 ^ -1, -1 ^ 2, - a ^ 2 FROM t`,
		`SELECT 'a'
'b'`,
		`SELECT interval '1 day', interval '1' day, interval '1:2' hour to minute, interval(3) '1.23456', interval '1.2' second(3), '1'::interval`,
		`SELECT x::interval(2), x::interval day to second(4), cast(x AS interval hour) FROM t`,
		`SELECT date '2020-01-01', timestamp '2020-01-01', timestamptz(3) '2020-01-01', time(2) with time zone '1:00', timestamp(2) with time zone '2020-01-01', time '1:00', time(1) '1:00'`,
		`SELECT x::numeric(10,2), x::numeric(3,-2), x::varchar(5), x::char(3), x::bit(4), x::bit varying(5), x::char, x::bpchar, x::float(5), x::timestamptz(0), x::decimal(4) FROM t`,
		`SELECT char 'abc', nchar 'abc', character varying 'abc', bit '101', national character(3) 'abcd', char(2) 'abc'`,
		`SELECT extract(year FROM x), extract('month' FROM x), extract("day" FROM now()), pg_catalog.extract('hour', x) FROM t`,
		`SELECT position('a' IN x), substring(x FROM 2 FOR 3), substring(x FROM 'a.*'), substring(x SIMILAR 'a' ESCAPE '#'), overlay(x PLACING 'z' FROM 1 FOR 2), trim(both 'x' FROM y), trim('a'), ltrim(x, 'a') FROM t`,
		`SELECT x AT TIME ZONE 'UTC', timezone('UTC', x), x AT TIME ZONE interval '1 hour', normalize('a', NFC), normalize('a'), 'a' IS NFC NORMALIZED, 'a' IS NORMALIZED FROM t`,
		`SELECT x LIKE 'a%' ESCAPE '!', x ILIKE 'b', x SIMILAR TO 'c' ESCAPE '#', x NOT LIKE 'd', x ~ 'e' FROM t`,
		`SELECT x IN (1, 2, -3), x BETWEEN 1 AND 2, x BETWEEN SYMMETRIC 3 AND -1, x = ANY ('{1,2}'), x = ANY (ARRAY[1,2]), x IS DISTINCT FROM 5 FROM t`,
		`SELECT (ARRAY[1,2,3])[1], x[1], x[1:2], x[:2], ('{1}'::int[])[1], (ROW(1, 'a')).f1 FROM t`,
		`SELECT CASE x WHEN 1 THEN 'a' ELSE 'b' END, coalesce(x, 0), nullif(x, 1), greatest(1, x), grouping(x) FROM t GROUP BY x`,
		`SELECT a, b, sum(c) FROM t GROUP BY 1, 2 HAVING sum(c) > 5 ORDER BY 2 DESC, 1 NULLS FIRST LIMIT 10 OFFSET 5`,
		`SELECT a FROM t FETCH FIRST 5 ROWS ONLY`,
		`SELECT a FROM t ORDER BY a OFFSET 2 ROWS FETCH FIRST 5 ROWS WITH TIES`,
		`SELECT a FROM t ORDER BY a FETCH FIRST (2 + 3) ROWS WITH TIES`,
		`SELECT a FROM t FETCH FIRST ROW ONLY`,
		`SELECT a FROM t LIMIT ALL`,
		`SELECT a FROM t TABLESAMPLE bernoulli (10) REPEATABLE (42)`,
		`SELECT sum(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND 2 FOLLOWING), lag(a, 1, -1) OVER w FROM t WINDOW w AS (ORDER BY d RANGE BETWEEN interval '1 day' PRECEDING AND CURRENT ROW)`,
		`SELECT string_agg(a, ',' ORDER BY b), percentile_cont(0.5) WITHIN GROUP (ORDER BY a), count(*) FILTER (WHERE a > 1) FROM t`,
		`WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 10) SEARCH DEPTH FIRST BY n SET o CYCLE n SET c TO 'Y' DEFAULT 'N' USING p SELECT * FROM r`,
		`VALUES (1, 'a'), (-2, 'b') ORDER BY 1 LIMIT 1`,
		`SELECT 1 UNION ALL (SELECT 2 LIMIT 1) INTERSECT SELECT 3 EXCEPT ALL SELECT 4 ORDER BY 1`,
		`SELECT * FROM generate_series(1, 10) WITH ORDINALITY AS g(a, b), LATERAL (SELECT 1) s, ROWS FROM (unnest('{1}'::int[]), json_to_recordset('[]') AS (a int, b varchar(3))) x`,
		`SELECT * FROM xmltable('/a' PASSING '<a/>' COLUMNS b int PATH 'b' DEFAULT 3)`,
		`SELECT xmlelement(name a, 'x'), xmlforest('a' AS b), xmlroot('<a/>', version '1.0', standalone yes), xmlserialize(content '<a/>' AS text), xmlexists('//a' PASSING '<a/>')`,
		`SELECT '{"a":1}'::jsonb -> 'a' ->> 0, '{}'::jsonb @> '{"a": 1}', point '(1,2)', '(1,2)'::point, bool 't', 't'::bool, 'f'::boolean`,
		`SELECT (SELECT 1), EXISTS (SELECT 2), a IN (SELECT 3), a = ALL (SELECT 4), ARRAY(SELECT 5) FROM t`,
		`SELECT a COLLATE "C" < 'x', 'a' || 'b', - 'x'::int, NOT a = 1 FROM t`,
		`SELECT 0x1F, 1_000, 0b11, 1e10, .5, 5.`,
		`SELECT (1, 2) OVERLAPS (3, 4), (DATE '2001-02-16', DATE '2001-12-21') OVERLAPS (DATE '2001-10-30', interval '1 day')`,
		`SELECT current_timestamp(3), localtime(2), current_date, current_time`,
		`SELECT f(1, b => 2, VARIADIC c => ARRAY[3]), f(VARIADIC '{1}') FROM t`,
		`SELECT DISTINCT ON (a, 1) a FROM t ORDER BY a, 1 FOR UPDATE OF t SKIP LOCKED`,
		`SELECT 1 AS "select", 2 AS "a""b", "t"."x y" FROM "T" AS "t" WHERE "t".k = 3`,
		`SELECT 1987000000, 1987000001, a::timestamptz(3) FROM t`,
		`SELECT '1987000000'::numeric, a::interval(3) FROM t`,
		`SELECT $1, $2::int, $1 + 1 FROM t LIMIT $3`,
		`SELECT`,
		`SELECT FROM t WHERE a = 1`,
		`TABLE t`,
		`SELECT - (- 1), -(-(1)), - (2.5)`,
	} {
		roundTrip(t, sql)
	}
}

// TestTemplateKept: literals that are no holes make a plan hold for one text.
func TestTemplateKept(t *testing.T) {
	for sql, exact := range map[string]bool{
		`SELECT U&'d\0061t', 1`:          true,
		`SELECT U&'d!0061t' UESCAPE '!'`: true,
		`SELECT N'abc'`:                  true,
		`SELECT x::numeric(10,2) FROM t`: false,
		`SELECT x::interval(2) FROM t`:   false,
		`SELECT x::int[3] FROM t`:        true,
		`SELECT 'a', -1 FROM t`:          false,
		`SELECT interval '1' day`:        false,
	} {
		_, a, lits := roundTrip(t, sql)
		if got := a.out.Exact || len(a.held) != len(lits); got != exact {
			t.Errorf("%s: exact is %v (%d of %d literals)", sql, got, len(a.held), len(lits))
		}
	}
}

func TestTemplateFiles(t *testing.T) {
	files, err := filepath.Glob("../integration/routing/testdata/*.sql")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	n := 0
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, stmt := range strings.Split(string(data), ";\n") {
			out, _, _ := roundTrip(t, stmt)
			n += len(out)
		}
	}
	if n < 200 {
		t.Fatalf("only %d statements", n)
	}
}

func TestTemplateBrackets(t *testing.T) {
	for _, sql := range []string{
		`SELECT (a = 5) IN (true, false), (a = 5) BETWEEN b AND c, a BETWEEN (b = c) AND (c OR d), (a = 5) LIKE b, a LIKE (b = c)`,
		`SELECT (a = b) IS DISTINCT FROM true, x IS NOT DISTINCT FROM (y = z), (a = 5) = ANY (b), (a < b) IN (SELECT 1), (a > 7) <> ALL (ARRAY[false])`,
		`SELECT (a IS NULL) IS TRUE, (a IN (1)) IN (true), (NOT a) IS NULL, (a OR b) IS TRUE, (a IS TRUE) IS NULL, NOT (a IS NULL)`,
		`SELECT (coalesce(ARRAY['x'], ARRAY['y']))[1], (CASE WHEN a THEN b END)[1], (a || b)[1], (f(x))[1], (f(x)).y, (a).b.c, (a).b[1], (ROW(1, 2)).f1, ((SELECT b))[1]`,
		`SELECT (a AND b) OR c, a AND (b OR c), NOT (a AND b), (a = b) = c, a = (b = c), (a + b) * c, a + (b * c), - (a + b), -(- a), (- a) ^ 2, - a ^ 2`,
		`SELECT (a COLLATE "C") || b, (a || b) COLLATE "C", (a = b)::text, (NOT a)::text, (a IN (1, 2))::int, (a AT TIME ZONE b)::date, (a AT TIME ZONE b) AT TIME ZONE c, a AT TIME ZONE (b || c)`,
		`SELECT (x, y) = (1, 2), (x, y) IN (SELECT 1, 2), ((x = y), z) = (true, 1), (a OVERLAPS b) FROM t WHERE (SELECT 1) = 1`,
		`SELECT x = (SELECT 1), (SELECT 1) + 1, EXISTS (SELECT 1) = true, (a = ANY (SELECT 1)) = true, NOT EXISTS (SELECT 1), NOT a IN (SELECT 1)`,
		`SELECT (a ~ b) ~ c, a ~ (b ~ c), (a @> b) = c, (a -> 'b') ->> 'c', a -> ('b' || 'c'), (x IS DOCUMENT) = true, (a LIKE b ESCAPE c) = d, (a SIMILAR TO b) IS NULL`,
		`SELECT a OPERATOR(pg_catalog.+) b * c, (a OPERATOR(pg_catalog.+) b) * c, a OPERATOR(pg_catalog.+) (b OPERATOR(pg_catalog.*) c)`,
		`SELECT CASE WHEN a = b IS TRUE THEN 1 END, CASE (a = b) WHEN true THEN 1 END`,
		`SELECT sum(a) FILTER (WHERE (a = 1) IN (true)) OVER (PARTITION BY (a = 1) ORDER BY (b IN (1)) DESC) FROM t GROUP BY (a = 1), ((b = 2)) HAVING (count(*) > 1) IN (true) ORDER BY (a = 1) IN (true) LIMIT (1 + 1)`,
	} {
		roundTrip(t, sql)
	}
}
