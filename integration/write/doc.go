// Package writes makes random transactions on weft with four shards and on one
// unsharded PostgreSQL, compares every answer, and after that every table: with
// the rows on the shards, past weft.
//
//	generator ──▶ transaction ──▶ weft, then PostgreSQL ──▶ tags, rows, SQLSTATEs
//	                                                    └──▶ pair.SameTables
//
// Each seed is one history: a few dozen transactions of one to six statements,
// alone or in a block with savepoints, over tables of every kind (generate_test.go).
// A statement that weft refuses (0A000) is undone on weft and not asked of
// PostgreSQL; refusals are counted by their message, and there may be few. `make writefuzz
// WRITETIME=1h` goes on for an hour. Start reading at TestRandom.
package writes
