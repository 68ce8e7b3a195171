package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/twopc"
)

// A client logs in to the home shard: it says what is wrong with the user, the database or
// the options, and which parameters a session begins with. While the home shard is
// down, any other can say it, for roles and databases are on all of them. What a
// statement needs of the home shard is missed when it is needed.

// homeless remembers that the home shard was down a moment ago.
type homeless struct {
	since atomic.Int64 // nanoseconds; 0: it was not
}

// homelessFor is for how long others are asked first. A server that hangs would cost each
// login the time of a dial.
const homelessFor = 5 * time.Second

// isDown reports whether an error says that a shard is down, and not that somebody may
// not enter.
func isDown(err error) bool {
	switch pgerr.From(err).Code {
	case pgerr.ConnectionFailure, pgerr.CannotConnectNow, pgerr.AdminShutdown, "57P02":
		return true
	}
	return false
}

// welcome returns the parameters that a session of the lane, which is the home shard's,
// begins with.
func (h *homeless) welcome(ctx context.Context, s *Server, snap *directory.Snapshot, home *pool.Lane) (map[string]string, error) {
	var params map[string]string
	var err error
	ask := func() bool {
		params, err = home.Welcome(ctx)
		if err == nil {
			h.since.Store(0)
		}
		return err == nil || !isDown(err)
	}
	down := time.Duration(time.Now().UnixNano()-h.since.Load()) < homelessFor
	if !down && ask() {
		return params, err
	}
	if !down {
		h.since.Store(time.Now().UnixNano())
	}
	for i := range snap.Shards {
		if snap.Shards[i].Name == snap.Home {
			continue
		}
		lane := s.pool.Shard(&snap.Shards[i]).OpenLane(home.Key())
		params, err := lane.Welcome(ctx)
		lane.CloseLane()
		if err == nil || !isDown(err) {
			return params, err
		}
	}
	if down {
		ask()
	}
	return params, err
}

// dialAny returns a connection of the service user's to the home shard, or to another one
// while that is down.
func (s *Server) dialAny(ctx context.Context, snap *directory.Snapshot, database string) (twopc.Conn, error) {
	c, err := s.dialService(ctx, snap.Home, database)
	for i := range snap.Shards {
		if err == nil || !isDown(err) {
			break
		}
		if name := snap.Shards[i].Name; name != snap.Home {
			if other, otherErr := s.dialService(ctx, name, database); otherErr == nil {
				return other, nil
			}
		}
	}
	return c, err
}
