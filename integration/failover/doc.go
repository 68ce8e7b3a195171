// Package failover kills, stops and freezes primaries of a whole cluster, weft dev with
// standbys, while clients write through its proxy.
//
//	clients ──▶ weft dev ──▶ proxy ──▶ shard-0 and its standby, shard-1 and its standby
//	   └──▶ checks: what was acknowledged is there
//
// Start reading at cluster in cluster_test.go.
package failover
