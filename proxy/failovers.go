package proxy

import (
	"context"
	"time"

	"weft/console"
	"weft/primary"
	"weft/proxy/failovers"
)

// newFailovers returns what notes changes of primaries.
func newFailovers(s *Server) *failovers.Recorder {
	return failovers.New(failovers.Config{
		Log: s.log, Proxy: s.cfg.Proxy, Views: s.keeper.seeker.Views, Store: s.cfg.Keeps.Failovers, Guard: s.guarded,
		Paused: s.keeper.seeker.Paused,
		Hasty: func(shard string) bool {
			ctx, stop := context.WithTimeout(s.ctx, hastyWithin)
			defer stop()
			hasty, err := s.keeper.durable.Hasty(ctx, shard)
			return err != nil || len(hasty) > 0
		},
		Waiting: func(shard string) int64 {
			if spec, ok := s.cfg.Snapshot().Shard(shard); ok {
				return s.pool.Shard(spec).AtGate()
			}
			return 0
		},
	})
}

// hastyWithin is how long the new primary of a shard is asked for its defaults.
const hastyWithin = 3 * time.Second

// Failovers implements console.Source.
func (a adminSource) Failovers(ctx context.Context) []console.Failover {
	lsn := func(l primary.LSN) string {
		if l == 0 {
			return ""
		}
		return l.String()
	}
	var out []console.Failover
	for _, f := range a.srv.keeper.failovers.All(ctx) {
		c := console.Failover{
			At: f.At, Shard: f.Shard, From: f.From, To: f.To, FromTimeline: int64(f.FromTimeline), Timeline: int64(f.Timeline), Fork: lsn(f.Fork), Last: lsn(f.Last),
			Kept: f.Kept, Paused: f.Pause().Sessions, Millis: f.Pause().Millis,
		}
		if lost, known := f.Lost(); known {
			n := int64(lost)
			c.Lost = &n
		}
		out = append(out, c)
	}
	return out
}
