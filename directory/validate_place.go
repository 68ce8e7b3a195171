package directory

import (
	"fmt"
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
	n := len(s.Placement)
	if n < s.BucketCount {
		bad("placement", "has %d of %d buckets", n, s.BucketCount)
		return
	}
	if n > s.BucketCount+MaxPinned {
		bad("placement", "has %d buckets of pinned values, more than %d", n-s.BucketCount, MaxPinned)
	}
	for b, i := range s.Placement {
		if i == Unused && b >= s.BucketCount {
			continue
		}
		if i == Unused {
			bad(fmt.Sprintf("placement[%d]", b), "is a hole: the bucket has no shard")
			return
		}
		if int(i) >= len(s.Shards) {
			bad(fmt.Sprintf("placement[%d]", b), "is shard number %d, and there are %d", i, len(s.Shards))
			return
		}
	}
	for i, p := range s.Pins {
		at := slices.IndexFunc(s.Shards, func(sh Shard) bool { return sh.Name == p.Shard })
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
}
