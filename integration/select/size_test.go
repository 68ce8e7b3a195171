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
	for _, on := range []*pair.Peer{w.Plain, w.Weft} {
		for _, sql := range []string{"analyze a", "analyze h"} {
			if a := on.Ask(pair.Simple, sql, nil, nil); a.Code != "" {
				t.Fatal(a.Message)
			}
		}
	}
	live := func(sql string) string {
		t.Helper()
		a := w.Plain.Ask(pair.Simple, sql, nil, nil)
		if a.Code != "" || len(a.Results[0].Rows) != 1 {
			t.Fatalf("%s: %s %v", sql, a.Message, a.Results)
		}
		return a.Results[0].Cells[0][0]
	}
	rows := live("select count(*) from a")
	for _, tc := range []struct{ sql, want string }{
		{"select * from pg_table_size('a')", added("select pg_table_size('a')")},
		{"select s from pg_class c, lateral pg_table_size(c.oid) s where c.relname = 'a'", added("select pg_table_size('a')")},
		{"select c.x from (values ('a')) v (n) cross join pg_relation_size(v.n::regclass) c (x)", added("select pg_relation_size('a')")},
		{"select pg_size_pretty(pg_database_size(current_database()))", ""},
		{"select pg_database_size(oid) > 1.5 * (8 * 1024 * 1024) from pg_database where datname = current_database()", ""},
		{"select pg_database_size('nothing')", ""},
		{"select pg_database_size(null::name)", ""},
		{"select reltuples::bigint as n from pg_class where oid = 'a'::regclass", rows},
		{"select c.reltuples from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relname = 'a' group by c.oid order by c.reltuples", ""},
		{"select sum(reltuples)::int from pg_class where relname in ('a', 'h')", live("select (select count(*) from a) + (select count(*) from h)")},
		{"select relpages from pg_class where relname = 'a'", added("select relpages from pg_class where relname = 'a'")},
		{"select relpages from pg_class where relname = 'pg_class'", ""},
		{"select x from (select reltuples::bigint from pg_class where relname = 'a') s (x)", rows},
		{"select coalesce(c.reltuples, 7)::int from (values (1)) v left join pg_class c on c.relname = 'nothing'", "7"},
		{"select n_live_tup from pg_stat_user_tables where relname = 'a'", added("select n_live_tup from pg_stat_user_tables where relname = 'a'")},
		{"select pg_stat_get_live_tuples('a'::regclass)", added("select n_live_tup from pg_stat_user_tables where relname = 'a'")},
		{"select s.analyze_count from pg_catalog.pg_stat_all_tables s where s.relid = 'a'::regclass", added("select analyze_count from pg_stat_all_tables where relname = 'a'")},
		{"select pg_stat_all_tables.last_vacuum from pg_stat_all_tables where relname = 'a'", ""},
		{"select count(*) from (select * from pg_stat_user_indexes) x where relname = 'nothing'", "0"},
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
		"select * from pg_table_size('a') with ordinality",
		"select n_live_tup from pg_stat_user_tables, a where a.id = 1",
		"select pg_relation_size(oid, relname) from pg_class",
	} {
		if a := w.Weft.Ask(pair.Simple, sql, nil, nil); !a.Refused() {
			t.Errorf("%s: %s %s %v", sql, a.Code, a.Message, a.Results)
		}
	}
}
