// Package etcd keeps a cluster's directory in etcd.
//
//	directory.Store, directory.Registry
//	        ▲
//	   etcd.Store ──clientv3──▶ etcd
//
// Below its prefix (/weft/<cluster name>/ unless configured) it uses:
//
//	snapshot                     the head of the cluster's snapshot; its mod
//	                             revision is the Version
//	snapshot/part/<name>         its parts, see directory.Encoded
//	snapshot/entry/<name>/<key>  one per lookup entry; its value is a bucket
//	proxies/<id>                 one per live proxy, under a lease; its mod
//	                             revision is the proxy's Epoch
//	failovers/<shard>/<timeline> one per change of a primary
//	losses/<gid>                 one per transaction that a failover has harmed
//	serves/<id>                  the version it serves, under the same lease
//
// Every request has a time limit of its own, so that no caller hangs on an
// etcd that is away, whatever context it passes. A Store starts no goroutine
// that outlives the call that needed it; the client underneath does, until
// Close.
//
// Start reading at Open.
package etcd
