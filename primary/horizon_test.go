package primary

import (
	"testing"
	"time"
)

// TestHorizon: a commit is kept when all that may be promoted have it, or when a standby that stands still has nothing of it.
func TestHorizon(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var b behind
	var l Lag
	if h := b.horizon(at(0), &l); !h.Keeps(at(-1), at(0)) {
		t.Error("a primary without standbys: not kept")
	}
	l.Mark(at(0), 100)
	b.see(100, at(0), &l)
	for _, m := range []struct {
		s   int
		lsn LSN
	}{{1, 110}, {2, 120}, {3, 130}} {
		l.Mark(at(m.s), m.lsn)
		b.see(110, at(m.s), &l)
	}
	for _, tc := range []struct {
		now, began, answered int
		want                 bool
	}{
		{3, -1, 0, true},
		{3, 0, 1, false}, // answered when the probe was sent
		{3, 0, 2, false},
		{3, 4, 5, false},
		{70, 0, 2, false}, // the standby may have the first half
		{70, 3, 4, false},
		{70, 4, 5, true},
	} {
		if got := b.horizon(at(tc.now), &l).Keeps(at(tc.began), at(tc.answered)); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
	b.see(130, at(71), &l)
	if !b.horizon(at(71), &l).Keeps(at(0), at(2)) || b.horizon(at(71), &l).Keeps(at(4), at(5)) {
		t.Error("after the standby has caught up")
	}
}
