package proxy

import (
	"weft/proxy/limiter"
	"weft/proxy/queues"
	"weft/proxy/throttler"
	"weft/proxy/vigil"
)

// keeper does the work of a proxy that no client asks for: it goes on with moves of tables,
// and keeps what weft has installed on the shards up to date.
// What was left over, other proxies that hang and deadlocks have packages of their own:
// proxy/leftover, proxy/vigil, proxy/lookout.
type keeper struct {
	s *Server

	pulse     pulse
	owns      owns
	refreshed refreshed
	unguarded pauses // databases whose tables could not be guarded
	// belonging is which shards the servers say they are.
	belonging belonging
	// shares is how many of the shards' connections this proxy may take.
	shares shares
	vigil  *vigil.Vigil // other proxies that may hang
	// verdicts is what is found to be hot, and throttles is what is limited.
	verdicts  verdicts
	throttles *throttler.Throttler
	// queues are where transactions wait that write a hot key.
	queues *queues.Queues
	// limits holds this proxy to its part of what shards can do.
	limits *limiter.Limiter
	// outlook is what is found out more slowly than what is hot.
	outlook outlook
	guard   gateGuard
	copies  copies
}
