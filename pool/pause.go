package pool

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weft/pgerr"
)

// pauses says whether sessions may begin something new on a shard. An operator's PAUSE and DRAIN
// SHARD both stop them, and so do a drain on all proxies, see Drain, and the search for a primary, see Seek. Each is undone separately.
type pauses struct {
	gate  atomic.Pointer[gate] // nil: sessions may begin
	all   bool                 // PAUSE is in force
	one   bool                 // DRAIN SHARD is in force
	drain bool                 // the shard is drained on all proxies
	seek  bool                 // the shard has no primary
	rift  bool                 // two servers of the shard are primaries
	// waiting is how many sessions wait at a gate, and unled counts those that have waited for a primary in vain.
	waiting, unled atomic.Int64
}

// gate is what sessions wait for while a shard is paused.
type gate struct {
	opened chan struct{}
	// shut says that no session has a connection any more, and none gets one: the server may be
	// gone. Before that, a transaction that has begun passes. Guarded by the shard's mu.
	shut bool
	// since, if not 0, is the number of the drain that closed the gate: a transaction that began
	// after the drain waits for a while, or the drain would never end. Guarded by the shard's mu.
	since uint64
	// began is when the drain did. Guarded by the shard's mu.
	began time.Time
	// sought says that the shard has no primary: every session waits, for as long as Config.Failover says. alone says that no operator
	// has closed the gate. drained says that the shard is drained on all proxies: another server is about to be the primary.
	sought, alone, drained bool
	// rift says that two servers of the shard are primaries: a session does not wait, because only an operator can tell which is right.
	rift bool
}

// leastYield is for how long a transaction that began after a drain lets the drain go first, at least.
const leastYield = 250 * time.Millisecond

// yield is for how long a transaction that holds connections to other shards waits at the gate before it passes, and 0
// for as long as the gate is closed. Such a transaction may hold locks that a transaction needs for which the drain
// waits, so it must not wait for the end of the drain. The longer a drain takes, the fewer transactions pass, so
// that the drain ends. mu of the shard is held.
func (g *gate) yield(want Want, now time.Time) time.Duration {
	if g.shut || g.sought || !want.Underway {
		return 0
	}
	return max(leastYield, now.Sub(g.began)/2)
}

// stops reports whether the session that sent want has to wait. mu of the shard is held.
func (g *gate) stops(want Want) bool {
	return g != nil && (g.shut || g.sought || !want.Underway || g.since > 0 && want.Since >= g.since)
}

// Drains counts the times that a shard has been drained.
func (p *Pool) Drains() uint64 { return p.drains.Load() }

// set closes or opens the gate as all, one, drain and seek say. Sessions that wait at a gate which is closed for other reasons from now on come
// back and look at the new one. mu of the shard is held.
func (p *pauses) set() {
	old := p.gate.Load()
	operator := p.all || p.one || p.drain
	if !operator && !p.seek {
		p.gate.Store(nil)
	} else {
		if old != nil && old.sought == p.seek && old.rift == p.rift && old.alone == !operator && old.drained == p.drain {
			return
		}
		next := &gate{opened: make(chan struct{}), sought: p.seek, rift: p.rift, alone: !operator, drained: p.drain}
		if old != nil && operator {
			next.shut, next.since, next.began = old.shut, old.since, old.began
		}
		p.gate.Store(next)
	}
	if old != nil {
		close(old.opened)
	}
}

// await waits until the gate opens, or for as long as yield says.
func (g *gate) await(ctx context.Context, sh *Shard, want Want, yield time.Duration) error {
	began := time.Now()
	limit := sh.pool.conf().QueueTimeout
	switch {
	case g.drained:
		limit = max(limit, sh.pool.conf().Failover.Wait)
	case g.sought:
		limit = sh.patience(want, began)
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	sh.pauses.waiting.Add(1)
	defer sh.pauses.waiting.Add(-1)
	defer sh.queued(want.Session, want.Waited, began)
	var passes <-chan time.Time
	if yield > 0 {
		timer := time.NewTimer(yield)
		defer timer.Stop()
		passes = timer.C
	}
	select {
	case <-g.opened:
		return nil
	case <-passes:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-want.Cancel:
		return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
	case <-timeout.C:
		sh.Stats.Timeouts.Add(1)
		if g.sought {
			sh.pauses.unled.Add(1)
			return sh.unled(want)
		}
		if g.drained {
			return pgerr.New(pgerr.CannotConnectNow, "shard %q is drained by an operator, on all proxies", sh.Name).
				WithHint("weft drain --end lets it go on. It goes on by itself when the time of the drain is over, or another server is its primary.")
		}
		return pgerr.New(pgerr.CannotConnectNow, "shard %q is paused by an operator", sh.Name).
			WithHint("RESUME in the admin database lets it go on.")
	}
}

// Paused reports whether an operator keeps sessions from a shard.
func (sh *Shard) Paused() bool {
	g := sh.pauses.gate.Load()
	return g != nil && !g.alone
}

// AtGate returns how many sessions wait because of PAUSE or DRAIN SHARD, or because the shard has no primary.
func (sh *Shard) AtGate() int64 { return sh.pauses.waiting.Load() }

// Unled counts the sessions that have waited for a primary of the shard in vain.
func (sh *Shard) Unled() int64 { return sh.pauses.unled.Load() }

// Pause lets nothing new begin on a shard, or on any if sh is nil, and waits until everything
// that has begun is over. Then it closes the connections, and no session gets a new one. If ctx
// ends before that, Pause undoes itself.
//
// A transaction that began on other shards before the pause may still come to the paused shard
// while the pause waits for other transactions there, and one that began later may after a while: see yield. Once the gate is shut the transaction waits:
// it holds nothing that the pause of one shard waits for. A pause of all shards ends only when no
// session holds a connection to any shard.
func (p *Pool) Pause(ctx context.Context, sh *Shard) error {
	shards := []*Shard{sh}
	var undo []func()
	if sh == nil {
		p.mu.Lock()
		was := p.paused
		p.paused = true
		p.mu.Unlock()
		undo = append(undo, func() {
			p.mu.Lock()
			p.paused = was
			p.mu.Unlock()
		})
		shards = p.all()
		slices.SortFunc(shards, func(a, b *Shard) int { return strings.Compare(a.Name, b.Name) })
	}
	for _, s := range shards {
		undo = append(undo, s.halt(sh == nil))
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !shut(shards) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, f := range undo {
				f()
			}
			return context.Cause(ctx)
		}
		if slices.ContainsFunc(shards, func(s *Shard) bool { return !s.Paused() }) {
			return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "somebody has resumed it meanwhile")
		}
	}
	for _, s := range shards {
		s.retire(everyKey)
	}
	return nil
}

// halt lets nothing new begin, for PAUSE if all is set, else for DRAIN SHARD, and returns the
// function that undoes it.
func (sh *Shard) halt(all bool) (undo func()) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	was := &sh.pauses.one
	if all {
		was = &sh.pauses.all
	}
	if *was {
		return func() {} // another PAUSE or DRAIN did it, and undoes it
	}
	*was = true
	sh.pauses.set()
	if g := sh.pauses.gate.Load(); !all {
		g.since, g.began = sh.pool.drains.Add(1), time.Now()
	} else {
		g.since = 0 // nothing new begins on any shard, so everything that has begun may finish
	}
	return func() {
		sh.mu.Lock()
		defer sh.mu.Unlock()
		*was = false
		sh.pauses.set()
	}
}

// shut shuts the gates of paused shards if no session has a connection to any of them. The
// shards are sorted by name, so that two calls lock them in the same order.
func shut(shards []*Shard) bool {
	for _, s := range shards {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	if slices.ContainsFunc(shards, func(s *Shard) bool { return s.used() > 0 }) {
		return false
	}
	for _, s := range shards {
		if g := s.pauses.gate.Load(); g != nil {
			g.shut = true
		}
	}
	return true
}

// Resume undoes Pause of a shard. If sh is nil, it undoes the pauses of all shards.
func (p *Pool) Resume(sh *Shard) {
	shards := []*Shard{sh}
	if sh == nil {
		p.mu.Lock()
		p.paused = false
		p.mu.Unlock()
		shards = p.all()
	}
	for _, s := range shards {
		s.mu.Lock()
		s.pauses.one = false
		s.pauses.all = s.pauses.all && sh != nil
		s.pauses.set()
		s.mu.Unlock()
	}
}

// used is how many connections sessions hold. mu is held.
func (sh *Shard) used() int {
	n := sh.total
	for _, l := range sh.lanes {
		n -= len(l.idle)
	}
	return n
}

// Backend is what SHOW SERVERS tells about an idle connection.
type Backend struct {
	Key Key
	PID int32
}

// Idle returns the connections that are not lent.
func (sh *Shard) Idle() []Backend {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var out []Backend
	for _, l := range sh.lanes {
		for _, c := range l.idle {
			out = append(out, Backend{l.key, c.pid})
		}
	}
	return out
}
