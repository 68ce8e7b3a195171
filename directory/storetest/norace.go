//go:build !race

package storetest

const (
	manyEntries = 100_000
	manyTables  = 10_000
)
