// Package seek has the servers of all shards watched, and tells the pool which one to dial and when clients wait.
//
//	directory ──hosts, generations──▶ Seeker ──▶ one primary.Watcher per shard ──▶ servers
//	          ◀──higher generations──   │ ▲
//	                                    ▼ │ Suspect: a login has failed
//	                                   pool
//
// What becomes of a shard whose primary is lost:
//
//  1. A login fails, or a probe is refused or not answered. The Watcher's view is not open any more: Seeker tells the pool to let sessions
//     wait, to close idle connections, unless the server is only silent, and to log in to the standbys, one of which will be the primary.
//  2. The primary answers again, or another server is a primary of a higher generation. The pool closes all connections to servers of
//     lower generations, also those in use, and dials the new primary. Config.Settle ends the transactions that are in doubt there, and sessions go on.
//  3. The directory is told the new generation, so that other proxies know at once, and refuse the old primary from then on.
//
// Goroutines: Seeker.Run starts one per shard and one per server, one that tells the directory, and one for each settlement, and ends them before it returns. Start
// reading at Seeker.changed.
package seek
