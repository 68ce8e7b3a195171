// Package lot gives shards lots of values of sequences, so that triggers can draw there.
//
// A trigger that writes an audit row with a serial id runs on the shard of the row that has changed, and
// draws from the shard's own copy of the sequence. Copies give no values, unless they have been given a lot: a
// block of values that this proxy has drawn from the home shard. So all values still come from one
// sequence, and setval(max(id)), dumps and imports keep their meaning.
//
//	statement with plan.Plan.Lots ──Ensure──▶ Lots ──▶ draw a block from the home shard
//	                                            └────▶ each shard: ALTER SEQUENCE … MAXVALUE last RESTART WITH first
//
// What keeps a value from being given twice:
//
//   - A copy ends where its lot ends (PostgreSQL's MAXVALUE). What comes then is error 2200H, and a new lot: see Refill.
//   - Table weft.lot of the shard says what the lot is. A copy that stands elsewhere counts as having none.
//   - The lots of a database on a shard change one after the other, under an advisory lock (sequence.LotsLock).
//   - When a sequence is set to another value (setval, RESTART), Void ends all lots, after all proxies have
//     learnt of it. A lot that was drawn before and arrives after that is not given: Ensure looks at the
//     epoch while it holds the lock.
//   - After a failover of the home shard the ends of lots count as drawn, see package proxy/floor.
//
// Lots runs no goroutines of its own but for asking shards, and for refilling lots early by way of Config.Spawn. Start reading
// at Lots.Ensure.
package lot
