package rebalance

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// place returns where buckets are after a plan.
func place(now []int, moves []Move) []int {
	at := slices.Clone(now)
	for _, m := range moves {
		at[m.Bucket] = m.To
	}
	return at
}

// random makes a cluster with uneven loads, sizes and weights, pins, resting buckets, single keys and
// work beside buckets.
func random(r *rand.Rand) ([]Cost, []Shard, []int, []int) {
	costs, shards, now, pins := case1(1+r.IntN(400), 2+r.IntN(8))
	all := 0.0
	for b := range costs {
		costs[b] = Cost{Bytes: r.ExpFloat64() * 1e6, Load: math.Exp(r.Float64() * 6), Key: r.Float64(), Rests: r.IntN(10) == 0}
		if r.IntN(3) == 0 {
			costs[b].Load = 0
		}
		all += costs[b].Load
		now[b] = min(r.IntN(len(shards)), r.IntN(len(shards)))
		if r.IntN(20) == 0 {
			pins[b] = now[b]
		}
	}
	for i := range shards {
		shards[i].Weight, shards[i].Closed = 1+r.IntN(4), r.IntN(10) == 0
		if r.IntN(3) == 0 {
			shards[i].Load = r.Float64() * all / float64(len(shards))
		}
	}
	return costs, shards, now, pins
}

// TestLoadNeverWorse: whatever the cluster, no shard becomes fuller than the fullest was, nor emptier
// than the emptiest; what rests, is pinned or hot because of one key stays; bounds hold; and a
// second plan has nothing to do.
func TestLoadNeverWorse(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	helped := 0
	for range 500 {
		costs, shards, now, pins := random(r)
		o := Options{Strategy: []Strategy{Load, Mixed}[r.IntN(2)], MaxMoves: r.IntN(2) * r.IntN(20), MaxBytes: float64(r.IntN(2)) * r.Float64() * 2e7}
		moves := Plan(costs, shards, now, pins, o)
		after := place(now, moves)
		x, y := Levels(costs, shards, now, o), Levels(costs, shards, after, o)
		if slices.Max(y) > slices.Max(x)+1e-9 || slices.Min(y) < slices.Min(x)-1e-9 {
			t.Fatalf("levels %.3f become %.3f", x, y)
		}
		bytes, p := 0.0, newPlanner(costs, shards, now, pins, o)
		for _, m := range moves {
			bytes += m.Bytes
			if pins[m.Bucket] != Unpinned || costs[m.Bucket].Rests || shards[m.To].Closed || p.lone(m.Bucket) || m.From == m.To || now[m.Bucket] != m.From {
				t.Fatalf("%+v of %+v", m, costs[m.Bucket])
			}
		}
		if o.MaxMoves > 0 && len(moves) > o.MaxMoves || o.MaxBytes > 0 && bytes > o.MaxBytes {
			t.Fatalf("%d moves of %.0f bytes with bounds %+v", len(moves), bytes, o)
		}
		if o.MaxMoves == 0 && o.MaxBytes == 0 {
			if again := Plan(costs, shards, after, pins, o); len(again) != 0 {
				t.Fatalf("a second plan moves %d buckets after %d", len(again), len(moves))
			}
		}
		if slices.Max(y) < slices.Max(x)-0.05 {
			helped++
		}
	}
	if helped < 250 {
		t.Errorf("only %d of 500 plans help", helped)
	}
}

// TestLoadSteady: loads that change a little after a plan do not cause another one.
func TestLoadSteady(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 50 {
		costs, shards, now, pins := case1(512, 4)
		for b := range costs {
			costs[b].Load = r.ExpFloat64()
			now[b] = min(r.IntN(4), r.IntN(4))
		}
		o := Options{Strategy: Load}
		after := place(now, Plan(costs, shards, now, pins, o))
		for b := range costs {
			costs[b].Load *= 0.8 + 0.4*r.Float64()
		}
		if again := Plan(costs, shards, after, pins, o); len(again) != 0 {
			t.Fatalf("%d buckets move again, levels %.3f", len(again), Levels(costs, shards, after, o))
		}
	}
}

// TestLoadNoise: equal buckets that few samples make look uneven stay where they are.
func TestLoadNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	flapped := 0
	for range 200 {
		costs, shards, now, pins := case1(256, 4)
		for b := range costs {
			costs[b].Load = 0
		}
		samples := Needed(4)
		for range int(samples) {
			costs[r.IntN(256)].Load++
		}
		if len(Plan(costs, shards, now, pins, Options{Strategy: Load, Samples: samples})) > 0 {
			flapped++
		}
	}
	// A shard is off by two standard deviations in one of twenty cases, and there are four.
	if flapped > 50 {
		t.Errorf("%d of 200 plans move buckets because of noise", flapped)
	}
	if Noise(0, 4) != 0 || Noise(Needed(64), 64) > 0.3 {
		t.Errorf("noise %v, %v", Noise(0, 4), Noise(Needed(64), 64))
	}
}

// TestLoadNeighbours: a bucket that is one key stays, and those beside it leave.
func TestLoadNeighbours(t *testing.T) {
	costs, shards, now, pins := case1(40, 2)
	for b := range costs {
		costs[b].Load = 1
	}
	costs[0] = Cost{Bytes: 100, Load: 20, Key: 0.9}
	o := Options{Strategy: Load}
	moves := Plan(costs, shards, now, pins, o)
	if len(moves) == 0 {
		t.Fatal("nothing moves")
	}
	for _, m := range moves {
		if m.Bucket == 0 || m.From != 0 {
			t.Errorf("%+v", m)
		}
	}
	if x := slices.Max(Levels(costs, shards, place(now, moves), o)); x > 1.06 {
		t.Errorf("a shard is left at %.2f", x)
	}
	// More than a shard's share: everything else has left, and that is said.
	costs[0].Load = 200
	moves = Plan(costs, shards, now, pins, o)
	after := place(now, moves)
	left := Rest(costs, shards, after, pins, o)
	if len(moves) != 19 || after[0] != 0 || len(left) != 1 || left[0].Shard != 0 || left[0].Cause != OneKey || left[0].Bucket != 0 || left[0].Level < 1.6 || left[0].Part < 0.99 {
		t.Errorf("%d moves, left %+v", len(moves), left)
	}
	// Many light tenants, one in each bucket, are moved like anything else.
	costs, shards, now, pins = case1(200, 2)
	for b := range costs {
		costs[b].Key, now[b] = 1, 0
	}
	if n := len(Plan(costs, shards, now, pins, o)); n < 95 || n > 105 {
		t.Errorf("%d of 200 tenants move", n)
	}
}

// TestLoadCauses: what stays is explained.
func TestLoadCauses(t *testing.T) {
	o := Options{Strategy: Load}
	for want, change := range map[Cause]func(c []Cost, s []Shard, pins []int){
		Beside: func(_ []Cost, s []Shard, _ []int) { s[0].Load = 500 },
		Resting: func(c []Cost, _ []Shard, _ []int) {
			for b := range c {
				c[b].Rests = true
			}
		},
		Pinned: func(_ []Cost, _ []Shard, pins []int) {
			for b := range pins {
				pins[b] = 0
			}
		},
		Undivided: func(c []Cost, _ []Shard, _ []int) { c[3].Load = 500 },
	} {
		costs, shards, now, pins := case1(20, 2)
		for b := range now {
			now[b] = 0
		}
		change(costs, shards, pins)
		left := Rest(costs, shards, place(now, Plan(costs, shards, now, pins, o)), pins, o)
		if len(left) != 1 || left[0].Shard != 0 || left[0].Cause != want || (left[0].Bucket < 0) != (want == Beside) {
			t.Errorf("%s: %+v", want, left)
		}
	}
	costs, shards, now, pins := case1(20, 2)
	if left := Rest(costs, shards, now, pins, o); len(left) != 0 {
		t.Errorf("%+v", left)
	}
}

// TestLoadByTheByte: of buckets with the same work the smaller one goes.
func TestLoadByTheByte(t *testing.T) {
	costs, shards, now, pins := case1(40, 2)
	for b := range costs {
		now[b] = 0
		if b%2 == 0 {
			costs[b].Bytes = 1e6
		}
	}
	for _, m := range Plan(costs, shards, now, pins, Options{Strategy: Load}) {
		if m.Bytes > 100 {
			t.Errorf("%+v", m)
		}
	}
}

// TestLoadNewShard: a shard that has joined gets work, and none goes between the old ones.
func TestLoadNewShard(t *testing.T) {
	costs, shards, now, pins := case1(1024, 4)
	shards = append(shards, Shard{Name: "new", Weight: 1})
	o := Options{Strategy: Load}
	moves := Plan(costs, shards, now, pins, o)
	for _, m := range moves {
		if m.To != 4 {
			t.Fatalf("%+v", m)
		}
	}
	if l := Levels(costs, shards, place(now, moves), o); slices.Min(l) < 0.94 || slices.Max(l) > 1.06 {
		t.Errorf("levels %.3f", l)
	}
	if again := Plan(costs, shards[:4], now, pins, o); len(again) != 0 {
		t.Errorf("%d buckets move in a balanced cluster", len(again))
	}
}

// TestLoadLarge: the plan of the largest cluster takes a tenth of a second, also if it is far off. Slow
// machines and the race detector get many times as much.
func TestLoadLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for name, spread := range map[string]func() int{
		"uneven": func() int { return min(r.IntN(64), r.IntN(64)) }, "all on one": func() int { return 0 },
	} {
		costs, shards, now, pins := case1(65536, 64)
		for b := range costs {
			costs[b] = Cost{Bytes: r.ExpFloat64() * 1e6, Load: math.Pow(r.Float64(), -0.8), Key: r.Float64()}
			now[b] = spread()
		}
		o := Options{Strategy: Load, Threshold: 0.01}
		began := time.Now()
		moves := Plan(costs, shards, now, pins, o)
		took := time.Since(began)
		t.Logf("%s: 65,536 buckets on 64 shards in %v, %d moves", name, took, len(moves))
		if took > time.Minute {
			t.Errorf("%s: took %v", name, took)
		}
	}
}
