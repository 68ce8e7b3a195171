// Package sequence hands out values of global sequences, in blocks from the
// home shard.
//
//	sessions ──Take──▶ Allocator ──Draw──▶ Source ──nextval──▶ home shard
//	                      │
//	                      └ per sequence: a block of values, a line of waiters
//
// The home shard's own sequence is the only truth: a block is what
// nextval gave for each of its values (see Query). So a value is never given
// twice, whatever other proxies, other clients of the home shard and restarts
// do meanwhile, and setval and ALTER SEQUENCE on the home shard keep their
// meaning. Values of a block that are never asked for are holes, as with
// PostgreSQL's own CACHE.
//
// The life of a value:
//
//  1. A session calls Take. If the block has enough, it is done: one lock, no
//     allocation.
//  2. Else it joins the sequence's line, and a draw is begun unless one is
//     under way. One draw serves all who wait: in order of arrival, each
//     entirely or not yet.
//  3. A draw asks for what is wanted, or for the block's size if that is more. The
//     size is 1 at first, so that a quiet sequence has no holes, doubles when
//     draws follow each other quickly, and halves for each second of quiet.
//  4. A Take that knows a newer epoch (directory.Snapshot, Sequences and Schemas: somebody
//     set a sequence to another value, or made another of that name) has the block thrown away.
//
// Whose rights: nextval needs USAGE or UPDATE on the sequence, except for an
// identity column. So the role is part of a sequence's Name and each role has blocks
// of its own: a role that may not use a sequence gets the home shard's 42501 and
// never a value that was drawn with the rights of another. An empty role stands
// for weft's own rights. Errors of the home shard (2200H at the end of a
// sequence, 55000, 42P01) go to those who waited for the draw, as they came.
//
// An Allocator starts one goroutine per draw and waits for them in Close. Start
// reading at Allocator.Take.
package sequence
