// Package dev runs a whole cluster in one process tree on this machine: what
// weft dev does.
//
//	weft dev ──▶ dev.Run ──┬─▶ supervisor one per shard: DIR/shard-0 … on port-base,
//	                       │              port-base+1 …, standbys in DIR/shard-0-1 …;
//	                       │              with --patroni patroni instead
//	                       ├─▶ directory/embedded   an etcd in this process, DIR/etcd
//	                       ├─▶ server     proxy and HTTP, as weft serve runs them
//	weft dev kill … ───────┴─▶ control    orders to supervisors, by DIR/control.json
//
// The life of a run:
//
//  1. The directory is locked: one run at a time, and the lock says whose.
//  2. What the directory was made with is read, or written for a new one. The
//     number of shards, of buckets and the locale cannot change afterwards; the
//     number of standbys can grow.
//  3. etcd starts, then all shards at the same time. A missing data directory is made
//     with initdb, never copied: shards need system identifiers of their own.
//     Standbys are copies of their shard's primary.
//  4. The cluster is declared in etcd; DIR/weft.yaml is written, with which weft
//     serve joins as another proxy.
//  5. The proxy starts. From here on the supervisors replace servers that die, or start
//     them again.
//  6. When the context ends: the proxy drains, then servers and etcd stop.
//
// After a kill -9 nothing has to be done by hand. The kernel frees the lock, the
// servers end with their parent or are ended by the next start, and every file
// is replaced by renaming.
//
// Run owns every goroutine and process; none outlives it. Start reading there.
package dev
