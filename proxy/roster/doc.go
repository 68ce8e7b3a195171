// Package roster knows which servers the shards are, and which part of their connections belongs to this proxy.
//
//	pool ──new backend──▶ Roster.Verify ──▶ refused, or the server's room is known
//	directory ◀──which servers the shards are── Roster.EnterSystems
//	        ──the other proxies──▶ Roster.TakeShares ──▶ pool
//
// A shard's server says with every new connection which cluster and shard it belongs to, which system it is, and
// how many connections it takes (see package identity):
//
//  1. Roster.Verify refuses a server that does not fit before a statement is sent. Roster.Misplaced lists the refused
//     servers: they keep /readyz from saying that all is well.
//  2. The directory remembers the system of each server that fits (Roster.EnterSystems), so that another server at
//     its address is noticed.
//  3. Proxies say in the directory how many connections to a shard they may open. If the sum is more than a server
//     has, each proxy takes no more than its share (Roster.TakeShares): then sessions wait in a proxy's queue, in
//     order, instead of knocking at a server that is full.
//
// A Roster starts no goroutine. Start reading at Roster.Verify.
package roster
