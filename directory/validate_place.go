package directory

import (
	"fmt"
	"maps"
	"slices"
)

// MaxPinned bounds the number of buckets of pinned values.
const MaxPinned = 1 << 16

func (s *Snapshot) validatePins(bad func(place, format string, args ...any)) {
	for i, p := range s.Pins {
		place := fmt.Sprintf("pins[%d]", i)
		if _, ok := s.Shard(p.Shard); !ok {
			bad(place+".shard", "%q is not one of the shards", p.Shard)
		}
		if p.First < 0 || p.Last >= s.BucketCount || p.First > p.Last {
			bad(place+".buckets", "%d-%d is no range of the buckets 0-%d", p.First, p.Last, s.BucketCount-1)
			continue
		}
		for j, o := range s.Pins[:i] {
			if p.First <= o.Last && o.First <= p.Last {
				bad(place+".buckets", "%d-%d overlaps pins[%d], %d-%d", p.First, p.Last, j, o.First, o.Last)
				break
			}
		}
	}
}

// validatePlacement reports each kind of mistake once, because mistakes may come in thousands.
func (s *Snapshot) validatePlacement(bad func(place, format string, args ...any)) {
	if !s.validateMap("placement", s.Placement, bad) {
		return
	}
	for i, p := range s.Pins {
		at := s.shardIndex(p.Shard)
		if at < 0 || p.First < 0 || p.Last >= s.BucketCount {
			continue // reported already
		}
		for b := p.First; b <= p.Last; b++ {
			if int(s.Placement[b]) != at {
				bad(fmt.Sprintf("placement[%d]", b), "is on %s, and pins[%d] wants it on %s", s.Shards[s.Placement[b]].Name, i, p.Shard)
				return
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Placements)) {
		s.validateOther("placements["+key+"]", s.Placements[key], bad)
	}
	for _, id := range slices.Sorted(maps.Keys(s.Targets)) {
		s.validateOther("targets["+id+"]", s.Targets[id], bad)
		if s.FindMove(id) == nil {
			bad("targets["+id+"]", "belongs to no job")
		}
	}
	s.validateMoves(bad)
	s.validateIsolated(bad)
}

// validateMap reports whether a placement gives every bucket a shard.
func (s *Snapshot) validateMap(place string, p []uint16, bad func(place, format string, args ...any)) bool {
	n := len(p)
	if n < s.BucketCount {
		bad(place, "has %d of %d buckets", n, s.BucketCount)
		return false
	}
	if n > s.BucketCount+MaxPinned {
		bad(place, "has %d buckets of pinned values, more than %d", n-s.BucketCount, MaxPinned)
	}
	for b, i := range p {
		if i == Unused && b >= s.BucketCount {
			continue
		}
		if i == Unused {
			bad(fmt.Sprintf("%s[%d]", place, b), "is a hole: the bucket has no shard")
			return false
		}
		if int(i) >= len(s.Shards) {
			bad(fmt.Sprintf("%s[%d]", place, b), "is shard number %d, and there are %d", i, len(s.Shards))
			return false
		}
	}
	return true
}

// validateOther is validateMap for a placement beside the cluster's own, which has the same
// buckets of pinned values.
func (s *Snapshot) validateOther(place string, p []uint16, bad func(place, format string, args ...any)) {
	if !s.validateMap(place, p, bad) {
		return
	}
	if len(p) != len(s.Placement) {
		bad(place, "has %d buckets, and the cluster has %d", len(p), len(s.Placement))
		return
	}
	for b := s.BucketCount; b < len(p); b++ {
		if (p[b] == Unused) != (s.Placement[b] == Unused) {
			bad(fmt.Sprintf("%s[%d]", place, b), "is a pinned value's bucket here or in the cluster's placement, not in both")
			return
		}
	}
}

// validateMoves checks the jobs: one per database at most, and rounds of buckets that exist and
// are where the round takes them from.
func (s *Snapshot) validateMoves(bad func(place, format string, args ...any)) {
	ids, busy := map[string]bool{}, map[string]string{}
	for i := range s.Moves {
		m := &s.Moves[i]
		place := fmt.Sprintf("moves[%d]", i)
		if m.ID == "" || ids[m.ID] {
			bad(place+".id", "%q is empty or taken", m.ID)
		}
		ids[m.ID] = true
		if m.Kind != MoveJoin && m.Kind != MoveLeave {
			if other := busy[m.Database]; other != "" {
				bad(place+".database", "%s has job %s already", m.Database, other)
			}
			busy[m.Database] = m.ID
			if t := s.unsettled(m.Database); t != nil && m.Group == "" {
				bad(place, "carries rows of %s while table %s.%s is %s", m.Database, t.Schema, t.Name, t.State)
			}
		}
		if m.Round != nil {
			s.validateRound(place+".round", m, bad)
		}
	}
}

// validateRound checks the round of a job.
func (s *Snapshot) validateRound(place string, m *Move, bad func(place, format string, args ...any)) {
	r := m.Round
	if r.Key == "" {
		bad(place+".key", "is empty")
	}
	if r.Phase != HoldWrites && r.Phase != HoldAll && r.Phase != Carried {
		bad(place+".phase", "unknown phase %q", r.Phase)
	}
	p := s.PlacementOf(m.Database, m.Group)
	taken := map[int]bool{}
	for i, pair := range r.Pairs {
		at := fmt.Sprintf("%s.pairs[%d]", place, i)
		if s.shardIndex(pair.From) < 0 || s.shardIndex(pair.To) < 0 || pair.From == pair.To {
			bad(at, "from %q to %q is no way between two shards", pair.From, pair.To)
			return
		}
		place := pair.From
		if r.Phase == Carried {
			place = pair.To
		}
		for _, b := range pair.Buckets {
			if b < 0 || b >= len(p) || taken[b] || s.nameOf(p, b) != place {
				bad(at+".buckets", "bucket %d is not on %s, or taken by another pair", b, place)
				return
			}
			taken[b] = true
		}
	}
}
