package proxy

import (
	"context"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/proxy/password"
	"weft/twopc"
)

// A client logs in to the home shard: the home shard reports what is wrong with the user, the
// database or the options, and which parameters a session begins with. While the home shard is
// down, any other shard can do so, as roles and databases are on all shards. A statement that
// needs the home shard fails only when it runs.

// homeless remembers that the home shard was down a moment ago.
type homeless struct {
	since atomic.Int64 // when the home shard was found down, in Unix nanoseconds; 0 if it was up
}

// homelessFor is for how long the other shards are asked first. A home shard that hangs would
// cost each login the time of a dial.
const homelessFor = 5 * time.Second

// isDown reports whether an error says that a shard is down, rather than that a client may not
// log in.
func isDown(err error) bool {
	switch pgerr.From(err).Code {
	case pgerr.ConnectionFailure, pgerr.CannotConnectNow, pgerr.AdminShutdown, "57P02":
		return true
	}
	return false
}

// welcome returns the parameters that a session begins with. home is the session's lane to the
// home shard.
func (h *homeless) welcome(ctx context.Context, s *Server, snap *directory.Snapshot, home *pool.Lane) (map[string]string, error) {
	var params map[string]string
	var err error
	ask := func(waits bool) bool {
		params, err = home.Welcome(ctx, waits)
		if err == nil {
			h.since.Store(0)
		}
		return err == nil || !isDown(err)
	}
	down := time.Duration(time.Now().UnixNano()-h.since.Load()) < homelessFor
	if !down && ask(false) {
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
		params, err := lane.Welcome(ctx, false)
		lane.CloseLane()
		if err == nil || !isDown(err) {
			return params, err
		}
	}
	if down || home.Shard().Sought() {
		ask(true)
	}
	return params, err
}

// dialAny returns a connection of the service user to the home shard, or to another shard while
// the home shard is down. If no shard can be reached and the home shard has no primary, dialAny waits for one.
func (s *Server) dialAny(ctx context.Context, snap *directory.Snapshot, database string) (twopc.Conn, error) {
	sought := func(i int) bool { return s.pool.Shard(&snap.Shards[i]).Sought() }
	var failed error
	if home := snap.HomeShard(); !s.pool.Shard(home).Sought() {
		c, err := s.dialService(ctx, snap.Home, database)
		if err == nil || !isDown(err) {
			return c, err
		}
		failed = err
	}
	for i := range snap.Shards {
		if name := snap.Shards[i].Name; name != snap.Home && !sought(i) {
			if other, err := s.dialService(ctx, name, database); err == nil {
				return other, nil
			}
		}
	}
	if failed != nil && !s.pool.Shard(snap.HomeShard()).Sought() {
		return nil, failed
	}
	c, err := s.awaitService(ctx, snap.Home, database)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// newPasswords returns what looks up the passwords of users.
func newPasswords(s *Server) *password.Cache {
	return password.New(password.Config{
		Log: s.log, Snapshot: s.cfg.Snapshot,
		Dial: func(ctx context.Context, snap *directory.Snapshot, database string) (password.Conn, error) {
			return s.dialAny(ctx, snap, database)
		},
		Timeout: func() time.Duration {
			c := s.pool.Config()
			return 2*c.ConnectTimeout + c.Failover.Wait
		},
		Spawn: func(f func(context.Context)) { s.crew.Go(s.guarded("passwords", func() { f(s.ctx) })) },
	})
}
