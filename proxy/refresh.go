package proxy

import (
	"context"
	"sync"
	"time"

	"weft/directory"
	"weft/proxy/pause"
)

// refreshed are the databases of shards whose schema weft this proxy has brought to its own
// version. A database that another version of weft made is brought up to date in its turn,
// soon after the proxy has started, and not when a session first needs something new: the
// old version may have a hole.
type refreshed struct {
	done   sync.Map
	pauses pause.Pauses[ownKey]
}

// refreshOwn brings schema weft of the databases of a shard up to date, each once.
func (k *keeper) refreshOwn(ctx context.Context, snap *directory.Snapshot, shard string) {
	now := time.Now()
	for _, database := range k.s.register.turn(snap.Databases(), func(database string) bool {
		_, done := k.refreshed.done.Load(ownKey{shard, database})
		return !done && k.refreshed.pauses.Due(ownKey{shard, database}, now)
	}) {
		key := ownKey{shard, database}
		if _, err := k.own(ctx, shard, database); err != nil {
			k.refreshed.pauses.Failed(key, time.Now())
			if ctx.Err() == nil {
				k.s.log.Warn("schema weft could not be brought up to date", "shard", shard, "database", database, "err", err)
			}
			continue
		}
		k.refreshed.done.Store(key, true)
		k.refreshed.pauses.Done(key)
	}
}
