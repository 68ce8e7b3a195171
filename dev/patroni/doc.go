// Package patroni runs the servers of one shard of weft dev under Patroni, the manager that
// decides in production which server is the primary.
//
//	dev ──Open, Run, Stop──▶ Shard ──▶ a patroni per server ──▶ postgres
//	 └──Do(kill, switch, …)──▶ │            └──▶ the etcd of weft dev
//	                           └── asks Patroni's REST API who is primary
//
// The life of a shard:
//
//  1. Open ends what an earlier run has left, makes the first data directory of a new
//     shard, and starts one Patroni per server. Patroni copies the standbys. Open returns
//     when all servers run and the shard has a synchronous standby.
//  2. Run starts a Patroni again that has died, and keeps in mind who is primary.
//  3. Do kills postgres alone, freezes postgres and Patroni, or asks Patroni to switch.
//  4. Stop ends the standbys' Patronis, then the primary's, so that no standby takes over.
//
// Which server is the primary is Patroni's decision alone. Shard owns the processes of
// Patroni, and one goroutine of Run. Start reading at Shard.
package patroni
