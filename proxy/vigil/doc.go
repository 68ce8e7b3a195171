// Package vigil watches the other proxies of a cluster, and ends the transactions that one of them
// has left open because it stands still.
//
// A proxy that stands still keeps its connections, so the shards wait for it, and the rows stay
// locked. Its lease in the directory runs out much later. So:
//
//  1. Proxies ask each other which backends they have. The answer comes when there is a new backend,
//     or after half a second (Vigil.ask).
//  2. A proxy that has missed two answers is silent. If none of its backends has begun anything for a
//     while on any shard, the proxy hangs, and those of its backends that wait for it in the middle
//     of a transaction are ended (Vigil.judge).
//  3. A proxy that works, but that the others cannot reach, is let be: it talks to every shard each
//     second (see package leftover). A proxy that gets no processor itself judges no other proxy:
//     the others may share its machine (Config.Steady).
//
// A proxy that wakes up finds its connections closed, and goes on with new ones.
//
// Vigil.Run owns a goroutine per other proxy and waits for all of them. Start reading there.
package vigil
