package pool

import (
	"context"
	"errors"
	"time"

	"weft/pgerr"
)

// A server's max_connections is shared by all its clients: other proxies, backups, people. When
// the server has no connection left, a session waits as it would for a connection of the pool,
// and the pool closes idle connections of other lanes. A role and a database may have limits too.
// An operator chose those limits, so a client that logs in is told of them at once, as PostgreSQL
// does. For these limits the pool only closes or waits for connections that it holds itself, and
// only sessions that are already logged in wait.

// The pauses between two attempts to log in to a server that is full.
const (
	crowdedPause    = 20 * time.Millisecond
	crowdedPauseMax = 500 * time.Millisecond
)

// roomAfter is how long a server may take to notice that a client closed its connection.
const roomAfter = 2 * time.Second

// limit names a limit of a server on connections.
type limit int

const (
	unlimited limit = iota
	ofServer
	ofRole
	ofDatabase
)

// reached returns the limit of the server that an error reports. It returns unlimited for any
// other error, such as one about a limit of the pool. The error's routine tells the limit,
// because messages are translated.
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

// Acquire lends a connection: an idle one, else a new one, else the next one that becomes free
// within the queue timeout, in the pool or at the server.
func (l *Lane) Acquire(ctx context.Context, want Want) (*Conn, error) {
	c, err := l.obtain(ctx, &want)
	for err == nil && l.shard.Sought() {
		// The search for a primary began while the session waited in the queue or logged in: what it has may be a connection to a primary that
		// is not open to sessions yet.
		c.Release()
		c, err = l.obtain(ctx, &want)
	}
	if err == nil {
		c.borrower.Store(want.Session)
	}
	return c, err
}

// obtain is acquire, and goes on after a login has failed.
func (l *Lane) obtain(ctx context.Context, want *Want) (*Conn, error) {
	c, err := l.acquire(ctx, *want)
	for err != nil && l.shard.doubt(ctx, want, err) {
		c, err = l.acquire(ctx, *want)
	}
	if err != nil && reached(err) != unlimited {
		c, err = l.insist(ctx, *want, err)
	}
	return c, err
}

// insist repeats acquire after the server had no connection left.
func (l *Lane) insist(ctx context.Context, want Want, err error) (*Conn, error) {
	sh := l.shard
	began := time.Now()
	most := sh.pool.conf().QueueTimeout
	defer sh.queued(want.Session, want.Waited, began)
	var room time.Time // when a connection was last closed to make room
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
			sh.Stats.Timeouts.Add(1)
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

// remainsFull is the error of a session that waited the whole queue timeout for a full server.
func (sh *Shard) remainsFull(full limit, most time.Duration, err error) error {
	e := pgerr.New(pgerr.TooManyConnections, "shard %q had no connection left for %s: %s", sh.Name, most, pgerr.From(err).Message).WithCause(err)
	if full != ofServer {
		return e.WithDetail("All connections that the limit allows are in use, by this proxy or by others.").
			WithHint("Raise the CONNECTION LIMIT of the role or database, or give the user a max_connections below it: then sessions wait in the proxy.")
	}
	return e.WithDetail("All connections that the server allows are in use, by this proxy or by others.").
		WithHint("Raise max_connections of the server, or lower pool.max_per_shard of the proxies: their sum must stay below it.")
}

// makeRoom closes an idle connection that counts towards the limit. It reports whether there
// was one, and if not, whether sessions hold connections that count.
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
