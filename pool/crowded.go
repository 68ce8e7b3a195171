package pool

import (
	"context"
	"errors"
	"time"

	"weft/pgerr"
)

// A server has so many connections, whoever wants them: other proxies, backups, people. When it
// has none left, a session waits as it does for one of the pool's own, and the pool gives
// up what idles for others. A role and a database may have limits of their own. Those are
// somebody's decision, so a login is told of them at once, as PostgreSQL does; only what the pool
// itself holds is given up, or waited for by a session that is let in already.

// The pauses between two attempts to log in to a server that is full.
const (
	crowdedPause    = 20 * time.Millisecond
	crowdedPauseMax = 500 * time.Millisecond
)

// roomAfter is how long a server may take to notice that a connection was closed.
const roomAfter = 2 * time.Second

// limit is which limit of a server is reached.
type limit int

const (
	unlimited limit = iota
	ofServer
	ofRole
	ofDatabase
)

// reached says which limit of the server an error speaks of; unlimited if it is none of the server's, but
// perhaps the pool's. The routine tells them apart, because messages are translated.
func reached(err error) limit {
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.TooManyConnections {
		return unlimited
	}
	switch e.Routine {
	case "":
		return unlimited
	case "InitializeSessionUserId":
		return ofRole
	case "CheckMyDatabase":
		return ofDatabase
	}
	return ofServer
}

// Acquire lends a connection: an idle one, else a new one, else the next that becomes free
// within the queue timeout, here or at the server.
func (l *Lane) Acquire(ctx context.Context, want Want) (*Conn, error) {
	c, err := l.acquire(ctx, want)
	if err != nil && reached(err) != unlimited {
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
	most := sh.pool.conf().QueueTimeout
	sh.pool.stats.Waits.Add(1)
	defer func() { sh.Queued.Add(want.Session, int64(time.Since(began))) }()
	var room time.Time // when a connection was given up last
	for pause := crowdedPause; ; pause = min(2*pause, crowdedPauseMax) {
		full := reached(err)
		evicted, lent := sh.makeRoom(l, full)
		if evicted {
			room, pause = time.Now(), crowdedPause
		}
		if full != ofServer && time.Since(room) > roomAfter && (want.Login || !lent) {
			return nil, err
		}
		if time.Since(began)+pause > most {
			sh.pool.stats.Timeouts.Add(1)
			return nil, sh.remainsFull(full, most, err)
		}
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
		if again == nil || reached(again) == unlimited {
			return c, again
		}
		err = again
	}
}

// remainsFull words that a limit was reached for as long as a session may wait.
func (sh *Shard) remainsFull(full limit, most time.Duration, err error) error {
	e := pgerr.New(pgerr.TooManyConnections, "shard %q had no connection left for %s: %s", sh.Name, most, pgerr.From(err).Message).WithCause(err)
	if full != ofServer {
		return e.WithDetail("All connections that the limit allows are in use, by this proxy or by others.").
			WithHint("Raise the CONNECTION LIMIT of the role or database, or give the user a max_connections below it: then sessions wait in the proxy.")
	}
	return e.WithDetail("All connections that the server allows are in use, by this proxy or by others.").
		WithHint("Raise max_connections of the server, or lower pool.max_per_shard of the proxies: their sum must stay below it.")
}

// makeRoom closes an idle connection that counts for a limit: to the server it is as good as any.
// It reports whether there was one, and else whether sessions hold such connections.
func (sh *Shard) makeRoom(l *Lane, full limit) (evicted, lent bool) {
	conf := sh.pool.conf()
	match := func(o *Lane) bool {
		switch full {
		case ofRole:
			return conf.loginName(o.key.User) == conf.loginName(l.key.User)
		case ofDatabase:
			return o.key.Database == l.key.Database
		}
		return o != l
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.evict(match) {
		return true, false
	}
	for _, o := range sh.lanes {
		lent = lent || match(o) && o.open > 0
	}
	return false, lent
}
