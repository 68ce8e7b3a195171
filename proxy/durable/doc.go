// Package durable compares what commits of each shard survive with what the cluster declares.
//
//	directory: sync, atomic or async ──▶ Keeper ◀── views of the shards' servers (package primary)
//	                                       │    ◀── defaults of synchronous_commit, now and then
//	                                       ▼
//	        weft.shards, metrics, log; COMMIT over several shards, if it is enforced
//
// Keeper.Run is the only goroutine. A proxy whose cluster declares nothing asks nothing. Start reading at Keeper.look.
package durable
