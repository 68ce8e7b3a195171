// Package wire cuts PostgreSQL's v3 protocol into frames and back. It knows
// no shards, no sessions and no SQL.
//
//	socket ──Stream.Fill──▶ buffered bytes ──Next/Header──▶ frames
//	Append… functions ──▶ []byte ──Stream.Write──▶ socket
//
// The life of a Stream:
//
//  1. NewStream takes a connection; it holds no buffer yet.
//  2. Fill blocks until bytes are there and only then borrows a buffer, so
//     an idle connection costs none.
//  3. The owner looks at Buffered, takes frames off with Consume, and lets
//     large frames run through in pieces instead of collecting them.
//  4. When everything is consumed the buffer goes back by itself.
//
// A Stream belongs to one goroutine at a time for reading and one for
// writing. Nothing in this package starts a goroutine.
//
// Start reading at Stream (stream.go), then parse.go and append.go for what is
// inside the frames, startup.go for the dialogue before the first frame.
package wire
