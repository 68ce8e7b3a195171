package proxy

import (
	"context"
	"time"

	"weft/directory"
	"weft/discover"
	"weft/pool"
	"weft/primary"
	"weft/proxy/durable"
	"weft/proxy/seek"
)

// newSeeker returns what has the servers of shards watched. The server's pool need not exist yet.
func newSeeker(s *Server) *seek.Seeker {
	cfg := seek.Config{
		Log: s.log, Snapshot: s.cfg.Snapshot,
		Shard: func(spec *directory.Shard) seek.Shard { return probed{s.pool.Shard(spec), s.cfg.ServiceUser} },
		Waits: func() bool { return s.pool.Config().Failover.Wait > 0 },
		Timing: func() primary.Timing {
			c := s.pool.Config()
			c.Failover.Probes.Patience = c.TCPTimeout
			return c.Failover.Probes
		},
		Lag:    func() time.Duration { return s.pool.Config().Failover.LagWarning },
		Settle: func(ctx context.Context, shard string) { s.left.Settle(ctx, shard) },
		Guard:  s.guarded,
	}
	if s.cfg.Current != nil {
		cfg.Changed = s.cfg.Current.Changed
	}
	if s.cfg.Directory != nil {
		cfg.Enter, cfg.EndDrain = s.keeper.roster.EnterGeneration, s.keeper.roster.EndDrain
	}
	return seek.New(cfg)
}

// newFinder returns what finds the servers of shards that are not declared. It is nil if the directory cannot be changed.
func newFinder(s *Server) *discover.Finder {
	if s.cfg.Directory == nil {
		return nil
	}
	keys, _ := s.cfg.Directory.(discover.Keys)
	return discover.New(discover.Config{
		Log: s.log, Source: &discover.Source{Keys: keys}, Snapshot: s.cfg.Snapshot, Update: s.cfg.Directory.Update,
		View: s.keeper.seeker.View, Suspect: s.keeper.seeker.Suspect, Guard: s.guarded,
	})
}

// findServers finds the servers of shards until ctx ends.
func (s *Server) findServers(ctx context.Context) {
	if f := newFinder(s); f != nil {
		f.Run(ctx)
	}
}

// newDurable returns what compares the shards with the durability that is declared.
func newDurable(s *Server) *durable.Keeper {
	return durable.New(durable.Config{
		Log: s.log, Snapshot: s.cfg.Snapshot, Views: s.keeper.seeker.Views,
		Ask: func(ctx context.Context, shard, sql string) ([][]string, error) {
			return s.askService(ctx, shard, probeDatabase, sql)
		},
	})
}

// hook gives the pool what it asks the server.
func (s *Server) hook(c *pool.Config) {
	c.Verify, c.Registrar, c.Ask, c.Seeker = s.keeper.roster.Verify, s.moving.fences, s.askService, s.keeper.seeker
	c.Adopt = s.register.loops.Adopt
}

// probed is a shard of the pool whose servers are probed as the service user.
type probed struct {
	*pool.Shard
	user string
}

// probeDatabase is where servers are probed: initdb makes it.
const probeDatabase = "postgres"

// Dial implements seek.Shard.
func (p probed) Dial(ctx context.Context, address string) (primary.Conn, error) {
	c, err := p.DialProbe(ctx, address, probeDatabase, p.user)
	if err != nil {
		return nil, err
	}
	return c, nil
}
