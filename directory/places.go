package directory

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
)

// Places is where the buckets of all groups of a database are.
type Places struct{ s *Snapshot }

// PlacesIn returns the places by a snapshot that For has made.
func PlacesIn(s *Snapshot) Places { return Places{s} }

// Of returns where the buckets of a group's tables are. The result is read only.
func (p Places) Of(group string) []uint16 {
	s := p.s
	if group == "" {
		return s.Placement
	}
	if p, ok := s.groups[group]; ok {
		return p
	}
	if s.common != nil {
		return s.common
	}
	return s.Placement
}

// Same reports whether every bucket of every group is where an older snapshot has it, which For has made
// for the same database, and no shard has joined or left. The same bucket may have another number: see Grow.
func (p Places) Same(old *Snapshot) bool {
	n := max(p.s.BucketCount, old.BucketCount)
	p.s, old = grown(p.s, n), grown(old, n)
	return sameShards(p.s, old) && p.compare(old, func(p, q []uint16) bool { return slices.Equal(p, q) })
}

// Left reports whether some buckets of any group, or any bucket if none are given, are elsewhere than an older snapshot says,
// which For has made for the same database. A bucket that is new has no rows that were elsewhere, or is still where they
// are: no round carries it while transactions are open that are older. The buckets have the numbers of the newer snapshot.
func (p Places) Left(old *Snapshot, buckets []int) bool {
	old = grown(old, p.s.BucketCount)
	return !p.compare(old, func(is, was []uint16) bool {
		left := func(b int) bool {
			return b < len(was) && was[b] != Unused && (b >= len(is) || was[b] != is[b])
		}
		if buckets != nil {
			return !slices.ContainsFunc(buckets, left)
		}
		for b := range was {
			if left(b) {
				return false
			}
		}
		return true
	})
}

// compare compares the placements of all groups.
func (p Places) compare(old *Snapshot, same func(is, was []uint16) bool) bool {
	if !same(p.s.Placement, old.Placement) {
		return false
	}
	for _, groups := range []map[string][]uint16{p.s.groups, old.groups} {
		for group := range groups {
			if !same(p.Of(group), PlacesIn(old).Of(group)) {
				return false
			}
		}
	}
	return true
}

// Has reports whether a shard, by its index, has a bucket of any group.
func (p Places) Has(shard, bucket int) bool {
	on := func(p []uint16) bool { return bucket < len(p) && int(p[bucket]) == shard }
	if on(p.s.Placement) {
		return true
	}
	for _, group := range p.s.groups {
		if on(group) {
			return true
		}
	}
	return false
}

// Name names the places of all buckets of all groups: two snapshots of the same database that have them on the
// same shards give the same name.
func (p Places) Name() string {
	s := grown(p.s, MaxBucketCount) // the same whatever the number of buckets
	h := fnv.New64a()
	for i := range s.Shards {
		_, _ = h.Write(append([]byte(s.Shards[i].Name), 0))
	}
	_ = binary.Write(h, binary.LittleEndian, s.Placement)
	for _, group := range slices.Sorted(maps.Keys(s.groups)) {
		_, _ = h.Write(append([]byte(group), 0))
		_ = binary.Write(h, binary.LittleEndian, s.groups[group])
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
