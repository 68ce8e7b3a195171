// Package durable commits over shards with synchronous standbys that stand still: no shard may follow a decision
// that a failover could undo, and no decision may be forgotten while a failover could undo what followed it.
package durable
