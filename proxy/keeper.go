package proxy

import (
	"sync"
	"sync/atomic"
)

// keeper does what a proxy does without being asked by a client: it ends transactions
// that were left over, goes on with moves of tables, watches for deadlocks and for other
// proxies that stand still, and keeps what weft has installed on the shards up to date.
type keeper struct {
	s *Server

	pulse atomic.Int64 // when this process last ran for certain, see beat
	// unable are the shards that are known to prepare no transactions, checked
	// those that have been asked, by name.
	unable    sync.Map
	checked   sync.Map
	owns      owns
	refreshed refreshed
	unguarded pauses // databases whose tables could not be guarded
	// belonging is who the servers of the shards say they are.
	belonging belonging
	// shares is how many of the shards' connections this proxy may take.
	shares  shares
	silent  silent // other proxies that may stand still
	hands   hands
	guard   gateGuard
	forgets forgets
	copies  copies
}
