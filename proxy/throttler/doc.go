// Package throttler knows the throttles that are in effect in one proxy.
//
//	directory ──watch──▶ Throttler ──Table──▶ sessions that begin a transaction
//	other proxies ◀──what was counted──┘
//
// The life of a throttle here:
//  1. The directory tells of it, or Put does, which has just stored it. From then on Table has it.
//  2. Once a second, Throttler.Second measures what clients ask for, asks the other proxies for the same,
//     and takes this proxy's part of the limit. A proxy that does not answer asks for nothing, and keeps the
//     half of its part that goes by heads.
//  3. The throttle ends when the directory says so, or when its time is over by the clock of this proxy. So an
//     etcd that is away cannot prolong one.
//
// The proxy that judges what is hot also makes the automatic throttles: see Throttler.Adjust.
//
// Throttler.Run owns the goroutines and waits for them. Start reading at Throttler.Second.
package throttler
