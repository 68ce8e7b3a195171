package leftover

import (
	"context"
	"slices"
	"sync"

	"weft/twopc"
)

// place is a database of a shard.
type place struct{ shard, database string }

// Forget puts a decision that all participants have followed down for deletion.
func (k *Keeper) Forget(shard, database, key string) { k.forgets.add(place{shard, database}, key) }

// forgets are the decisions that can be deleted, by shard and database.
type forgets struct {
	mu   sync.Mutex
	keys map[place][]string
	n    int
}

// maxForgets bounds the decisions in forgets. Decisions that are left out are found by
// sweeping.
const maxForgets = 100_000

func (f *forgets) add(at place, key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n >= maxForgets {
		return
	}
	if f.keys == nil {
		f.keys = map[place][]string{}
	}
	f.keys[at] = append(f.keys[at], key)
	f.n++
}

func (f *forgets) take() map[place][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := f.keys
	f.keys, f.n = nil, 0
	return keys
}

// forgetBatch is how many decisions are deleted at once.
const forgetBatch = 500

// forgetAll deletes the decisions that are no longer needed. Decisions that it fails to delete
// are found by sweeping.
func (k *Keeper) forgetAll(ctx context.Context) {
	for at, keys := range k.forgets.take() {
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
