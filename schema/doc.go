// Package schema carries tables from the home shard to all shards and back.
//
//	proxy ── SELECT weft.shard_table(…) ──▶ Mover ──▶ directory: who waits, what holds
//	                                          │
//	                                          ├──▶ home shard: lock, read, delete
//	                                          └──▶ other shards: define, fill
//
// The life of a declaration:
//
//  1. The table's Definition is read from the home shard's catalogs
//     (definition.go) and judged against the directory (judge.go): a declaration
//     that cannot be right is refused before anything has happened.
//  2. The directory gets the table in state Declaring, and every proxy holds
//     back the statements that name it.
//  3. Under an ACCESS EXCLUSIVE lock the table's whole Definition is made on
//     the other shards and its rows are split among them (split.go).
//  4. The home shard's COMMIT decides: recovery undoes a declaration that has not
//     committed, and otherwise repeats the steps after COMMIT until they are done
//     (job.go lists what recovery finds after each step).
//
// The first declaration brings objects that belong to no table (types, functions,
// roles) to the other shards (belong.go, right.go). Diff reports where shards differ
// from home.
//
// A Mover starts goroutines only inside its calls and waits for them. Nothing
// here parses what clients wrote: names arrive resolved.
//
// Start reading at Mover, then Definition.
package schema
