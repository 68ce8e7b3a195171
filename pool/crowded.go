package pool

import (
	"context"
	"errors"
	"time"

	"weft/pgerr"
)

// A server has so many connections, whoever wants them: other proxies, backups, people. When it
// has none left, a session waits as it does for one of the pool's own, and the pool gives
// up what idles for others.

// The pauses between two attempts to log in to a server that is full.
const (
	crowdedPause    = 20 * time.Millisecond
	crowdedPauseMax = 500 * time.Millisecond
)

// crowded reports whether it was the server that had no connection left, and not the pool.
func crowded(err error) bool {
	var e *pgerr.Error
	return errors.As(err, &e) && e.Code == pgerr.TooManyConnections && e.Routine != ""
}

// Acquire lends a connection: an idle one, else a new one, else the next that becomes free
// within the queue timeout, here or at the server.
func (l *Lane) Acquire(ctx context.Context, want Want) (*Conn, error) {
	c, err := l.acquire(ctx, want)
	if err != nil && crowded(err) {
		c, err = l.insist(ctx, want, err)
	}
	if err == nil {
		c.borrower.Store(want.Session)
	}
	return c, err
}

// insist goes on trying after the server had no connection left.
func (l *Lane) insist(ctx context.Context, want Want, err error) (*Conn, error) {
	sh := l.shard
	began := time.Now()
	limit := sh.pool.conf().QueueTimeout
	sh.pool.stats.Waits.Add(1)
	defer func() { sh.Queued.Add(want.Session, int64(time.Since(began))) }()
	for pause := crowdedPause; ; pause = min(2*pause, crowdedPauseMax) {
		if time.Since(began)+pause > limit {
			sh.pool.stats.Timeouts.Add(1)
			return nil, pgerr.New(pgerr.TooManyConnections, "shard %q had no connection left for %s: %s", sh.Name, limit, pgerr.From(err).Message).
				WithDetail("All connections that the server allows are in use, by this proxy or by others.").
				WithHint("Raise max_connections of the server, or lower pool.max_per_shard of the proxies: their sum must stay below it.").WithCause(err)
		}
		sh.makeRoom(l)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-want.Cancel:
			timer.Stop()
			return nil, pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
		}
		c, again := l.acquire(ctx, want)
		if again == nil || !crowded(again) {
			return c, again
		}
		err = again
	}
}

// makeRoom closes an idle connection of another lane: to the server it is as good as any.
func (sh *Shard) makeRoom(l *Lane) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.evict(func(o *Lane) bool { return o != l })
}
