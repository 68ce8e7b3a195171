// Package dev runs a whole cluster in one process tree on this machine: what
// weft dev does.
//
//	weft dev ──▶ dev.Run ──┬─▶ pgserver   DIR/shard-0 … on port-base, port-base+1 …
//	                       ├─▶ directory/embedded   an etcd in this process, DIR/etcd
//	                       └─▶ server     proxy and HTTP, as weft serve runs them
//
// The life of a run:
//
//  1. The directory is locked: one run at a time, and the lock says whose.
//  2. What the directory was made with is read, or written for a new one. The
//     number of shards, of buckets and the locale cannot change afterwards.
//  3. etcd starts, then all shards at the same time. A missing data directory is made
//     with initdb, never copied: shards need system identifiers of their own.
//  4. The cluster is declared in etcd; DIR/weft.yaml is written, with which weft
//     serve joins as another proxy.
//  5. The proxy starts. From here on a shard server that dies is started again.
//  6. When the context ends: the proxy drains, then servers and etcd stop.
//
// After a kill -9 nothing has to be done by hand. The kernel frees the lock, the
// servers end with their parent or are ended by the next start, and every file
// is replaced by renaming.
//
// Run owns every goroutine and process; none outlives it. Start reading there.
package dev
