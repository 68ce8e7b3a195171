// Package selects asks weft over 1, 2, 4 and 5 uneven shards, and one unsharded
// PostgreSQL, the same reads, and compares all that a client sees.
//
//	testdata/*.sql ─┐                  ┌──▶ PostgreSQL, twice: as loaded, and
//	generator ──────┴──▶ world.judge ──┤    with every table's rows the other
//	      ▲                  │         │    way round
//	      └─── shrinker ◀────┘         └──▶ weft ──▶ 1, 2, 4 or 5 shards
//
// A world (world_test.go) is one cluster, one collation and the tables of
// testdata/schema.sql. The life of a statement in it:
//
//  1. A script has it (@route: must be answered, @error: must fail, @maybe: may
//     be refused), or the generator makes it up from a seed.
//  2. Both answer it, in one of pair.Modes.
//  3. judge compares. Rows without ORDER BY are a multiset; with it, rows that tie
//     may change places, which ties_test.go finds out from PostgreSQL itself. If
//     the second PostgreSQL, whose rows lie differently, or the first with other
//     plans does not agree with the first either, then the statement has no single
//     answer and counts as loose.
//  4. A mismatch is made smaller (shrink_test.go) as long as it remains one and printed with its seed. It
//     then belongs into testdata/found.sql.
//
// Refusals (0A000) are counted by their message; the generator fails if there are
// more than a small share. `make selectfuzz SELECTTIME=1h` goes on for an hour. Start
// reading at TestScripts and TestRandom.
package selects
