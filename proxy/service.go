package proxy

import (
	"context"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/schema"
	"weft/twopc"
)

// serviceIdle is how long a connection of weft's own is kept unused.
const serviceIdle = 15 * time.Second

// dialService returns a connection to a database of a shard as the service user.
func (s *Server) dialService(ctx context.Context, shard, database string) (twopc.Conn, error) {
	c, err := s.dialSpare(ctx, shard, database, s.cfg.ServiceUser)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (s *Server) dialSpare(ctx context.Context, shard, database, user string) (*pool.Spare, error) {
	spec, ok := s.cfg.Snapshot().Shard(shard)
	if !ok {
		return nil, pgerr.New(pgerr.UndefinedObject, "there is no shard %q", shard)
	}
	return s.service.Dial(ctx, spec, database, user)
}

// dialGate returns the connection by which a gate is shut.
func (s *Server) dialGate(gate ownKey) (gateConn, error) {
	c, err := s.dialSpare(s.ctx, gate.shard, gate.database, s.cfg.ServiceUser)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// dialer opens connections for the moving of rows: outside the pool's limits,
// because sessions that hold the rest may be waiting for the move.
type dialer struct{ srv *Server }

// Dial implements schema.Shards. Connections of the service user are used again; those of others
// are closed after use, for a role may have few of them.
func (d dialer) Dial(ctx context.Context, shard, database, user string) (schema.Conn, error) {
	c, err := d.srv.dialSpare(ctx, shard, database, user)
	if err != nil {
		return nil, err
	}
	if user != d.srv.cfg.ServiceUser {
		return c.Conn, nil
	}
	c.Session()
	return c, nil
}
