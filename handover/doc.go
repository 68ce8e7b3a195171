// Package handover lets another server of a shard become its primary without errors for clients, and keeps proxies from an old
// primary before another server is promoted.
//
//	weft drain, fence, switchover ──▶ Shard ──drain, fence──▶ directory ──▶ all proxies (proxy/seek)
//	                                    │  ◀── cleared ─────────┘
//	                                    └──▶ Manager: Patroni, weft dev, a command
//
// A switchover in steps:
//
//  1. Drain enters a drain of the shard in the directory. On every proxy nothing new begins there, and transactions that hold connections
//     go on. It waits until no proxy has a backend of the shard in use.
//  2. Drain shuts the shard: from now on transactions that have begun elsewhere wait, too. In between one may have come back to the shard and
//     wait for locks of one that waits at the gate of another proxy. So the shard is opened for those again if it is not empty soon.
//  3. The Manager promotes another server.
//  4. A proxy sees the new primary and enters its generation, which ends the drain. Each proxy ends it as soon as it sees the new primary by itself.
//
// A drain ends by itself when its time is over, in every proxy by the proxy's own clock.
//
// A fence is for a promotion that is not planned. It is what proxies are told right before a standby is promoted, by the manager's hook: the timeline of
// the old primary is over. Every proxy closes its backends there, and uses no server of that timeline any more. This is not the
// lockout, by which shards keep out the backends of a proxy that the directory has lost (proxy/fence).
//
// A ruling is an operator's word about servers that evidence does not tell apart: Shard.Accept names one of two primaries of the same timeline, and
// Shard.Reset forgets the timeline that a shard has been on.
//
// The package starts no goroutine. Start reading at Shard.Switchover.
package handover
