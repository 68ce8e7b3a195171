package leftover

import (
	"context"
	"errors"
	"time"

	"weft/directory"
	"weft/twopc"
)

// sweepAtOnce bounds the databases of a shard that are swept in one round: no client waits for
// the sweep, and a proxy should cost little beside many databases.
const sweepAtOnce = 4

// sweep guards the gates of a shard, and removes decisions that were left over from some of its
// databases in each round.
func (k *Keeper) sweep(ctx context.Context, snap *directory.Snapshot, shard string, round int) {
	r := k.Resolver()
	all := snap.Databases()
	k.cfg.Guard(ctx, shard, all)
	var live map[string]bool
	// others reports whether another proxy that is alive sees to a decision.
	others := func(proxy string, d *twopc.Decision, known time.Duration) bool {
		if proxy == k.cfg.Proxy || known >= d.KeptFor() {
			return false
		}
		if live == nil {
			live = k.live(ctx)
		}
		return live[proxy] || len(live) == 0
	}
	for i := range min(len(all), sweepAtOnce) {
		database := all[(round*sweepAtOnce+i)%len(all)]
		at, now, keys := place{shard, database}, time.Now(), []string(nil)
		err := r.Sweep(ctx, shard, database, func(d twopc.Decision) bool {
			keys = append(keys, d.Key)
			n, ok := twopc.ParseName(d.Key)
			return !ok || n.Incarnation == k.cfg.Proxy && (k.hands.has(n.Nonce) || k.forgets.has(d.Key)) || k.cfg.Held != nil && k.cfg.Held(d.Key) ||
				others(n.Incarnation, &d, now.Sub(k.metDecided.known(at, d.Key, now))) || d.Announced && k.announced(ctx, d.Key)
		})
		k.metDecided.meet(at, keys, now)
		err = errors.Join(err, r.SweepParts(ctx, shard, database))
		if err != nil && ctx.Err() == nil {
			k.cfg.Log.Debug("decisions could not be swept", "shard", shard, "database", database, "err", err)
		}
	}
}

// announced reports whether a change of schemas is still in the directory. It reports true if
// that cannot be found out.
func (k *Keeper) announced(ctx context.Context, key string) bool {
	if k.cfg.Directory == nil {
		return true
	}
	snap, err := k.cfg.Directory.Load(ctx)
	return err != nil || snap.Announced(key)
}

// left reports whether a shard has left the cluster. The snapshot of this proxy may lack a shard that has just joined, so the directory is asked.
func (k *Keeper) left(ctx context.Context, shard string) bool {
	if k.cfg.Directory == nil {
		return false
	}
	snap, err := k.cfg.Directory.Load(ctx)
	if err != nil {
		return false
	}
	_, there := snap.Shard(shard)
	return !there
}
