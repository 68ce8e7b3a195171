// Package auth decides who may connect and as whom.
//
//	weft.yaml ──Config──▶ New ──▶ Authenticator
//	                                  │ Authenticate(ctx, Client, Request)
//	proxy: startup packet, socket ────┘──▶ *User (name, pool settings) or *pgerr.Error
//
// The package speaks the authentication dialogue of PostgreSQL 15 through
// Client, two methods that carry message bodies, so it knows no framing and
// opens no sockets. The life of one dialogue:
//
//  1. The first Rule that fits the socket, the database and the user names the
//     method; without rules Config.Method does.
//  2. trust and reject end here.
//  3. md5 sends a salt and compares one answer; scram-sha-256 runs the SASL
//     exchange (sasl.go) around a conversation that knows no I/O (scram.go).
//     A user whose password cannot be checked that way, or who does not exist,
//     goes through the same motions and fails like a wrong password.
//  4. The user's list of databases is asked last: it must not tell a stranger
//     anything.
//
// AuthenticationOk is the caller's to send. An Authenticator is immutable and
// safe for concurrent use; a new configuration is a new Authenticator. The
// package owns no goroutines. Start reading at Authenticate in auth.go, then
// scram.go.
package auth
