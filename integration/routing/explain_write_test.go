package routing

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestExplainWrite: EXPLAIN of a write over several shards tells what is read
// first, what each shard runs and which shards, and changes nothing.
func TestExplainWrite(t *testing.T) {
	db := database(t, "explain_write")
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	conn, err := pgx.Connect(ctx, harness.Weft(t).ConnString("postgres", "dbname="+db))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		"create table t (id int primary key, v text)", "create table u (id int primary key, t int, v text)", "create table h (id int, v text)",
		"select weft.shard_table('t', 'id')", "select weft.shard_table('u', 'id')",
		"insert into t select g, 'v' from generate_series(1, 20) g", "insert into h values (1, 'x')",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, test := range []struct {
		sql  string
		args []any
		want []string
	}{
		{"explain update t set v = 'new'", nil, []string{"Weft Update", "Shards: 4 of 4", "no condition on id", "SET v = 'new'"}},
		{"explain delete from t where id = any($1)", []any{[]int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, []string{"Weft Delete", " of 4: ", "id = ANY ($1)"}},
		{"explain (costs off, verbose) update t set v = h.v from h where h.id = t.id", nil, []string{"Weft Update", "Read First: piece 1", "its tables are on the home shard", "<piece 1>"}},
		{"explain insert into t values (21, 'a'), (22, 'b'), (23, 'c'), (24, 'd'), (25, 'e')", nil, []string{"Weft Insert", "each row goes to its own shard", "'e'"}},
		{"explain insert into t select t + 100, v from u", nil, []string{"Weft Insert", "Read First", "each row that is read goes to the shard of its key in t"}},
		{"explain with d as (delete from t where v = 'v' returning *) insert into h select * from d", nil, []string{"Weft Insert", "Before: piece", "Weft Delete"}},
		{"explain update t set id = id + 1000 where v = 'x'", nil, []string{"Before: piece", "Weft Delete", "Weft Update"}},
	} {
		rows, err := conn.Query(ctx, test.sql, test.args...)
		if err != nil {
			t.Errorf("%s: %v", test.sql, err)
			continue
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Errorf("%s: %v", test.sql, err)
			continue
		}
		got := strings.Join(lines, "\n")
		for _, w := range test.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in\n%s", test.sql, w, got)
			}
		}
		var simple []string
		if test.args == nil {
			rows, _ = conn.Query(ctx, test.sql, pgx.QueryExecModeSimpleProtocol)
			if simple, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || strings.Join(simple, "\n") != got {
				t.Errorf("%s: %v, and by the simple protocol\n%s\nnot\n%s", test.sql, err, strings.Join(simple, "\n"), got)
			}
		}
	}
	var out string
	if err := conn.QueryRow(ctx, "explain (format json) update t set v = 'new'", pgx.QueryExecModeSimpleProtocol).Scan(&out); err != nil {
		t.Fatal(err)
	}
	var doc []map[string]map[string]any
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc[0]["Change"]["Node Type"] != "Weft Update" || len(doc[0]["Change"]["Shards"].([]any)) != 4 {
		t.Errorf("%v in %s", err, out)
	}
	for sql, code := range map[string]string{
		"explain analyze update t set v = 'new'": "0A000", "explain update t set w = 1": "42703", "explain (nothing) update t set v = 'new'": "42601",
		"explain (format xml) update t set v = 'new'": "0A000",
	} {
		if _, err := conn.Exec(ctx, sql); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	var n int
	if err := conn.QueryRow(ctx, "select count(*) from t where v = 'v'").Scan(&n); err != nil || n != 20 {
		t.Errorf("%d rows are as before, %v", n, err)
	}
}
