// Package pair asks weft and one unsharded PostgreSQL the same things and says
// where the answers differ. It is what integration/routing and
// integration/select are made of.
//
//	Statement, Params ──▶ Pair.Run ──┬──▶ Peer (PostgreSQL) ──▶ Answer ──┐
//	                                 └──▶ Peer (weft) ────────▶ Answer ──┴─▶ Diff
//
// A Peer puts a statement in each of the ways that a client can (see Mode and Ways). An
// Answer holds rows, names, types by name, tags and the SQLSTATE; OIDs of what
// users created differ from server to server, so their names stand for them.
// Scripts of statements are read by ReadScript. A Peer belongs to one goroutine.
package pair
