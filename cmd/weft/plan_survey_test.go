package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

const surveyCluster = `bucket_count: 64
shards: [{name: a, hosts: ['h:1']}, {name: b, hosts: ['h:2']}, {name: c, hosts: ['h:3']}]
tables:
- {database: app, table: customers, columns: [id]}
- {database: app, table: orders, columns: [customer_id]}
- {database: app, table: items, columns: [customer_id]}
- {database: app, table: products, reference: true}
`

// surveyed is what weft plan --json says of many statements.
type surveyed struct {
	Statements []struct {
		Statement, Class, Reason string
		Calls                    int
	}
	Summary []struct {
		Class      string
		Statements int
		Calls      int
		CallsShare float64 `json:"calls_share"`
		TotalMS    float64 `json:"total_ms"`
	}
}

func (s *surveyed) calls(class string) int {
	for _, c := range s.Summary {
		if c.Class == class {
			return c.Calls
		}
	}
	return -1
}

func TestPlanFile(t *testing.T) {
	schema, cluster := write(t, "dump.sql", adviseSchema), write(t, "cluster.yaml", surveyCluster)
	var sql, log strings.Builder
	for i := 1; i <= 50; i++ {
		for _, s := range adviseStatements(i) {
			fmt.Fprintf(&sql, "%s;\n", s)
		}
		fmt.Fprintf(&log, `{"dbname":"app","session_id":"1","message":"duration: 2.0 ms  execute <unnamed>: SELECT * FROM orders WHERE customer_id = $1","detail":"parameters: $1 = '%d'"}`+"\n", i)
	}
	sql.WriteString("SELECT count(*) FROM orders; SELECT FROM WHERE; SELECT ctid FROM orders;")
	at := []string{"plan", "--schema", schema, "--cluster", cluster}
	file := write(t, "statements.sql", sql.String())
	out := succeed(t, append(at, "--file", file)...)
	for _, want := range []string{
		"one shard                5  71.4 %    250  99.2 %\n", "several shards           1  14.3 %      1   0.4 %\n", "refused                  1  14.3 %      1   0.4 %\n",
		"not parsed               1              1\n", "nothing says the key of orders (1 statement, 1 call)", "syntax error at or near \"WHERE\"",
		"one shard            1     50  SELECT name FROM customers WHERE id = $1\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var s surveyed
	if err := json.Unmarshal([]byte(succeed(t, append(at, "--statements", file, "--json")...)), &s); err != nil || s.calls("one shard") != 250 || s.calls("no table") != 100 {
		t.Errorf("%+v, %v", s, err)
	}
	if out := succeed(t, append(at, "--log", write(t, "log.json", log.String()))...); !strings.Contains(out, " 1  100.0 %     50  100.0 %  100.0  100.0 %\n") {
		t.Errorf("of a log:\n%s", out)
	}
	code, out, errs := weft(t, append(at, "--file", write(t, "typo.sql", "SELECT 1; SELECT * FROM ordres"))...)
	if code != 1 || !strings.Contains(out, `relation "ordres" does not exist`) || errs != "" {
		t.Errorf("a mistyped table: exit code %d\n%s%s", code, out, errs)
	}
	for line, want := range map[string]string{
		"plan --file x --log y":                          "give one of them",
		"plan --file x y":                                "give one of the two",
		"plan --file x --param 1":                        "leave it out",
		"plan --json x":                                  "--json is for many statements",
		strings.Join(at, " "):                            "or give --file, --log or --from",
		"plan --from postgres://%z":                      "--from: cannot parse",
		strings.Join(append(at, "--file", "/none"), " "): "/none: no such file",
		strings.Join(append(at, "--file", write(t, "no.sql", " ")), " "):  "has no statements",
		strings.Join(append(at, "--log", write(t, "no.json", "{}")), " "): "has no statements: log them",
	} {
		if code, out, errs := weft(t, strings.Fields(line)...); code != 1 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("weft %s: exit code %d\nstderr %s\nstdout %s\nwant %s", line, code, errs, out, want)
		}
	}
}

// Schema and statements come from the server that is to be sharded.
func TestPlanFrom(t *testing.T) {
	if _, err := os.Stat(filepath.Join(pgtest.Install(t).Bin, "..", "lib", "pg_stat_statements.so")); err != nil {
		t.Skip("pg_stat_statements is not installed with this PostgreSQL")
	}
	srv := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"shared_preload_libraries": "pg_stat_statements"}})
	ctx := context.Background()
	from := "postgres://postgres@" + srv.Addr() + "/postgres?sslmode=disable"
	c, err := pgx.Connect(ctx, from+"&default_query_exec_mode=simple_protocol")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	run := func(sql string) {
		t.Helper()
		if _, err := c.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run(adviseSchema)
	run("CREATE EXTENSION pg_stat_statements; INSERT INTO customers SELECT i, 'c' FROM generate_series(1, 30) i; INSERT INTO products VALUES (1, 1), (2, 2), (3, 3)")
	run("SELECT pg_stat_statements_reset()")
	for i := 1; i <= 30; i++ {
		for _, s := range adviseStatements(i) {
			run(s)
		}
		run("SELECT customer_id, extract(year FROM now()) FROM orders WHERE now() > now() - interval '1 day' LIMIT 3")
	}
	cluster := write(t, "cluster.yaml", surveyCluster)
	var s surveyed
	if err := json.Unmarshal([]byte(succeed(t, "plan", "--cluster", cluster, "--from", from, "--json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.calls("one shard") != 150 || s.calls("several shards") != 30 || s.calls("refused") != 0 || s.calls("not parsed") != 0 || s.Summary[1].TotalMS == 0 {
		t.Errorf("%+v", s)
	}
	if code, out, errs := weft(t, "plan", "--from", from); code != 1 || !strings.Contains(errs, "which cluster?") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}
