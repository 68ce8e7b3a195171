package leftover

import (
	"sync"
	"time"

	"weft/directory"
	"weft/twopc"
)

// ages are the ages by which transactions in doubt are counted.
var ages = []time.Duration{0, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// Doubts is how many transactions of a shard are in doubt, and older than a time.
type Doubts struct {
	OlderThan    time.Duration
	Transactions int
}

// doubts is when the transactions were prepared that were in doubt at the last look at each shard.
type doubts struct {
	mu      sync.Mutex
	byShard map[string][]time.Time
}

// set notes what was found on a shard at a time.
func (d *doubts) set(shard string, found []twopc.InDoubt, now time.Time) {
	var prepared []time.Time
	for i := range found {
		if found[i].Participant == shard { // else it belongs to another shard on the same server
			prepared = append(prepared, now.Add(-found[i].Age))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byShard == nil {
		d.byShard = map[string][]time.Time{}
	}
	d.byShard[shard] = prepared
}

// count returns how many are older than each of ages, by shard of a snapshot.
func (d *doubts) count(snap *directory.Snapshot, now time.Time) map[string][]Doubts {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string][]Doubts{}
	for i := range snap.Shards {
		shard := snap.Shards[i].Name
		for _, age := range ages {
			n := 0
			for _, at := range d.byShard[shard] {
				if now.Sub(at) >= age {
					n++
				}
			}
			out[shard] = append(out[shard], Doubts{age, n})
		}
	}
	return out
}

// InDoubt counts the prepared transactions that were found at the last look at each shard, by age. One that is prepared and committed in the
// ordinary way is among them if the look came in between. A shard that does not answer keeps its last count, and the ages grow.
func (k *Keeper) InDoubt() map[string][]Doubts {
	snap := k.cfg.Snapshot()
	if snap == nil {
		return nil
	}
	return k.doubts.count(snap, time.Now())
}
