// Package discover finds the servers of shards whose addresses cluster.yaml does not list.
//
//	etcd: Patroni's members ──┐
//	DNS: addresses of a name ─┴─▶ Source ──▶ Finder ──hosts──▶ directory ──▶ all proxies
//	etcd: Patroni's leader ───hint: look now──▶ proxy/seek
//
// What is found becomes the hosts of the shard in the directory, as if an operator had listed them, so nothing else has to know where they
// come from. The life of a shard here:
//
//  1. weft apply asks Source for the first hosts.
//  2. Finder of each proxy asks again every few seconds, more often while the shard has no primary, and when Patroni's members change.
//  3. Hosts that are not found any more leave the list, unless the server answers: its Patroni may only be stopped. An empty answer changes nothing.
//
// Which of the servers is the primary is not asked here. That Patroni has another leader is a reason to probe the servers at once.
//
// Goroutines: Finder.Run starts up to two per shard, and ends them before it returns. Start reading at Finder.look.
package discover
