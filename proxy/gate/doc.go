// Package gate shuts the gates of shards for readers, and sees to it that nothing holds a gate for long.
//
//	reader ──▶ Keeper.Together, Keeper.InTurn ──LOCK──▶ weft_gate.gate of each shard
//	       ──snapshots──▶ shards
//	       ──▶ Keeper.LeaveAll ──COMMIT──▶ weft_gate.gate
//
// Every shard has a gate in each database: a table that is locked. Clients' backends go through the gate in ROW
// EXCLUSIVE mode, for the moments in which a transaction of several shards is prepared and committed. Readers that
// want to see all shards between such transactions have the gates shut in SHARE mode.
//
// Gates are shut by weft's service connections, not by the backends of readers, so no other role needs the right to a
// lock that keeps transactions out. Readers that come together share one shutting: a proxy uses one connection per
// gate, however many sessions read.
//
//	ask ──▶ keep: BEGIN, LOCK ──▶ shut ──▶ readers take snapshots ──▶ leave ──▶ keep: COMMIT ──▶ over
//
// A lock may be lost while a reader relies on it: its connection breaks, or its backend is ended. So a reader that
// leaves asks the same transaction whether it has held the lock until then.
//
// A backend that holds the gate for longer than a moment is ended by a Guard, as others wait for it: a client can be slow
// inside, with a trigger that is deferred to its COMMIT. A prepared transaction has no process and is left to the
// resolver. A backend that waits for a standby to confirm its COMMIT is not ended.
//
// A Keeper has a goroutine per gate that is shut, started by Config.Spawn, which waits for it. A Guard has none. Start
// reading at Keeper.Together.
package gate
