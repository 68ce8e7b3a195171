package planner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/parser"
	"weft/plan"
	"weft/planner"
)

// gathered answers a query as its plan says, with the shards' schemas in the place
// of shards and tables in the place of what travels. It returns nil for a query
// that fails.
func (b *brute) gathered(g *plan.Gather, sql string, literals []parser.Literal) ([]string, error) {
	fill := &plan.Fill{
		Literal: func(dst []byte, i int) []byte { return append(dst, sql[literals[i].Start:literals[i].End]...) },
		Now:     func(dst []byte) []byte { return append(dst, "now()"...) },
		Input: func(dst []byte, i int) []byte {
			dst = append(dst, '(')
			for s := range bruteShards {
				if s > 0 {
					dst = append(dst, " UNION ALL "...)
				}
				dst = fmt.Appendf(dst, "SELECT * FROM pg_temp.p%d_%d", i, s)
			}
			return append(dst, ')')
		},
		Type: func(dst []byte, i, column int) []byte {
			var name string
			err := b.conn.QueryRow(context.Background(), "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = $1::regclass AND attnum = $2",
				fmt.Sprintf("pg_temp.p%d_0", i), column+1).Scan(&name)
			if err != nil {
				b.Fatal(err)
			}
			return append(dst, name...)
		},
	}
	if _, err := b.conn.Exec(context.Background(), "BEGIN"); err != nil {
		return nil, err
	}
	defer b.exec("ROLLBACK")
	for i, p := range g.Pieces {
		for s := range bruteShards {
			if p.Where == plan.OnCopy && s > 0 {
				b.exec(fmt.Sprintf("CREATE TEMP TABLE p%d_%d ON COMMIT DROP AS SELECT * FROM pg_temp.p%d_0 WHERE false", i, s, i))
				continue
			}
			b.exec(fmt.Sprintf("SET LOCAL search_path = s%d", s))
			text := strings.ReplaceAll(string(p.Text.Append(nil, fill)), "whole.", "")
			d, err := b.conn.PgConn().Prepare(context.Background(), "", text, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Text, err)
			}
			var names []string
			for n, f := range d.Fields {
				name := fmt.Sprintf("%q", f.Name)
				if slices.Contains(names, name) {
					name = fmt.Sprintf("again%d", n)
				}
				names = append(names, name)
			}
			script := fmt.Sprintf("CREATE TEMP TABLE p%d_%d (%s) ON COMMIT DROP AS %s", i, s, strings.Join(names, ", "), text)
			if _, err := b.conn.PgConn().Exec(context.Background(), script).ReadAll(); err != nil {
				return nil, fmt.Errorf("%s: %w", p.Text, err)
			}
		}
	}
	if _, err := b.conn.Exec(context.Background(), "SET LOCAL search_path = pg_catalog"); err != nil {
		return nil, err
	}
	results, err := b.conn.PgConn().Exec(context.Background(), string(g.Remainder.Append(nil, fill))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Remainder, err)
	}
	return lines(results[0]), nil
}

func lines(r *pgconn.Result) []string {
	var head []string
	for _, f := range r.FieldDescriptions {
		head = append(head, fmt.Sprintf("%s %d %d", f.Name, f.DataTypeOID, f.TypeModifier))
	}
	var rows []string
	for _, row := range r.Rows {
		rows = append(rows, fmt.Sprintf("%q", row))
	}
	slices.Sort(rows)
	return append(head, rows...)
}

// checkWhole compares what the plan of a query in one piece, or any, gives with
// what one server gives. It reports whether there is such a plan.
func (b *brute) checkWhole(sql string, any bool) bool {
	b.Helper()
	var s parser.Scanner
	if !s.Scan([]byte(sql), parser.Options{}) {
		b.Fatalf("does not scan: %s", sql)
	}
	g, _, _ := planner.Whole(b.env, sql, s.Literals, nil)
	if any && g == nil {
		p := planner.Plan(b.env, sql, s.Literals, nil)
		if p.Refusal != nil && p.Refusal.Code == "XX000" {
			b.Fatalf("%s\n%s", sql, p)
		}
		g = p.Gather()
	}
	if g == nil {
		return false
	}
	results, err := b.conn.PgConn().Exec(context.Background(), "BEGIN; SET LOCAL search_path = whole; "+sql+"; ROLLBACK").ReadAll()
	if err != nil {
		b.exec("ROLLBACK")
		var e *pgconn.PgError
		if !errors.As(err, &e) {
			b.Fatal(err)
		}
		return false
	}
	want := lines(results[2])
	for ; g != nil; g = g.Otherwise {
		got, err := b.gathered(g, sql, s.Literals)
		var e *pgconn.PgError
		switch {
		case errors.As(err, &e) && e.Code == "57014":
		case err != nil:
			b.Fatalf("%s\n%s%v", sql, g, err)
		case !slices.Equal(got, want):
			b.Fatalf("%s\n%sgives\n%s\none server\n%s", sql, g, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	return true
}

// nesteds are queries that have pieces below the top.
var nesteds = []string{
	"SELECT string_agg(x::text, ',') FROM (SELECT x FROM a WHERE x IS NOT NULL ORDER BY x) q",
	"SELECT k, x FROM (SELECT k, x FROM a ORDER BY k, x) q LIMIT 3",
	"SELECT * FROM b WHERE EXISTS (SELECT k / 0 FROM a) AND EXISTS (SELECT * FROM d WHERE x = 1)",
	"SELECT * FROM b WHERE EXISTS (SELECT generate_series(1, 0) FROM a)",
	"SELECT * FROM b WHERE EXISTS (SELECT count(*) FROM a WHERE k = 100) AND x IN (SELECT max(x) FROM d)",
	"SELECT * FROM b WHERE x IN (SELECT x FROM a) AND x NOT IN (SELECT x FROM d WHERE x > 2)",
	"SELECT (SELECT count(*) FROM a WHERE x = 0) AS c1 FROM b GROUP BY ROLLUP ((SELECT count(*) FROM a WHERE x = 0))",
	"WITH w AS (SELECT x, sum(k) AS s FROM a GROUP BY x) SELECT * FROM w w1 JOIN w w2 ON w1.s < w2.s",
	"SELECT x, sum(k) FROM a GROUP BY x HAVING sum(k) > (SELECT avg(k) FROM b)",
	"SELECT * FROM v4 JOIN (SELECT x, count(*) AS n FROM v3 GROUP BY x) q ON q.n = v4.x",
	"SELECT NULL UNION SELECT x FROM b UNION ALL SELECT max(x) FROM d",
}

// wholes are queries that run in one piece.
var wholes = []string{
	"SELECT * FROM a",
	"SELECT k, x FROM a ORDER BY x, k LIMIT 3 OFFSET 2",
	"SELECT k FROM a ORDER BY x DESC, k DESC NULLS LAST LIMIT 5",
	"SELECT k FROM a ORDER BY k FETCH FIRST 3 ROWS WITH TIES",
	"SELECT a.k, b.x FROM a JOIN b ON a.k = b.k LEFT JOIN c ON c.k = a.k",
	"SELECT a.k, q.x FROM a, LATERAL (SELECT b.x FROM b WHERE b.k = a.k ORDER BY x LIMIT 1) q",
	"SELECT k, count(*) FROM a GROUP BY k",
	"SELECT DISTINCT x FROM a",
	"SELECT DISTINCT x FROM a ORDER BY x DESC LIMIT 2",
	"SELECT DISTINCT x + 1 FROM a ORDER BY x + 1",
	"SELECT DISTINCT ON (x) x, k FROM a ORDER BY x, k",
	"SELECT DISTINCT ON (x + 1) x, k + 1 AS y FROM a ORDER BY x + 1, y DESC",
	"SELECT k, row_number() OVER (PARTITION BY k ORDER BY x) FROM a",
	"SELECT row_number() OVER (ORDER BY k, x), a.* FROM a",
	"SELECT count(*), count(x), sum(x), min(x), max(k), avg(x), bool_and(x > 1), bool_or(x > 1), every(x > 0), bit_and(x), bit_or(x) FROM a",
	"SELECT count(*), sum(x), avg(x), min(x) FROM a WHERE k = 100",
	"SELECT x, count(*), sum(k), avg(k::numeric), avg(k::float8), sum(k::float4), sum(k::bigint) FROM a GROUP BY x",
	"SELECT x, avg(k::float4), avg(make_interval(secs => k)) FROM a GROUP BY x",
	"SELECT x, count(DISTINCT k), sum(DISTINCT k), avg(DISTINCT k) FILTER (WHERE k > 2), count(*), min(DISTINCT k) FROM a GROUP BY x",
	"SELECT count(DISTINCT x), count(DISTINCT k), sum(x) FROM a",
	"SELECT x % 2 AS p, sum(k) * 2 + count(*) FROM a GROUP BY p HAVING count(*) > 1 ORDER BY p NULLS FIRST LIMIT 2",
	"SELECT x, k, count(*), grouping(x, k) FROM a GROUP BY ROLLUP (x, k)",
	"SELECT x, k % 2, sum(k) FROM a GROUP BY CUBE (1, 2) HAVING sum(k) > 1",
	"SELECT x, k, sum(k) FROM a GROUP BY GROUPING SETS ((x), (k), ()), x",
	"SELECT x, sum(count(*)) OVER (ORDER BY x), rank() OVER (ORDER BY sum(k) DESC, x) FROM a GROUP BY x",
	"SELECT x, array_agg(k ORDER BY k), string_agg(k::text, ',' ORDER BY k) FROM a GROUP BY x",
	"SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY k), mode() WITHIN GROUP (ORDER BY x) FROM a WHERE k IN (1, 2, 3)",
	"SELECT stddev(k), variance(x), round(corr(k, x)::numeric, 6) FROM a",
	"SELECT r.k, r.x, count(*) FROM a JOIN r ON a.x = r.k GROUP BY r.k, r.x",
	"SELECT FROM a",
	"SELECT FROM a GROUP BY x",
	"SELECT 1 FROM a HAVING true",
	"SELECT 1 FROM a HAVING count(*) > 100",
	"SELECT 'a' AS one, count(*) FROM a GROUP BY one",
	"SELECT DISTINCT count(*) FROM a GROUP BY x ORDER BY count(*)",
	"SELECT a.x, count(*) FROM a GROUP BY x ORDER BY a.x",
	"SELECT x, generate_series(1, 2), count(*) FROM a GROUP BY x, generate_series(1, 2)",
	"SELECT unnest(ARRAY[x, k]) AS u, count(*) FROM a GROUP BY u",
	"SELECT k FROM a UNION SELECT k FROM d ORDER BY k LIMIT 4",
	"SELECT k, x FROM a EXCEPT SELECT k, x FROM r",
	"SELECT k, x FROM a INTERSECT ALL SELECT k, x FROM d",
	"SELECT x FROM a UNION ALL SELECT k FROM d ORDER BY 1 DESC LIMIT 6",
	"WITH w AS (SELECT k, count(*) AS n FROM b GROUP BY k) SELECT * FROM w w1 JOIN w w2 USING (k)",
	"WITH w AS (SELECT k, x FROM a) SELECT x, count(*) FROM w GROUP BY x",
	"SELECT (SELECT max(b.x) FROM b WHERE b.k = a.k), EXISTS (SELECT FROM d WHERE d.k = a.k) FROM a",
	"SELECT sum((SELECT max(b.x) FROM b WHERE b.k = a.k)) FROM a GROUP BY k",
	"SELECT max(x)::text || 'a', coalesce(sum(x), 0), nullif(count(*), 0) FROM a WHERE k > 5",
	"SELECT CASE WHEN count(*) > 3 THEN sum(x) ELSE -1 END AS s, min(k)::varchar(3) FROM a",
	"SELECT * FROM (SELECT x FROM b UNION ALL SELECT x FROM d) u",
	"SELECT x, count(*) FROM (SELECT x FROM b UNION ALL SELECT x FROM d) u GROUP BY x",
	"SELECT q.x, sum(q.n) FROM (SELECT k, x, count(*) AS n FROM b GROUP BY k, x) q JOIN a ON a.k = q.k GROUP BY q.x",
	"SELECT q.k FROM (SELECT DISTINCT a.k, a.x FROM a, b WHERE a.k = b.k) q JOIN c ON c.k = q.k",
	"SELECT * FROM a FULL JOIN b ON a.k = b.k",
	"SELECT * FROM a FULL JOIN b USING (k) ORDER BY k, a.x, b.x LIMIT 7",
	"SELECT j.k, count(*), sum(c.x) FROM (a FULL JOIN b USING (k)) j(k, y, z) JOIN c ON c.k = j.k GROUP BY j.k",
	"SELECT k, x FROM (SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) AS n FROM a) q WHERE n = 1",
	"SELECT q.k, p.x FROM (SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x) AS n FROM a) q JOIN (SELECT DISTINCT ON (k) k, x FROM b ORDER BY k, x) p ON p.k = q.k",
	"SELECT x FROM v3 ORDER BY k, x LIMIT 5",
	"SELECT v4.x, count(*) FROM v4 JOIN v1 USING (k) GROUP BY v4.x",
}

func TestWhole(t *testing.T) {
	b := newBrute(t)
	for _, sql := range wholes {
		if !b.checkWhole(sql, false) {
			t.Errorf("not in one piece, or it fails: %s", sql)
		}
	}
}

// TestWideAggregates: a query has at most 1664 columns in PostgreSQL, and an avg
// needs two.
func TestWideAggregates(t *testing.T) {
	b := newBrute(t)
	list := make([]string, 840)
	for i := range list {
		list[i] = fmt.Sprintf("avg(x + %d)", i)
	}
	sql := "SELECT " + strings.Join(list, ", ") + " FROM a"
	if !b.checkWhole(sql, true) {
		t.Error("not gathered, or it fails")
	}
	list = slices.Repeat([]string{"x"}, 1660)
	if !b.checkWhole("SELECT "+strings.Join(list, ", ")+" FROM a ORDER BY k, x, k + x, k - x, k * x", true) {
		t.Error("not gathered, or it fails")
	}
}

func TestNested(t *testing.T) {
	b := newBrute(t)
	for _, sql := range nesteds {
		if !b.checkWhole(sql, true) {
			t.Errorf("not gathered, or it fails: %s", sql)
		}
	}
}

// TestLocal checks random queries by brute force, see rounds.
func TestLocal(t *testing.T) {
	b := newBrute(t)
	var one, other int
	rounds(t, 1, 200, func(g *generator) {
		sql, reads := g.statement()
		if reads && b.checkWhole(sql, true) {
			one++
		} else {
			other++
		}
	})
	t.Logf("gathered %d, others %d", one, other)
	if one < 50 {
		t.Errorf("only %d queries were gathered: the generator makes too few of them", one)
	}
}
