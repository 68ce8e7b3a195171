// Package pool lends connections to shards.
//
//	proxy.Session ──Acquire──▶ Lane ──▶ Conn ──▶ PostgreSQL backend
//	              ◀─Release───┘  │
//	                           Shard: all lanes of one server share its limit
//
// The life of a Conn:
//
//  1. A Lane holds the connections that are interchangeable: same shard,
//     database, user and startup parameters (Key). Acquire lends an idle one,
//     dials one, or queues.
//  2. While it is lent it belongs to one session, which keeps the fields up to
//     date: which settings are applied, which statements are prepared.
//  3. Release hands it to whoever waits, or puts it back; Discard closes it.
//     A connection whose state nobody knows is discarded, never released.
//  4. Sweeping (Run) closes what is too old or idle for too long and finds
//     connections that died in their sleep.
//
// Settings and Statement are what sessions share: immutable values that say
// what a backend must have before a session may use it.
//
// Goroutines: Run, one for all shards, and one for the moment of saying
// good-bye to an evicted connection. Start reading at Lane.Acquire (shard.go).
package pool
