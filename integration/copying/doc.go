// Package copying gives weft with four shards and one PostgreSQL the same COPY
// commands and the same data, and compares what the client sees, errors with their
// CONTEXT included, and all tables afterwards.
//
//	cases, generator ──▶ both ──┬──▶ PostgreSQL ─┐
//	                            └──▶ weft ───────┴──▶ tag, error, rows by shard
//
// Start reading at both in world_test.go. TestRandom makes tables (shape_test.go), options and
// data (data_test.go) up, and speaks the protocol itself (dialogue_test.go): data comes in
// messages of any size and ends in every way there is. make copyfuzz goes on with that for
// minutes.
package copying
