// Package sequence hands out values of global sequences, in blocks from the
// home shard.
//
//	sessions ──Take──▶ Allocator ──Draw──▶ Source ──nextval──▶ home shard
//	                      │
//	                      └ per sequence: a block of values, a line of waiters
//
// The home shard's sequence is the only truth: each value of a block came from
// nextval (see Query). So a value is never handed out twice, whatever other proxies,
// other clients of the home shard and restarts do meanwhile, and setval and ALTER
// SEQUENCE on the home shard keep their meaning. Values of a block that are never
// asked for are holes, as with PostgreSQL's CACHE.
//
// The life of a value:
//
//  1. A session calls Take. If the block has enough values, Take returns at once:
//     one lock, no allocation.
//  2. Else Take joins the sequence's line, and begins a draw unless one is under
//     way. One draw serves all waiters, in order of arrival: each gets all its
//     values or waits on.
//  3. A draw asks for as many values as are wanted, or for the block's size if that
//     is more. The size is 1 at first, so that a quiet sequence has no holes, doubles
//     when draws follow each other quickly, and halves for each second of quiet.
//     The draw is on the disk of the home shard, and on its synchronous standby, before its values
//     are used on other shards: see Message.
//  4. A Take that knows a newer epoch discards the block: a sequence was set to
//     another value, or replaced by another of the same name (directory.Snapshot,
//     Sequences and Schemas), or the home shard has another primary.
//
// A primary that was promoted without the last draws would repeat them. Marks are how far a proxy has
// drawn, and State.Floor is what such a sequence has to be set to: see package proxy/floor.
//
// Rights: nextval needs USAGE or UPDATE on the sequence, except for an identity
// column. So the role is part of a sequence's Name and each role has its own blocks:
// a role that may not use a sequence gets the home shard's 42501 and never a value
// that was drawn with the rights of another role. An empty role stands for weft's own
// rights. Errors of the home shard (2200H at the end of a sequence, 55000, 42P01) go
// unchanged to the Takes that waited for the draw.
//
// An Allocator starts one goroutine per draw, and Close waits for these goroutines.
// Start reading at Allocator.Take.
package sequence
