// Package pool lends connections to shards.
//
//	proxy.Session ──Acquire──▶ Lane ──▶ Conn ──▶ PostgreSQL backend
//	              ◀─Release───┘  │
//	                           Shard: all lanes of one server share its limit
//
// The life of a Conn:
//
//  1. A Lane holds the connections that are interchangeable: same shard,
//     database, user and startup parameters (Key). Acquire lends an idle connection,
//     dials a new one, or queues: users and keys take turns (fair.go), and in
//     overload nobody waits long (strain.go). Together lends connections to
//     several shards.
//  2. A lent Conn belongs to one session, which says what happens to the backend
//     (state.go): that a query has failed, which settings it has now.
//  3. Release puts the Conn back or hands it to a waiting session; Discard
//     closes it. A Conn whose state is unknown is discarded, never released. A
//     backend that is discarded in the middle of a statement goes on with it; ghosts
//     has it ended.
//  4. Run sweeps: it closes connections that are too old or idle for too long,
//     and finds the dead among the idle.
//
// Standbys of a shard are Shards beside the primary's (standby.go): a session that may read one
// asks for it by Shard.Standby.
//
// Sessions share Settings and Statement: values that say what a backend must
// have before a session may use it.
//
// Goroutines: Run, one for all shards; a short-lived one that closes an evicted
// connection; one per database and shard that has ghosts; and one while openFor or
// CopyIn runs. Start reading at Lane.Acquire
// (crowded.go).
package pool
