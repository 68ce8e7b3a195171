// Package carrier runs the jobs that carry rows to other shards.
//
//	job in the directory ──▶ Carrier.Run ──▶ rounds ──▶ schema.Carriage ──▶ shards
//	                             │  ▲
//	                        phase│  │cleared
//	                             ▼  │
//	                        all proxies
//
// A round, in its order:
//
//  0. fence: proxies that are not alive are kept out of the shards, see schema.Mover.Fence. That
//     is done once for a job, and whenever a proxy has come or gone.
//  1. open: transactions on the giving and the taking shards, and the decision. No client waits.
//  2. phase writes in the directory: proxies hold writers of the round's buckets, and say when
//     none is in flight.
//  3. carry the rows, and prepare all shards but the deciding one.
//  4. phase all in the directory: proxies hold readers, too, and say when none is in flight.
//  5. commit on the deciding shard, then on the others.
//  6. the placement in the directory; all clients go on.
//
// A round that is not through within the job's max_pause is rolled back, and its buckets come
// again later. Whatever dies: the decision on the taking shard says whether the rows have moved,
// and the entry in the directory says that a proxy must ask. Settle asks, and ends the round; any
// proxy may call Settle at any time.
//
// A Carrier starts no goroutine. Start reading at Carrier.Run, then round.
package carrier
