// Package vindex says where a row lives, from the values of its key columns.
//
//	datum.Key … ──vindex──▶ keyspace ID ──top bits──▶ bucket ──directory──▶ shard
//	                   └──▶ lookup Request, which the executor resolves
//
// A vindex is declared once per table and is then a pure function: the keyspace
// ID of a key never changes, whatever happens to shards and buckets.
//
//  1. New makes one from a Declaration, or says what is wrong with it and where.
//  2. An INSERT asks a Computed vindex for the ID of its row's whole key, a
//     SELECT for the Ranges in which rows may live whose leading columns it
//     knows.
//  3. A Lookup gives a Request instead: a canonical key, and where the value
//     goes when nobody has placed it yet.
//
// Each Computed vindex is defined by a SQL expression that gives the same ID on
// a shard, built from nothing but what publications accept in a row filter. So
// a bucket can be counted, copied, verified and deleted with plain SQL.
//
// NULL has a place, because nullable key columns are common: wherever a
// column's bits are wanted, NULL gives zeros.
//
// One file per kind, and one line each in the table of registry.go. Start
// reading there, then hash.go and composite.go.
package vindex
