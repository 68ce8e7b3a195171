package pool

import (
	"testing"
	"time"
)

// TestYield: a transaction that holds connections elsewhere waits at a gate for a while only, and longer the longer a
// drain takes; others, and all once the gate is shut, wait until it opens.
func TestYield(t *testing.T) {
	now := time.Now()
	underway, fresh := Want{Underway: true, Since: 7}, Want{}
	for _, c := range []struct {
		name string
		g    gate
		want Want
		stop bool
		wait time.Duration
	}{
		{"it began before the drain", gate{since: 8, began: now}, underway, false, leastYield},
		{"it began after the drain", gate{since: 7, began: now}, underway, true, leastYield},
		{"the drain is old", gate{since: 7, began: now.Add(-10 * time.Second)}, underway, true, 5 * time.Second},
		{"it has waited", gate{since: 7, began: now}, Want{Underway: true}, false, leastYield},
		{"nobody is left", gate{since: 7, began: now, shut: true}, Want{Underway: true}, true, 0},
		{"it begins", gate{since: 7, began: now}, fresh, true, 0},
		{"all shards are paused", gate{}, underway, false, leastYield},
	} {
		if got := c.g.stops(c.want); got != c.stop {
			t.Errorf("%s: stops %v", c.name, got)
		}
		if got := c.g.yield(c.want, now); c.stop && got != c.wait {
			t.Errorf("%s: waits %v, want %v", c.name, got, c.wait)
		}
	}
}
