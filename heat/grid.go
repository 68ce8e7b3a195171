package heat

// maxBuckets bounds the buckets of a grid.
const maxBuckets = 1 << 17

// Grid is the work on each bucket of a database.
type Grid struct {
	buckets []Load
	samples float64 // on how many samples it rests
	squares float64 // the sum of the squares of what samples stand for
}

// Add counts a share of a sample for a bucket.
func (g *Grid) Add(bucket int32, s *Sample, share float64) {
	if bucket < 0 || bucket >= maxBuckets {
		return
	}
	if n := int(bucket) + 1; n > len(g.buckets) {
		g.buckets = append(g.buckets, make([]Load, n-len(g.buckets))...)
	}
	g.buckets[bucket].add(s, share)
	g.samples += share
	cost := s.Weight * share * Cost(s.Busy, s.Bytes)
	g.squares += cost * cost
}

// Decay leaves a share of everything. What becomes less than a thousandth of a call is forgotten.
func (g *Grid) Decay(f float64) {
	g.samples *= f
	g.squares *= f * f
	for i, l := range g.buckets {
		if l == (Load{}) {
			continue
		}
		if l = l.Times(f); l.Calls() < 1e-3 {
			l = Load{}
		}
		g.buckets[i] = l
	}
}

// Buckets returns f times the work on each bucket that has any.
func (g *Grid) Buckets(f float64) map[int32]Load {
	out := map[int32]Load{}
	for i, l := range g.buckets {
		if l != (Load{}) {
			out[int32(i)] = l.Times(f)
		}
	}
	return out
}
