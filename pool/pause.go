package pool

import (
	"context"
	"sync/atomic"
	"time"

	"weft/pgerr"
)

// pauses is whether sessions may begin something new on a shard. Both an operator's
// PAUSE and DRAIN SHARD can keep them from it, and each is undone by itself.
type pauses struct {
	gate atomic.Pointer[gate] // nil: they may
	all  bool                 // PAUSE
	one  bool                 // DRAIN SHARD
}

// gate is what they wait for.
type gate struct{ opened chan struct{} }

// set brings the gate in line. mu of the shard is held.
func (p *pauses) set() {
	g := p.gate.Load()
	switch shut := p.all || p.one; {
	case shut && g == nil:
		p.gate.Store(&gate{make(chan struct{})})
	case !shut && g != nil:
		p.gate.Store(nil)
		close(g.opened)
	}
}

// await waits until the gate opens.
func (g *gate) await(ctx context.Context, sh *Shard, want Want) error {
	timeout := time.NewTimer(sh.pool.Config().QueueTimeout)
	defer timeout.Stop()
	began := time.Now()
	sh.pool.stats.Waits.Add(1)
	defer func() { sh.Queued.Add(want.Session, int64(time.Since(began))) }()
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-want.Cancel:
		return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
	case <-timeout.C:
		sh.pool.stats.Timeouts.Add(1)
		return pgerr.New(pgerr.CannotConnectNow, "shard %q is paused by an operator", sh.Name).
			WithHint("RESUME in the admin database lets it go on.")
	}
}

// Paused reports whether an operator keeps sessions from a shard.
func (sh *Shard) Paused() bool { return sh.pauses.gate.Load() != nil }

// Pause lets nothing new begin on a shard, or on any if sh is nil, and waits until
// what has begun is over. Then the connections are closed. If ctx ends before,
// it is as if nothing had been.
func (p *Pool) Pause(ctx context.Context, sh *Shard) error {
	shards := []*Shard{sh}
	if sh == nil {
		p.mu.Lock()
		p.paused = true
		p.mu.Unlock()
		shards = p.all()
	}
	for _, s := range shards {
		s.mu.Lock()
		s.pauses.all, s.pauses.one = s.pauses.all || sh == nil, s.pauses.one || sh != nil
		s.pauses.set()
		s.mu.Unlock()
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, s := range shards {
		for s.used() > 0 {
			if !s.Paused() {
				return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "somebody has resumed it meanwhile")
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				p.Resume(sh)
				return context.Cause(ctx)
			}
		}
		s.retire(func(*Lane) bool { return true })
	}
	return nil
}

// Resume undoes Pause. For nil it undoes all of them.
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

// used is how many connections sessions hold.
func (sh *Shard) used() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
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

// Idle returns the connections that nobody has.
func (sh *Shard) Idle() []Backend {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var out []Backend
	for _, l := range sh.lanes {
		for _, c := range l.idle {
			out = append(out, Backend{l.key, c.PID})
		}
	}
	return out
}
