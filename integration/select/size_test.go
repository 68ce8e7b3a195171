package selects

import (
	"context"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestSizes: a sharded table is as large as its parts are together. Of other
// relations PostgreSQL says how large they are on the home shard.
func TestSizes(t *testing.T) {
	w := open(t, settings[0])
	shards := harness.Uneven(t, w.weights...).Shards()
	onShard := func(i int, sql string) int {
		t.Helper()
		ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
		defer stop()
		c, err := pgx.Connect(ctx, shards[i].ConnString(w.database))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(ctx)
		var n int
		if err := c.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return n
	}
	added := func(sql string) string {
		t.Helper()
		n := 0
		for i := range shards {
			n += onShard(i, sql)
		}
		return strconv.Itoa(n)
	}
	for _, tc := range []struct{ sql, want string }{
		{"select pg_table_size('a')", added("select pg_table_size('a')")},
		{"select pg_total_relation_size('public.a'::regclass) as x", added("select pg_total_relation_size('a')")},
		{"select pg_relation_size('a', 'fsm')", added("select pg_relation_size('a', 'fsm')")},
		{"select pg_indexes_size('r')", strconv.Itoa(onShard(0, "select pg_indexes_size('r')"))},
		{"select pg_table_size('h')", strconv.Itoa(onShard(0, "select pg_table_size('h')"))},
		{"select pg_table_size('a') - pg_table_size('b') + pg_table_size('h')", ""},
		{"select pg_size_pretty(pg_total_relation_size('a'))", ""},
		{"select pg_table_size(oid) from pg_class where oid = 'a'::regclass", added("select pg_table_size('a')")},
		{"select sum(pg_table_size(oid)) from pg_class where relname in ('a', 'b')", ""},
		{"select pg_table_size(relation) from (values ('a'::regclass)) v (relation)", added("select pg_table_size('a')")},
		{"select pg_table_size(null)", ""},
		{"select pg_table_size('nothing')", ""},
	} {
		for _, mode := range pair.Modes {
			// PostgreSQL types it and names it.
			want := w.Plain.Ask(mode, tc.sql, nil, nil)
			got := w.Weft.Ask(mode, tc.sql, nil, nil)
			if got.Code != want.Code || len(got.Results) != len(want.Results) {
				t.Errorf("%s: %s: %s %s, PostgreSQL says %q", mode, tc.sql, got.Code, got.Message, want.Code)
				continue
			}
			if got.Code != "" {
				continue
			}
			g, p := got.Results[0], want.Results[0]
			size := ""
			if len(g.Rows) == 1 {
				size = g.Cells[0][0]
			}
			if n, err := strconv.ParseInt(size, 16, 64); mode == pair.Binary && err == nil {
				size = strconv.FormatInt(n, 10)
			}
			if len(g.Fields) != 1 || g.Fields[0] != p.Fields[0] || len(g.Rows) != 1 || tc.want != "" && size != tc.want {
				t.Errorf("%s: %s: %v %v, want %v %s", mode, tc.sql, g.Fields, g.Rows, p.Fields, tc.want)
			}
		}
	}
	for _, sql := range []string{
		"select pg_table_size('a') from a",
		"select pg_table_size('a') from a where k = 1",
		"select * from pg_table_size('a')",
		"select pg_relation_size(oid, relname) from pg_class",
	} {
		if a := w.Weft.Ask(pair.Simple, sql, nil, nil); !a.Refused() {
			t.Errorf("%s: %s %s %v", sql, a.Code, a.Message, a.Results)
		}
	}
}
