// Package job runs the jobs that change where rows are: those that carry buckets to other shards,
// and those by which shards join and leave.
//
//	weft.move_buckets, add_shard, … ──▶ directory.Snapshot.Moves ──▶ Runner.Run, on one proxy
//	                                            ▲                      ├──▶ carrier.Carrier: rounds
//	                                            │                      ├──▶ Runner.join
//	      Runner.WatchRounds, on all proxies ───┘                      └──▶ Runner.retire
//
// The entry of a job in the directory says which proxy runs the job. The life of a job:
//
//  1. A session enters the job: with Update, or with Join and Leave if the set of shards changes.
//  2. Four times a second Run looks at the entries, and begins each job of this proxy that is not
//     running, paused or failed. Jobs that change the set of shards run one after the other.
//  3. A job whose proxy is not listed as alive any more is adopted: the entry gets another proxy,
//     which goes on where the job was left (Runner.adopt). Every step may be done twice.
//  4. Pause and Resume change the entry. Who works on the job sees that between two rounds.
//  5. A job that ends with an error of this moment is begun again after a second. One that cannot
//     go on keeps its entry, as failed, with the reason.
//  6. A job that is over has no entry. The home shard remembers its rounds (history), the directory
//     remembers jobs that have changed the set of shards.
//
// While a round of a job stands in the directory, clients may wait for it. WatchRounds ends a round
// that stands for longer than it may, whichever proxy it belongs to. It has a goroutine of its own,
// because Run may wait for the directory or for a shard.
//
// Run and WatchRounds start a goroutine per job and per late round through Config.Spawn, whose
// owner waits for them. The other methods may be called from any goroutine. Start reading at
// Runner.Run, then the tables at the head of join.go.
package job
