package proxy

import "slices"

// rounds are the pieces of a gathered query that each shard is asked for, in one round or in
// two. A piece that waits for the keys of another is in the second round: see secondRound.
//
// No piece is in both rounds of a shard, and the pieces of a shard ascend.
type rounds struct {
	// first are the pieces of the first round, by shard.
	first [][]int
	// later are the pieces of the second round, by shard; nil if there is no second round.
	later [][]int
	// expected: a run of the query would have a second round. An EXPLAIN without ANALYZE shows
	// such a round, but does not run it.
	expected bool
	// sent are the keys that pieces were sent with, by piece, for EXPLAIN ANALYZE.
	sent map[int]keySet
}

// keySet is a parameter with the keys of another piece.
type keySet struct {
	value []byte
	typ   uint32
}

// begin forgets which shards are visited in the first round.
func (o *rounds) begin(shards int) { o.first = make([][]int, shards) }

// visit has a shard asked for a piece in the first round.
func (o *rounds) visit(shard, piece int) { o.first[shard] = append(o.first[shard], piece) }

// visited is the number of shards that are visited in the first round.
func (o *rounds) visited() int {
	n := 0
	for _, pieces := range o.first {
		if len(pieces) > 0 {
			n++
		}
	}
	return n
}

// shards are the shards that are asked in either round.
func (o *rounds) shards() []int {
	var out []int
	for shard, pieces := range o.first {
		if len(pieces) > 0 || o.again(shard) {
			out = append(out, shard)
		}
	}
	return out
}

// postpone moves the pieces that wait from the first round to the second.
func (o *rounds) postpone(waits func(piece int) bool) {
	o.later = make([][]int, len(o.first))
	for shard, pieces := range o.first {
		for _, i := range pieces {
			if waits(i) {
				o.later[shard] = append(o.later[shard], i)
			}
		}
		o.first[shard] = slices.DeleteFunc(pieces, waits)
	}
}

// again reports whether a shard is asked in the second round.
func (o *rounds) again(shard int) bool { return o.later != nil && len(o.later[shard]) > 0 }

// all returns the pieces that each shard is asked for, in both rounds.
func (o *rounds) all() [][]int {
	out := make([][]int, len(o.first))
	for shard := range o.first {
		out[shard] = slices.Clone(o.first[shard])
		if o.later != nil {
			out[shard] = append(out[shard], o.later[shard]...)
			slices.Sort(out[shard])
		}
	}
	return out
}

// noteKeys remembers the keys that a piece is sent with.
func (o *rounds) noteKeys(piece int, keys keySet) {
	if o.sent == nil {
		o.sent = map[int]keySet{}
	}
	o.sent[piece] = keys
}
