package pool

import (
	"context"
	"time"
)

// A statement over several shards needs a connection to each. If it took them one by one, it would hold
// those of the healthy shards while it waits for a hot one, and soon all connections to all shards
// would belong to statements that wait for the hot one. So it takes all of them together or none: where one
// shard has none free, it gives back the others and waits in the queue of this shard alone. When it has
// got that connection it tries the others again.
//
// With several shards that are never free at the same time, this could go on for ever. After some
// attempts the statement keeps the connections that it had to wait for, and waits for the next one as a
// session that is underway: it comes before newcomers, and the right of way keeps such sessions from
// waiting for each other in a circle. Connections that were free at once are given back even then.

// fairAttempts is how often a session gives back all connections before it keeps those of full shards.
const fairAttempts = 4

// Together lends one connection of each lane, in the order of the lanes. Each lane is of another shard.
// If it fails, it lends none. want says nothing of what the session holds: it must hold nothing.
func Together(ctx context.Context, lanes []*Lane, want Want, conns []*Conn) ([]*Conn, error) {
	if len(lanes) == 0 {
		return conns[:0], nil
	}
	t := together{want: want, lanes: lanes, conns: append(conns[:0], make([]*Conn, len(lanes))...)}
	for attempt := 0; ; attempt++ {
		full, err := t.rest(ctx, attempt < fairAttempts)
		if err != nil {
			t.giveBack(false)
			return nil, err
		}
		if full < 0 {
			for _, c := range t.conns {
				c.borrower.Store(want.Session)
			}
			return t.conns, nil
		}
		t.giveBack(attempt >= fairAttempts)
		if t.want.began.IsZero() {
			t.want.began = time.Now() // the queue timeout bounds all waits together
		}
		c, err := lanes[full].Acquire(ctx, t.next())
		if err != nil {
			t.giveBack(false)
			return nil, err
		}
		if t.waited == nil {
			t.waited = make([]bool, len(lanes))
		}
		t.hold(full, c)
		t.waited[full] = true
	}
}

// together is one call of Together.
type together struct {
	want   Want
	lanes  []*Lane
	conns  []*Conn // nil where the lane's connection is missing
	held   int
	since  uint64 // the count of drains when the first connection was lent
	waited []bool // the connections that were waited for; nil if none was
}

// rest takes the missing connections as far as they are free, and with heeds as far as the limits of the shards allow. It returns the
// first lane that has none, or -1.
func (t *together) rest(ctx context.Context, heeds bool) (full int, err error) {
	for i, l := range t.lanes {
		if t.conns[i] != nil {
			continue
		}
		want := t.next()
		want.heeds = heeds
		c, ok, err := l.try(ctx, want)
		switch {
		case err != nil && l.shard.doubt(ctx, &t.want, err):
			return i, nil
		case err != nil && reached(err) == unlimited:
			return 0, err
		case err != nil || !ok:
			return i, nil
		}
		t.hold(i, c)
	}
	return -1, nil
}

// next is what the next connection is wanted for: the first one is that of a newcomer.
func (t *together) next() Want {
	w := t.want
	if t.held > 0 {
		w.Grows, w.Underway, w.Since = false, true, t.since
	} else {
		w.Grows, w.Underway = len(t.lanes) > 1, false
	}
	return w
}

func (t *together) hold(i int, c *Conn) {
	if t.held == 0 {
		t.since = c.lane.shard.pool.Drains()
	}
	t.conns[i] = c
	t.held++
}

// giveBack gives connections back: all, or with keep those that were not waited for.
func (t *together) giveBack(keep bool) {
	for i, c := range t.conns {
		if c == nil || keep && t.waited != nil && t.waited[i] {
			continue
		}
		t.conns[i] = nil
		t.held--
		c.unused()
		c.Release()
	}
}

// unused says that the connection is given back without having been used: the time of the loan says
// nothing of what such loans take.
func (c *Conn) unused() {
	sh := c.lane.shard
	sh.mu.Lock()
	c.lentTo.from = time.Time{}
	sh.mu.Unlock()
}

// try lends a connection that is free now. It reports false if the session would have to wait.
func (l *Lane) try(ctx context.Context, want Want) (*Conn, bool, error) {
	sh := l.shard
	for {
		sh.mu.Lock()
		if sh.pauses.gate.Load().stops(want) {
			sh.mu.Unlock()
			return nil, false, nil
		}
		c, to, ok := l.take(&want)
		sh.mu.Unlock()
		switch {
		case !ok:
			return nil, false, nil
		case c == nil:
			c, err := l.openFor(ctx, to, want.Cancel)
			return c, err == nil, err
		case c.usable():
			return c, true, nil
		}
		c.Discard()
	}
}

// take takes what is free now for a session: an idle connection of the lane, else the right to dial
// one, for which the connection is nil. mu is held.
func (l *Lane) take(want *Want) (c *Conn, to loanee, ok bool) {
	sh := l.shard
	if !sh.admits(l, want) {
		return nil, loanee{}, false
	}
	if c = l.takeIdle(*want); c != nil {
		c.lentTo = sh.lend(l, want)
		return c, loanee{}, true
	}
	if !sh.reserve(l) {
		return nil, loanee{}, false
	}
	return nil, sh.lend(l, want), true
}
