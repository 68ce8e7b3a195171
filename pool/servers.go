package pool

import (
	"maps"
	"slices"

	"weft/directory"
)

// respecify takes note of another description of the shard's servers. Connections to servers that have left are not used again, and none is if
// servers are reached in another way from now on. The others stay: that a standby comes or goes is not noticed.
func (sh *Shard) respecify(old, next *directory.Shard) {
	otherwise := !maps.Equal(old.Options, next.Options)
	left := func(host string) bool { return otherwise || !slices.Contains(next.Hosts, host) }
	sh.ahead.dropAt(func(k aheadKey) bool { return left(k.host) })
	if slices.ContainsFunc(sh.pool.processes.of(sh), func(c *Conn) bool { return !c.fits(old, next) }) {
		sh.dismiss(everyKey, otherwise)
	}
	for _, c := range sh.Standbys() {
		c.spec.Store(next)
		if left(c.standby.address) {
			c.retire(everyKey)
		}
	}
}

// fits reports whether a backend that was dialled by one description of the shard's servers may be used by another one. A server that was not asked
// who it is, because there was no other, may be a standby beside others.
func (c *Conn) fits(old, next *directory.Shard) bool {
	return old == next || old.Reaches(next) || old.ReachesAt(next, c.host) && c.generation.Timeline != 0
}

// stays reports whether the backend's server is still one of the shard's.
func (c *Conn) stays() bool { return slices.Contains(c.lane.shard.spec.Load().Hosts, c.host) }
