// Package halt is the part of one proxy in a halt: a moment in which no proxy takes a message of a client.
//
//	directory ──snapshot──▶ Halts ──Left──▶ sessions, before each message
//	        ◀──End───────────┘
//
// A strict backup point needs that a client which has heard of a commit writes nothing before all shards have their points. The life of a halt here:
//
//  1. A snapshot with the halt arrives. A session that has got a message looks at the newest snapshot and waits. What was taken before goes on.
//  2. The proxy acknowledges the snapshot as any other: from then on it takes no message.
//  3. The halt ends with another snapshot, or when its time is over on this proxy (Halts.Left). The process that wanted the halt has died, then, or
//     does not reach etcd: Halts.Run takes the halt out of the directory.
//
// Halts starts no goroutine; Halts.Run is for one of the caller's. Start reading at Halts.Left.
package halt
