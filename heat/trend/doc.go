// Package trend remembers how the work of a cluster has changed, to say that something has become unusual before
// anything waits. It takes values and returns values: it has no clock and does no I/O.
//
//	every few seconds: heat.Skew of a database ──▶ Skew.Next ──▶ Skew.Warned, Skew.Usual
//	                   cores that a shard uses ──▶ Load.Next ──▶ Load.Full
//
// Both memories are small enough to be told to other proxies every second, so that another proxy can go on
// with them. Next returns a new value and leaves the old one as it is.
//
// Start reading at Skew.Next and Load.Full.
package trend
