package planner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/executor"
	"weft/parser"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/plan"
	"weft/planner"
	"weft/vindex"
)

const sampleSchema = `
CREATE TABLE a (k int, x int);
CREATE TABLE b (k bigint, x int);
CREATE TABLE c (x int, k smallint);
CREATE TABLE d (k int, x int);
CREATE TABLE r (k int, x int);
CREATE VIEW v1 AS SELECT k, x FROM a WHERE x > 0;
CREATE VIEW v2 AS SELECT a.k, b.x FROM a LEFT JOIN b ON a.k = b.k;
CREATE VIEW v3 AS SELECT k::bigint AS k, x FROM a UNION ALL SELECT k, x FROM b;
CREATE VIEW v4 AS SELECT b.k, max(b.x) AS x FROM b GROUP BY b.k;
`

// brute is one database with the sample rows in schema whole, and the same rows
// spread over schemas s0 to s3, as over shards.
type brute struct {
	testing.TB
	conn   *pgx.Conn
	env    *planner.Env
	snap   *directory.Snapshot
	binder executor.Binder

	one, many, failed int
}

const bruteShards = 4

func newBrute(t testing.TB) *brute {
	srv := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"statement_timeout": "2s", "jit": "off"}})
	b := &brute{TB: t, conn: connect(t, srv, "postgres")}
	schemas := []string{"whole"}
	for i := range bruteShards {
		schemas = append(schemas, fmt.Sprintf("s%d", i))
	}
	for _, s := range schemas {
		b.exec("CREATE SCHEMA " + s + "; SET search_path = " + s + ";" + sampleSchema)
	}
	schema := load(t, b.conn)
	var shards []directory.Shard
	for i := range bruteShards {
		shards = append(shards, directory.Shard{Name: fmt.Sprintf("shard-%d", i), Weight: 1})
	}
	b.snap = directory.New(64, "shard-0", shards)
	b.snap.Placement = make([]uint16, 64)
	for i := range b.snap.Placement {
		b.snap.Placement[i] = uint16(i % bruteShards)
	}
	for _, line := range []string{"sharded whole.a k", "sharded whole.b k", "sharded whole.c k", "sharded whole.d k", "reference whole.r"} {
		planner.Declare(t, b.snap, schema, line)
	}
	b.env = &planner.Env{Database: "app", Path: []string{"pg_catalog", "whole"}, Schema: schema, Tables: planner.NewTables(b.snap, "app"), Home: "shard-0"}
	b.fill(schema)
	return b
}

func (b *brute) exec(sql string) {
	b.Helper()
	if _, err := b.conn.PgConn().Exec(context.Background(), sql).ReadAll(); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

// fill makes sample rows: few keys, NULLs among them, so that joins meet.
func (b *brute) fill(schema *catalog.Schema) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, table := range []string{"a", "b", "c", "d", "r"} {
		for range 14 {
			k, x := fmt.Sprint(rng.IntN(8)), fmt.Sprint(rng.IntN(4))
			if rng.IntN(8) == 0 {
				k = "NULL"
			}
			if rng.IntN(8) == 0 {
				x = "NULL"
			}
			places := []int{0, 1, 2, 3}
			if table != "r" {
				places = []int{b.place(schema, table, k)}
			}
			row := fmt.Sprintf(".%s (k, x) VALUES (%s, %s);", table, k, x)
			sql := "INSERT INTO whole" + row
			for _, p := range places {
				sql += fmt.Sprintf("INSERT INTO s%d", p) + row
			}
			b.exec(sql)
		}
	}
}

// place is the shard of a key.
func (b *brute) place(schema *catalog.Schema, table, k string) int {
	c := schema.Relation(catalog.Name{Schema: "whole", Name: table}).Column("k")
	v := datum.Literal([]byte(k))
	if k == "NULL" {
		v.Bytes = nil
	}
	key, err := datum.Column{Type: datum.Type(c.Base), Mod: c.Mod}.Store(v)
	if err != nil {
		b.Fatal(err)
	}
	id, err := b.env.Tables.Find("whole", table).Vindex.(vindex.Computed).ID([]datum.Key{key})
	if err != nil {
		b.Fatal(err)
	}
	return int(b.snap.Placement[id.Bucket(6)])
}

// run executes a statement on the rows of one schema and returns what it yields,
// in an order of its own, and what the tables hold afterwards. Nothing is kept.
func (b *brute) run(schema, sql string, reads bool, state []string) (rows []string, after string, err error) {
	script := "BEGIN; SET LOCAL search_path = " + schema + ";" + sql + ";"
	if !reads {
		for _, t := range []string{"a", "b", "c"} {
			var parts []string
			for _, s := range state {
				parts = append(parts, "SELECT k, x FROM "+s+"."+t)
			}
			script += "SELECT '" + t + "', k, x FROM (" + strings.Join(parts, " UNION ALL ") + ") u ORDER BY k, x;"
		}
	}
	script += "ROLLBACK"
	results, err := b.conn.PgConn().Exec(context.Background(), script).ReadAll()
	if err != nil {
		b.exec("ROLLBACK")
		return nil, "", err
	}
	for i, res := range results[2 : len(results)-1] {
		for _, r := range res.Rows {
			line := fmt.Sprintf("%q", r)
			if i == 0 {
				rows = append(rows, line)
			} else {
				after += line + "\n"
			}
		}
	}
	slices.Sort(rows)
	return rows, after, nil
}

var allShards = []string{"s0", "s1", "s2", "s3"}

// check plans a statement and, if the plan says that one shard will do, compares
// what that shard gives with what the whole gives.
func (b *brute) check(sql string, reads bool) {
	var s parser.Scanner
	if !s.Scan([]byte(sql), parser.Options{}) {
		b.Fatalf("does not scan: %s", sql)
	}
	p := planner.Plan(b.env, sql, s.Literals, nil)
	if p.Route == plan.Refused {
		if p.Refusal.Code == "XX000" {
			b.Fatalf("%s\n%s", sql, p)
		}
		b.failed++
		return
	}
	shards, err := b.binder.Bind(p, b.snap, &executor.Args{Text: []byte(sql), Literals: s.Literals})
	if err != nil {
		b.Fatalf("%s\n%s%v", sql, p, err)
	}
	shard, ok := shards.One()
	if p.Route == plan.Home {
		b.Fatalf("%s\n%s: there is no home table", sql, p)
	}
	if !ok {
		b.many++
		return
	}
	want, wantAfter, err := b.run("whole", sql, reads, []string{"whole"})
	if err != nil {
		var e *pgconn.PgError
		if !errors.As(err, &e) {
			b.Fatal(err)
		}
		if e.Code == "42601" {
			b.Fatalf("%s: %v", sql, err)
		}
		b.failed++
		return
	}
	try := []int{shard}
	if shards.Any() {
		try = []int{0, 1, 2, 3} // whichever
	}
	for _, i := range try {
		got, after, err := b.run(fmt.Sprintf("s%d", i), sql, reads, allShards)
		if err != nil {
			var e *pgconn.PgError
			if errors.As(err, &e) && e.Code == "57014" {
				continue
			}
			b.Fatalf("%s\n%son shard %d: %v", sql, p, i, err)
		}
		if !slices.Equal(got, want) {
			b.Fatalf("%s\n%sshard %d gives\n%s\nthe whole\n%s", sql, p, i, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if after != wantAfter {
			b.Fatalf("%s\n%safter it, the shards hold\n%s\nthe whole\n%s", sql, p, after, wantAfter)
		}
	}
	b.one++
}

// traps are statements that look as if one shard would do, for every key.
var traps = []string{
	"SELECT * FROM (SELECT k, x FROM a ORDER BY 1, 2 LIMIT 1) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT k, x FROM a ORDER BY 1, 2 OFFSET 3) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT DISTINCT ON (x) k, x FROM a ORDER BY x, k) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT k, row_number() OVER (ORDER BY k, x) FROM a) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT k, count(*) OVER () FROM a) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT max(k) AS k FROM a) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT x, max(k) AS k FROM a GROUP BY x) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT k, count(*) FROM a GROUP BY GROUPING SETS ((k), ())) q WHERE q.k IS NULL",
	"SELECT * FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL",
	"SELECT * FROM a LEFT JOIN b ON a.k = b.k AND a.k = %[1]d",
	"SELECT * FROM a LEFT JOIN b ON a.k = %[1]d AND b.k = %[1]d",
	"SELECT * FROM a RIGHT JOIN b ON a.k = b.k AND b.k = %[1]d",
	"SELECT * FROM a FULL JOIN b ON a.k = b.k AND b.k = %[1]d",
	"SELECT * FROM a FULL JOIN b ON a.k = b.k WHERE a.k = %[1]d",
	"SELECT * FROM a FULL JOIN b USING (k) WHERE k = %[1]d",
	"SELECT * FROM a LEFT JOIN b USING (k) WHERE k = %[1]d",
	"SELECT * FROM a RIGHT JOIN b USING (k) WHERE k = %[1]d",
	"SELECT * FROM a LEFT JOIN (b JOIN d ON b.k = d.k AND d.k = %[1]d) ON a.k = b.k",
	"SELECT * FROM a LEFT JOIN (b JOIN d ON b.k = d.k) ON a.k = b.k WHERE d.k = %[1]d",
	"SELECT * FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.k = a.k AND b.k = %[1]d)",
	"SELECT * FROM a WHERE a.k = %[1]d AND a.x NOT IN (SELECT b.x FROM b)",
	"SELECT * FROM a WHERE a.k = %[1]d AND a.k NOT IN (SELECT b.k FROM b)",
	"SELECT * FROM a WHERE a.k = %[1]d AND a.k IN (SELECT b.k FROM b)",
	"SELECT * FROM a WHERE a.k IN (SELECT b.k FROM b WHERE b.k = %[1]d)",
	"SELECT * FROM a WHERE a.k IN (SELECT b.k FROM b WHERE b.k = %[1]d OR b.x = 1)",
	"SELECT * FROM a WHERE a.k IN (SELECT max(b.k) FROM b) AND a.k = %[1]d",
	"SELECT * FROM a WHERE a.k = %[1]d OR EXISTS (SELECT FROM b WHERE b.k = %[1]d)",
	"SELECT * FROM a WHERE EXISTS (SELECT count(*) FROM b WHERE b.k = a.k AND b.k = %[1]d)",
	"SELECT * FROM a, LATERAL (SELECT count(*) FROM b WHERE b.k = a.k AND a.k = %[1]d) q",
	"SELECT * FROM a, LATERAL (SELECT b.x FROM b WHERE b.k = a.k ORDER BY 1 LIMIT 1) q WHERE a.k = %[1]d",
	"SELECT a.k, (SELECT count(*) FROM b WHERE b.k = a.k) FROM a WHERE a.k = %[1]d",
	"SELECT a.k, (SELECT count(*) FROM b) FROM a WHERE a.k = %[1]d",
	"SELECT k FROM a WHERE k = %[1]d UNION SELECT k FROM b",
	"SELECT k FROM a WHERE k = %[1]d EXCEPT SELECT k FROM b",
	"SELECT * FROM (SELECT k FROM a UNION ALL SELECT k FROM d) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT k FROM a UNION ALL SELECT x FROM d) q WHERE q.k = %[1]d",
	"SELECT * FROM (SELECT k FROM a EXCEPT SELECT k FROM d LIMIT 1) q WHERE q.k = %[1]d",
	"WITH w AS (SELECT * FROM a) SELECT * FROM w WHERE k = %[1]d",
	"WITH w AS (SELECT * FROM a) SELECT * FROM w, w w2 WHERE w.k = %[1]d",
	"WITH w AS (SELECT * FROM a) SELECT count(*) FROM w UNION ALL SELECT k FROM w WHERE k = %[1]d",
	"WITH w AS (SELECT * FROM a WHERE k = %[1]d) SELECT * FROM w, w w2",
	"WITH RECURSIVE w AS (SELECT k FROM a WHERE k = %[1]d UNION SELECT b.x::int FROM b JOIN w ON b.k = w.k) SELECT * FROM w",
	"WITH RECURSIVE w AS (SELECT k, x FROM a UNION SELECT b.k, b.x FROM b) SELECT * FROM w WHERE k = %[1]d",
	"SELECT * FROM v4 WHERE k = %[1]d",
	"SELECT * FROM v4 WHERE x = %[1]d",
	"SELECT * FROM v2 WHERE k = %[1]d",
	"SELECT * FROM v3 JOIN a USING (k) WHERE k = %[1]d",
	"SELECT * FROM a JOIN d ON a.k = d.k OR a.k = %[1]d WHERE d.k = %[1]d",
	"SELECT * FROM a NATURAL JOIN b WHERE k = %[1]d",
	"SELECT * FROM (a JOIN b USING (k)) AS j WHERE j.k = %[1]d",
	"SELECT * FROM (a LEFT JOIN b USING (k)) AS j(p, q, r) WHERE j.p = %[1]d",
	"SELECT * FROM r LEFT JOIN a ON r.k = a.k WHERE r.k = %[1]d",
	"SELECT * FROM r LEFT JOIN a ON r.k = a.k",
	"SELECT * FROM a WHERE k BETWEEN %[1]d AND %[1]d",
	"SELECT * FROM a WHERE k = %[1]d AND k = %[1]d + 1",
	"SELECT * FROM a WHERE (k = %[1]d) IS NOT TRUE",
	"SELECT * FROM a WHERE (k = %[1]d) IS TRUE",
	"SELECT * FROM a WHERE CASE WHEN k = %[1]d THEN true ELSE false END",
	"SELECT * FROM a WHERE k IN (SELECT %[1]d FROM b)",
	"SELECT * FROM a WHERE x = 1 AND k = (SELECT %[1]d)",
	"SELECT * FROM a GROUP BY k, x HAVING k = %[1]d",
	"SELECT k, x FROM a WHERE k = %[1]d GROUP BY ROLLUP (k, x)",
	"SELECT a.k FROM a, b WHERE a.k = b.x AND b.k = %[1]d",
	"SELECT * FROM (SELECT k FROM a WHERE k = %[1]d ORDER BY x LIMIT 2) q JOIN b ON b.k = q.k",
	"SELECT * FROM (SELECT k FROM a WHERE k = %[1]d ORDER BY x LIMIT 2) q LEFT JOIN b ON b.k = q.k",
	"SELECT * FROM b LEFT JOIN (SELECT k FROM a WHERE k = %[1]d ORDER BY x LIMIT 2) q ON b.k = q.k",
	"SELECT * FROM (SELECT k, count(*) FROM a WHERE k = %[1]d GROUP BY k) q JOIN b ON b.k = q.k",
	"SELECT * FROM (SELECT k, count(*) FROM a WHERE k = %[1]d GROUP BY ROLLUP (k)) q, b WHERE b.k = q.k OR q.k IS NULL",
	"SELECT * FROM (SELECT max(k) AS k FROM a WHERE k = %[1]d) q JOIN b ON b.k = q.k",
	"SELECT * FROM (SELECT k FROM a WHERE k = %[1]d UNION SELECT %[1]d) q JOIN b ON b.k = q.k",
	"SELECT * FROM (SELECT k FROM a WHERE k = %[1]d UNION SELECT k FROM d) q JOIN b ON b.k = q.k",
	"WITH w AS (SELECT k FROM a WHERE k = %[1]d) SELECT * FROM w w1, w w2, b WHERE w1.k = b.k",
	"WITH w AS (SELECT k FROM a WHERE k IS NULL) SELECT * FROM w w1, w w2, b WHERE w1.k IS NOT DISTINCT FROM b.k",
	"SELECT * FROM (SELECT k FROM a WHERE k IS NULL ORDER BY x LIMIT 2) q RIGHT JOIN b ON true",
	"SELECT * FROM (generate_series(1, 2) JOIN a ON true) AS j(p, q, r) WHERE j.p = %[1]d",
	"SELECT * FROM (generate_series(1, 8) JOIN a ON true) AS j(p, q, r) WHERE j.q = %[1]d",
	"SELECT * FROM a WHERE EXISTS (SELECT FROM generate_series(0, 7) WHERE generate_series = %[1]d AND generate_series.generate_series = a.x)",
	"SELECT * FROM a JOIN generate_series(%[1]d, %[1]d) g(k) USING (k)",
	"SELECT * FROM a NATURAL JOIN generate_series(%[1]d, %[1]d) g(k) WHERE k = %[1]d",
	"SELECT * FROM (SELECT g.*, a.x FROM a, generate_series(%[1]d, %[1]d) g) q(k, x) WHERE k = %[1]d",
	"SELECT * FROM a LEFT JOIN b ON a.k = b.k AND b.k = %[1]d WHERE b.x = 1",
	"SELECT * FROM a LEFT JOIN b ON a.k = b.k AND b.k = %[1]d WHERE b.x = 1 OR b.x IS NULL",
	"SELECT * FROM a LEFT JOIN b ON a.k = b.k AND b.k = %[1]d WHERE b.x IS NULL",
	"SELECT * FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN d ON d.k = b.k AND d.k = %[1]d WHERE d.x = 1",
	"SELECT * FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN d ON d.k = b.k AND d.k = %[1]d WHERE b.x = 1",
	"SELECT * FROM a FULL JOIN b ON a.k = b.k AND a.k = %[1]d WHERE a.x = 1",
	"SELECT * FROM a FULL JOIN (SELECT * FROM b WHERE k = %[1]d) b ON a.k = b.k WHERE b.x = 1 AND a.k = b.k",
	"SELECT * FROM a WHERE EXISTS (SELECT FROM b LEFT JOIN d ON b.k = d.k AND EXISTS (SELECT FROM c WHERE c.k = d.k) WHERE d.k = a.k) AND a.k = %[1]d",
	"SELECT * FROM a WHERE EXISTS (SELECT FROM b LEFT JOIN d ON b.k = d.k AND NOT EXISTS (SELECT FROM c WHERE c.k = d.k) WHERE b.k = a.k) AND a.k = %[1]d",
	"SELECT * FROM a WHERE EXISTS (SELECT FROM b LEFT JOIN d ON b.k = d.k AND NOT EXISTS (SELECT FROM c WHERE c.k = d.k) WHERE b.k = a.k AND d.x IS NULL) AND a.k = %[1]d",
	"SELECT * FROM r LEFT JOIN (SELECT k, count(*) AS n FROM b WHERE k = %[1]d GROUP BY k) q ON q.k = r.k JOIN a ON a.k = q.k",
	"SELECT a.k FROM b LEFT JOIN a ON b.k = %[1]d AND a.k = %[1]d UNION ALL SELECT k FROM d WHERE k = %[1]d",
	"SELECT * FROM (SELECT a.k FROM b LEFT JOIN a ON b.k = %[1]d AND a.k = %[1]d UNION ALL SELECT k FROM d WHERE k = %[1]d) q JOIN c ON c.k = q.k",
	"SELECT * FROM a a1, a a2 WHERE a1.k = %[1]d AND a1.x = a2.x",
}

// writes are such statements that change rows.
var writes = []string{
	"WITH w AS (DELETE FROM a WHERE k = %[1]d RETURNING k, x) INSERT INTO b SELECT k, x FROM w",
	"WITH w AS (UPDATE a SET x = 9 WHERE k = %[1]d RETURNING k, x) INSERT INTO b SELECT k, x FROM w",
	"WITH w AS (UPDATE a SET k = 3 WHERE k = %[1]d RETURNING k, x) INSERT INTO b SELECT k, x FROM w",
	"WITH w AS (UPDATE a SET k = d.x FROM d WHERE a.k = d.k AND a.k = %[1]d RETURNING a.k, d.k AS dk) INSERT INTO b SELECT dk, k FROM w",
	"WITH w AS (INSERT INTO a VALUES (%[1]d, 1) RETURNING k, x) INSERT INTO b SELECT k, x FROM w",
	"WITH w AS (DELETE FROM a RETURNING k, x) SELECT * FROM w WHERE k = %[1]d",
	"UPDATE a SET k = %[1]d WHERE k = %[1]d RETURNING k, x",
	"UPDATE a SET k = 5 WHERE k = %[1]d RETURNING k, x",
	"UPDATE a SET k = b.k FROM b WHERE a.k = %[1]d AND b.k = %[1]d",
	"UPDATE a SET k = b.x FROM b WHERE a.k = %[1]d AND b.k = %[1]d AND b.x = 1",
	"UPDATE a SET (k, x) = (%[1]d, 1) WHERE k = %[1]d",
	"UPDATE a SET (k, x) = (SELECT 3, 1) WHERE k = %[1]d",
	"UPDATE a SET x = (SELECT count(*) FROM b WHERE b.k = a.k) WHERE k = %[1]d",
	"UPDATE a SET x = (SELECT count(*) FROM b) WHERE k = %[1]d",
	"DELETE FROM a USING b WHERE a.k = b.k AND b.k = %[1]d RETURNING a.k",
	"DELETE FROM a WHERE k = %[1]d OR x = 1",
	"DELETE FROM a WHERE NOT EXISTS (SELECT FROM b WHERE b.k = a.k AND b.k = %[1]d)",
	"INSERT INTO a SELECT x, k FROM b WHERE k = %[1]d",
	"INSERT INTO a SELECT k, x FROM b WHERE k = %[1]d",
	"INSERT INTO c SELECT k, x FROM b WHERE k = %[1]d",
	"INSERT INTO a VALUES (%[1]d, 1), (NULL, 2)",
	"INSERT INTO a (x) VALUES (%[1]d)",
	"INSERT INTO a SELECT k, x FROM (SELECT k, x FROM b WHERE k = %[1]d ORDER BY x LIMIT 1) q",
	"INSERT INTO a (k) SELECT k FROM a WHERE k = %[1]d UNION ALL SELECT %[1]d",
	"INSERT INTO a (k) SELECT k FROM a WHERE k = %[1]d UNION ALL SELECT 3",
	"INSERT INTO a (k, x) SELECT * FROM generate_series(1, 2) g, LATERAL (SELECT b.x FROM b WHERE b.k = %[1]d) q",
	"INSERT INTO a (x, k) SELECT g.*, b.k FROM generate_series(1, 2) g, b WHERE b.k = %[1]d",
}

// TestTraps checks those, and that the comparison finds the mistakes they are
// made for.
func TestTraps(t *testing.T) {
	b := newBrute(t)
	for _, sql := range traps {
		for k := range 8 {
			text := sql
			if strings.Contains(sql, "%") {
				text = fmt.Sprintf(sql, k)
			}
			b.check(text, true)
		}
	}
	for _, sql := range writes {
		for k := range 8 {
			b.check(fmt.Sprintf(sql, k), false)
		}
	}
	if b.failed > 0 {
		t.Errorf("%d traps failed on PostgreSQL itself or were refused", b.failed)
	}
}

// TestNeverTooFewShards checks random statements by brute force, see rounds.
func TestNeverTooFewShards(t *testing.T) {
	b := newBrute(t)
	rounds(t, 0, 250, func(g *generator) {
		sql, reads := g.statement()
		b.check(sql, reads)
	})
	t.Logf("one shard %d, several %d, refused or failed %d", b.one, b.many, b.failed)
	if b.one < 30 {
		t.Errorf("only %d statements ran on one shard: the generator makes too few of them", b.one)
	}
}

// rounds calls do with a generator n times, always with the same ones. With
// WEFT_BRUTE=10m it goes on for that long, from a new seed.
func rounds(t *testing.T, stream uint64, n int, do func(*generator)) {
	seed, more := uint64(1), func(i int) bool { return i < n }
	if v := os.Getenv("WEFT_BRUTE"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		seed = rand.Uint64()
		t.Logf("seed %d", seed)
		end := time.Now().Add(d)
		more = func(int) bool { return time.Now().Before(end) }
	}
	rng := rand.New(rand.NewPCG(seed, stream))
	for i := 0; more(i); i++ {
		do(&generator{Rand: rng, theme: rng.IntN(8)})
	}
}
