package proxy

import (
	"sync"
	"sync/atomic"
)

// keeper does the work of a proxy that no client asks for: it ends transactions that were left
// over, goes on with moves of tables, watches for deadlocks and for other proxies that hang,
// and keeps what weft has installed on the shards up to date.
type keeper struct {
	s *Server

	pulse atomic.Int64 // when this process last ran for certain, see beat
	// unable are the shards known not to prepare transactions, checked the shards that have
	// been asked, both by name.
	unable    sync.Map
	checked   sync.Map
	owns      owns
	refreshed refreshed
	unguarded pauses // databases whose tables could not be guarded
	// belonging is which shards the servers say they are.
	belonging belonging
	// shares is how many of the shards' connections this proxy may take.
	shares  shares
	silent  silent // other proxies that may hang
	hands   hands
	guard   gateGuard
	forgets forgets
	copies  copies
}
