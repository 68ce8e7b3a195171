package twopc

import "sync"

// Losses remembers which losses were reported, so that each is said once.
type Losses struct {
	mu       sync.Mutex
	reported map[string]bool
}

// maxLosses bounds the memory of Losses. After that many, all are said again.
const maxLosses = 10_000

// first reports whether a prepared transaction is reported for the first time.
func (l *Losses) first(gid string) bool {
	if l == nil {
		return true
	}
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

// reportLoss says that a shard has lost its part of a committed transaction, or may have, once.
func (r *Resolver) reportLoss(gid string, m Member, now string) {
	if !r.Losses.first(gid) {
		return
	}
	message := "a shard may have lost its part of a committed transaction: it is not the server that prepared it"
	if m.Listed {
		message = "a shard has lost its part of a committed transaction in a failover"
	}
	r.Log.Error(message, "shard", m.Shard, "gid", gid, "prepared on", m.Server, "now", now)
}

// reportHarm tells Harmed of a transaction, once.
func (r *Resolver) reportHarm(database string, f Fate) {
	if r.Harmed != nil && r.Losses.first(f.Key) {
		r.Harmed(database, f)
	}
}
