package hold

import (
	"maps"
	"time"

	"weft/proxy/peer"
)

// blamed is a session that rounds of a job have waited for.
type blamed struct {
	sess   Session
	bucket int // -1: any
	first  time.Time
	last   time.Time
}

const (
	// blameAfter is how long a round must have waited for a session before the session counts as
	// being in the way.
	blameAfter = 50 * time.Millisecond
	// blameFor is how long a session counts as being in the way after a round has waited for it:
	// the rounds after that one take other buckets first.
	blameFor = 30 * time.Second
)

// blame notes that a round of a job waits for a session.
func (h *Holds) blame(job string, sess Session, bucket int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	b := h.blamed[job]
	if b.sess != sess || now.Sub(b.last) > blameFor {
		b = blamed{sess: sess, first: now}
	}
	b.bucket, b.last = bucket, now
	h.blamed[job] = b
}

// Blockers lists the sessions of this proxy that are in the way of jobs.
func (h *Holds) Blockers() []peer.Blocker {
	h.mu.Lock()
	list := maps.Clone(h.blamed)
	maps.DeleteFunc(h.blamed, func(_ string, b blamed) bool { return time.Since(b.last) > blameFor })
	h.mu.Unlock()
	var out []peer.Blocker
	for job, b := range list {
		if time.Since(b.last) > blameFor || b.last.Sub(b.first) < blameAfter {
			continue
		}
		if found, ok := b.sess.Blocker(); ok {
			found.Job, found.Proxy, found.Bucket = job, h.cfg.Proxy, b.bucket
			out = append(out, found)
		}
	}
	return out
}
