package directory

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"weft/vindex"
)

// A cluster can be given more buckets. Each one becomes several on the same shard, because the
// bucket of a keyspace ID is its top bits: no row moves, and proxies that know of it and proxies that
// do not send statements to the same shards.
//
//	4096 buckets     b                      own buckets 4096, 4097, …
//	8192 buckets     2b, 2b+1               own buckets 8192, 8193, …
//
// What names a bucket and is not in the snapshot keeps the number that it was given: see Numbering for
// entries of lookups, RoutedIDs.Buckets for ids, Vindex.Buckets for zones.

// ErrBucketCount is wrapped by the error of Grow for a number that the cluster cannot have.
var ErrBucketCount = errors.New("not a number of buckets that the cluster can grow to")

// Grow gives the cluster n buckets. No job may be running. s must be a Clone.
func Grow(s *Snapshot, n int) error {
	old := s.BucketCount
	if n <= old || n > MaxBucketCount || n%old != 0 || bits.OnesCount(uint(n)) != 1 {
		return fmt.Errorf("%d: %w: it has %d", n, ErrBucketCount, old)
	}
	if len(s.Moves) > 0 {
		return fmt.Errorf("job %s runs", s.Moves[0].ID)
	}
	for i := range s.Tables {
		if err := s.Tables[i].KeepNumbers(old); err != nil {
			return err
		}
	}
	for i := range s.Functions {
		t := s.Functions[i].Table()
		if err := t.KeepNumbers(old); err != nil {
			return err
		}
		s.Functions[i].Vindex.Buckets = t.Vindex.Buckets
	}
	s.eachPlacement(func(p []uint16) []uint16 { return widen(p, old, n) })
	s.Isolated = cloneIsolated(s.Isolated)
	for _, own := range s.Isolated {
		renumber(own, old, n)
	}
	for i := range s.Pins {
		p := &s.Pins[i]
		p.First, p.Last = p.First*(n/old), (p.Last+1)*(n/old)-1
	}
	if s.FirstBuckets == 0 {
		s.FirstBuckets = old
	}
	s.BucketCount = n
	for _, db := range s.Databases() {
		s.remap(db)
	}
	return nil
}

// KeepNumbers makes the numbers of buckets in a declaration refer to a count for ever, if there are any.
func (t *Table) KeepNumbers(buckets int) error {
	if t.IDs.Column != "" && t.IDs.Buckets == 0 {
		t.IDs.Buckets = buckets
	}
	if t.Kind != Sharded || t.Vindex.Buckets != 0 {
		return nil
	}
	v, err := t.NewVindex(buckets)
	if err != nil {
		return fmt.Errorf("%s: %w", t.place(), err)
	}
	if vindex.HasZones(v) {
		t.Vindex.Buckets = buckets
	}
	return nil
}

// widen returns a placement of old buckets as one of n.
func widen(p []uint16, old, n int) []uint16 {
	out := make([]uint16, 0, n+len(p)-old)
	for _, at := range p[:old] {
		for range n / old {
			out = append(out, at)
		}
	}
	return append(out, p[old:]...)
}

// renumber gives own buckets the numbers that they have beside n buckets instead of old.
func renumber(own map[vindex.ID]int, old, n int) {
	for id := range own {
		own[id] += n - old
	}
}

// grown returns a snapshot that For has made as one of at least n buckets, for comparing it with another.
func grown(s *Snapshot, n int) *Snapshot {
	if s.BucketCount >= n {
		return s
	}
	c, old := *s, s.BucketCount
	c.BucketCount, c.Placement, c.own = n, widen(s.Placement, old, n), maps.Clone(s.own)
	renumber(c.own, old, n)
	if s.common != nil {
		c.common = widen(s.common, old, n)
	}
	c.groups = clonePlacements(s.groups)
	for group, p := range c.groups {
		c.groups[group] = widen(p, old, n)
	}
	return &c
}

// validateGrown reports what makes s another change of old than Grow.
func validateGrown(s, old *Snapshot, bad func(place, format string, args ...any)) {
	want := old.Clone()
	if err := Grow(want, s.BucketCount); err != nil {
		bad("bucket_count", "is %d and cannot become %d: %v", old.BucketCount, s.BucketCount, err)
		return
	}
	a, err1 := want.encodeHead(nil)
	b, err2 := s.encodeHead(nil)
	same := err1 == nil && err2 == nil && bytes.Equal(a, b) && slices.Equal(want.Placement, s.Placement) &&
		maps.EqualFunc(want.Placements, s.Placements, slices.Equal[[]uint16]) && maps.EqualFunc(want.Targets, s.Targets, slices.Equal[[]uint16]) &&
		slices.EqualFunc(want.Tables, s.Tables, func(x, y Table) bool { return x.Equal(&y) })
	if !same {
		bad("bucket_count", "is %d, and weft.grow_buckets(%d) makes more of them, without any other change", old.BucketCount, s.BucketCount)
	}
}

// Numbering relates the numbers of a cluster's buckets with those that entries of lookups have. Entries
// are many and lie outside the snapshot, in the store and on shards, so they keep the numbers of the
// buckets that the cluster was created with, and of own buckets behind those.
type Numbering struct {
	First int // how many buckets the cluster was created with
	Count int // how many it has
}

// NumberingOf returns the numbering of a snapshot.
func NumberingOf(s *Snapshot) Numbering {
	if s.FirstBuckets == 0 {
		return Numbering{s.BucketCount, s.BucketCount}
	}
	return Numbering{s.FirstBuckets, s.BucketCount}
}

// parts is how many buckets have become of each.
func (n Numbering) parts() int { return n.Count / n.First }

// Default returns the number that the entry of a value without a bucket of its own has.
func (n Numbering) Default(id vindex.ID) int { return id.Bucket(bits.Len(uint(n.First)) - 1) }

// Own returns the number that the entry of a value with a bucket of its own has.
func (n Numbering) Own(bucket int) int { return bucket - n.Count + n.First }

// IsOwn reports whether an entry with that number gives its value a bucket of its own.
func (n Numbering) IsOwn(number int) bool { return number >= n.First }

// Bucket returns the bucket of a value whose entry has that number, -1 if the entry is unusable: it
// says that the value is in a bucket with others, and id, which its hash is, says another.
func (n Numbering) Bucket(number int, id vindex.ID) int {
	switch {
	case number < 0:
		return -1
	case n.IsOwn(number):
		return number - n.First + n.Count
	case n.First == n.Count:
		return number
	case n.Default(id) != number:
		return -1
	}
	return id.Bucket(bits.Len(uint(n.Count)) - 1)
}

// OfEntry returns the bucket that the entry of a lookup table is in whose value has a keyspace ID.
func (n Numbering) OfEntry(id vindex.ID) int { return n.Noted(n.Default(id)) }

// Noted returns the bucket of an entry of a lookup table that shards number so: the first of those
// that their bucket has become.
func (n Numbering) Noted(number int) int { return number * n.parts() }

// Grown returns what has become of buckets of the time when the cluster had count.
func (n Numbering) Grown(buckets []int, count int) []int {
	if count == n.Count {
		return buckets
	}
	var out []int
	for _, b := range buckets {
		if b >= count {
			out = append(out, b-count+n.Count)
			continue
		}
		for i := range n.Count / count {
			out = append(out, b*(n.Count/count)+i)
		}
	}
	return out
}
