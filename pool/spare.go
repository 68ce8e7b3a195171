package pool

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/wire"
)

// Spares keeps connections that weft uses for itself, outside the limits of the pool, for a while
// after their use: a new connection costs a new server process, which has to read the catalog
// first. A connection has one user at a time.
type Spares struct {
	pool *Pool
	mu   sync.Mutex
	idle map[spareKey][]*Spare // the most recently used is last
	// shy holds databases that are to be empty, and until when no idle connection is kept to each.
	shy   map[string]time.Time
	ended bool
}

type spareKey struct{ shard, database, user string }

// shyFor is longer than PostgreSQL waits for a database to become empty.
const shyFor = 10 * time.Second

// maxSpares is how many idle connections to one shard are kept.
const maxSpares = 12

// Spare is a connection of Spares, lent to one user. Terminate gives the connection back if it is
// in order: the next user gets another Spare.
type Spare struct {
	*Conn
	spares *Spares
	key    spareKey
	spec   *directory.Shard // the description the connection was dialled by
	since  time.Time        // start of the idle time
	// used says that the session may have settings, locks or a transaction that the next user
	// must not see.
	used bool

	mu     sync.Mutex
	spoilt bool
	ended  bool // Terminate was called: a late interrupt must not hit the next user
}

// NewSpares returns spares that are dialled as the pool's connections are.
func NewSpares(p *Pool) *Spares {
	return &Spares{pool: p, idle: map[spareKey][]*Spare{}, shy: map[string]time.Time{}}
}

// Dial returns a connection to a database of a shard, logged in as user.
func (s *Spares) Dial(ctx context.Context, spec *directory.Shard, database, user string) (*Spare, error) {
	key := spareKey{spec.Name, database, user}
	for c := s.take(key); c != nil; c = s.take(key) {
		// The shard may be on another server now.
		if c.fits(c.spec, spec) && !c.Conn.givenUp.Load() && !c.Readable() {
			return &Spare{Conn: c.Conn, spares: s, key: key, spec: c.spec}, nil
		}
		c.Conn.Terminate()
	}
	lane := s.pool.Shard(spec).OpenLane(ServiceKey(database, user))
	defer lane.CloseLane()
	c, err := lane.dedicated(ctx, true)
	if err != nil {
		return nil, err
	}
	return &Spare{Conn: c, spares: s, key: key, spec: spec}, nil
}

// Await is Dial, but waits while the shard has no primary, as long as clients do.
func (s *Spares) Await(ctx context.Context, spec *directory.Shard, database, user string) (*Spare, error) {
	sh := s.pool.Shard(spec)
	var want Want
	for {
		if err := sh.awaitPrimary(ctx, &want); err != nil {
			return nil, err
		}
		c, err := s.Dial(ctx, spec, database, user)
		if err == nil || !sh.doubt(ctx, &want, err) {
			return c, err
		}
	}
}

func (s *Spares) take(key spareKey) *Spare {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.idle[key]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	s.remove(c)
	return c
}

// remove takes a connection from the idle ones. mu is held.
func (s *Spares) remove(c *Spare) {
	list := s.idle[c.key]
	kept := list[:0]
	for _, other := range list {
		if other != c {
			kept = append(kept, other)
		}
	}
	if s.idle[c.key] = kept; len(kept) == 0 {
		delete(s.idle, c.key)
	}
}

// Session says that the connection is used as a session, with settings, roles and locks. It is
// reset before the next user gets it.
func (c *Spare) Session() { c.used = true }

// Exec is Conn.Exec, and notes what an error leaves behind.
func (c *Spare) Exec(sql string) ([][]string, error) {
	rows, err := c.Conn.Exec(sql)
	return rows, c.noted(err)
}

// ExecOne is Conn.ExecOne, and notes what an error leaves behind.
func (c *Spare) ExecOne(sql string, args ...string) ([][]string, error) {
	rows, err := c.Conn.ExecOne(sql, args...)
	return rows, c.noted(err)
}

// CopyOut is Conn.CopyOut. After an error the connection is not given back.
func (c *Spare) CopyOut(sql string, w io.Writer) error {
	err := c.Conn.CopyOut(sql, w)
	if err != nil {
		c.spoil()
	}
	return err
}

// CopyIn is Conn.CopyIn. After an error the connection is not given back.
func (c *Spare) CopyIn(sql string, r io.Reader) (int64, error) {
	n, err := c.Conn.CopyIn(sql, r)
	if err != nil {
		c.spoil()
	}
	return n, err
}

// noted remembers what an error leaves behind: a server's error may leave a role or a transaction
// to reset, any other leaves a connection in an unknown state.
func (c *Spare) noted(err error) error {
	var e *pgerr.Error
	if err != nil && !errors.As(err, &e) {
		c.spoil()
	}
	c.used = c.used || err != nil
	return err
}

// spoil keeps the connection from being given back. It reports false if Terminate has been called
// already.
func (c *Spare) spoil() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoilt = true
	return !c.ended
}

// end notes that the connection's user is done. It reports whether the connection may be in order.
func (c *Spare) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	return !c.spoilt
}

// Interrupt is Conn.Interrupt, and does nothing after Terminate.
func (c *Spare) Interrupt() {
	if c.spoil() {
		c.Conn.Interrupt()
	}
}

// Abandon ends what the connection is doing, at once and without asking the shard. It does nothing
// after Terminate.
func (c *Spare) Abandon() {
	if c.spoil() {
		_ = c.Conn.Conn().SetDeadline(time.Unix(1, 0))
	}
}

// Terminate gives the connection back, or closes it.
func (c *Spare) Terminate() {
	if !c.end() || !c.used && c.status != wire.TxIdle || c.used && !c.reset() || !c.spares.keep(c) {
		c.Conn.Terminate()
	}
}

// resetTime is how long a server may take to reset a connection.
const resetTime = 2 * time.Second

// reset ends the connection's transaction and discards its session state. It reports whether the
// connection can be used again.
func (c *Spare) reset() bool {
	_ = c.Conn.Conn().SetDeadline(time.Now().Add(resetTime))
	if c.status != wire.TxIdle {
		if _, err := c.Conn.Exec("ROLLBACK"); err != nil {
			return false
		}
	}
	if _, err := c.Conn.Exec("DISCARD ALL"); err != nil {
		return false
	}
	c.used = false
	return c.Conn.Conn().SetDeadline(time.Time{}) == nil
}

// keep puts a connection that is in order among the idle ones. It reports false if connections to
// the database or the shard are not kept now.
func (s *Spares) keep(c *Spare) bool {
	c.since = time.Now()
	s.mu.Lock()
	if s.ended || c.lane.shard.Paused() || c.since.Before(s.shy[c.key.database]) {
		s.mu.Unlock()
		return false
	}
	s.idle[c.key] = append(s.idle[c.key], c)
	old := s.surplus(c.key.shard)
	s.mu.Unlock()
	if old != nil {
		old.Conn.Terminate()
	}
	return true
}

// surplus takes out the connection to a shard that has been idle for longest, if there are too
// many. mu is held.
func (s *Spares) surplus(shard string) (oldest *Spare) {
	n := 0
	for key, list := range s.idle {
		if key.shard != shard {
			continue
		}
		n += len(list)
		if oldest == nil || list[0].since.Before(oldest.since) {
			oldest = list[0]
		}
	}
	if n <= maxSpares {
		return nil
	}
	s.remove(oldest)
	return oldest
}

// Leave closes the connections to a database and keeps none there for a while.
func (s *Spares) Leave(database string) {
	now := time.Now()
	s.mu.Lock()
	for name, until := range s.shy {
		if until.Before(now) {
			delete(s.shy, name)
		}
	}
	s.shy[database] = now.Add(shyFor)
	s.mu.Unlock()
	s.close(func(c *Spare) bool { return c.key.database == database })
}

// CloseIdle closes the connections that have been idle since before a given time, and those to shards that an operator has paused: a
// server that is shut down may wait for their end.
func (s *Spares) CloseIdle(since time.Time) {
	s.close(func(c *Spare) bool { return c.since.Before(since) || c.lane.shard.Paused() })
}

// End closes all connections that are not in use, and from now on those that are given back.
func (s *Spares) End() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.close(func(*Spare) bool { return true })
}

// close closes the idle connections that match.
func (s *Spares) close(match func(*Spare) bool) {
	var gone []*Spare
	s.mu.Lock()
	for _, list := range s.idle {
		for _, c := range list {
			if match(c) {
				gone = append(gone, c)
			}
		}
	}
	for _, c := range gone {
		s.remove(c)
	}
	s.mu.Unlock()
	for _, c := range gone {
		c.Conn.Terminate()
	}
}
