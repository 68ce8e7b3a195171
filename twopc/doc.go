// Package twopc makes a transaction that several shards take part in end the
// same way on all of them, whatever dies meanwhile.
//
//	proxy: a session commits ──┐
//	                           ├─► twopc ─► shards
//	proxy: what others left ───┘
//
// The life of such a transaction:
//
//  1. One participant decides; every participant tells its transaction id, and
//     the decider's is made durable: an id that a crash could give to another
//     transaction would lie. All of it is stored where every proxy finds it
//     before anything else happens.
//  2. The others PREPARE TRANSACTION under a [Name] that says all of that.
//  3. COMMIT on the decider is the commit: [Outcome] is what it says of the id.
//  4. COMMIT PREPARED on the others.
//
// Whoever finds a transaction whose owner is gone asks the decider, and makes
// the others follow: [Resolver]. [Next] is what is to be done with one of them,
// as a function of what two servers say.
//
// There are no goroutines here. Start reading at resolver.go.
package twopc
