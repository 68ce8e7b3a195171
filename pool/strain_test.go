package pool

import (
	"testing"
	"time"
)

// There is overload if nobody was served at once for half a second, until waits are short again.
func TestStrain(t *testing.T) {
	var s strain
	var loans span
	now := time.Unix(1000, 0)
	run := func(n int, every, wait time.Duration) {
		for range n {
			now = now.Add(every)
			s.served(now, wait, loans)
		}
	}
	run(100, 10*time.Millisecond, 5*time.Millisecond)
	if s.over {
		t.Error("overloaded with waits of 5 ms")
	}
	for range 100 { // bursts: some wait long, the first of each burst does not
		run(9, 10*time.Millisecond, 100*time.Millisecond)
		run(1, 10*time.Millisecond, time.Millisecond)
	}
	if s.over {
		t.Error("overloaded by bursts")
	}
	if s.refuses(now); s.newest {
		t.Error("the newest are served first without overload")
	}
	run(100, 10*time.Millisecond, 30*time.Millisecond)
	if !s.over || s.newest {
		t.Errorf("waits of 30 ms: over %t, newest first %t", s.over, s.newest)
	}
	run(100, 10*time.Millisecond, time.Millisecond)
	if s.over {
		t.Error("overloaded after waits have become short")
	}
	run(100, 10*time.Millisecond, time.Second)
	if s.refuses(now); !s.newest {
		t.Error("somebody is refused, and the oldest is served first")
	}
	run(100, 10*time.Millisecond, time.Millisecond) // the newest wait no time
	if !s.over || !s.newest {
		t.Error("the overload ended because the newest are served first")
	}
	now = now.Add(3 * time.Second)
	if run(1, 10*time.Millisecond, time.Second); s.newest {
		t.Error("nobody was refused for long, and the newest are served first")
	}
	if run(100, 10*time.Millisecond, time.Millisecond); s.over {
		t.Error("overloaded after the refusals have ended and waits have become short")
	}
	// Where loans take seconds, waits of a second are no overload.
	for range 50 {
		loans.lasted(2 * time.Second)
	}
	run(10, time.Second, 1500*time.Millisecond)
	if s.over || loans.bound(time.Second) < 6*time.Second {
		t.Errorf("loans of 2 s: over %t, bound %v", s.over, loans.bound(time.Second))
	}
	// One loan that lasted an hour says little of the others.
	for range 100 {
		loans.lasted(time.Millisecond)
	}
	if loans.lasted(time.Hour); loans.bound(time.Second) > 3*time.Second {
		t.Errorf("after a loan of an hour among short ones: bound %v", loans.bound(time.Second))
	}
}

// What a key costs is what its loans took. Keys that were not seen for long cost what loans of the lane take.
func TestCosts(t *testing.T) {
	var none *costs
	if none.of(3) != usualCost {
		t.Error("unknown costs")
	}
	var c costs
	for range 50 {
		c.took(3, int64(20*time.Millisecond))
		c.took(4, int64(time.Millisecond))
	}
	if a, b := c.of(3), c.of(4); a < int64(19*time.Millisecond) || b > int64(2*time.Millisecond) {
		t.Errorf("keys cost %d and %d", a, b)
	}
	if a := c.of(5); a < int64(5*time.Millisecond) || a > int64(15*time.Millisecond) {
		t.Errorf("an unknown key costs %d", a)
	}
	for key := range uint64(10 * mostCosts) {
		c.took(100+key, int64(2*time.Millisecond))
		c.took(4, int64(time.Millisecond))
	}
	if a, b := c.of(3), c.of(4); a > int64(3*time.Millisecond) || b > int64(1001*time.Microsecond) {
		t.Errorf("after many others keys cost %d and %d", a, b)
	}
	if n := len(c.latest) + len(c.earlier); n > 2*mostCosts {
		t.Errorf("%d keys are known", n)
	}
}

// A shard that serves nobody for a second stands still. What was waited for meanwhile does not count.
func TestStall(t *testing.T) {
	var s stall
	var loans span
	now := time.Unix(1000, 0)
	if s.stands(now.Add(-500*time.Millisecond), now, loans) {
		t.Error("a wait of half a second, the first, is a stall")
	}
	s.serves(now, now, loans)
	for range 20 { // each waits for ten seconds, and there is always somebody to serve
		now = now.Add(100 * time.Millisecond)
		s.serves(now.Add(-10*time.Second), now, loans)
	}
	if !s.ended.IsZero() {
		t.Error("a shard that serves somebody all the time stood still")
	}
	now = now.Add(time.Hour) // nobody waits
	if s.stands(now.Add(-50*time.Millisecond), now, loans) {
		t.Error("a shard that nobody has asked stands still")
	}
	s.serves(now.Add(-50*time.Millisecond), now, loans)
	before := now
	now = now.Add(6 * time.Second)
	if !s.stands(before, now, loans) {
		t.Error("nobody was served for six seconds, and it does not stand still")
	}
	s.serves(before, now, loans)
	if got := s.since(before); got != now {
		t.Errorf("a wait through the stall counts from %v before its end on", now.Sub(got))
	}
	if later := now.Add(time.Second); s.since(later) != later {
		t.Error("a wait after the stall counts from its end on")
	}
	for range 100 {
		loans.lasted(5 * time.Second)
	}
	if s.stands(now, now.Add(6*time.Second), loans) {
		t.Error("where loans take five seconds, six without one are a stall")
	}
}
