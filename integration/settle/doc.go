// Package settle commits over two shards while their primaries are replaced: what a client was told is there when it reads again, and no shard has
// half of a transaction.
package settle
