package proxy

import (
	"weft/proxy/copies"
	"weft/proxy/durable"
	"weft/proxy/failovers"
	"weft/proxy/gate"
	"weft/proxy/halt"
	"weft/proxy/ledger"
	"weft/proxy/limiter"
	"weft/proxy/lot"
	"weft/proxy/own"
	"weft/proxy/points"
	"weft/proxy/queues"
	"weft/proxy/roster"
	"weft/proxy/seek"
	"weft/proxy/target"
	"weft/proxy/throttler"
	"weft/proxy/vigil"
)

// keeper ties together the work of a proxy that no client asks for. Most of that work has packages of its own: see
// newOwns, newRoster, newCopies, newVigil, newVerdicts, newThrottler and newQueues; newLeftover, newTables and newLookout
// are run by the server itself.
type keeper struct {
	s *Server

	pulse pulse
	// owns is weft's own tables on the shards.
	owns *own.Tables
	// roster is which servers the shards are.
	roster *roster.Roster
	// seeker is which of a shard's servers is the primary.
	seeker *seek.Seeker
	// barrier is since when the present schemas and places of rows are known here.
	barrier target.Barrier
	vigil   *vigil.Vigil // other proxies that may hang
	// verdicts is what is found to be hot, and throttles is what is limited.
	verdicts  verdicts
	throttles *throttler.Throttler
	// queues are where transactions wait that write a hot key.
	queues *queues.Queues
	// limits holds this proxy to its part of what shards can do.
	limits *limiter.Limiter
	// outlook is what is found out more slowly than what is hot.
	outlook outlook
	// failovers are the changes of primaries.
	failovers *failovers.Recorder
	// halts are moments in which no message of a client is taken.
	halts *halt.Halts
	// points are the backup points that the directory has.
	points *points.Board
	// ledger is the transactions that a failover can still harm.
	ledger *ledger.Ledger
	// durable is which shards are as durable as declared.
	durable *durable.Keeper
	// floors keep sequences above what was drawn from them.
	floors *floors
	// lots are the values of sequences that shards give out to triggers.
	lots  *lot.Lots
	guard *gate.Guard // backends that hold a gate for too long
	// copies are the copies of the directory on the shards.
	copies *copies.Copies
}
