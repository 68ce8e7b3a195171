// Package target decides which transactions of a session read standbys, and how up to date a standby has to be for them.
//
//	proxy.Session ──Statement──▶ Course.Decide ──▶ Verdict: primary, standby, or a refusal
//	                              │
//	                              ▼ After: what a standby must have
//	                            pool.Read
//
// The life of a Course, which is that of a session:
//
//  1. The first statement of a transaction decides for all of it, by the session's Target: a transaction that reads standbys does so
//     to its end. Outside of blocks each statement is a transaction.
//  2. A transaction that may have written leaves a time: what was committed before it must be there on a standby that the session reads
//     afterwards.
//  3. A Token carries what a session has written to another session, as places in the logs of shards.
//
// Barrier is the time at which this process has taken up the present schemas and placement: a standby that does not have
// everything from before is not read. Nothing here has a clock or does I/O. Start reading at Course.Decide.
package target
