package rebalance

import (
	"cmp"
	"math"
	"slices"
)

const (
	// samplesPerShard is how many samples there must be for each shard before a plan may rest on
	// them: the load of a shard is known to a seventh then.
	samplesPerShard = 50
	// loneKey is the part of a bucket's work from which on one key is why the bucket is hot, and
	// loneShare the part of a shard's share from which on such a bucket is hot.
	loneKey, loneShare = 0.5, 0.1
)

// Needed returns how many samples a plan by load needs.
func Needed(shards int) float64 { return samplesPerShard * float64(shards) }

// Noise returns by how much a shard may be off its share because its load is counted by so many
// samples, as a part of the share: two standard deviations. 0 samples: not at all.
func Noise(samples float64, shards int) float64 {
	if samples <= 0 {
		return 0
	}
	return 2 * math.Sqrt(float64(shards)/samples)
}

func (p *planner) byLoad() bool { return p.o.Strategy == Load || p.o.Strategy == Mixed }

// lone reports whether a bucket is hot because of one key. Moving it would move the problem, so it
// stays, and its neighbours go.
func (p *planner) lone(b int) bool {
	return p.costs[b].Key >= loneKey && p.worked[b] >= loneShare*p.share[p.at[b]]
}

// relieve is even for loads, which change and are estimates: a plan must not be undone by the next
// one. Nothing moves unless a shard is further from its share than the threshold, and then shards
// come within half of it. No move makes the taking shard fuller than the one that gives is left.
// Of the buckets that fit, the one with most work for what it takes to carry it goes.
func (p *planner) relieve() {
	if from, to := p.extremes(make([]bool, len(p.shards))); from < 0 || to < 0 || p.within(from, p.o.Threshold) && p.within(to, p.o.Threshold) {
		return
	}
	p.value()
	mine := make([][]int, len(p.shards)) // buckets that may go, the best to move last
	for b, i := range p.at {
		if p.pins[b] == Unpinned && p.weight[b] > 0 && !p.costs[b].Rests && !p.lone(b) {
			mine[i] = append(mine[i], b)
		}
	}
	for i := range mine {
		slices.SortFunc(mine[i], p.byWorth)
	}
	for p.pass(mine) { // what did not fit may fit now
	}
}

// pass takes from shards that have more than their share, the fullest first, until none has anything
// that fits elsewhere. It reports whether a bucket has moved and another one may.
func (p *planner) pass(mine [][]int) (moved bool) {
	stuck := make([]bool, len(p.shards))
	for {
		from, to := p.extremes(stuck)
		if from < 0 || to < 0 || p.fullness(from) <= 1 || p.within(from, p.o.Threshold/2) && p.within(to, p.o.Threshold/2) {
			return moved
		}
		at, to := p.fit(mine[from], from, to)
		if at < 0 {
			stuck[from] = true
			continue
		}
		b := mine[from][at]
		if p.full(b) {
			return false
		}
		p.put(b, to)
		moved, stuck[to] = true, false
		mine[from] = slices.Delete(mine[from], at, at+1)
		i, _ := slices.BinarySearchFunc(mine[to], b, p.byWorth)
		mine[to] = slices.Insert(mine[to], i, b)
	}
}

// byWorth orders buckets by the work that leaves with them for what it takes to carry them.
func (p *planner) byWorth(a, b int) int {
	return cmp.Or(cmp.Compare(p.worth[a], p.worth[b]), cmp.Compare(b, a))
}

// value says what buckets are worth. A round costs something for any bucket, so one without rows
// counts like one of the mean size.
func (p *planner) value() {
	bytes := 0.0
	for _, c := range p.costs {
		bytes += c.Bytes
	}
	mean := bytes / float64(len(p.costs))
	p.worth = slices.Clone(p.weight)
	if mean <= 0 {
		return
	}
	for b, c := range p.costs {
		p.worth[b] /= 1 + c.Bytes/mean
	}
}

// fit returns the index of the best bucket that fits somewhere, and where: on the emptiest shard if
// it can be, else on the next. -1: none fits.
func (p *planner) fit(buckets []int, from, emptiest int) (at, to int) {
	if at := p.fits(buckets, from, emptiest); at >= 0 {
		return at, emptiest
	}
	var takers []int
	for i, s := range p.shards {
		if i != from && i != emptiest && s.Weight > 0 && !s.Closed && p.fullness(i) < p.fullness(from) {
			takers = append(takers, i)
		}
	}
	slices.SortStableFunc(takers, func(a, b int) int { return cmp.Compare(p.fullness(a), p.fullness(b)) })
	for _, to := range takers {
		if at := p.fits(buckets, from, to); at >= 0 {
			return at, to
		}
	}
	return -1, -1
}

// fits returns the index of the best bucket that fits on a shard, -1 if none does.
func (p *planner) fits(buckets []int, from, to int) int {
	// Both are equally full when so much has gone.
	most := (p.load[from]*p.share[to] - p.load[to]*p.share[from]) / (p.share[from] + p.share[to])
	for at := len(buckets) - 1; at >= 0; at-- {
		if p.weight[buckets[at]] <= most {
			return at
		}
	}
	return -1
}

// Cause is why a shard keeps more than its share.
type Cause string

// The causes.
const (
	OneKey    Cause = "one key"     // buckets are hot because of one key each
	Beside    Cause = "beside"      // the work is of no bucket
	Resting   Cause = "resting"     // buckets were moved of late
	Pinned    Cause = "pinned"      // buckets are pinned there
	Undivided Cause = "not divided" // buckets are more than others have room for, or the plan is bounded
)

// Left is a shard that is further above its share than the threshold, though nothing is left to do.
type Left struct {
	Shard int
	Level float64 // see Levels
	Cause Cause   // of most of it
	Part  float64 // which part of the shard's load that is
	// Bucket is the heaviest of the buckets that are the cause, -1 if none is.
	Bucket int
}

// Rest returns the shards that are above their share by more than the threshold if buckets are at
// these shards. It is about plans by load.
func Rest(costs []Cost, shards []Shard, at, pins []int, o Options) []Left {
	p := newPlanner(costs, shards, at, pins, o)
	var out []Left
	for i, s := range shards {
		if s.Weight == 0 || p.fullness(i) <= 1+p.o.Threshold {
			continue
		}
		l := Left{Shard: i, Level: p.fullness(i), Bucket: -1}
		sums, top := map[Cause]float64{Beside: p.load[i]}, map[Cause]int{Beside: -1}
		for b, at := range p.at {
			if at != i {
				continue
			}
			c := p.cause(b)
			sums[Beside] -= p.weight[b]
			sums[c] += p.weight[b]
			if best, known := top[c]; !known || p.weight[b] > p.weight[best] {
				top[c] = b
			}
		}
		for _, c := range []Cause{OneKey, Beside, Resting, Pinned, Undivided} {
			if part := sums[c] / p.load[i]; part > l.Part+1e-9 {
				l.Cause, l.Part, l.Bucket = c, part, top[c]
			}
		}
		out = append(out, l)
	}
	return out
}

// cause says why a bucket stays.
func (p *planner) cause(b int) Cause {
	switch {
	case p.pins[b] != Unpinned:
		return Pinned
	case p.lone(b):
		return OneKey
	case p.costs[b].Rests:
		return Resting
	}
	return Undivided
}
