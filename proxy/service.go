package proxy

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/schema"
	"weft/twopc"
	"weft/wire"
)

// service keeps a connection to each shard and database that weft itself needs
// again and again, logged in as the service user.
type service struct {
	mu   sync.Mutex
	idle map[ownKey]*serviceConn
	// shy are the databases that somebody wants to be empty, and until when none is
	// kept there.
	shy map[string]time.Time
}

// shyFor is longer than PostgreSQL waits for a database to become empty.
const shyFor = 10 * time.Second

// serviceIdle is how long an unused one is kept.
const serviceIdle = 15 * time.Second

// serviceConn is a connection of the service user's. To terminate it is to give it
// back, if it is in order.
type serviceConn struct {
	schema.Conn
	backend *pool.Conn
	srv     *Server
	key     ownKey
	spec    *directory.Shard // it was dialled by
	spoilt  atomic.Bool
	since   time.Time
}

// dialService returns a connection to a database of a shard as the service user.
func (s *Server) dialService(ctx context.Context, shard, database string) (twopc.Conn, error) {
	key := ownKey{shard, database}
	s.service.mu.Lock()
	c := s.service.idle[key]
	delete(s.service.idle, key)
	s.service.mu.Unlock()
	spec, ok := s.cfg.Snapshot().Shard(shard)
	if c != nil {
		// The shard may be on another server now.
		if ok && (c.spec == spec || pool.SameEndpoint(c.spec, spec)) && !c.backend.Readable() {
			return c, nil
		}
		c.Conn.Terminate()
	}
	dialled, err := dialer{s}.Dial(ctx, shard, database, s.cfg.ServiceUser)
	if err != nil {
		return nil, err
	}
	return &serviceConn{Conn: dialled, backend: dialled.(*pool.Conn), srv: s, key: key, spec: spec}, nil
}

// Exec implements twopc.Conn.
func (c *serviceConn) Exec(sql string) ([][]string, error) {
	rows, err := c.Conn.Exec(sql)
	// After an error it may have a role or a transaction that nobody wants.
	if err != nil {
		c.spoilt.Store(true)
	}
	return rows, err
}

// Interrupt implements twopc.Conn.
func (c *serviceConn) Interrupt() {
	c.spoilt.Store(true)
	c.Conn.Interrupt()
}

// abandon ends what the connection is doing, at once and without asking the shard.
func (c *serviceConn) abandon() {
	c.spoilt.Store(true)
	_ = c.backend.Conn().SetDeadline(time.Unix(1, 0))
}

// Terminate implements twopc.Conn.
func (c *serviceConn) Terminate() {
	if c.spoilt.Load() || c.backend.Status != wire.TxIdle {
		c.Conn.Terminate()
		return
	}
	s := &c.srv.service
	c.since = time.Now()
	s.mu.Lock()
	kept := s.idle[c.key] == nil && c.srv.ctx.Err() == nil && !c.since.Before(s.shy[c.key.database])
	if kept {
		if s.idle == nil {
			s.idle = map[ownKey]*serviceConn{}
		}
		s.idle[c.key] = c
	}
	s.mu.Unlock()
	if !kept {
		c.Conn.Terminate()
	}
}

// leave closes the connections to a database and keeps none there for a while.
func (s *service) leave(database string) {
	var idle []*serviceConn
	now := time.Now()
	s.mu.Lock()
	if s.shy == nil {
		s.shy = map[string]time.Time{}
	}
	for name, until := range s.shy {
		if until.Before(now) {
			delete(s.shy, name)
		}
	}
	s.shy[database] = now.Add(shyFor)
	for key, c := range s.idle {
		if key.database == database {
			idle = append(idle, c)
			delete(s.idle, key)
		}
	}
	s.mu.Unlock()
	for _, c := range idle {
		c.Conn.Terminate()
	}
}

// close closes the connections that have not been used since.
func (s *service) close(since time.Time) {
	var old []*serviceConn
	s.mu.Lock()
	for key, c := range s.idle {
		if c.since.Before(since) {
			old = append(old, c)
			delete(s.idle, key)
		}
	}
	s.mu.Unlock()
	for _, c := range old {
		c.Conn.Terminate()
	}
}
