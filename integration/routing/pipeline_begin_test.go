package routing

import (
	"testing"

	"weft/integration/pair"
)

// TestBeginInPipeline: BEGIN behind something that is undone with the pipeline makes that
// a part of the block, which other shards can join.
func TestBeginInPipeline(t *testing.T) {
	db := database(t, "pipeline_begin")
	p := newPair(t, db)
	for _, sql := range []string{"create table t (k int primary key, v int)", "create table h (k int)", "insert into t select g, 0 from generate_series(1, 20) g"} {
		p.Both(t, "setup", sql)
	}
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('t', 'k')"})
	for _, list := range [][]string{
		{"set application_name = 'a'", "begin", "update t set v = 1 where k = 1", "update t set v = 1 where k = 2", "update t set v = 1 where k = 3", "commit", "show application_name"},
		{"set application_name = 'b'", "begin", "update t set v = v + 1", "rollback", "show application_name", "select sum(v) from t"},
		{"set local application_name = 'c'", "begin", "update t set v = 2 where k in (1, 2, 3, 4)", "show application_name", "commit", "show application_name"},
		{"set application_name = 'd'", "begin", "insert into h values (1)", "update t set v = 3 where k in (4, 5, 6)", "select 1/0", "commit"},
		{"set application_name = 'e'", "begin", "savepoint s", "update t set v = 3 where k in (4, 5, 6)", "rollback to s", "update t set v = 8 where k = 7", "commit"},
		{"update t set v = 4 where k = 5", "begin", "update t set v = 4", "commit", "select sum(v) from t"},
		{"update t set v = 5 where k = 5", "begin", "update t set v = 5 where k = 6", "rollback", "select sum(v) from t"},
		{"show application_name"},
	} {
		samePipeline(t, p, list)
	}
	pair.SameTables(t, db, nil)
}

// samePipeline sends a list of statements to both without a Sync between them.
func samePipeline(t *testing.T, p *pair.Pair, list []string) {
	t.Helper()
	var queries []pair.Query
	for _, sql := range list {
		queries = append(queries, pair.Query{SQL: sql})
	}
	want, got := p.Plain.Pipeline(queries, nil), p.Weft.Pipeline(queries, nil)
	if len(want) != len(got) {
		t.Errorf("%q: PostgreSQL answers %d, weft %d: %s %s", list, len(want), len(got), got[len(got)-1].Code, got[len(got)-1].Message)
	}
	for i := range min(len(want), len(got)) {
		if d := pair.Diff(want[i], got[i], false); d != "" {
			t.Errorf("%q: %d: %s", list, i, d)
		}
	}
	for _, peer := range []*pair.Peer{p.Plain, p.Weft} {
		peer.Must(t, "rollback")
	}
}
