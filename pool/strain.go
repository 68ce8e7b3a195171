package pool

import "time"

// A queue that is empty now and then does no harm: it evens out bursts. One that never is only adds its
// length to each answer, and when the wait reaches queue_timeout, clients get connections that they have
// given up on. strain tells the two apart as CoDel does, by the shortest wait within a while.
//
// Each tenant and each key has its own, as those take turns: a tenant with few clients waits for a short
// time while another one's queue is long. A waiter is in overload if its tenant or its key is. The strain
// ends when nobody waits there any more: the flow is gone then.

const (
	// strainWindow is how long the shortest wait is looked for.
	strainWindow = 500 * time.Millisecond
	// strainWait is the shortest wait from which on there is overload, unless loans take longer.
	strainWait = 20 * time.Millisecond
	// calmAfter is how long nobody has to be refused until waiters are served in order of arrival again.
	calmAfter = 2 * time.Second
)

// strain says whether those who wait in a flow are in overload. It has no clock.
type strain struct {
	began   time.Time // of the window
	least   time.Duration
	any     bool // somebody was served in the window
	over    bool
	refused time.Time // when somebody was last refused because of the overload
	// newest says that the waiters that came last are to be served first. As long as everybody is served
	// in the end, the order of arrival is better: clients that send their next statement as soon as they
	// have an answer would starve the others. Once some are refused anyway, it should be those who have waited
	// so long that nobody may be listening any more.
	newest bool
}

// served notes that a waiter was served after a wait, while loans take so long.
func (s *strain) served(now time.Time, wait time.Duration, loans span) {
	if s.newest && now.Sub(s.refused) > calmAfter {
		s.newest = false
	}
	if s.began.IsZero() {
		s.began = now
	}
	if !s.any || wait < s.least {
		s.any, s.least = true, wait
	}
	if now.Sub(s.began) < strainWindow {
		return
	}
	if s.least > max(strainWait, time.Duration(loans)) {
		s.over = true
	} else if !s.newest { // the newest need not wait: this says nothing
		s.over = false
	}
	s.began, s.any = now, false
}

// refuses notes that a waiter gives up because of the overload, if there is one.
func (s *strain) refuses(now time.Time) {
	if s.over {
		s.refused, s.newest = now, true
	}
}

// span is the mean time for which waiters keep a connection once they have it.
type span time.Duration

// lasted notes for how long a waiter has kept its connection. A session that kept one for an hour must
// not make overload out of the question for the next hundred loans.
func (s *span) lasted(t time.Duration) {
	t = min(t, time.Duration(mostCost))
	if *s == 0 {
		*s = span(t)
	}
	*s += (span(t) - *s) / 16
}

// bound is how long a waiter may wait in overload: the configured time, but a few loans at least, or
// statements that take long would be refused for their own length.
func (s span) bound(wait time.Duration) time.Duration { return max(wait, 4*time.Duration(s)) }

// stall tells a shard that stands still (its machine is paused, a standby takes over, a lock is in everybody's
// way) from one that has too much to do: nobody who waits is served for a while. Waiting helps then, so nobody
// is refused, and what was waited in a stall does not count as overload afterwards.
type stall struct {
	served time.Time // when somebody was last served
	ended  time.Time // of the last stall
}

// stallAfter is how long nobody must have been served, and for two loans at least.
const stallAfter = time.Second

// stands reports whether the shard stands still while somebody has waited since a time.
func (s *stall) stands(since, now time.Time, loans span) bool {
	return now.Sub(latest(since, s.served)) > max(stallAfter, 2*time.Duration(loans))
}

// serves notes that somebody is served who has waited since a time.
func (s *stall) serves(since, now time.Time, loans span) {
	if s.stands(since, now, loans) {
		s.ended = now
	}
	s.served = now
}

// since returns from when on a wait counts.
func (s *stall) since(began time.Time) time.Time { return latest(began, s.ended) }

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// mostCosts is of how many keys a lane knows what their latest loans took. It knows as many again of keys before those.
const mostCosts = 512

// costs holds what loans of a lane took, all together and by key.
type costs struct {
	all             float64
	latest, earlier map[uint64]float32
}

// of returns the expected time of a loan in nanoseconds.
func (c *costs) of(key uint64) int64 {
	if c == nil || c.all == 0 {
		return usualCost
	}
	if t, ok := c.known(key); ok {
		return int64(t)
	}
	return int64(c.all)
}

// known returns what the latest loans of a key took.
func (c *costs) known(key uint64) (t float32, ok bool) {
	if t, ok = c.latest[key]; !ok {
		t, ok = c.earlier[key]
	}
	return t, ok
}

// took notes how long a loan took.
func (c *costs) took(key uint64, ns int64) {
	t := float64(min(max(ns, leastCost), mostCost))
	if c.all == 0 {
		c.all = t
	}
	c.all += (t - c.all) / 16
	mean, ok := c.known(key)
	if !ok {
		mean = float32(t)
	}
	if _, ok := c.latest[key]; !ok && len(c.latest) >= mostCosts {
		c.latest, c.earlier = c.earlier, c.latest
		clear(c.latest)
	}
	if c.latest == nil {
		c.latest = map[uint64]float32{}
	}
	c.latest[key] = mean + (float32(t)-mean)/4
}

// mix spreads the bits of a number (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Priority says how urgent a statement is while others wait for the same shard.
type Priority int8

// The priorities.
const (
	PriorityLow    Priority = -1
	PriorityNormal Priority = 0
	PriorityHigh   Priority = 1
)

// class returns the rank of a priority.
func (p Priority) class() class {
	switch {
	case p > 0:
		return classHigh
	case p < 0:
		return classLow
	}
	return classNormal
}
