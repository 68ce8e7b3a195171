package proxy

import (
	"context"
	"sync"
	"time"

	"weft/directory"
)

// refreshed are the databases of shards whose schema weft this proxy has brought to its
// own version. A database that another version of weft made is brought up to date when its
// turn comes, soon after the proxy runs, and not when somebody first needs what is new: what is
// old may be a hole.
type refreshed struct {
	done   sync.Map
	pauses pauses
}

// refreshOwn brings schema weft of the databases of a shard up to date, each once.
func (s *Server) refreshOwn(ctx context.Context, snap *directory.Snapshot, shard string) {
	now := time.Now()
	for _, database := range s.turn(databases(snap), func(database string) bool {
		_, done := s.refreshed.done.Load(ownKey{shard, database})
		return !done && s.refreshed.pauses.due(ownKey{shard, database}, now)
	}) {
		key := ownKey{shard, database}
		if _, err := s.own(ctx, shard, database); err != nil {
			s.refreshed.pauses.failed(key, time.Now())
			if ctx.Err() == nil {
				s.log.Warn("schema weft could not be brought up to date", "shard", shard, "database", database, "err", err)
			}
			continue
		}
		s.refreshed.done.Store(key, true)
		s.refreshed.pauses.done(key)
	}
}
