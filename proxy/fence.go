package proxy

import (
	"context"

	"weft/directory"
	"weft/pool"
	"weft/proxy/fence"
)

// newFences returns what registers the backends of a server. The server's pool and mover need not exist yet.
func newFences(s *Server) *fence.Registrar {
	cfg := fence.Config{
		Proxy: s.cfg.Proxy, Log: s.log, Snapshot: s.cfg.Snapshot, Own: s.keeper.owns.Ensure, Disown: s.keeper.owns.Forget,
		Fence: func(ctx context.Context, database string, shards []string, list func(context.Context) (directory.Live, error)) (directory.Live, error) {
			return s.mover.Fence(ctx, database, shards, list)
		},
		Dial: func(ctx context.Context, shard, database string) (fence.Conn, error) {
			return s.dialService(ctx, shard, database)
		},
		Unregistered: func(database string) []fence.Backend {
			var out []fence.Backend
			for _, c := range s.pool.Unregistered(database) {
				out = append(out, c)
			}
			return out
		},
		Outdated: func(database string, epoch int64) []fence.Backend {
			var out []fence.Backend
			for _, c := range s.pool.Outdated(database, epoch) {
				out = append(out, c)
			}
			return out
		},
		Ghosts: func(shard string) []pool.Ghost { return s.pool.Ghosts(shard) },
		Retire: func(match func(pool.Key) bool) { s.pool.Retire(match) },
		Spawn:  func(f func(context.Context)) { s.crew.Go(s.guarded("fence", func() { f(s.ctx) })) },
	}
	if s.cfg.Directory != nil && s.cfg.Current != nil {
		cfg.Epoch, cfg.Renewed, cfg.Live = s.cfg.Current.Epoch, s.cfg.Current.Renewed, s.cfg.Directory.Live
	}
	return fence.New(cfg)
}
