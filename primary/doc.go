// Package primary finds out which server of a shard is its primary.
//
//	pool: a dial failed ──Suspect──▶ Watcher ◀──Know── generation in the directory
//	servers ◀──Probe, one Conn each──▶  │
//	                                    ▼ Sighting
//	                                  Judge (no clock, no I/O)
//	                                    │
//	                                    ▼ View
//	                pool: which server to dial; do sessions wait?
//
// A shard has one server, or a primary with its standbys. Something outside of weft promotes a standby when the primary
// is lost. weft only notices, and it believes nothing but evidence:
//
//  1. A Watcher keeps a connection to each server and runs Probe on it, twice a second, and more often while no
//     primary is known. What the server answers, or that it does not, is a Sighting.
//  2. A Generation is the history that a server has: the system, the timeline, and the LSN at which the timeline left
//     its parent. A promotion begins a new timeline, so the primary with the highest timeline is the right one.
//  3. Judge turns the sightings into a View. A server that is silent or refuses connections makes the shard Seeking,
//     in which sessions wait; it never makes weft change the primary. Only another server that is not in recovery and
//     has a higher generation does. A primary with a lower generation than one that was known before is Stale, whatever
//     it says of itself, and is not used.
//  4. A suspicion ends when the server answers again, not after some time. A second failover right after the first is
//     as real as the first.
//  5. Two primaries of the same timeline are a Split, which only a Ruling of an operator ends while both are there.
//
// Lag is how far a standby is behind, on the clock of this process.
//
// Goroutines: Watcher.Run starts one per server and ends them before it returns. Start reading at Judge.See.
package primary
