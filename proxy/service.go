package proxy

import (
	"context"
	"errors"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/proxy/gate"
	"weft/schema"
	"weft/twopc"
)

// serviceIdle is how long an unused connection of the service user is kept.
const serviceIdle = 15 * time.Second

// dialService returns a connection to a database of a shard as the service user.
func (s *Server) dialService(ctx context.Context, shard, database string) (twopc.Conn, error) {
	c, err := s.dialSpare(ctx, shard, database, s.cfg.ServiceUser)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// awaitService is dialService, but waits while the shard has no primary: for work that a client waits for.
func (s *Server) awaitService(ctx context.Context, shard, database string) (*pool.Spare, error) {
	return s.awaitSpare(ctx, shard, database, s.cfg.ServiceUser)
}

// askService runs a query on a database of a shard as the service user. A shard has as long as for a
// login.
func (s *Server) askService(ctx context.Context, shard, database, sql string) ([][]string, error) {
	ctx, stop := context.WithTimeout(ctx, s.pool.Config().ConnectTimeout)
	defer stop()
	c, err := s.dialSpare(ctx, shard, database, s.cfg.ServiceUser)
	if err != nil {
		return nil, err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Abandon)()
	return c.Exec(sql)
}

// dialSpare returns a connection to a database of a shard, outside of the pool's limits.
func (s *Server) dialSpare(ctx context.Context, shard, database, user string) (*pool.Spare, error) {
	spec, ok := s.cfg.Snapshot().Server(shard)
	if !ok {
		return nil, noShard(shard)
	}
	return s.service.Dial(ctx, spec, database, user)
}

// errNoShard is the cause of errors about a shard that is not in the directory: it may have left a moment ago.
var errNoShard = errors.New("the directory does not have the shard")

func noShard(name string) *pgerr.Error {
	return pgerr.New(pgerr.UndefinedObject, "there is no shard %q", name).WithCause(errNoShard)
}

// awaitSpare is dialSpare, but waits while the shard has no primary.
func (s *Server) awaitSpare(ctx context.Context, shard, database, user string) (*pool.Spare, error) {
	spec, ok := s.cfg.Snapshot().Server(shard)
	if !ok {
		return nil, noShard(shard)
	}
	return s.service.Await(ctx, spec, database, user)
}

// dialGate returns the connection that shuts a gate.
func (s *Server) dialGate(at gate.Gate) (gate.Conn, error) {
	c, err := s.dialSpare(s.ctx, at.Shard, at.Database, s.cfg.ServiceUser)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// dialer opens connections for package schema: outside of the pool's limits, because the
// sessions that hold the pool's connections may be waiting for rows to be moved.
type dialer struct {
	srv *Server
	// atOnce says that a shard without a primary is not waited for: the work is part of what makes a shard ready.
	atOnce bool
}

// Dial implements schema.Shards. Connections of the service user are used again; those of
// other users are closed after use, because a role may be allowed only a few.
func (d dialer) Dial(ctx context.Context, shard, database, user string) (schema.Conn, error) {
	dial := d.srv.awaitSpare
	if d.atOnce {
		dial = d.srv.dialSpare
	}
	c, err := dial(ctx, shard, database, user)
	if err != nil {
		return nil, err
	}
	if user != d.srv.cfg.ServiceUser {
		return c.Conn, nil
	}
	c.Session()
	return c, nil
}
