package twopc

import "sync"

// Losses remembers which losses were reported, so that each is said once.
type Losses struct {
	mu       sync.Mutex
	reported map[string]bool
}

// maxLosses bounds the memory of losses. After that many, all are said again.
const maxLosses = 10_000

// first reports whether a prepared transaction is reported for the first time.
func (l *Losses) first(gid string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reported[gid] {
		return false
	}
	if l.reported == nil || len(l.reported) >= maxLosses {
		l.reported = map[string]bool{}
	}
	l.reported[gid] = true
	return true
}

// reportLoss says that a shard may have lost its part of a committed transaction, unless that was said.
func (r *Resolver) reportLoss(gid string, m Member, now string) {
	if r.Losses == nil || r.Losses.first(gid) {
		r.Log.Error("a shard may have lost its part of a committed transaction: it is not the server that prepared it",
			"shard", m.Shard, "gid", gid, "prepared on", m.Server, "now", now)
	}
}
