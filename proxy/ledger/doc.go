// Package ledger knows the transactions of several shards that a failover can still harm, and finds out which ones it has.
//
//	sessions: Add ──▶ Ledger ──▶ twopc.Resolver.Fates ──▶ directory, log
//	views of the shards' servers (package primary) ──┘
//
// The life of an entry:
//
//  1. A session that has committed on several shards enters the transaction, if one of them could be replaced by a server that lacks the commit.
//  2. While it is entered, its decision and its parts (weft.decision, weft.part) stay on the shards: package leftover asks Holds.
//  3. The entry goes when the standbys of all shards have what was answered. That is known from probes, so no transaction pays for it.
//  4. If a shard gets another primary first, the shards are asked which of them have the transaction. Where some do not, the transaction is
//     lost or half, and the directory keeps it. The entry of one that is lost goes; that of one that is half stays until no failover can
//     take what is left, or one has.
//
// A Ledger is in memory and bounded: a proxy that dies takes its entries along. Of its transactions, those are found by sweeping (package twopc)
// whose decision is there and a part is not.
//
// Run owns no other goroutines. Start reading at Ledger.look.
package ledger
