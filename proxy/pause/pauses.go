package pause

import (
	"sync"
	"time"
)

// Pauses are the pauses of work that has failed, by what the work is done for. The zero value has none. Its
// methods may be called by several goroutines.
type Pauses[K comparable] struct {
	mu   sync.Mutex
	next map[K]pause
}

type pause struct {
	until time.Time
	long  time.Duration
}

// first and longest bound the pauses.
const (
	first   = 4 * time.Second
	longest = time.Minute
)

// Due reports whether it is time to try again.
func (p *Pauses[K]) Due(key K, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !now.Before(p.next[key].until)
}

// Failed begins a pause, twice as long as the last one, and reports whether the work had not failed the time before: the log tells of that
// and of no other.
func (p *Pauses[K]) Failed(key K, now time.Time) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = map[K]pause{}
	}
	_, failed := p.next[key]
	long := min(max(2*p.next[key].long, first), longest)
	p.next[key] = pause{now.Add(long), long}
	return !failed
}

// Done forgets the pauses: the work succeeded.
func (p *Pauses[K]) Done(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.next, key)
}
