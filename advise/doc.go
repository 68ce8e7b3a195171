// Package advise finds out which shard key fits an application, from the statements that the
// application runs.
//
//	weft.statements, pg_stat_statements, a log ──Statement──┐
//	weft.recorded() ──recording.Transaction─────────────────┼──▶ New ──▶ Advice ──▶ cmd/weft
//	pg_stats, schema, declarations ─────────────────────────┘
//
// The way to an Advice:
//
//  1. Each statement is looked at (look): which columns it compares with values, and with which
//     columns of other tables.
//  2. Columns that hold the same values become a domain (domains): by foreign keys, by joins, by a
//     parameter that is compared with both, by equal values in recorded transactions, by their names. A
//     domain that enough of the work compares with something is a candidate.
//  3. For each candidate all tables are declared in thought (declare): those that have the domain are
//     sharded by it, small ones that are seldom written become reference tables, the rest stays home.
//  4. weft's own planner plans all statements under these declarations (simulate). What it says is
//     counted: statements of one shard, scattered, refused, transactions of several shards, work by
//     shard. Values decide where rows are: those of a recording, or else as the statistics of
//     columns say they are spread.
//  5. Candidates are ranked by how many times the work of one server the shards could do, with checks
//     of what makes a key a good one, and the SQL to run.
//
// The package is pure: no clock, no I/O; the same input gives the same advice.
//
// Start reading at New.
package advise
