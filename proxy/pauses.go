package proxy

import (
	"sync"
	"time"
)

// pauses says when work that failed on a database of a shard is tried again: after a pause
// that doubles. A database that was dropped behind weft's back must not keep every proxy
// busy.
type pauses struct {
	mu   sync.Mutex
	next map[ownKey]pause
}

type pause struct {
	until time.Time
	long  time.Duration
}

// firstPause and longestPause bound the pauses.
const (
	firstPause   = 4 * time.Second
	longestPause = time.Minute
)

// due reports whether it is time to try again.
func (p *pauses) due(key ownKey, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !now.Before(p.next[key].until)
}

// failed begins a pause, twice as long as the last one.
func (p *pauses) failed(key ownKey, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = map[ownKey]pause{}
	}
	long := min(max(2*p.next[key].long, firstPause), longestPause)
	p.next[key] = pause{now.Add(long), long}
}

// done forgets the pauses: the work succeeded.
func (p *pauses) done(key ownKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, key)
}
