// Package twopc makes a transaction on several shards end the same way on all of
// them, whichever process or server dies meanwhile.
//
//	proxy: a session commits ──▶ Driver ◀─▶ Commit: what comes next
//	                               └─▶ the session's dialogues ──▶ shards
//	proxy, weft recover ───────▶ Resolver: what is left ─────────▶ shards
//
// The life of a transaction on several shards:
//
//  1. One participant that has written decides: the one that sent NOTIFY, else the
//     home shard, else the first in the snapshot's order. A [Decision] is entered in
//     the client's transaction there, and the answer is awaited.
//  2. The other participants PREPARE TRANSACTION, all at once, under a [Name] that
//     names the deciding shard.
//  3. COMMIT on the deciding shard is the commit. If its answer is lost, the
//     deciding shard is asked through another connection: [ArbitrateSQL].
//  4. COMMIT PREPARED on the other participants, all at once; then the client is told.
//     The decision is deleted later, with others, when all participants have confirmed.
//
// [Commit] is that order as a state machine without I/O: testdata/commit has its
// transcripts. [Driver] obeys Commit: testdata/driver has the messages and points in their
// order. [Resolver] ends transactions that their proxy has left: it looks for
// prepared transactions of the cluster, asks their deciding shards and makes them
// follow. Any number of resolvers may ask at any time, because the decision is entered
// before any participant prepares; docs/decisions/0013 has the argument, and
// tried_test.go tests what the argument rests on. What a server shows counts when the server
// has got a synchronous commit through after it: see barrier.go and docs/decisions/0062.
//
// A client may prepare a transaction and end it later: see pledge.go and docs/decisions/0076.
//
// Tests stop and kill processes at the points in point.go, in this order:
//
//	before-decide   the client's writes are done, the commit has not begun
//	after-decide    the decision is entered, in the open transaction
//	before-prepare  a change of schemas is in the directory
//	during-prepare  the first of several participants has been asked to prepare
//	after-prepare   all participants have prepared
//	after-commit    the deciding shard has committed
//	during-follow   the first of several participants has been told to commit
//	after-follow    all participants have committed, the client has not been told
//	after-publish   all proxies know of a change of schemas
//	before-forget   the decision is about to be deleted
//	after-forget    the decision has been deleted
//
// and in recovery at before-arbitrate, after-arbitrate, after-resolve, before-sweep and
// after-sweep.
//
// Goroutines: one while Resolver.Decide runs. Start reading at commit.go.
package twopc
