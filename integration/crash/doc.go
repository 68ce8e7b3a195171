// Package crash kills and pauses what a sharded cluster is made of, while
// clients use it.
//
//	clients ──▶ weft, weft … (programs) ──cable──▶ etcd
//	                 │
//	                 └──▶ four shards
//
// A world is one cluster of a test: a database of its own on the shared shards,
// an etcd of its own, and proxies that are processes, so that they can be
// killed. Each proxy reaches etcd through a cable that can be frozen or cut.
//
// What must hold whatever dies: a write is in the database if it was
// acknowledged; each row exists once, on the shard its key says; no answer lacks
// a row; what waited goes on, and nothing is left behind.
//
// Start reading at TestDeclare, the long form of which is make crash.
package crash
