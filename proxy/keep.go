package proxy

import (
	"context"
	"time"

	"weft/pgerr"
	"weft/proxy/copies"
	"weft/proxy/roster"
)

// newRoster returns what knows the shards' servers. The server's pool and metrics need not exist yet.
func newRoster(s *Server) *roster.Roster {
	return roster.New(roster.Config{
		Proxy: s.cfg.Proxy, Log: s.log, Snapshot: s.cfg.Snapshot, Directory: s.cfg.Directory,
		MaxPerShard: func() int { return s.pool.Config().MaxPerShard },
		SetShare:    func(shard string, n int) { s.pool.SetShare(shard, n) },
		Count: func(shard string, refused bool) {
			count := s.metrics.misplaced.WithLabelValues(shard) // shown from 0 on: an alert must see it grow
			if refused {
				count.Inc()
			}
		},
	})
}

// newCopies returns what writes copies of the directory.
func newCopies(s *Server) *copies.Copies {
	return copies.New(copies.Config{
		Log: s.log, Turn: s.register.turn,
		Install: s.keeper.owns.Install, Away: func(shard string) bool { return s.keeper.seeker.Away(shard) },
		Dial: func(ctx context.Context, shard, database string) (copies.Conn, error) {
			return s.dialService(ctx, shard, database)
		},
		Guarded: func(f func()) func() { return s.guarded("copy of the directory", f) },
	})
}

// keepInterval is how often the directory is told of new servers, and the shards are given
// copies of the directory.
const keepInterval = 2 * time.Second

// keepDirectory sees to it that the directory knows the shards' servers, and that the servers
// have copies of the directory.
func (k *keeper) keepDirectory(ctx context.Context) {
	if k.s.cfg.Directory == nil {
		return
	}
	tick := time.NewTicker(keepInterval)
	defer tick.Stop()
	for {
		if snap := k.s.cfg.Snapshot(); snap != nil && snap.Foreign == nil {
			k.roster.EnterSystems(ctx, snap)
			k.copies.KeepDue(ctx, snap)
			k.roster.TakeShares(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// keepCopies writes the copies of what the session has just declared.
func (cm *commit) keepCopies(ctx context.Context) {
	if snap := cm.s.srv.cfg.Snapshot(); cm.s.srv.cfg.Directory != nil && snap.Foreign == nil {
		cm.s.srv.keeper.copies.Keep(ctx, snap, cm.s.db.Name)
	}
}

// foreignDirectory is the error that tells a client why nothing is routed.
func foreignDirectory(err error) *pgerr.Error {
	return pgerr.New(pgerr.CannotConnectNow, "weft cannot tell where rows are: %s", err.Error()).
		WithHint("Was etcd lost and filled anew, or does weft.yaml name another one? weft status shows what it describes; weft recover --directory rebuilds a directory from the shards.").WithCause(err)
}
