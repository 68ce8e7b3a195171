package proxy

import (
	"testing"
	"time"
)

// TestFarewell: idle sessions end at once, evenly over the time, or not at all.
func TestFarewell(t *testing.T) {
	var f farewell
	now := time.Now()
	if f.due(1, now) {
		t.Error("a session ends, and the proxy does not")
	}
	f.begun.Store(true)
	if !f.due(1, now) {
		t.Error("a session goes on after Close")
	}
	count := func(idle DrainIdle, after time.Duration) (n int) {
		f.begin(idle, now, now.Add(100*time.Second))
		for id := range int32(1000) {
			if f.due(id+7000, now.Add(after)) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		idle     DrainIdle
		after    time.Duration
		min, max int
	}{
		{DrainClose, 0, 1000, 1000},
		{DrainKeep, 99 * time.Second, 0, 0},
		{DrainSpread, 0, 0, 10},
		{DrainSpread, 8 * time.Second, 80, 120},
		{DrainSpread, 40 * time.Second, 480, 520},
		{DrainSpread, 80 * time.Second, 1000, 1000},
	} {
		if n := count(c.idle, c.after); n < c.min || n > c.max {
			t.Errorf("%d after %s: %d of 1000 end", c.idle, c.after, n)
		}
	}
}
