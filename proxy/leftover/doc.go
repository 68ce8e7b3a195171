// Package leftover ends transactions of several shards that were left over, because their proxy,
// their session or a shard died.
//
//	sessions: Take, Drop, Forget ──┐
//	pg_prepared_xacts ─────────────┼──▶ Keeper ──▶ twopc.Resolver ──▶ COMMIT or ROLLBACK PREPARED
//	directory: pending changes ────┘         └──▶ Config.Publish, for changes of schemas
//
// Every proxy has a Keeper, and all of them do the same work: whichever finds a transaction ends
// it. Package twopc has the argument why they cannot contradict each other. A Keeper does this:
//
//  1. A session that commits calls Take, and Drop when it is done. What is in hand is let be.
//  2. Four times a second the decisions that sessions gave to Forget are deleted from their shards.
//  3. Every second each shard is asked for its prepared transactions. One that is in no hand, or
//     whose proxy is gone or hangs, is ended as its deciding shard says (Keeper.resolveOn).
//  4. Every three seconds some databases of each shard are swept: a decision that all participants
//     have followed is deleted (Keeper.sweep).
//  5. SettleLeft ends changes of schemas that the directory knows as pending and whose proxy is
//     gone. All proxies are told of the outcome.
//
// The loop of Run is also the clock of some work of package proxy, which Config names.
//
// Run owns a goroutine per shard and kind of work, one at a time of each, so that a shard that does
// not answer does not hold up the others. Run waits for all of them. The other methods may be
// called from any goroutine. Start reading at Keeper.Run.
package leftover
