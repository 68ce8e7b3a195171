package shards

import (
	"fmt"
	"testing"
)

// TestRebalance: buckets that were all taken to one shard spread again, by number and by size, and
// a dry run says so first.
func TestRebalance(t *testing.T) {
	w := newWorld(t, "rebalance", 1)
	c := w.conn(0)
	w.must(c, "select weft.wait_move($1)", value[string](w, c, "select weft.move_buckets('0-63', 'shard-1')"))
	if got := w.spread(); got["shard-1"] != 64 {
		t.Fatalf("buckets: %v", got)
	}
	plan := values(w, c, "select * from weft.rebalance('buckets', dry_run => true)")
	if len(plan) != 1 || plan[0]["from_shard"] != "shard-1" || plan[0]["to_shard"] != "shard-0" || plan[0]["buckets"] == "0" || plan[0]["bytes"] == "0" {
		t.Errorf("plan: %v", plan)
	}
	if got := w.spread(); got["shard-1"] != 64 {
		t.Errorf("a dry run has moved buckets: %v", got)
	}
	if citus := values(w, c, "select * from get_rebalance_table_shards_plan()"); len(citus) != 1 {
		t.Errorf("plan: %v", citus)
	}
	w.must(c, "select weft.wait_move($1)", value[string](w, c, "select weft.rebalance('buckets', max_moves => 10)"))
	if got := w.spread(); got["shard-0"] != 10 {
		t.Errorf("buckets after ten moves: %v", got)
	}
	w.must(c, "select weft.wait_move($1)", value[string](w, c, "select citus_rebalance_start()"))
	sizes := map[string]int{}
	for _, r := range values(w, c, "select * from weft.rebalance(threshold => 0.05, dry_run => true)") {
		sizes[fmt.Sprint(r["from_shard"])]++
	}
	if got := w.spread(); got["shard-0"] < 22 || got["shard-0"] > 42 || len(sizes) > 1 {
		t.Errorf("buckets after a rebalance by size: %v, left to do: %v", got, sizes)
	}
	if rows := values(w, c, "select * from weft.rebalance(threshold => 0.9)"); len(rows) != 0 {
		t.Errorf("a job for nothing: %v", rows)
	}
	if n := value[int](w, c, "select count(*) from acct"); n != accounts {
		t.Errorf("%d accounts", n)
	}
	w.settled(c)
	w.refused(c, "22023", "strategy", "select weft.rebalance('beauty')")
	w.refused(c, "55000", "too little is known", "select weft.rebalance('load')")
	w.refused(c, "55000", "too little is known", "select * from weft.rebalance('mixed', dry_run => true)")
	w.refused(c, "22023", "threshold", "select weft.rebalance(threshold => 7)")
	w.refused(c, "22023", "max_moves", "select weft.rebalance(max_moves => 'many')")
	w.must(c, "create role clerk login")
	clerk := w.proxies[0].Connect(t, "clerk", "dbname="+w.db)
	w.refused(clerk, "42501", "superuser", "select weft.rebalance()")
	w.must(c, "drop role clerk")
}
