// Package move tries what clients see while rows change shards: every count exact, no write lost,
// none twice, nobody held for long.
package move
