// Package admit is the door of a proxy: all that happens between a connection and the
// first query.
//
//	conn ──PROXY header──▶ TLS? ──▶ startup packet ──▶ password? ──▶ Welcome
//	                                 ├─ cancel request ──▶ Door.Cancel
//	                                 └─ another proxy  ──▶ Door.Ask
//
// A Door is one per proxy; Door.Admit runs the dialogue of one connection, with the Rules
// as they are at that moment. Client is that dialogue: it negotiates TLS (encrypt.go) and the
// protocol's version (client.go), and has package auth check who comes. What a client
// gets once it is in is the caller's business. Start reading at Door.Admit.
package admit
