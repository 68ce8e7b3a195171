package directory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func fleet(weights ...int) []Shard {
	out := make([]Shard, len(weights))
	for i, w := range weights {
		out[i] = Shard{Name: fmt.Sprintf("shard-%d", i), Hosts: []string{fmt.Sprintf("h%d:1", i)}, Weight: w}
	}
	return out
}

func equalFleet(n int) []Shard { return fleet(slices.Repeat([]int{1}, n)...) }

// names returns where each bucket is, by name.
func names(s *Snapshot) []string {
	out := make([]string, len(s.Placement))
	for b, i := range s.Placement {
		out[b] = s.Shards[i].Name
	}
	return out
}

func counts(s *Snapshot) map[string]int {
	out := map[string]int{}
	for _, n := range names(s) {
		out[n]++
	}
	return out
}

// balanced: shards of equal weight differ by one at most.
func balanced(t *testing.T, s *Snapshot, what string) {
	t.Helper()
	low, high := math.MaxInt, 0
	c := counts(s)
	for _, sh := range s.Shards {
		low, high = min(low, c[sh.Name]), max(high, c[sh.Name])
	}
	if high-low > 1 {
		t.Errorf("%s: shards hold from %d to %d buckets", what, low, high)
	}
}

func TestPlacementMovesLittle(t *testing.T) {
	for _, buckets := range []int{1024, 4096, 65536} {
		for n := 1; n <= 64; n++ {
			if buckets > 4096 && !slices.Contains([]int{1, 2, 3, 10, 63, 64}, n) {
				continue // a second each
			}
			s := New(buckets, "shard-0", equalFleet(n))
			before := names(s)
			balanced(t, s, fmt.Sprint(n, " shards"))

			// One joins: its share moves, and only to it.
			join := s.Clone()
			join.SetShards(equalFleet(n+1), nil)
			joiner, moved := fmt.Sprintf("shard-%d", n), 0
			for b, now := range names(join) {
				if now != before[b] {
					moved++
					if now != joiner {
						t.Fatalf("%d of %d shards joins: bucket %d went from %s to %s", n, n+1, b, before[b], now)
					}
				}
			}
			if low := buckets / (n + 1); moved < low || moved > low+1 || moved == low+1 && buckets%(n+1) == 0 {
				t.Errorf("one joins %d: %d of %d buckets moved", n, moved, buckets)
			}
			balanced(t, join, fmt.Sprint("one joined ", n))

			// Any one leaves: its buckets move and no other.
			gone := n / 2
			leave := join.Clone()
			leave.SetShards(slices.Delete(equalFleet(n+1), gone, gone+1), nil)
			with := names(join)
			for b, now := range names(leave) {
				if was := with[b]; now != was && was != fmt.Sprintf("shard-%d", gone) {
					t.Fatalf("one of %d leaves: bucket %d went from %s to %s", n+1, b, was, now)
				}
			}
			balanced(t, leave, fmt.Sprint("one left ", n+1))
		}
	}
}

func TestPlacementFollowsWeights(t *testing.T) {
	for _, weights := range [][]int{{1, 2}, {1, 0, 3}, {1000, 1, 1, 1}, {7, 5, 3, 2, 2}, {0, 0, 4}, {0, 0}} {
		s := New(4096, "shard-0", fleet(weights...))
		var sum, zero int
		for _, w := range weights {
			sum += w
		}
		if sum == 0 {
			zero = 1 // somebody must hold the buckets
			sum = len(weights)
		}
		c := counts(s)
		for i, w := range weights {
			want := 4096 * float64(w+zero) / float64(sum)
			if got := float64(c[fmt.Sprintf("shard-%d", i)]); math.Abs(got-want) >= 1 {
				t.Errorf("weights %v: shard %d holds %v buckets, want %.1f", weights, i, got, want)
			}
		}
		// Joining and leaving touch nobody else, with weights too.
		before := names(s)
		join := s.Clone()
		join.SetShards(fleet(append(slices.Clone(weights), 3)...), nil)
		if zero == 0 {
			for b, now := range names(join) {
				if now != before[b] && now != fmt.Sprintf("shard-%d", len(weights)) {
					t.Errorf("weights %v, one joins: bucket %d went from %s to %s", weights, b, before[b], now)
				}
			}
		}
		if sum == weights[0] || zero == 1 {
			continue
		}
		leave := s.Clone()
		leave.SetShards(fleet(weights...)[1:], nil)
		for b, now := range names(leave) {
			if now != before[b] && before[b] != "shard-0" {
				t.Errorf("weights %v, one leaves: bucket %d went from %s to %s", weights, b, before[b], now)
			}
		}
	}
}

func TestPlacementHonoursPins(t *testing.T) {
	pins := []Pin{{0, 99, "shard-2"}, {100, 100, "shard-0"}, {1000, 1023, "shard-1"}}
	s := New(1024, "shard-0", fleet(1, 1, 0, 1), pins...)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	// The pinned ones count: 924 are left for three.
	if c := counts(s); c["shard-2"] != 100 || c["shard-0"] != 308 || c["shard-1"] != 308 || c["shard-3"] != 308 {
		t.Errorf("counts %v", c)
	}
	before := names(s)
	s.SetShards(fleet(1, 1, 0, 1), pins[:1]) // some are let go: they may stay
	if !slices.Equal(before, names(s)) {
		t.Error("buckets moved because a pin went")
	}
	s.SetShards(fleet(1, 1, 0, 1), nil)
	if c := counts(s); c["shard-2"] != 0 || c["shard-0"]+c["shard-1"]+c["shard-3"] != 1024 {
		t.Errorf("without pins: %v", c)
	}
	// More than its share.
	s.SetShards(fleet(1, 1), []Pin{{0, 767, "shard-1"}})
	if c := counts(s); c["shard-1"] != 768 || c["shard-0"] != 256 {
		t.Errorf("more pinned than its share: %v", c)
	}
}

func TestPlacementOfOwnBuckets(t *testing.T) {
	s := New(16, "shard-0", equalFleet(3))
	s.Placement = append(s.Placement, 2, Unused, 1)
	s.SetShards(equalFleet(2), nil)
	if p := s.Placement; len(p) != 19 || p[16] > 1 || p[17] != Unused || p[18] != 1 {
		t.Errorf("placement %v", p)
	}
}

// TestPlacementIsFixed holds the function to what it gave when it was written.
func TestPlacementIsFixed(t *testing.T) {
	s := New(32, "shard-0", fleet(1, 2, 1))
	want := []uint16{1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 2, 2, 1, 0, 2, 0, 0, 1, 0, 0, 1, 1, 2, 2, 1, 0, 0, 1, 0, 1}
	if !slices.Equal(s.Placement, want) {
		t.Errorf("got %v", s.Placement)
	}
	if a, b, c := fixedLog(math.MaxUint64), fixedLog(1<<63), fixedLog(0); a != 1 || b != 1<<24 || c != 64<<24 {
		t.Errorf("logarithms %d, %d, %d", a, b, c)
	}
}

func BenchmarkSetShards(b *testing.B) {
	for _, size := range [][2]int{{4096, 4}, {65536, 64}} {
		b.Run(fmt.Sprint(size[0], "x", size[1]), func(b *testing.B) {
			for b.Loop() {
				New(size[0], "shard-0", equalFleet(size[1]))
			}
		})
	}
}

// TestPlacementHistory: after any series of changes every bucket has a shard,
// pins hold, each shard has its quota, and a change moved no more than it had to.
func TestPlacementHistory(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := New(1024, "shard-0", equalFleet(3))
		born := 3
		for step := range 60 {
			shards, pins := slices.Clone(s.Shards), slices.Clone(s.Pins)
			switch what := rnd.IntN(4); {
			case what == 0 && len(shards) < 20:
				shards = append(shards, Shard{Name: fmt.Sprintf("shard-%d", born), Hosts: []string{fmt.Sprintf("h%d:1", born)}, Weight: rnd.IntN(5)})
				born++
			case what == 1 && len(shards) > 2:
				i := 1 + rnd.IntN(len(shards)-1)
				pins = slices.DeleteFunc(pins, func(p Pin) bool { return p.Shard == shards[i].Name })
				shards = slices.Delete(shards, i, i+1)
			case what == 2:
				shards[rnd.IntN(len(shards))].Weight = rnd.IntN(5)
			default:
				first := rnd.IntN(900)
				p := Pin{first, first + rnd.IntN(100), shards[rnd.IntN(len(shards))].Name}
				pins = append(slices.DeleteFunc(pins, func(o Pin) bool { return p.First <= o.Last && o.First <= p.Last }), p)
			}
			old := s.Clone()
			s.SetShards(shards, pins)
			if err := s.Validate(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			checkQuotas(t, fmt.Sprintf("seed %d, step %d", seed, step), old, s)
		}
	}
}

// checkQuotas holds s to its quotas, and to the fewest moves from old: a shard
// gives up what is above its quota or pinned elsewhere, and no more.
func checkQuotas(t *testing.T, what string, old, s *Snapshot) {
	t.Helper()
	pinned := make([]string, s.BucketCount)
	held := make([]int, len(s.Shards))
	for _, p := range s.Pins {
		for b := p.First; b <= p.Last; b++ {
			pinned[b] = p.Shard
			held[slices.IndexFunc(s.Shards, func(sh Shard) bool { return sh.Name == p.Shard })]++
		}
	}
	quota, has := quotas(s.Shards, held, s.BucketCount), counts(s)
	for i, sh := range s.Shards {
		if has[sh.Name] != quota[i] {
			t.Errorf("%s: %s has %d buckets, its quota is %d", what, sh.Name, has[sh.Name], quota[i])
		}
		// Of the buckets it may keep it gave up as many as it had to.
		mine, gave := held[i], 0
		for b := range s.BucketCount {
			if pinned[b] == "" && old.nameOf(old.Placement, b) == sh.Name {
				mine++
				if s.nameOf(s.Placement, b) != sh.Name {
					gave++
				}
			}
		}
		if gave != max(0, mine-quota[i]) {
			t.Errorf("%s: %s gave up %d of %d buckets, its quota is %d", what, sh.Name, gave, mine, quota[i])
		}
	}
}

// TestBalanced: a placement that jobs have made follows a new shard as the cluster's own does, and
// a shard that is being drained counts as one without weight.
func TestBalanced(t *testing.T) {
	shards := []Shard{{Name: "a", Hosts: []string{"a:1"}, Weight: 1}, {Name: "b", Hosts: []string{"b:1"}, Weight: 1}}
	s := New(64, "a", shards)
	from := slices.Clone(s.Placement)
	from[0], from[1] = 1-from[0], 1-from[1]
	s.SetShards(append(slices.Clone(shards), Shard{Name: "c", Hosts: []string{"c:1"}, Weight: 1}), nil)
	to, held := s.Balanced(from), map[uint16]int{}
	for b := range to {
		held[to[b]]++
		if to[b] != from[b] && to[b] != 2 {
			t.Errorf("bucket %d went from %d to %d", b, from[b], to[b])
		}
	}
	if held[2] != 21 {
		t.Errorf("the new shard holds %d buckets of 64", held[2])
	}
	next := slices.Clone(s.Shards)
	next[1].State = ShardDraining
	s.SetShards(next, nil)
	for b, at := range s.Balanced(to) {
		if at == 1 || to[b] != 1 && at != to[b] {
			t.Errorf("bucket %d went from %d to %d", b, to[b], at)
		}
	}
}
