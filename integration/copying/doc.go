// Package copying gives weft with four shards and one PostgreSQL the same COPY
// commands and the same data, and compares what the client sees, errors with their
// CONTEXT included, and all tables afterwards.
//
//	cases, generator ──▶ both ──┬──▶ PostgreSQL ─┐
//	                            └──▶ weft ───────┴──▶ tag, error, rows by shard
//
// Start reading at both in copying_test.go.
package copying
