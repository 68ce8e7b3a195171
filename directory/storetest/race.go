//go:build race

package storetest

// manyEntries and manyTables are less than what must work: the race detector makes etcd's
// server twenty times slower.
const (
	manyEntries = 6_000
	manyTables  = 2_000
)
