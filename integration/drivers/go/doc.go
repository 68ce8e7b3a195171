// Command suite is a small shop written once for each Go driver and ORM:
//
//	suite pgx      pgx, its own interface
//	suite pgxpool  pgx's pool
//	suite stdlib   pgx under database/sql
//	suite pq       lib/pq under database/sql
//	suite gorm     GORM
//	suite bun      bun
//
// Customers, orders and items are sharded by customer, products are on every shard, users are
// found by email through a lookup: schema.go. Each check is a function that does something and
// returns what it saw; the runner compares that with what the same check saw on PostgreSQL.
// Start reading at report in report.go, then pgx.go.
//
// This is a module of its own, so that weft itself does not depend on what it is tried with.
package main
