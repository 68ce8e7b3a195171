package planner

import "testing"

// TestProvides: weft knows its functions by name before a database has a declared table.
func TestProvides(t *testing.T) {
	for name, want := range map[string]bool{"shard_table": true, "rebalance": true, "citus_rebalance_start": true, "get_rebalance_table_shards_plan": true, "pin": true, "lower": false} {
		if Provides(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
