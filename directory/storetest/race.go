//go:build race

package storetest

// manyEntries is less than what must work: the race detector makes etcd's
// server twenty times slower.
const manyEntries = 10_000
