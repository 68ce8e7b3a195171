package routing

import (
	"testing"

	"weft/integration/pair"
)

// TestAloneInPipeline: what cannot run in a transaction does not run behind another
// statement without a Sync between, whichever shard that was for.
func TestAloneInPipeline(t *testing.T) {
	db := database(t, "pipeline_alone")
	p := newPair(t, db)
	for _, sql := range []string{"create table t (k int primary key, v int)", "create table h (k int)", "insert into t select g, 0 from generate_series(1, 20) g"} {
		p.Both(t, "setup", sql)
	}
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('t', 'k')"})
	for _, list := range [][]string{
		{"select 1", "create index concurrently i1 on t (v)"},
		{"select v from t where k = 3", "create index concurrently i2 on t (v)"},
		{"select sum(v) from t", "create index concurrently i3 on t (v)"},
		{"update t set v = 6 where k in (1, 2, 3, 4)", "create unique index concurrently i4 on t (k, v)"},
		{"select v from t where k = 4", "vacuum t"},
		{"set application_name = 'f'", "vacuum t"},
		{"create index concurrently i5 on t (v)", "select v from t where k = 3", "drop index i5"},
		{"create index concurrently i6 on t (v)", "create index concurrently i7 on t (v)"},
		{"select v from t where k = 4", "drop index concurrently i6"},
		{"select v from t where k = 4", "reindex table concurrently t"},
		{"begin", "update t set v = 7 where k = 1", "commit", "drop index concurrently i6"},
		{"begin", "update t set v = 7 where k = 1", "create index concurrently i7 on t (v)"},
		{"select count(*) from pg_indexes where tablename = 't'"},
	} {
		samePipeline(t, p, list)
		if a := p.Weft.Ask(pair.Simple, "select * from weft.schema_diff()", nil, nil); a.Code != "" || len(a.Results[0].Rows) > 0 {
			t.Errorf("%q: %v %s", list, a.Results, a.Message)
		}
	}
	pair.SameTables(t, db, nil)
}
