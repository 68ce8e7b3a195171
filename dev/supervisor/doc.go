// Package supervisor runs the servers of one shard of weft dev: a primary and its
// standbys.
//
//	dev ──Open, Run, Stop──▶ Supervisor ──pgserver──▶ DIR/shard-0, DIR/shard-0-1 …
//	 └──Do(kill, switch, …)──▶   │
//	                             └── quorum: whom commits wait for, who may be promoted
//
// The life of a shard:
//
//  1. Open finds the data directory of the primary: the one of the highest timeline
//     that is no standby's. A shard without any is made. Every other directory is
//     made a standby of the primary: as it is, rewound, or copied.
//  2. Run looks at the servers until its context ends. A standby that streams joins
//     those that commits wait for; one that is gone leaves them, so that no commit
//     waits for ever.
//  3. When the primary's process has ended, Run first kills all that is left of it.
//     Then the standby with the longest log is promoted, out of those that have every
//     acknowledged commit. If there is none the primary itself is started again: it
//     has lost nothing. The old primary is rewound and becomes a standby.
//  4. Stop ends the primary, then the standbys.
//
// A frozen primary is not replaced: silence is no death. Supervisor owns all servers
// of the shard, and so can be sure that a server is dead. It is no failover manager for
// servers on other machines, where that cannot be known.
//
// Between Open and Stop the goroutine of Run owns all state but the published one;
// repairs run beside it and report to it. Start reading at Supervisor.
package supervisor
