package rebalance

import (
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"
)

// Cost is what a bucket weighs.
type Cost struct {
	Bytes float64 // what it takes to carry the bucket
	Load  float64 // the work that it is, in any unit
	Key   float64 // which part of Load its heaviest key is, from 0 to 1
	// Rests says that the bucket was moved of late: it stays for now, unless it must go. Plans by load
	// heed it.
	Rests bool
}

// Strategy says what is to be equal.
type Strategy string

// The strategies.
const (
	Bytes   Strategy = "bytes"   // the size of rows
	Load    Strategy = "load"    // the work of shards
	Buckets Strategy = "buckets" // the number of buckets
	Mixed   Strategy = "mixed"   // bytes and load, in equal parts
)

// ParseStrategy reads the name of a strategy; "" is Bytes.
func ParseStrategy(name string) (Strategy, error) {
	switch s := Strategy(name); s {
	case "":
		return Bytes, nil
	case Bytes, Load, Buckets, Mixed:
		return s, nil
	}
	return "", fmt.Errorf("%q is no strategy: they are bytes, load, buckets and mixed", name)
}

// Shard is what a shard may hold.
type Shard struct {
	Name string
	// Weight is its share relative to the others'. 0: the shard is to be empty.
	Weight int
	// Closed says that the shard takes no bucket, and keeps those that it has unless its weight is
	// 0.
	Closed bool
	// Load is work of the shard that no bucket brings along, in the unit of Cost.Load.
	Load float64
}

// Options bound a plan. Zero values stand for the defaults.
type Options struct {
	Strategy Strategy
	// Threshold is how far, as a part of its share, a shard may be from it. Default 0.1.
	Threshold float64
	// Improvement is the least part of a bucket's cost by which moving it must bring the cluster
	// closer to its shares. Default 0.5.
	Improvement float64
	// MaxMoves bounds the number of buckets, MaxBytes their size. 0: no bound. What must move does
	// so regardless.
	MaxMoves int
	MaxBytes float64
	// Samples is on how many samples of equal cost the loads rest. What their noise alone may make of equal shards
	// is within the threshold. 0: the loads are exact.
	Samples float64
}

// Unpinned is the wish of a bucket that no pin concerns.
const Unpinned = -1

// Move takes a bucket from one shard to another. Shards are indexes.
type Move struct {
	Bucket   int
	From, To int
	Bytes    float64
}

// Plan returns the moves that bring buckets to their shards. now and pins are by bucket: the
// shard that has it, and the shard that it is pinned to or Unpinned.
func Plan(costs []Cost, shards []Shard, now, pins []int, o Options) []Move {
	p := newPlanner(costs, shards, now, pins, o)
	p.must()
	if p.byLoad() {
		p.relieve()
	} else {
		p.even()
	}
	var out []Move
	for b := range p.at {
		if p.at[b] != now[b] {
			out = append(out, Move{Bucket: b, From: now[b], To: p.at[b], Bytes: costs[b].Bytes})
		}
	}
	return out
}

// Levels returns how full shards are if buckets are at these shards: 1 is a shard that has exactly
// its share, 2 one that has twice as much. A shard that is to be empty is at 0, or at +Inf if it is
// not.
func Levels(costs []Cost, shards []Shard, at []int, o Options) []float64 {
	p := newPlanner(costs, shards, at, nil, o)
	out := make([]float64, len(shards))
	for i := range out {
		if p.share[i] > 0 || p.load[i] > 0 {
			out[i] = p.fullness(i)
		}
	}
	return out
}

// planner is the state of Plan.
type planner struct {
	costs   []Cost
	shards  []Shard
	pins    []int
	now, at []int // where each bucket is, and will be so far
	o       Options
	weight  []float64 // of buckets, by the strategy; with what shards have beside buckets their sum is 1
	worked  []float64 // which part of all work each bucket is
	share   []float64 // of shards; their sum is 1
	load    []float64 // of shards so far
	moves   int
	bytes   float64
	worth   []float64 // of buckets: the weight that leaves for what it takes to carry them
}

func newPlanner(costs []Cost, shards []Shard, now, pins []int, o Options) *planner {
	p := &planner{costs: costs, shards: shards, pins: pins, now: now, at: slices.Clone(now), o: o}
	if p.o.Threshold <= 0 {
		p.o.Threshold = 0.1
	}
	if p.o.Improvement <= 0 {
		p.o.Improvement = 0.5
	}
	if p.byLoad() {
		p.o.Threshold = max(p.o.Threshold, Noise(p.o.Samples, len(shards)))
	}
	p.weigh()
	return p
}

// weigh computes what buckets weigh by the strategy, and the shares of shards.
func (p *planner) weigh() {
	var bytes, load float64
	total := 0
	for _, c := range p.costs {
		bytes, load = bytes+c.Bytes, load+c.Load
	}
	for _, s := range p.shards {
		total += s.Weight
		if s.Weight > 0 {
			load += s.Load
		}
	}
	n := float64(len(p.costs))
	part := func(x, sum float64) float64 {
		if sum <= 0 {
			return 1 / n // nothing is known: buckets are alike
		}
		return x / sum
	}
	p.weight, p.worked = make([]float64, len(p.costs)), make([]float64, len(p.costs))
	for b, c := range p.costs {
		p.worked[b] = part(c.Load, load)
		switch p.o.Strategy {
		case Load:
			p.weight[b] = p.worked[b]
		case Buckets:
			p.weight[b] = 1 / n
		case Mixed:
			p.weight[b] = (part(c.Bytes, bytes) + p.worked[b]) / 2
		default:
			p.weight[b] = part(c.Bytes, bytes)
		}
	}
	p.share, p.load = make([]float64, len(p.shards)), make([]float64, len(p.shards))
	for i, s := range p.shards {
		if total > 0 {
			p.share[i] = float64(s.Weight) / float64(total)
		}
		p.load[i] = p.beside(i, load)
	}
	for b, i := range p.at {
		p.load[i] += p.weight[b]
	}
}

// beside is what a shard has that no bucket brings. total is all work.
func (p *planner) beside(i int, total float64) float64 {
	s := p.shards[i]
	switch {
	case s.Weight == 0 || total <= 0:
		return 0
	case p.o.Strategy == Load:
		return s.Load / total
	case p.o.Strategy == Mixed:
		return s.Load / total / 2
	}
	return 0
}

// put moves a bucket.
func (p *planner) put(b, to int) {
	from := p.at[b]
	p.load[from] -= p.weight[b]
	p.load[to] += p.weight[b]
	p.at[b] = to
	switch {
	case from == p.now[b]:
		p.moves++
		p.bytes += p.costs[b].Bytes
	case to == p.now[b]:
		p.moves--
		p.bytes -= p.costs[b].Bytes
	}
}

// full reports whether the plan may not move another bucket.
func (p *planner) full(b int) bool {
	if p.at[b] != p.now[b] {
		return false // it moves anyway
	}
	return p.o.MaxMoves > 0 && p.moves >= p.o.MaxMoves || p.o.MaxBytes > 0 && p.bytes+p.costs[b].Bytes > p.o.MaxBytes
}

// must moves the buckets that may not stay: to the shard of their pin, or off a shard that is to
// be empty. The heaviest go first, each to the shard that is furthest below its share.
func (p *planner) must() {
	var homeless []int
	for b, i := range p.at {
		switch pin := p.pins[b]; {
		case pin != Unpinned && pin != i:
			p.put(b, pin)
		case pin == Unpinned && p.shards[i].Weight == 0:
			homeless = append(homeless, b)
		}
	}
	slices.SortStableFunc(homeless, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.weight[b], p.weight[a]), cmp.Compare(a, b))
	})
	takers := &queue{p: p}
	for i, s := range p.shards {
		if s.Weight > 0 && !s.Closed {
			takers.shards = append(takers.shards, i)
		}
	}
	if len(takers.shards) == 0 {
		return
	}
	heap.Init(takers)
	for _, b := range homeless {
		p.put(b, takers.shards[0])
		heap.Fix(takers, 0)
	}
}

// queue orders shards by how full they are for their share; the emptiest comes first.
type queue struct {
	p      *planner
	shards []int
}

func (q *queue) Len() int      { return len(q.shards) }
func (q *queue) Swap(i, j int) { q.shards[i], q.shards[j] = q.shards[j], q.shards[i] }
func (q *queue) Push(any)      { panic("rebalance: no shard joins a plan") }
func (q *queue) Pop() any      { panic("rebalance: no shard leaves a plan") }
func (q *queue) Less(i, j int) bool {
	a, b := q.shards[i], q.shards[j]
	x, y := q.p.fullness(a), q.p.fullness(b)
	return x < y || x == y && a < b
}

// fullness is a shard's load as a multiple of its share.
func (p *planner) fullness(i int) float64 {
	if p.share[i] == 0 {
		return math.Inf(1)
	}
	return p.load[i] / p.share[i]
}

// within reports whether a shard is that close to its share, as a part of it.
func (p *planner) within(i int, threshold float64) bool {
	return math.Abs(p.fullness(i)-1) <= threshold
}

// even moves buckets from the fullest shards to the emptiest until all are within the threshold.
func (p *planner) even() {
	mine := make([][]int, len(p.shards)) // buckets that may go, lightest first
	for b, i := range p.at {
		if p.pins[b] == Unpinned && p.weight[b] > 0 {
			mine[i] = append(mine[i], b)
		}
	}
	for i := range mine {
		slices.SortStableFunc(mine[i], func(a, b int) int {
			return cmp.Or(cmp.Compare(p.weight[a], p.weight[b]), cmp.Compare(a, b))
		})
	}
	stuck := make([]bool, len(p.shards))
	for {
		from, to := p.extremes(stuck)
		if from < 0 || to < 0 || from == to {
			return
		}
		if p.within(from, p.o.Threshold) && p.within(to, p.o.Threshold) {
			return
		}
		at := p.choose(mine[from], from, to)
		if at < 0 {
			stuck[from] = true
			continue
		}
		b := mine[from][at]
		if p.full(b) {
			return
		}
		p.put(b, to)
		mine[from] = slices.Delete(mine[from], at, at+1)
	}
}

// extremes returns the fullest shard that may still give, and the emptiest that may take; -1 if
// there is none.
func (p *planner) extremes(stuck []bool) (from, to int) {
	from, to = -1, -1
	for i, s := range p.shards {
		if s.Weight == 0 {
			continue
		}
		if !stuck[i] && (from < 0 || p.fullness(i) > p.fullness(from)) {
			from = i
		}
		if !s.Closed && (to < 0 || p.fullness(i) < p.fullness(to)) {
			to = i
		}
	}
	return from, to
}

// choose returns the index of the bucket whose move brings the two shards closest to their
// shares, -1 if none is worth it. buckets are ordered by weight.
func (p *planner) choose(buckets []int, from, to int) int {
	surplus, room := p.load[from]-p.share[from], p.share[to]-p.load[to]
	want := (surplus + room) / 2
	if want <= 0 {
		return -1
	}
	i, _ := slices.BinarySearchFunc(buckets, want, func(b int, w float64) int { return cmp.Compare(p.weight[b], w) })
	best, gain := -1, 0.0
	for _, at := range []int{i - 1, i} {
		if at < 0 || at >= len(buckets) {
			continue
		}
		w := p.weight[buckets[at]]
		g := math.Abs(surplus) + math.Abs(room) - math.Abs(surplus-w) - math.Abs(room-w)
		if g > gain && g >= 2*p.o.Improvement*w {
			best, gain = at, g
		}
	}
	return best
}
