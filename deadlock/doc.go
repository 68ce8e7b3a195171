// Package deadlock finds transactions that wait for each other over several
// shards, which no shard can see alone, and chooses who gives way.
//
//	shards: who waits for whom ──┐
//	                             ├─► deadlock ─► proxy: end its wait with 40P01
//	proxies: who holds what ─────┘
//
// It is a function of facts ([Facts]):
//
//  1. A [Wait] is what a shard says: a backend waits for another, or for a
//     transaction that is prepared and has no backend.
//  2. A [Party] is what a proxy says: these backends on these shards, and this
//     prepared transaction, are one transaction; and perhaps it waits in the
//     queue of a pool for one of these backends to become free. Backends that
//     are nobody's party are transactions of their own.
//  3. [Find] takes away whoever can go on: who does not wait; who waits for a
//     lock and all that are in its way can go on; who waits in a queue and
//     any holder can go on. What is left cannot go on by itself.
//  4. Among those, each knot of transactions that wait for each other in a
//     circle loses its youngest party. Circles that lie within one shard are
//     left to that shard's own detector.
//
// Facts of different shards are not of the same moment, so one look proves
// nothing. Whoever acts looks twice, and lets Find see what [Persisting] leaves:
// waits that were there both times, of parties that have done nothing
// between. What such a party held at the first look it holds at the second, so
// its waits have been there at one moment, all of them.
//
// There is no clock, no I/O and no goroutine here; package proxy/lookout has
// them. Start reading at find.go.
package deadlock
