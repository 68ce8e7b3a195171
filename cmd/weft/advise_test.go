package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

const adviseSchema = `CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL);
CREATE TABLE products (id int PRIMARY KEY, price int NOT NULL);
CREATE TABLE orders (customer_id bigint NOT NULL REFERENCES customers(id), id bigserial, status text NOT NULL, PRIMARY KEY (customer_id, id));
CREATE TABLE items (customer_id bigint NOT NULL, order_id bigint NOT NULL, product_id int NOT NULL REFERENCES products(id), n int NOT NULL,
  PRIMARY KEY (customer_id, order_id, product_id), FOREIGN KEY (customer_id, order_id) REFERENCES orders(customer_id, id));
`

// adviseStatements are what an application does for customer i.
func adviseStatements(i int) []string {
	return []string{
		fmt.Sprintf("SELECT name FROM customers WHERE id = %d", i),
		fmt.Sprintf("SELECT o.id, sum(i.n * p.price) FROM orders o JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.id JOIN products p ON p.id = i.product_id WHERE o.customer_id = %d GROUP BY o.id", i),
		"BEGIN",
		fmt.Sprintf("INSERT INTO orders (customer_id, id, status) VALUES (%d, %d, 'open')", i, i),
		fmt.Sprintf("INSERT INTO items VALUES (%d, %d, 1, 1)", i, i),
		"COMMIT",
		fmt.Sprintf("SELECT price FROM products WHERE id = %d", 1+i%3),
	}
}

// Without any server: a dump, and statements as SQL or as PostgreSQL logs them.
func TestAdviseOffline(t *testing.T) {
	var sql, jsonlog, csvlog strings.Builder
	for i := 1; i <= 100; i++ {
		for _, s := range append(adviseStatements(i), "SELECT count(*) FROM orders") {
			fmt.Fprintf(&sql, "%s;\n", s)
			line, err := json.Marshal(map[string]string{"dbname": "app", "session_id": fmt.Sprint(i % 2), "message": "duration: 0.5 ms  statement: " + s})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&jsonlog, "%s\n", line)
			fmt.Fprintf(&csvlog, `2026-11-17 10:00:00 UTC,"u","app",1,"h",s%d,1,"t",2026-11-17 10:00:00 UTC,1/1,0,LOG,00000,"duration: 0.5 ms  execute <unnamed>: %s",,,,,,,,,"psql","client backend",,0`+"\n", i%2, strings.ReplaceAll(s, `"`, `""`))
		}
	}
	dump := write(t, "dump.sql", adviseSchema)
	for _, file := range []string{"--statements=" + write(t, "statements.sql", sql.String()), "--log=" + write(t, "log.json", jsonlog.String()), "--log=" + write(t, "log.csv", csvlog.String())} {
		out := succeed(t, "advise", "--schema", dump, file, "--shards", "4")
		for _, want := range []string{
			"On every shard (reference): products.", "SELECT weft.shard_table('orders', 'customer_id');", "(SELECT count(*) FROM orders)", "checks:\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", file, want, out)
			}
		}
		if !regexp.MustCompile(`(?m)^  customers\.id = \*\.customer_id +3 `).MatchString(out) {
			t.Errorf("%s: the key is not that of three tables in\n%s", file, out)
		}
		if strings.Contains(out, "Nothing is recorded") || strings.Contains(out, "refused:") {
			t.Errorf("%s:\n%s", file, out)
		}
	}
	for line, want := range map[string]string{
		"--statements=" + write(t, "bad.sql", "SELECT FROM WHERE"):       "syntax error",
		"--statements=" + write(t, "none.sql", "BEGIN; COMMIT;"):         "has no statements",
		"--statements=" + write(t, "other.sql", "SELECT 1"):              "no statement names a table",
		"--statements=" + write(t, "bare.sql", "TABLE customers"):        "",
		"--log=" + write(t, "stderr.log", "LOG:  statement: SELECT 1\n"): "neither jsonlog nor csvlog",
	} {
		code, out, errs := weft(t, "advise", "--schema", dump, line, "--shards", "4")
		if want != "" && (code != 1 || !strings.Contains(errs, want)) {
			t.Errorf("%s: exit code %d, %s%s", line, code, errs, out)
		}
	}
}

// Before a database is sharded: statements, statistics and schema come from its own server.
func TestAdviseFrom(t *testing.T) {
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
	if code, out, errs := weft(t, "advise", "--from", from, "--shards", "8"); code != 1 || !strings.Contains(errs, "CREATE EXTENSION pg_stat_statements") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	run := func(sql string) {
		t.Helper()
		if _, err := c.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run(adviseSchema)
	run("INSERT INTO customers SELECT i, 'c' FROM generate_series(1, 2000) i; INSERT INTO products VALUES (1, 1), (2, 2), (3, 3); CREATE EXTENSION pg_stat_statements; ANALYZE")
	run("SELECT pg_stat_statements_reset()")
	for i := 1; i <= 200; i++ {
		for _, s := range adviseStatements(i) {
			run(s)
		}
	}
	run("SELECT status, count(*) FROM orders GROUP BY status")
	out := succeed(t, "advise", "--from", from, "--shards", "8")
	t.Log("\n" + out)
	for _, want := range []string{"best: customers.id = *.customer_id", "reference): products.", "Nothing is recorded", "customers.id has 2000 values, 8 shards want 80 at least"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var a struct {
		Candidates []struct {
			Sharded []string `json:"sharded"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal([]byte(succeed(t, "advise", "--from", from, "--shards", "8", "--json")), &a); err != nil || strings.Join(a.Candidates[0].Sharded, " ") != "customers.id items.customer_id orders.customer_id" {
		t.Errorf("%+v, %v", a, err)
	}
}
