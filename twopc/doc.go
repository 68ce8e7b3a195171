// Package twopc makes a transaction that several shards take part in end the
// same way on all of them, whatever dies meanwhile.
//
//	proxy: a session commits ──▶ Commit: what comes next ──▶ shards
//	proxy, weft recover ───────▶ Resolver: what is left ───▶ shards
//
// The life of such a transaction:
//
//  1. One participant decides: the home shard if it has written, else the first of
//     the snapshot's shards. In the client's transaction there, a [Decision] is entered, and the answer is
//     awaited.
//  2. The others PREPARE TRANSACTION under a [Name] that says who decides, all at
//     once.
//  3. COMMIT on the deciding shard is the commit. If its answer is lost, the
//     deciding shard is asked through another connection: [ArbitrateSQL].
//  4. COMMIT PREPARED on the others, all at once; then the client is told. The
//     decision is deleted later, with others, when all have confirmed.
//
// [Commit] is that order as a state machine without I/O: testdata/commit has its
// transcripts. [Resolver] ends what an owner has left: it looks for prepared
// transactions of the cluster, asks their deciding shards and makes them follow. To
// ask is safe at any time and for any number of resolvers, because the row was
// entered before anybody prepared; docs/decisions/0013 has the argument, and
// tried_test.go what it rests on.
//
// Tests stop and kill processes at the points in point.go, in this order:
//
//	before-decide   the client's writes are there, and nothing of the commit
//	after-decide    the row is entered, in the open transaction
//	before-prepare  and a change of schemas is in the directory
//	after-prepare   all participants have prepared
//	after-commit    the deciding shard has committed
//	after-follow    all participants have, and the client has not been told
//	before-forget   the row is about to be deleted
//	after-forget    it has been
//	before-arbitrate, after-arbitrate, after-resolve: of recovery
//
// Goroutines: one inside Resolver.Decide, for its time. Start reading at commit.go.
package twopc
