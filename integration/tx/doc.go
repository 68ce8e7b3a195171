// Package tx tests transactions of several shards where time matters: deadlocks
// over shards, reads that see all of a transaction or nothing, timeouts, clients
// that go in the middle. What can be compared with one PostgreSQL statement by
// statement is in integration/routing (testdata/tx_*.sql).
//
// TestPoints lets things happen at each point of a commit, TestStress at any moment of
// any write; `make stress` goes on for longer.
//
// There is one database per test, with an account table on three shards. Start
// reading at world_test.go.
package tx
