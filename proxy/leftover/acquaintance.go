package leftover

import (
	"sync"
	"time"
)

// acquaintances remember since when this proxy knows of transactions and decisions. Servers note the time of both by their own clocks, and after a failover one
// server's time is compared with another one's clock, which may be hours apart.
type acquaintances struct {
	mu    sync.Mutex
	since map[place]map[string]time.Time
}

// meet says which transactions or decisions there are at a place now, and returns since when each is known. What is not there any more is forgotten.
func (a *acquaintances) meet(at place, keys []string, now time.Time) map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, next := a.since[at], make(map[string]time.Time, len(keys))
	for _, key := range keys {
		if t, ok := before[key]; ok {
			next[key] = t
		} else {
			next[key] = now
		}
	}
	if a.since == nil {
		a.since = map[place]map[string]time.Time{}
	}
	if len(next) == 0 {
		delete(a.since, at)
	} else {
		a.since[at] = next
	}
	return next
}

// known returns since when a transaction or decision is known, now if it is new.
func (a *acquaintances) known(at place, key string, now time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t, ok := a.since[at][key]; ok {
		return t
	}
	return now
}
