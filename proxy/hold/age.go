package hold

import (
	"sync"
	"time"

	"weft/directory"
)

// ages is since when this proxy knows the rounds that are in the directory. A round that
// stands for too long has lost its process, or this proxy has lost etcd and does not hear of its
// end.
type ages struct {
	mu    sync.Mutex
	since map[string]time.Time // by the round's key
}

// follow notes the rounds of a snapshot, and forgets all others.
func (a *ages) follow(snap *directory.Snapshot, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := map[string]time.Time{}
	for i := range snap.Moves {
		r := snap.Moves[i].Round
		if r == nil {
			continue
		}
		if t, ok := a.since[r.Key]; ok {
			since[r.Key] = t
		} else {
			since[r.Key] = now
		}
	}
	a.since = since
}

// of returns for how long a round has stood, 0 if this proxy does not know the round.
func (a *ages) of(key string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.since[key]
	if !ok {
		return 0
	}
	return now.Sub(t)
}
