package leftover

import (
	"context"
	"slices"
	"sync"
	"time"

	"weft/twopc"
)

// place is a database of a shard.
type place struct{ shard, database string }

// Forget puts a decision that all participants have followed by now down for deletion. Its commit began at a time.
func (k *Keeper) Forget(shard, database string, d twopc.Decision, began time.Time) {
	k.forgets.add(place{shard, database}, forget{d.Key, d.Members, began, time.Now()})
}

// forget is a decision that can be deleted when no failover takes back what a participant has confirmed.
type forget struct {
	key            string
	members        []twopc.Member
	began, settled time.Time
}

// kept reports whether no failover takes back what the participants have confirmed. Those with synchronous standbys have waited for that.
func (k *Keeper) kept(f *forget) bool {
	return k.cfg.Kept == nil || !slices.ContainsFunc(f.members, func(m twopc.Member) bool {
		return !m.Replicated && !k.cfg.Kept(m.Shard, m.Server, f.began, f.settled)
	})
}

// forgets are the decisions that can be deleted, by shard and database.
type forgets struct {
	mu   sync.Mutex
	keys map[place][]forget
	n    int
}

// maxForgets bounds the decisions in forgets. Decisions that are left out are found by
// sweeping.
const maxForgets = 100_000

func (f *forgets) add(at place, keys ...forget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n >= maxForgets {
		return
	}
	if f.keys == nil {
		f.keys = map[place][]forget{}
	}
	f.keys[at] = append(f.keys[at], keys...)
	f.n += len(keys)
}

func (f *forgets) take() map[place][]forget {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := f.keys
	f.keys, f.n = nil, 0
	return keys
}

// forgetPatience is how long a decision waits for the standbys of its participants before it is left to sweeping: a participant may have failed over.
const forgetPatience = time.Minute

// forgetBatch is how many decisions are deleted at once.
const forgetBatch = 500

// forgetAll deletes the decisions that are no longer needed. Decisions that it fails to delete
// are found by sweeping.
func (k *Keeper) forgetAll(ctx context.Context) {
	for at, list := range k.forgets.take() {
		var keys []string
		var needed []forget
		for i := range list {
			switch f := &list[i]; {
			case k.kept(f):
				keys = append(keys, f.key)
			case time.Since(f.settled) < forgetPatience: // else sweeping sees to it
				needed = append(needed, *f)
			}
		}
		if len(needed) > 0 {
			k.forgets.add(at, needed...)
		}
		if len(keys) == 0 {
			continue
		}
		k.stopAt(twopc.BeforeForget)
		c, err := k.cfg.Dial(ctx, at.shard, at.database)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, c.Interrupt)
		for batch := range slices.Chunk(keys, forgetBatch) {
			if _, err = c.Exec(twopc.ForgetSQL(batch)); err != nil {
				break
			}
		}
		stop()
		c.Terminate()
		k.stopAt(twopc.AfterForget)
	}
}
