package executor

import (
	"iter"
	"math/bits"

	"weft/directory"
	"weft/vindex"
)

// Shards are the shards an execution visits, as indexes into Snapshot.Shards. The value is valid
// until the Binder's next Bind.
type Shards struct {
	first int
	count int
	set   []uint64 // bit set of shards, if count is not 1
	any   bool

	// Missing are the lookup entries that have to be made before rows are
	// stored, without duplicates.
	Missing []Missing
}

// Missing is an entry that a lookup does not have yet. If another proxy has made the entry
// meanwhile, Bind has to be called again with a snapshot that knows the entry, because its bucket
// may be another.
type Missing struct {
	Lookup string // the name that the lookup's entries are kept under
	Key    []byte // the value's canonical spelling
	// Default is the keyspace ID whose bucket the value goes to by default.
	Default vindex.ID
}

// One returns the shard if there is exactly one.
func (s Shards) One() (shard int, ok bool) { return s.first, s.count == 1 }

// Len returns the number of shards, at least one.
func (s Shards) Len() int { return s.count }

// Any reports whether the one shard was chosen freely: no row of a sharded table can be touched,
// and every other shard gives the same answer.
func (s Shards) Any() bool { return s.any }

// Has reports whether a shard is visited.
func (s Shards) Has(shard int) bool {
	if s.count == 1 {
		return shard == s.first
	}
	return shard>>6 < len(s.set) && s.set[shard>>6]&(1<<(shard&63)) != 0
}

// All yields the shards in the order of the snapshot.
func (s Shards) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		if s.count == 1 {
			yield(s.first)
			return
		}
		for i, word := range s.set {
			for ; word != 0; word &= word - 1 {
				if !yield(i<<6 + bits.TrailingZeros64(word)) {
					return
				}
			}
		}
	}
}

// collection gathers shards. Most statements visit one shard, so the set is made when a second
// shard comes.
type collection struct {
	first, count, total int
	set                 []uint64
}

func (c *collection) reset(snap *directory.Snapshot) {
	c.first, c.count, c.total = 0, 0, len(snap.Shards)
}

func (c *collection) add(shard int) {
	switch {
	case c.count == 0:
		c.first, c.count = shard, 1
		return
	case c.count == 1:
		if c.first == shard {
			return
		}
		c.clear()
		c.set[c.first>>6] |= 1 << (c.first & 63)
	}
	if word, bit := &c.set[shard>>6], uint64(1)<<(shard&63); *word&bit == 0 {
		*word |= bit
		c.count++
	}
}

// clear makes set an empty set of total bits.
func (c *collection) clear() {
	n := (c.total + 63) >> 6
	if cap(c.set) < n {
		c.set = make([]uint64, n)
	}
	c.set = c.set[:n]
	clear(c.set)
}

// addAll adds every shard.
func (c *collection) addAll() {
	if c.full() {
		return
	}
	if c.total == 1 {
		c.first, c.count = 0, 1
		return
	}
	c.clear()
	for i := range c.set {
		c.set[i] = ^uint64(0)
	}
	if rest := c.total & 63; rest != 0 {
		c.set[len(c.set)-1] = 1<<rest - 1
	}
	c.count = c.total
}

func (c *collection) full() bool { return c.count == c.total }
