package rebalance

import (
	"cmp"
	"slices"
)

const (
	// heavyPart is the part of a saturated shard's load from which on one of its buckets is heavy: light
	// ones leave first, because carrying a busy bucket is work for the shard, too.
	heavyPart = 0.2
	// leastRelief is the part of a saturated shard's load that must leave for a move to be worth it.
	leastRelief = 0.02
	// mostBuckets bounds the buckets of one step. The next plan sees what the step has changed.
	mostBuckets = 256
)

// Case is what Relieve works on. Costs, Shards, Now and Pins are as in Plan, and loads are what matters.
type Case struct {
	Costs     []Cost
	Shards    []Shard
	Now, Pins []int
	Options   Options
	// Saturated are the shards that have more work than they can do.
	Saturated []Saturated
	// Keys are the keys of saturated shards that are hot.
	Keys []HotKey
}

// Saturated is a shard that has more work than it can do.
type Saturated struct {
	Shard int
	// Beside says that the work is of statements which no bucket brings along.
	Beside bool
}

// HotKey is a key whose bucket is on a saturated shard.
type HotKey struct {
	Bucket int     // by its place in Costs
	Load   float64 // in the unit of Cost.Load
	// Tenant says that the key has been heavy for long, and can have a bucket of its own.
	Tenant bool
}

// Action is what a step does.
type Action string

// The actions.
const (
	MoveBuckets Action = "move"    // buckets go to another shard
	IsolateKey  Action = "isolate" // a key gets a bucket of its own on another shard
	Split       Action = "split"   // there are to be more buckets, each with fewer keys
	Leave       Action = "leave"   // nothing that moves would help
)

// Full is the cause of a shard that stays saturated because no other one has room.
const Full Cause = "full"

// Step is one thing to do about a saturated shard, or why nothing is done. Steps are made one after the
// other: the levels of a step suppose that those before it are done.
type Step struct {
	Action Action
	From   int // the saturated shard
	To     int // -1 if nothing moves
	// Buckets are those that move, that of the key, or the one to be split; none if a shard is left.
	Buckets []int
	Key     int   // in Case.Keys, -1 if the step is about no key
	Cause   Cause // of a split or of leaving
	// Along says of a key that is left that neighbours of it leave in the same plan.
	Along bool
	// Before and After are the levels of all shards.
	Before, After []float64
}

// Relieve returns what to do about saturated shards, the fullest first. A shard gives to one other shard,
// and no more than makes both equally full. What is hot because of one key stays, and its neighbours leave. What
// was moved of late stays.
func Relieve(c Case) []Step {
	c.Options.Strategy = Load
	r := &relief{planner: newPlanner(c.Costs, c.Shards, c.Now, c.Pins, c.Options), c: c, sick: map[int]bool{}}
	r.value()
	for _, k := range c.Keys {
		r.keys = append(r.keys, r.part(k.Load))
	}
	for _, s := range c.Saturated {
		r.sick[s.Shard] = true
	}
	order := slices.Clone(c.Saturated)
	slices.SortStableFunc(order, func(a, b Saturated) int {
		return cmp.Or(cmp.Compare(r.fullness(b.Shard), r.fullness(a.Shard)), cmp.Compare(a.Shard, b.Shard))
	})
	for _, s := range order {
		r.shard(s)
	}
	return r.steps
}

// relief is the state of Relieve.
type relief struct {
	*planner
	c     Case
	sick  map[int]bool // saturated shards
	keys  []float64    // weights of keys
	steps []Step
}

// part is which part of all work a load is.
func (r *relief) part(load float64) float64 {
	for b, c := range r.costs {
		if c.Load > 0 {
			return load * r.worked[b] / c.Load
		}
	}
	return 0
}

func (r *relief) levels() []float64 {
	out := make([]float64, len(r.shards))
	for i := range out {
		if r.share[i] > 0 || r.load[i] > 0 {
			out[i] = r.fullness(i)
		}
	}
	return out
}

// add appends a step that changes loads by do, which may be nil.
func (r *relief) add(s Step, do func()) {
	s.Before = r.levels()
	s.After = s.Before
	if do != nil {
		do()
		s.After = r.levels()
	}
	r.steps = append(r.steps, s)
}

// shard makes the steps for one shard.
func (r *relief) shard(s Saturated) {
	hot := r.hotKeys(s.Shard)
	done := r.isolate(s.Shard, hot)
	cause, bucket := Beside, -1
	if !s.Beside && done < 0 {
		cause, bucket = r.give(s.Shard)
		if cause == "" {
			done = len(r.steps)
		}
	}
	for _, k := range hot {
		if done < 0 || r.steps[len(r.steps)-1].Key != k {
			r.add(Step{Action: Leave, From: s.Shard, To: -1, Buckets: []int{r.c.Keys[k].Bucket}, Key: k, Cause: OneKey, Along: done >= 0}, nil)
		}
	}
	switch {
	case done >= 0 || cause == OneKey && len(hot) > 0:
	case cause == Undivided && bucket >= 0:
		r.add(Step{Action: Split, From: s.Shard, To: -1, Buckets: []int{bucket}, Key: -1, Cause: cause}, nil)
	default:
		r.add(Step{Action: Leave, From: s.Shard, To: -1, Key: -1, Cause: cause}, nil)
	}
}

// hotKeys are the keys of a shard, the heaviest first.
func (r *relief) hotKeys(shard int) (out []int) {
	for k := range r.c.Keys {
		if r.at[r.c.Keys[k].Bucket] == shard {
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(r.keys[b], r.keys[a]) })
	return out
}

// isolate takes the heaviest tenant to a shard that is less full with it than the saturated one is now. It
// returns the number of its step, -1 if there is none.
func (r *relief) isolate(from int, keys []int) int {
	for _, k := range keys {
		to := r.coolest(from)
		if !r.c.Keys[k].Tenant || r.pins[r.c.Keys[k].Bucket] != Unpinned || to < 0 || (r.load[to]+r.keys[k])/r.share[to] >= r.fullness(from) {
			continue
		}
		r.add(Step{Action: IsolateKey, From: from, To: to, Buckets: []int{r.c.Keys[k].Bucket}, Key: k}, func() {
			r.load[from] -= r.keys[k]
			r.load[to] += r.keys[k]
		})
		return len(r.steps) - 1
	}
	return -1
}

// coolest is the emptiest shard that may take something from another, -1 if none has room.
func (r *relief) coolest(from int) int {
	to := -1
	for i, s := range r.shards {
		if i == from || s.Weight == 0 || s.Closed || r.sick[i] || r.fullness(i) > r.fullness(from)-r.o.Threshold {
			continue
		}
		if to < 0 || r.fullness(i) < r.fullness(to) {
			to = i
		}
	}
	return to
}

// give takes buckets off a shard. If there are none to take, it says why, and names the bucket that has most to do
// with it.
func (r *relief) give(from int) (Cause, int) {
	to := r.coolest(from)
	if to < 0 {
		return Full, -1
	}
	// Both are equally full when so much has gone.
	most := (r.load[from]*r.share[to] - r.load[to]*r.share[from]) / (r.share[from] + r.share[to])
	var light, all []int
	for b, at := range r.at {
		if at != from || r.pins[b] != Unpinned || r.weight[b] <= 0 || r.costs[b].Rests || r.lone(b) {
			continue
		}
		all = append(all, b)
		if r.weight[b] < heavyPart*r.load[from] {
			light = append(light, b)
		}
	}
	list, sum := r.pick(light, most)
	if sum < most/2 {
		list, sum = r.pick(all, most)
	}
	if sum < leastRelief*r.load[from] {
		return r.hindrance(from, most)
	}
	slices.Sort(list)
	r.add(Step{Action: MoveBuckets, From: from, To: to, Buckets: list, Key: -1}, func() {
		for _, b := range list {
			r.put(b, to)
		}
	})
	return "", -1
}

// pick returns the buckets with most work for what it takes to carry them, as many as fit.
func (r *relief) pick(buckets []int, most float64) (list []int, sum float64) {
	slices.SortFunc(buckets, func(a, b int) int { return r.byWorth(b, a) })
	for _, b := range buckets {
		if sum+r.weight[b] <= most && len(list) < mostBuckets {
			list, sum = append(list, b), sum+r.weight[b]
		}
	}
	return list, sum
}

// hindrance is why most of a shard's load cannot leave, and the heaviest bucket of that kind. Undivided
// comes with a bucket only if that one is more than fits elsewhere.
func (r *relief) hindrance(from int, most float64) (Cause, int) {
	sums, top := map[Cause]float64{Beside: r.load[from]}, map[Cause]int{Beside: -1}
	for b, at := range r.at {
		if at != from {
			continue
		}
		c := r.cause(b)
		sums[Beside] -= r.weight[b]
		sums[c] += r.weight[b]
		if best, known := top[c]; !known || r.weight[b] > r.weight[best] {
			top[c] = b
		}
	}
	out := Beside
	for _, c := range []Cause{OneKey, Resting, Pinned, Undivided} {
		if sums[c] > sums[out]+1e-9 {
			out = c
		}
	}
	if out == Undivided && r.weight[top[out]] <= most {
		return out, -1
	}
	return out, top[out]
}
