package pool

import "time"

// Drain says how far a shard is drained because the cluster's operator has asked for that on all proxies. DRAIN SHARD of one
// proxy is Pause instead.
type Drain uint8

// The steps of a drain.
const (
	// DrainNone: sessions begin as always.
	DrainNone Drain = iota
	// DrainBegun: nothing new begins on the shard. A transaction that holds connections passes, if need be after a while: see yield.
	DrainBegun
	// DrainShut: no session gets a connection to the shard.
	DrainShut
)

// Drain lets the shard be drained as far as d says. Sessions that may not begin wait, at the longest for as long as they would wait
// for a primary.
func (sh *Shard) Drain(d Drain) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	began := d != DrainNone && !sh.pauses.drain
	sh.pauses.drain = d != DrainNone
	sh.pauses.set()
	g := sh.pauses.gate.Load()
	if g == nil {
		return
	}
	if began {
		g.since, g.began = sh.pool.drains.Add(1), time.Now()
	}
	if shut := d == DrainShut; shut != g.shut && !sh.pauses.all && !sh.pauses.one {
		// Sessions that wait look again: some may pass a gate that is not shut.
		next := *g
		next.shut, next.opened = shut, make(chan struct{})
		sh.pauses.gate.Store(&next)
		close(g.opened)
	}
}

// Empty reports whether no session holds a connection to the shard, and if so closes the idle ones.
func (sh *Shard) Empty() bool {
	sh.mu.Lock()
	used, open := sh.used(), sh.total
	sh.mu.Unlock()
	if used == 0 && open > 0 {
		sh.retire(everyKey)
	}
	return used == 0
}
