// Package stream makes one result of the rows that several shards send, without
// PostgreSQL's help: one after the other, merged by sort keys, grouped, distinct,
// cut off.
//
//	shard ──DataRow bodies──▶ Rows ─┐
//	shard ──────────────────▶ Rows ─┼─▶ Merge, Group, … ─▶ Rows ─▶ client
//	shard ──────────────────▶ Rows ─┘
//
// A row is the body of a DataRow message, and stays that: values are looked at
// where they lie, in the format they have, and go on as they came. An operator
// is a Rows made from others:
//
//  1. Whoever has the connections makes a Rows of each shard's answer.
//  2. Merge or Append makes one of them; Group, Distinct, Cut and Limit go on
//     from there.
//  3. Each Next pulls as many rows through as it needs, on the caller's
//     goroutine. There is no other, and no I/O but what the parts do.
//
// Only what is provably PostgreSQL's answer is done here. CompareBinary, CanGroup
// and CanDistinct say no wherever a type's order or equality is not in its
// bytes, and PostgreSQL does it instead. What they allow is held against a real
// server by the tests.
//
// Append, Merge, Cut and Limit keep one row per part, which is the part's own
// memory. GroupSorted keeps one group. Group and Distinct keep what they
// gathered, up to a limit in bytes.
//
// Start reading at Rows, then merge.go and group.go.
package stream
