// Package gather gives queries that several shards answer their bad days: a shard
// is lost in the middle of them, they are cancelled, time out, become too large;
// their client goes away or reads nothing; the pool is too small. Each time the
// client must hear one error that says so, the session must go on with right
// answers, and nothing may stay behind: no temporary table, no backend that is
// still at work, no connection that is not given back.
//
// It also holds what such queries owe to transactions and roles: one snapshot of
// each shard, isolation levels, own writes, now(), rights, row-level security.
//
//	test ──▶ world ──▶ weft in this process ──▶ three shards
//	           └────────────── direct ──────────────┘
//
// Start reading at world_test.go.
package gather
