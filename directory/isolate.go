package directory

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"weft/vindex"
)

// A keyspace ID has the bucket that its top bits are the number of, unless rows with that ID are
// isolated: then they have a bucket of their own beyond BucketCount, which goes from shard to shard like
// any other. BucketOf is the mapping in Go, BucketSQL the same on a shard. What is no row of a
// sharded table goes by TopBucket: entries of lookup tables, values of lookup vindexes without a
// bucket of their own, and routed ids, which name a bucket for ever.

// MaxIsolated bounds the isolated values of a database: shards compare the ID of each row that they
// count or carry with all of them.
const MaxIsolated = 1024

// BucketOf returns the bucket of the rows with a keyspace ID. s is what For returns for their
// database.
func (s *Snapshot) BucketOf(id vindex.ID) int {
	if len(s.own) > 0 {
		if b, ok := s.own[id]; ok {
			return b
		}
	}
	return s.TopBucket(id)
}

// TopBucket returns the bucket that the top bits of a keyspace ID are the number of.
func (s *Snapshot) TopBucket(id vindex.ID) int {
	return id.Bucket(bits.Len(uint(s.BucketCount)) - 1)
}

// AppendIsolated appends to dst the buckets of isolated rows whose keyspace IDs are in a range. s is
// what For returns for their database.
func (s *Snapshot) AppendIsolated(dst []int, r vindex.Range) []int {
	for id, b := range s.own {
		if id >= r.First && id <= r.Last {
			dst = append(dst, b)
		}
	}
	return dst
}

// BucketSQL returns the expression for BucketOf the rows of a table, of type int8, as
// vindex.BucketSQL does for TopBucket. s is what For returns for the table's database.
func (s *Snapshot) BucketSQL(v vindex.Computed, columns []string) (string, error) {
	top, err := vindex.BucketSQL(v, columns, s.BucketCount)
	if err != nil || len(s.own) == 0 {
		return top, err
	}
	var b strings.Builder
	b.WriteString("CASE " + v.SQL(columns))
	for _, id := range slices.Sorted(maps.Keys(s.own)) { // in order: an index is found by the text of its expression
		fmt.Fprintf(&b, " WHEN '%d'::int8 THEN %d::int8", int64(id), s.own[id])
	}
	b.WriteString(" ELSE " + top + " END")
	return b.String(), nil
}

// Isolate gives the rows of a database with a keyspace ID a bucket of their own, on the shard where
// they are, and returns the bucket: the one they have if they are isolated already.
func (s *Snapshot) Isolate(database string, id vindex.ID) (int, error) {
	if b, ok := s.Isolated[database][id]; ok {
		return b, nil
	}
	if len(s.Isolated[database]) >= MaxIsolated {
		return 0, fmt.Errorf("there are %d isolated values in the database already", MaxIsolated)
	}
	top := s.TopBucket(id)
	b, err := s.addBucket(func(p []uint16) uint16 { return p[top] })
	if err != nil {
		return 0, err
	}
	if s.Isolated == nil {
		s.Isolated = map[string]map[vindex.ID]int{}
	}
	if s.Isolated[database] == nil {
		s.Isolated[database] = map[vindex.ID]int{}
	}
	s.Isolated[database][id] = b
	s.remap(database)
	return b, nil
}

// remap notes that values of a database have other buckets than before. s is a change of the
// snapshot with its Version.
func (s *Snapshot) remap(database string) {
	if s.Remapped == nil {
		s.Remapped = map[string]int64{}
	}
	s.Remapped[database] = s.Version + 1
}

// addBucket adds a bucket beyond BucketCount to all placements. at says where, by the placement of
// the moment. No job moves the bucket.
func (s *Snapshot) addBucket(at func(now []uint16) uint16) (int, error) {
	b := len(s.Placement)
	if i := slices.Index(s.Placement[s.BucketCount:], Unused); i >= 0 {
		b = s.BucketCount + i
	} else if b >= s.BucketCount+MaxPinned {
		return 0, fmt.Errorf("there are %d pinned and isolated values already", MaxPinned)
	}
	put := func(p []uint16, to uint16) []uint16 {
		if b == len(p) {
			return append(p, to)
		}
		p[b] = to
		return p
	}
	for id, p := range s.Targets {
		now := s.Placement
		if m := s.FindMove(id); m != nil {
			now = s.PlacementOf(m.Database, m.Group)
		}
		s.Targets[id] = put(p, at(now))
	}
	for key, p := range s.Placements {
		s.Placements[key] = put(p, at(p))
	}
	s.Placement = put(s.Placement, at(s.Placement))
	return b, nil
}

// cloneIsolated returns a copy of a map of isolated values and of its maps.
func cloneIsolated(m map[string]map[vindex.ID]int) map[string]map[vindex.ID]int {
	c := maps.Clone(m)
	for db, own := range c {
		c[db] = maps.Clone(own)
	}
	return c
}

// validateIsolated checks that each isolated value has a bucket that no other has.
func (s *Snapshot) validateIsolated(bad func(place, format string, args ...any)) {
	taken := map[int]bool{}
	for _, db := range slices.Sorted(maps.Keys(s.Isolated)) {
		place := "isolated[" + db + "]"
		if n := len(s.Isolated[db]); n > MaxIsolated {
			bad(place, "has %d values, more than %d", n, MaxIsolated)
		}
		for _, id := range slices.Sorted(maps.Keys(s.Isolated[db])) {
			b := s.Isolated[db][id]
			if b < s.BucketCount || b >= len(s.Placement) || s.Placement[b] == Unused || taken[b] {
				bad(place, "keyspace ID %d cannot have bucket %d, which does not exist, is not for one value or is another's", id, b)
				return
			}
			taken[b] = true
		}
	}
}

// validateRemapped refuses another bucket for isolated rows of a database if it is on another shard:
// the rows are where the old one was.
func (s *Snapshot) validateRemapped(old *Snapshot, t *Table, from, to []uint16, bad func(place, format string, args ...any)) bool {
	was, is := old.For(t.Database), s.For(t.Database)
	for _, m := range []map[vindex.ID]int{was.own, is.own} {
		for id := range m {
			a, b := was.BucketOf(id), is.BucketOf(id)
			if x, y := old.nameOf(from, a), s.nameOf(to, b); a != b && x != y {
				bad("isolated["+t.Database+"]", "rows with keyspace ID %d would move from %s to %s, and no job has carried those of %s", id, x, y, t.title())
				return false
			}
		}
	}
	return true
}
