// Package stream makes one result of the rows that several shards send, without
// PostgreSQL's help: it appends, merges by sort keys, groups, makes distinct and
// limits rows.
//
//	shard ──DataRow bodies──▶ Rows ─┐
//	shard ──────────────────▶ Rows ─┼─▶ Merge, Group, … ─▶ Rows ─▶ client
//	shard ──────────────────▶ Rows ─┘
//
// A row is the body of a DataRow message. Operators read values in place, in the
// format they have, and pass them on unchanged. An operator is a Rows made from other
// Rows:
//
//  1. The owner of the connections makes a Rows of each shard's answer.
//  2. Merge or Append makes one Rows of them; Group, Distinct, Cut and Limit go on
//     from there.
//  3. Each Next pulls as many rows through as it needs, on the caller's goroutine.
//     The package starts no goroutine and does no I/O except through the parts.
//
// The package does only what provably gives PostgreSQL's answer. CompareBinary,
// CanGroup and CanDistinct report false if a type's order or equality is not in its
// bytes; PostgreSQL then does the work. Tests compare what they allow with a real
// server.
//
// Append, Merge, Cut and Limit keep one row per part, in the part's own memory.
// GroupSorted keeps one group. Group and Distinct keep what they gathered, up to a
// limit in bytes.
//
// Start reading at Rows, then merge.go and group.go.
package stream
