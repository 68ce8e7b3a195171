// Package copies writes copies of the directory to the shards, so that a lost etcd can be rebuilt: see
// directory.Copy and weft recover --directory.
//
//	declarations ──Copies.Keep──┐
//	every two seconds ──────────┴─Copies.KeepDue──▶ weft.directory on every shard, in every database
//
// Every database with declared tables keeps a copy on every shard. The proxy that declares something writes the
// copies of its database before it answers (Copies.Keep). A copy that could not be written then is written later, by
// all proxies (Copies.KeepDue). Changes that concern other databases only are written to a copy now and then: with
// many databases, each declaration would have to be written to all of them.
//
// Copies writes to all shards at once, each on a goroutine that is waited for. Start reading at Copies.Keep.
package copies
