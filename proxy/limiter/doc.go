// Package limiter finds the limits of shards, in the proxy that judges, and holds this proxy to its part of them.
//
//	Limiter of the proxy that judges ──Limits──▶ judge.State ──▶ Limiter of every proxy ──Set──▶ pool
//
// The life of a limit:
//
//  1. Limiter.Judged takes the facts of a second, in which all proxies have said how they use their connections. Package
//     heat/limit has the rules.
//  2. Limiter.Second takes this proxy's part of each limit: half of a limit is split evenly, and half goes by demand.
//  3. Limits that are older than a few seconds do not hold: a proxy that hears of none is limited by its configuration alone.
//
// Limiter.Run owns its goroutine. Start reading at Limiter.Second.
package limiter
