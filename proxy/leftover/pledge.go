package leftover

import (
	"context"
	"slices"
	"sync"
	"time"

	"weft/twopc"
)

// PledgeOf returns the id of the transaction that is prepared under a client's name in a database of the home shard.
func (k *Keeper) PledgeOf(ctx context.Context, home, database, gid string) (xid uint32, ok bool, err error) {
	return k.Resolver().PledgeOf(ctx, home, database, gid)
}

// FollowPledge makes all shards follow that have a part of a pledge which its client has just ended on the home shard. It returns the shards that have not
// done so when ctx ends: these are left to the resolver. An error says that it is not known which shards there are.
func (k *Keeper) FollowPledge(ctx context.Context, home, database string, xid uint32, o twopc.Outcome) (late []string, err error) {
	snap := k.cfg.Snapshot()
	var shards []string
	for i := range snap.Shards {
		shards = append(shards, snap.Shards[i].Name)
	}
	if o == twopc.Committed {
		for {
			if shards, err = k.Resolver().PledgeMembers(ctx, home, database, xid); err == nil {
				break
			}
			if !pauses(ctx) {
				return nil, err
			}
		}
	}
	done := make([]bool, len(shards))
	for {
		var wg sync.WaitGroup
		for i, shard := range shards {
			if !done[i] && shard != home {
				wg.Go(k.cfg.Guarded("end of a pledge", func() { done[i] = k.followOn(ctx, home, shard, database, xid) }))
			}
		}
		wg.Wait()
		late = late[:0]
		for i, shard := range shards {
			if !done[i] && shard != home {
				late = append(late, shard)
			}
		}
		if len(late) == 0 || !pauses(ctx) {
			return late, nil
		}
	}
}

// pauses waits for a moment, and reports whether ctx goes on.
func pauses(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(settlePause):
		return true
	}
}

// followOn ends the parts of a pledge on a shard. It reports whether none is left.
func (k *Keeper) followOn(ctx context.Context, home, shard, database string, xid uint32) bool {
	found, err := k.findLeft(ctx, shard, []string{database})
	if err != nil {
		return false
	}
	found = slices.DeleteFunc(found, func(d twopc.InDoubt) bool {
		of, ok := d.Pledge()
		return !ok || of != xid || d.Decider != home || d.Database != database || d.Participant != shard
	})
	if len(found) == 0 {
		return true
	}
	left, err := k.Resolver().EndKnown(ctx, found)
	return err == nil && len(left) == 0
}
