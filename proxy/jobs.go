package proxy

import (
	"context"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/proxy/fence"
	"weft/proxy/hold"
	"weft/proxy/job"
	"weft/schema"
)

// moving is this proxy's part in rows that change shards.
type moving struct {
	jobs   *job.Runner
	holds  *hold.Holds
	fences *fence.Registrar
}

// newJobs returns what runs the jobs of a server.
func newJobs(s *Server) *job.Runner {
	cfg := job.Config{
		Proxy: s.cfg.Proxy, Log: s.log, Directory: s.cfg.Directory, Snapshot: s.cfg.Snapshot, Spread: s.keeper.spreadVersion,
		Rows: declaring{s.mover, schema.NewOnline(s.mover)}, Shards: s.mover, Left: s.left,
		Declare: schema.NewOnline(s.mover).DeclareThen,
		Dial:    s.dialService, Load: s.bucketLoad, StopAt: s.keeper.stopAt,
		Install: s.keeper.owns.Install,
		Enroll: func(ctx context.Context, snap *directory.Snapshot) {
			s.moving.fences.Renew(snap)
			s.moving.fences.Enroll(ctx, snap)
		},
		Spawn: func(work string, f func()) { s.crew.Go(s.guarded(work, f)) },
	}
	if s.cfg.Current != nil {
		cfg.Reach = func(ctx context.Context, version int64) error {
			_, err := s.cfg.Current.Reach(ctx, version)
			return err
		}
	}
	return job.New(cfg)
}

// askForOrder bounds how long a job waits to hear which buckets are hot: it is for their order only.
const askForOrder = time.Second

// bucketLoad is the work that the buckets of a database have now, as far as proxies say so at once.
func (s *Server) bucketLoad(ctx context.Context, database string) map[int32]float64 {
	ctx, stop := context.WithTimeout(ctx, askForOrder)
	defer stop()
	r, _ := s.heatOfAll(ctx, heat.AllParts, false)
	out := map[int32]float64{}
	for b, l := range r.Databases[database].Buckets {
		out[b] = l.Cost()
	}
	return out
}
