package rebalance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// case1 makes shards of equal weight and buckets of equal cost, dealt in turn.
func case1(buckets, shards int) ([]Cost, []Shard, []int, []int) {
	costs, list := make([]Cost, buckets), make([]Shard, shards)
	now, pins := make([]int, buckets), make([]int, buckets)
	for b := range buckets {
		costs[b], now[b], pins[b] = Cost{Bytes: 100, Load: 1}, b%shards, Unpinned
	}
	for i := range list {
		list[i] = Shard{Name: fmt.Sprintf("s%d", i), Weight: 1}
	}
	return costs, list, now, pins
}

// loads sums what a plan leaves on each shard.
func loads(costs []Cost, now []int, moves []Move, shards int, weigh func(Cost) float64) []float64 {
	at := slices.Clone(now)
	for _, m := range moves {
		at[m.Bucket] = m.To
	}
	out := make([]float64, shards)
	for b, i := range at {
		out[i] += weigh(costs[b])
	}
	return out
}

func TestNothingToDo(t *testing.T) {
	costs, shards, now, pins := case1(64, 4)
	if got := Plan(costs, shards, now, pins, Options{}); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// TestNewShard: a shard that joins gets its share, and no bucket goes between old ones.
func TestNewShard(t *testing.T) {
	costs, shards, now, pins := case1(4096, 4)
	shards = append(shards, Shard{Name: "new", Weight: 1})
	got := Plan(costs, shards, now, pins, Options{Strategy: Buckets, Threshold: 0.001})
	for _, m := range got {
		if m.To != 4 {
			t.Fatalf("bucket %d goes from %d to %d", m.Bucket, m.From, m.To)
		}
	}
	if n := len(got); n < 815 || n > 823 {
		t.Errorf("%d of 4096 buckets move to the fifth shard", n)
	}
}

// TestDrain: everything leaves a shard of weight 0, and the others stay even.
func TestDrain(t *testing.T) {
	costs, shards, now, pins := case1(400, 4)
	shards[2].Weight = 0
	got := Plan(costs, shards, now, pins, Options{MaxMoves: 1})
	if len(got) != 100 {
		t.Fatalf("%d buckets leave", len(got))
	}
	for _, m := range got {
		if m.From != 2 {
			t.Errorf("%+v", m)
		}
	}
	for i, n := range loads(costs, now, got, 4, func(Cost) float64 { return 1 }) {
		if i != 2 && (n < 133 || n > 134) || i == 2 && n != 0 {
			t.Errorf("shard %d has %v buckets", i, n)
		}
	}
}

// TestStrategies: each strategy makes even what it is about.
func TestStrategies(t *testing.T) {
	costs, shards, now, pins := case1(256, 4)
	for b := range costs {
		costs[b] = Cost{Bytes: float64(1 + b%4*10), Load: float64(1 + b/64*5)}
	}
	spread := func(l []float64) float64 { return slices.Max(l)/slices.Min(l) - 1 }
	for s, weigh := range map[Strategy]func(Cost) float64{
		Bytes: func(c Cost) float64 { return c.Bytes }, Load: func(c Cost) float64 { return c.Load },
		Buckets: func(Cost) float64 { return 1 },
	} {
		got := Plan(costs, shards, now, pins, Options{Strategy: s, Threshold: 0.05})
		if x := spread(loads(costs, now, got, 4, weigh)); x > 0.11 {
			t.Errorf("%s: spread %.2f after %d moves", s, x, len(got))
		}
	}
}

// TestBounds: a plan keeps its bounds, pins and closed shards.
func TestBounds(t *testing.T) {
	costs, shards, now, pins := case1(100, 2)
	for b := range now {
		now[b] = 0
	}
	if got := Plan(costs, shards, now, pins, Options{MaxMoves: 7}); len(got) != 7 {
		t.Errorf("%d moves", len(got))
	}
	if got := Plan(costs, shards, now, pins, Options{MaxBytes: 1000}); len(got) != 10 {
		t.Errorf("%d moves of 100 bytes", len(got))
	}
	for b := range 80 {
		pins[b] = 0
	}
	got := Plan(costs, shards, now, pins, Options{})
	for _, m := range got {
		if m.Bucket < 80 {
			t.Errorf("bucket %d is pinned", m.Bucket)
		}
	}
	if len(got) != 20 {
		t.Errorf("%d moves beside pins", len(got))
	}
	pins[3] = 1
	if got = Plan(costs, shards, now, pins, Options{MaxMoves: 1}); len(got) != 1 || got[0].Bucket != 3 {
		t.Errorf("a pin: %v", got)
	}
	shards[1].Closed = true
	pins[3] = 0
	if got = Plan(costs, shards, now, pins, Options{}); len(got) != 0 {
		t.Errorf("a closed shard takes %d buckets", len(got))
	}
}

// TestHugeBucket: a bucket that would only swap the roles of two shards stays.
func TestHugeBucket(t *testing.T) {
	costs := []Cost{{Bytes: 1000}, {Bytes: 1}, {Bytes: 1}}
	shards := []Shard{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}}
	got := Plan(costs, shards, []int{0, 0, 1}, []int{Unpinned, Unpinned, Unpinned}, Options{})
	for _, m := range got {
		if m.Bucket == 0 {
			t.Errorf("got %v", got)
		}
	}
}

// TestPlanIsSteady: any plan brings no shard further from its share than the worst was, and a
// second plan after the first has nothing to do.
func TestPlanIsSteady(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		n, k := 1+r.IntN(300), 1+r.IntN(8)
		costs, shards, now, pins := case1(n, k)
		for b := range costs {
			costs[b] = Cost{Bytes: math.Floor(math.Exp(r.Float64() * 8)), Load: r.Float64()}
			now[b] = r.IntN(k)
			if r.IntN(20) == 0 {
				pins[b] = r.IntN(k)
			}
		}
		for i := range shards {
			shards[i].Weight = r.IntN(4)
		}
		if !slices.ContainsFunc(shards, func(s Shard) bool { return s.Weight > 0 }) {
			shards[0].Weight = 1
		}
		o := Options{Strategy: []Strategy{Bytes, Load, Buckets, Mixed}[r.IntN(4)]}
		first := Plan(costs, shards, now, pins, o)
		after := slices.Clone(now)
		for _, m := range first {
			after[m.Bucket] = m.To
		}
		for b, i := range after {
			if pins[b] != Unpinned && i != pins[b] || pins[b] == Unpinned && shards[i].Weight == 0 {
				t.Fatalf("bucket %d is left on shard %d", b, i)
			}
		}
		if again := Plan(costs, shards, after, pins, o); len(again) != 0 {
			t.Fatalf("a second plan moves %d buckets after %d", len(again), len(first))
		}
	}
}

// TestLarge: the plan of the largest cluster takes less than a tenth of a second. Slow machines and the
// race detector get many times as much.
func TestLarge(t *testing.T) {
	costs, shards, now, pins := case1(65536, 64)
	r := rand.New(rand.NewPCG(3, 4))
	for b := range costs {
		costs[b] = Cost{Bytes: r.ExpFloat64() * 1e6, Load: r.ExpFloat64()}
		now[b] = min(r.IntN(64), r.IntN(64))
	}
	began := time.Now()
	Plan(costs, shards, now, pins, Options{Strategy: Mixed, Threshold: 0.01})
	took := time.Since(began)
	t.Logf("65,536 buckets on 64 shards in %v", took)
	if took > time.Minute {
		t.Errorf("took %v", took)
	}
}
