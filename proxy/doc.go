// Package proxy is what a client talks to: it starts sessions, reads their
// messages, lends them backends and passes the answers back.
//
//	client ──▶ Server.handle ──startup──▶ Session.step ──▶ pool.Conn ──▶ shard
//	   ◀───────────────────────────────── Session.relay ◀──────┘
//
// The life of a statement:
//
//  1. Session.step reads the client's message and switches on its type.
//  2. parser tells from the text what it does to the session. Most texts do
//     nothing; those that do are special.go's business.
//  3. Session.acquire makes sure there is a backend with the session's
//     settings: the pool lends one for the transaction.
//  4. The message goes to the backend, with the expected answer noted in ops.
//  5. Session.relay passes answers to the client until none is outstanding;
//     rows are not looked at.
//  6. At the end of the transaction settle brings the session's record up to
//     date (effects.go), and release gives the backend back unless a pin ties
//     the session to it.
//
// Goroutines: one per client (Server.handle), one per ear that listens for
// notifications, one for the pool; for the time of a COPY FROM STDIN and of
// writes that would block, a second one per session. Server.Close waits for
// all of them.
//
// Start reading at Session.step.
package proxy
