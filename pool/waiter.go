package pool

import (
	"context"
	"time"

	"weft/pgerr"
)

// waiter is a session in the queue. Its channel ready delivers a connection, or nil for the right
// to dial one.
type waiter struct {
	lane  *Lane
	want  Want
	ready chan *Conn
	since time.Time
	place place
	to    loanee // set when the session is served
}

// patience is how long waiters with a fitting connection may overtake the head of the queue,
// before a connection of another lane is closed for the head.
const patience = 50 * time.Millisecond

// wait waits in the queue for a connection, or for the right to dial one.
func (w *waiter) wait(ctx context.Context) (*Conn, error) {
	sh := w.lane.shard
	timeout := time.NewTimer(w.bound(w.waited()))
	defer timeout.Stop()
	defer sh.queued(w.want.Session, w.want.Waited, w.since)
	var nudges <-chan time.Time
	if w.want.Underway {
		sh.pool.rights.wait(w.want.Session, true)
		defer sh.pool.rights.wait(w.want.Session, false)
	}
	if every := w.every(); every > 0 {
		tick := time.NewTicker(every)
		defer tick.Stop()
		nudges = tick.C
	}
	var err error
	for waits := true; waits; {
		waits = false
		select {
		case c := <-w.ready:
			return w.got(ctx, c)
		case now := <-nudges:
			if w.nudge(now) {
				return w.lane.openFor(ctx, w.to, w.want.Cancel)
			}
			waits = true
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-w.want.Cancel:
			err = pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
		case <-timeout.C:
			waited := w.waited()
			if waited >= sh.pool.conf().QueueTimeout {
				err = sh.exhausted(w.lane.key.User)
			} else if err = sh.overloaded(w, waited); err == nil {
				timeout.Reset(w.bound(waited))
				waits = true
				continue
			}
			sh.Stats.Timeouts.Add(1)
		}
	}
	sh.mu.Lock()
	left := sh.leave(w)
	sh.mu.Unlock()
	if left {
		return nil, err
	}
	// The session was served at the same moment: take what it was given.
	return w.got(ctx, <-w.ready)
}

// exhausted is the error of a session that has waited for a connection in vain.
func (sh *Shard) exhausted(user string) error {
	sh.mu.Lock()
	own := sh.userFull(user)
	sh.mu.Unlock()
	e := pgerr.New(pgerr.TooManyConnections, "no connection to shard %q became free within %s", sh.Name, sh.pool.conf().QueueTimeout)
	if own {
		return e.WithDetail("All connections this user may have to the shard are in use.").
			WithHint("Raise pool.max_per_user or the user's max_connections, or look for long transactions with SHOW CLIENTS in the admin database.")
	}
	return e.WithDetail("All connections of this proxy to the shard are in use.").
		WithHint("Raise pool.max_per_shard, or look for long transactions with SHOW CLIENTS in the admin database.")
}

// waited is how long the session has waited, for this connection and others before.
func (w *waiter) waited() time.Duration {
	if !w.want.began.IsZero() {
		return time.Since(w.want.began)
	}
	return time.Since(w.since)
}

// bound is how long a session that has waited goes on waiting until the next look at the
// strain, or until it gives up. A session in the middle of a transaction is not refused for the strain.
func (w *waiter) bound(waited time.Duration) time.Duration {
	conf := w.lane.shard.pool.conf()
	rest := conf.QueueTimeout - waited
	if w.want.Underway || conf.OverloadWait <= 0 {
		return rest
	}
	if waited < conf.OverloadWait {
		return min(rest, conf.OverloadWait-waited)
	}
	return min(rest, max(conf.OverloadWait/4, 10*time.Millisecond))
}

// overloaded is the error of a session that has waited long enough in overload; nil if the session may
// go on waiting.
func (sh *Shard) overloaded(w *waiter, waited time.Duration) error {
	wait := sh.pool.conf().OverloadWait
	sh.mu.Lock()
	defer sh.mu.Unlock()
	again, now := sh.loans.bound(wait), time.Now()
	if w.want.Underway || wait <= 0 || w.place.in == nil || waited < again {
		return nil
	}
	if sh.stall.stands(w.since, now, sh.loans) || now.Sub(sh.stall.since(w.since)) < again {
		return nil
	}
	key, tenant := w.place.strains()
	if !key.over && !tenant.over {
		return nil
	}
	key.refuses(now)
	tenant.refuses(now)
	sh.Stats.Refusals.Add(1)
	return pgerr.New(pgerr.InsufficientResources, "shard %q is overloaded: no connection became free within %s", sh.Name, waited.Round(10*time.Millisecond)).
		WithDetail("%d sessions wait for a connection to the shard. Nothing was sent to it. retry_after_ms=%d", sh.queue.waiting, again.Milliseconds()).
		WithHint("Try again after %s, and less often. weft.hot_keys and weft.hot_statements say what keeps the shard busy; pool.overload_wait is how long clients wait meanwhile.", again.Round(10*time.Millisecond))
}

// got returns the connection a session was served, or dials if it was served the right to.
func (w *waiter) got(ctx context.Context, c *Conn) (*Conn, error) {
	if c != nil {
		return c, nil
	}
	return w.lane.openFor(ctx, w.to, w.want.Cancel)
}

// serveQueue gives waiters what has become free: connections of their lane, else the right to dial.
// mu is held.
func (sh *Shard) serveQueue() {
	if sh.queue.waiting == 0 {
		return
	}
	now := time.Now()
	for sh.queue.waiting > 0 && (sh.idle > 0 || sh.total < sh.Most()) && (!sh.full() || sh.queue.tops[classUnderway].waiting > 0) {
		var c *Conn
		w := sh.queue.serve(func(w *waiter, claim bool) (out outcome) {
			c, out = sh.offer(w, claim, now)
			return out
		})
		if w == nil && sh.idle > 0 {
			// Nobody wants what is free. But a waiter does not wait for ever for a connection of its own
			// lane while others are idle.
			w = sh.queue.serve(func(w *waiter, _ bool) (out outcome) {
				c, out = sh.offer(w, now.Sub(w.since) >= patience, now)
				return out
			})
		}
		if w == nil {
			break
		}
		if sh.lendTo(w, now); c != nil {
			c.lentTo = w.to
		}
		w.ready <- c
	}
}

// offer takes what fits a waiter, and tells its key and tenant if it is served. mu is held.
func (sh *Shard) offer(w *waiter, claim bool, now time.Time) (*Conn, outcome) {
	c, out := sh.fit(w, claim, now)
	if out == served {
		w.place.cost = w.lane.costs.of(w.place.key)
		sh.stall.serves(w.since, now, sh.loans)
		key, tenant := w.place.strains()
		wait := now.Sub(sh.stall.since(w.since))
		key.served(now, wait, sh.loans)
		tenant.served(now, wait, sh.loans)
	}
	return c, out
}

// fit takes what is free for a waiter: an idle connection of its lane, or the right to dial one,
// for which the connection is nil. With claim a connection of another lane may be closed for it. mu is
// held.
func (sh *Shard) fit(w *waiter, claim bool, now time.Time) (*Conn, outcome) {
	if !sh.admits(w.lane, &w.want) {
		return nil, blocked
	}
	if c := w.lane.takeIdle(w.want); c != nil {
		return c, served
	}
	// Where the lane has a free connection, it has custom parameters that the session has not set. Each that comes
	// back may have.
	other := len(w.lane.idle) > 0
	if sh.dials >= sh.mostDials() {
		if other {
			return nil, unlike
		}
		return nil, blocked
	}
	if sh.total >= sh.Most() && !claim && !w.starves(now) && !(other && now.Sub(w.since) >= patience) {
		if other {
			return nil, unlike
		}
		return nil, short
	}
	if sh.reserve(w.lane) {
		return nil, served
	}
	if sh.userFull(w.lane.key.User) {
		return nil, blocked
	}
	return nil, short
}

// starves reports whether a waiter is passed over for so long that a connection of another lane may
// be closed for it: nobody of its lane was served meanwhile, or it comes before the others that wait. mu is
// held.
func (w *waiter) starves(now time.Time) bool {
	return now.Sub(w.since) >= patience && (w.place.class < classNormal || now.Sub(w.lane.served) >= patience)
}
