// Package hold is the part of one proxy in the rounds of jobs that carry rows to other shards.
//
//	directory ──snapshot──▶ Holds ──Barrier──▶ sessions, before each statement
//	        ◀──cleared──────┘  ▲
//	                           └── what is in flight? ── sessions, backends
//
// A round of a job holds statements that touch its buckets, and begins when nothing that touches them is in
// flight in any proxy. The life of a round here:
//
//  1. A snapshot with the round arrives. Holds.Barrier gives its barrier to each session that is about to
//     send a statement; package reshard says which statements the barrier holds.
//  2. Holds.Run looks at all sessions, each millisecond, until none has anything in flight that the round waits
//     for, and all backends are registered (package proxy/fence). Then it tells the directory.
//  3. A session that keeps a round waiting is remembered, for operators (Holds.Blockers).
//  4. The round ends with another snapshot. A round that ends too late holds no statement any longer: such
//     statements fail (Holds.Overdue).
//
// What a session touches, and how it waits, is the session's own business: proxy/touch.go.
//
// Holds starts no goroutine; Holds.Run is for one of the caller's. Start reading at Holds.Barrier.
package hold
