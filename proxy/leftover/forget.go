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
	k.forgets.add(place{shard, database}, forget{d.Key, d.Decider, d.Members, began, time.Now()})
}

// forget is a decision that can be deleted when no failover takes back what a participant has confirmed.
type forget struct {
	key     string
	decider twopc.Member
	members []twopc.Member
	// began is when the commit began, and settled is when what is waited for had been answered.
	began, settled time.Time
}

// kept reports whether no failover takes back what the participants have confirmed. Those with synchronous standbys have waited for that.
func (k *Keeper) kept(f *forget) bool {
	if k.cfg.Held != nil && k.cfg.Held(f.key) {
		return false
	}
	return k.cfg.Kept == nil || !slices.ContainsFunc(f.members, func(m twopc.Member) bool {
		return !m.Replicated && !k.cfg.Kept(m.Shard, m.Server, f.began, f.settled)
	})
}

// forgets are the decisions that can be deleted, by shard and database.
type forgets struct {
	mu   sync.Mutex
	keys map[place][]forget
	held map[string]bool // the keys of those, and of those under way
	n    int
}

// maxForgets bounds the decisions in forgets. Decisions that are left out are found by
// sweeping.
const maxForgets = 100_000

func (f *forgets) add(at place, keys ...forget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n >= maxForgets {
		for i := range keys {
			delete(f.held, keys[i].key)
		}
		return
	}
	if f.keys == nil {
		f.keys = map[place][]forget{}
	}
	if f.held == nil {
		f.held = map[string]bool{}
	}
	for i := range keys {
		f.held[keys[i].key] = true
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

// has reports whether a decision waits for its deletion: sweeping leaves it alone.
func (f *forgets) has(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[key]
}

// drop says that decisions are deleted, or left to sweeping.
func (f *forgets) drop(keys []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		delete(f.held, key)
	}
}

// forgetPatience is how long a decision waits for the standbys of its participants before it is left to sweeping: a participant may have failed over.
const forgetPatience = time.Minute

// forgetBatch is how many decisions are deleted at once.
const forgetBatch = 500

// forgetAll deletes the decisions that are no longer needed. Decisions that it fails to delete
// are found by sweeping.
func (k *Keeper) forgetAll(ctx context.Context) {
	for at, list := range k.forgets.take() {
		var keys, left []string
		var needed []forget
		for i := range list {
			switch f := &list[i]; {
			case k.kept(f):
				keys = append(keys, f.key)
			case time.Since(f.settled) < forgetPatience:
				needed = append(needed, *f)
			default:
				left = append(left, f.key)
			}
		}
		k.forgets.drop(left)
		if len(needed) > 0 {
			k.forgets.add(at, needed...)
		}
		if len(keys) == 0 {
			continue
		}
		if k.delete(ctx, at, keys) == nil {
			k.forgetPartsLater(at, list, keys)
		}
		k.forgets.drop(keys)
	}
}

// delete deletes decisions.
func (k *Keeper) delete(ctx context.Context, at place, keys []string) error {
	k.stopAt(twopc.BeforeForget)
	c, err := k.cfg.Dial(ctx, at.shard, at.database)
	if err != nil {
		return err
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
	return err
}

// forgetPartsLater puts down the parts of decisions that have just been deleted.
func (k *Keeper) forgetPartsLater(at place, list []forget, keys []string) {
	now, deleted := time.Now(), map[string]bool{}
	for _, key := range keys {
		deleted[key] = true
	}
	for _, f := range list {
		if slices.ContainsFunc(f.members, func(m twopc.Member) bool { return m.Listed }) && deleted[f.key] {
			f.settled = now
			k.parts.add(at, f)
		}
	}
}

// forgetParts deletes the parts whose decisions no failover can bring back: a decision without its parts says that they are lost.
func (k *Keeper) forgetParts(ctx context.Context) {
	names := map[place][]string{}
	for at, list := range k.parts.take() {
		for _, f := range list {
			k.parts.drop([]string{f.key})
			switch {
			case f.decider.Replicated || k.cfg.Kept == nil || k.cfg.Kept(f.decider.Shard, f.decider.Server, f.began, f.settled):
				n, _ := twopc.ParseName(f.key)
				for _, m := range f.members {
					n.Participant = m.Shard
					p := place{m.Shard, at.database}
					names[p] = append(names[p], n.String())
				}
			case time.Since(f.settled) < forgetPatience: // else sweeping sees to it
				k.parts.add(at, f)
			}
		}
	}
	for at, list := range names {
		c, err := k.cfg.Dial(ctx, at.shard, at.database)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, c.Interrupt)
		for batch := range slices.Chunk(list, forgetBatch) {
			if _, err := c.Exec(twopc.ForgetPartsSQL(batch)); err != nil {
				break
			}
		}
		stop()
		c.Terminate()
	}
}
