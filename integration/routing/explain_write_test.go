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
		"create table mails (id int primary key, mail text unique)", "select weft.shard_table('mails', 'id')",
		"create table ids (id serial primary key, v text)", "select weft.shard_table('ids', 'id')",
		"create table ref (id int primary key, v text)", "select weft.reference_table('ref')",
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
		{"explain insert into t values ($1, 'a'), ($2, $3), (23, (select max(v) from u))", []any{21, 22, "x"}, []string{"Weft Insert", "($2, $3)"}},
		{"explain insert into ids (v) values ('a'), ('b'), ('c')", nil, []string{"Weft Insert", "<new value 1>"}},
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
		"explain update t set w = 1": "42703", "explain analyze update t set w = 1": "42703", "explain analyze update t set v = (1 / (id - 7))::text": "22012",
		"explain analyze insert into mails values (70, 'a'), (71, 'b'), (72, 'a')": "23505", "explain analyze update ref set v = 'z'": "0A000",
		"explain (nothing) update t set v = 'new'":    "42601",
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
	analyzesWrites(t, ctx, conn)
}

// analyzesWrites: EXPLAIN ANALYZE of a write changes rows, all or none, and tells how many.
func analyzesWrites(t *testing.T, ctx context.Context, conn *pgx.Conn) {
	for _, test := range []struct {
		sql   string
		want  []string
		check string // a count
		n     int
	}{
		{"explain analyze update t set v = 'an' where id <= 10", []string{"Weft Update  (rows=10)", "Execution Time: "}, "select count(*) from t where v = 'an'", 10},
		{"explain (analyze, summary off) update t set v = 'ret' where id in (1, 2, 3, 4, 5, 6) returning *", []string{"Weft Update  (rows=6)"}, "select count(*) from t where v = 'ret'", 6},
		{"explain analyze insert into t values (31, 'i'), (32, 'i'), (33, 'i'), (34, 'i'), (35, 'i')", []string{"Weft Insert  (rows=5)"}, "select count(*) from t where v = 'i'", 5},
		{"explain analyze insert into ids (v) values ('a'), ('b'), ('c'), ('d') returning id", []string{"Weft Insert  (rows=4)"}, "select count(*) from ids", 4},
		{"explain analyze insert into u select id, id + 1, v from t where id between 31 and 33 returning id", []string{"Weft Insert  (rows=3)"}, "select count(*) from u", 3},
		{"explain analyze insert into u select id + 10, t + 50, v from u", []string{"Read First"}, "select count(*) from u", 6},
		{"explain analyze with d as (delete from t where v = 'i' returning *) insert into h select * from d", []string{"Weft Insert  (rows=5)", "Weft Delete"}, "select count(*) from h where v = 'i'", 5},
		{"explain analyze with d as (delete from t where v = 'ret' returning *) select count(*) from d", []string{"Weft Delete"}, "select count(*) from t", 14},
		{"explain analyze update t set id = id + 1000 where v = 'v'", []string{"(rows=10)"}, "select count(*) from t where id > 1000", 10},
		{"explain analyze merge into t using h on h.id = t.id when matched then delete when not matched then insert values (h.id, 'm')", []string{"Weft Merge"}, "select count(*) from t where v = 'm'", 6},
		{"explain analyze delete from t where v in ('m', 'an')", []string{"Weft Delete  (rows=10)"}, "select count(*) from t", 10},
		{"explain analyze insert into mails values (1, 'a')", []string{"Weft Insert  (rows=1)"}, "select count(*) from mails where mail = 'a'", 1},
		{"explain analyze update mails set mail = 'b' where id = 1", []string{"Weft Update  (rows=1)"}, "select count(*) from mails where mail = 'b'", 1},
		{"explain insert into mails values (2, 'b')", []string{"Insert on mails"}, "select count(*) from mails", 1},
		{"explain update mails set mail = 'c' where id = 1", []string{"Update on mails"}, "select count(*) from mails where mail = 'b'", 1},
		{"explain (analyze, format json) delete from mails", []string{`"Actual Rows": 1`}, "select count(*) from mails", 0},
	} {
		// Rolled back by each protocol, then for good: by the simple protocol and the other in turn.
		for i, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			back, before := i < 2, 0
			if back {
				if err := conn.QueryRow(ctx, test.check).Scan(&before); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Exec(ctx, "begin"); err != nil {
					t.Fatal(err)
				}
			} else if len(test.sql)%2 == 0 {
				mode = pgx.QueryExecModeExec
			}
			rows, _ := conn.Query(ctx, test.sql, mode)
			lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatalf("%s: %v", test.sql, err)
			}
			for _, w := range test.want {
				if got := strings.Join(lines, "\n"); !strings.Contains(got, w) {
					t.Errorf("%s: no %q in\n%s", test.sql, w, got)
				}
			}
			var n int
			if err := conn.QueryRow(ctx, test.check).Scan(&n); err != nil || n != test.n {
				t.Errorf("%s: %s gives %d, %v", test.sql, test.check, n, err)
			}
			if !back {
				continue
			}
			if _, err := conn.Exec(ctx, "rollback"); err != nil {
				t.Fatal(err)
			}
			if err := conn.QueryRow(ctx, test.check).Scan(&n); err != nil || n != before {
				t.Errorf("%s rolled back: %s gives %d, %v", test.sql, test.check, n, err)
			}
		}
	}
}
