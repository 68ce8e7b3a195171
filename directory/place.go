package directory

import (
	"cmp"
	"container/heap"
	"hash/fnv"
	"math/bits"
	"slices"
)

// Unused is the placement of a bucket beyond BucketCount that belonged to a pinned value and is
// free now.
const Unused = 1<<16 - 1

// Pin keeps a range of buckets on one shard, whatever the shard's weight.
type Pin struct {
	First int    `json:"first"`
	Last  int    `json:"last"` // included
	Shard string `json:"shard"`
}

// SetShards gives s other shards, weights and pins, and moves as few buckets as possible:
//
//   - A pinned bucket is on its shard.
//   - Each shard holds its quota (see quotas), pinned buckets included. Quotas
//     are such that when a shard joins, no other shard gains a bucket, and when
//     a shard leaves, only the buckets of that shard move.
//   - A shard over its quota gives up the buckets it scores lowest.
//   - Each bucket without a shard, in the order of mix(bucket), goes to the
//     shard that scores highest among the shards below their quota.
//
// The score is that of weighted rendezvous hashing, weight / -log2(u), where u
// in (0, 1] is made from mix(fnv1a(name) ^ mix(bucket)). The score, mix and
// fixedLog must never change: proxies that read a snapshot from before placements
// were stored compute the placement, each for itself.
func (s *Snapshot) SetShards(shards []Shard, pins []Pin) {
	old := *s
	s.Shards, s.Pins = shards, pins
	defer s.keepPlaces(&old)
	switch n := s.BucketCount; {
	case n < 0 || n > MaxBucketCount || len(shards) > MaxShards:
		return // Validate reports a number that is out of range
	case len(old.Placement) >= n && sameShares(&old, s):
		return // keeps explicit moves, if there were any
	}
	p, index := newPlacer(shards)
	s.Placement = make([]uint16, max(s.BucketCount, len(old.Placement)))
	for b := range s.Placement {
		s.Placement[b] = Unused
		if b < len(old.Placement) && int(old.Placement[b]) < len(old.Shards) {
			if i, ok := index[old.Shards[old.Placement[b]].Name]; ok {
				s.Placement[b] = i
			}
		}
	}
	// The bucket of a pinned value counts towards no quota. If its shard is gone, the bucket goes
	// to the shard that scores highest.
	for b := s.BucketCount; b < len(s.Placement); b++ {
		if s.Placement[b] == Unused && old.Placement[b] != Unused {
			s.Placement[b] = p.best(b, func(int) bool { return true })
		}
	}
	p.release(s.Placement[s.BucketCount:], s.BucketCount)
	p.place(s.Placement[:s.BucketCount], pins, index)
}

// Balanced returns a placement in which each shard holds its quota, and that differs from a given
// one by as few buckets as possible.
func (s *Snapshot) Balanced(from []uint16) []uint16 {
	to := slices.Clone(from)
	p, index := newPlacer(s.Shards)
	p.release(to[s.BucketCount:], s.BucketCount)
	p.place(to[:s.BucketCount], s.Pins, index)
	return to
}

// newPlacer returns a placer, and the indexes of shards by name. A shard that is being drained
// counts as one of weight 0.
func newPlacer(shards []Shard) (*placer, map[string]uint16) {
	p := &placer{shards: slices.Clone(shards), keys: make([]uint64, len(shards)), held: make([]int, len(shards))}
	index := make(map[string]uint16, len(shards))
	for i := range shards {
		h := fnv.New64a()
		h.Write([]byte(shards[i].Name))
		p.keys[i] = h.Sum64()
		index[shards[i].Name] = uint16(i)
		if shards[i].State == ShardDraining {
			p.shards[i].Weight = 0
		}
	}
	return p, index
}

// release takes the buckets of pinned values off shards that are being drained. first is the
// number of the first bucket.
func (p *placer) release(buckets []uint16, first int) {
	for i, at := range buckets {
		if at != Unused && int(at) < len(p.shards) && p.shards[at].State == ShardDraining {
			buckets[i] = p.best(first+i, func(i int) bool { return p.shards[i].State != ShardDraining })
		}
	}
}

// sameShares reports whether shards, weights and pins are the same, in the same order.
func sameShares(a, b *Snapshot) bool {
	return slices.Equal(a.Pins, b.Pins) && slices.EqualFunc(a.Shards, b.Shards, func(x, y Shard) bool {
		return x.Name == y.Name && x.Weight == y.Weight && (x.State == ShardDraining) == (y.State == ShardDraining)
	})
}

// placer is the state of SetShards. Its slices are indexed by shard.
type placer struct {
	shards []Shard
	keys   []uint64 // fnv1a of the name
	held   []int    // number of buckets so far
}

// place assigns shards to buckets, which holds their present placement.
func (p *placer) place(buckets []uint16, pins []Pin, index map[string]uint16) {
	pinned := make([]bool, len(buckets))
	for _, pin := range pins {
		i, ok := index[pin.Shard]
		for b := max(0, pin.First); ok && b <= min(pin.Last, len(buckets)-1); b++ {
			pinned[b] = true
			buckets[b] = i
		}
	}
	for b, i := range buckets {
		if pinned[b] {
			p.held[i]++
		}
	}
	quota := quotas(p.shards, p.held, len(buckets))
	mine := make([][]int, len(p.shards)) // unpinned buckets of each shard
	var homeless []int
	for b, i := range buckets {
		switch {
		case pinned[b]:
		case i == Unused:
			homeless = append(homeless, b)
		default:
			mine[i] = append(mine[i], b)
			p.held[i]++
		}
	}
	for i := range mine {
		over := p.held[i] - quota[i]
		if over <= 0 {
			continue
		}
		p.sort(mine[i], func(b int) uint64 { return p.distance(b, i) })
		keep := len(mine[i]) - over
		homeless = append(homeless, mine[i][keep:]...)
		p.held[i] = quota[i]
	}
	p.sort(homeless, func(b int) uint64 { return mix(uint64(b)) })
	for _, b := range homeless {
		i := p.best(b, func(i int) bool { return p.held[i] < quota[i] })
		buckets[b] = i
		if i != Unused { // Unused only if there is no shard at all
			p.held[i]++
		}
	}
}

// sort orders buckets by key, which it computes once for each bucket.
func (p *placer) sort(buckets []int, key func(bucket int) uint64) {
	type keyed struct {
		key    uint64
		bucket int
	}
	all := make([]keyed, len(buckets))
	for i, b := range buckets {
		all[i] = keyed{key(b), b}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.bucket, b.bucket))
	})
	for i := range all {
		buckets[i] = all[i].bucket
	}
}

// best returns the shard that scores highest for a bucket among the open ones, or Unused if none
// is open. Shards of weight 0 come last.
func (p *placer) best(bucket int, open func(i int) bool) uint16 {
	best, at := -1, uint64(0)
	for i := range p.shards {
		if !open(i) {
			continue
		}
		d := p.distance(bucket, i)
		if best >= 0 {
			// Compares weight/d without dividing.
			a, b := uint64(p.shards[i].Weight)*at, uint64(p.shards[best].Weight)*d
			if a < b || a == b && p.shards[i].Name >= p.shards[best].Name {
				continue
			}
		}
		best, at = i, d
	}
	if best < 0 {
		return Unused
	}
	return uint16(best)
}

// distance is -log2(u) of a bucket and a shard; never 0.
func (p *placer) distance(bucket, i int) uint64 {
	return fixedLog(mix(p.keys[i] ^ mix(uint64(bucket))))
}

// mix is the finalizer of splitmix64: a bijection that spreads every bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fixedLog returns -log2((h+1)/2^64) in units of 2^-24, at least 1. It uses integers, because
// floating point may round differently on another machine.
func fixedLog(h uint64) uint64 {
	h |= 1 // instead of +1, which could overflow
	zeros := bits.LeadingZeros64(h)
	m := h << zeros // in [1, 2) with 63 bits behind the point
	var frac uint64
	for range 24 {
		// The square is in [1, 4): the upper bit of its whole part is the next bit of the
		// logarithm.
		hi, _ := bits.Mul64(m, m) // 62 bits behind the point
		bit := hi >> 63
		frac = frac<<1 | bit
		m = hi << (1 - bit)
	}
	return max(1, uint64(zeros+1)<<24-frac)
}

// quotas returns how many of count buckets each shard is to hold, including held,
// the buckets that pins give it. One bucket after the other is given to the shard
// that is furthest below its share: the largest weight/(2n+1), where n is how many
// it has, and among equals the first by name. (Elections know this as Sainte-Laguë.)
// Equal weights give shares that differ by one at most; others are proportional
// and rounded. Since the order in which two shards take their turns does not
// depend on a third, a quota never grows because another shard joins, and never
// shrinks because one leaves, which shares rounded in other ways can.
func quotas(shards []Shard, held []int, count int) []int {
	t := turns{shards: shards, has: slices.Clone(held)}
	for i := range shards {
		count -= held[i]
		if shards[i].Weight > 0 {
			t.queue = append(t.queue, i)
		}
	}
	if len(t.queue) == 0 { // all weights are 0, but some shard must hold the buckets
		t.equal = true
		for i := range shards {
			t.queue = append(t.queue, i)
		}
	}
	heap.Init(&t)
	for ; count > 0 && len(t.queue) > 0; count-- {
		t.has[t.queue[0]]++
		heap.Fix(&t, 0)
	}
	return t.has
}

// turns is a heap of shards. The first is the shard that takes the next bucket.
type turns struct {
	shards []Shard
	has    []int
	queue  []int
	equal  bool // count every weight as 1
}

func (t *turns) Len() int      { return len(t.queue) }
func (t *turns) Swap(i, j int) { t.queue[i], t.queue[j] = t.queue[j], t.queue[i] }
func (t *turns) Push(any)      { panic("directory: no shard takes part later") }
func (t *turns) Pop() any      { panic("directory: no shard drops out") }

func (t *turns) Less(i, j int) bool {
	a, b := t.queue[i], t.queue[j]
	wa, wb := t.shards[a].Weight, t.shards[b].Weight
	if t.equal {
		wa, wb = 1, 1
	}
	x, y := wa*(2*t.has[b]+1), wb*(2*t.has[a]+1)
	return x > y || x == y && t.shards[a].Name < t.shards[b].Name
}
