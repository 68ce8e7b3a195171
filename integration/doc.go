// Package integration holds the tests that look at weft from outside.
//
//	integration/*_test.go   scenarios: drivers, psql, pg_dump, pgbench, crashes, limits
//	integration/wire        scripted dialogues, message by message
//	integration/routing     sharded tables beside unsharded ones, by script and at random
//	integration/harness     the servers both of them talk to
//
// Most scenarios run twice: against a plain PostgreSQL, so that the test itself
// is known to be right, and against weft, which must not be told apart from it.
// Start reading at harness.Target, then any scenario.
package integration
