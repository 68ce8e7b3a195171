package heat

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// Costs are in nanoseconds of a backend's time.
const (
	// callCost is the cost of any statement beside the time that it keeps a backend busy: it is
	// received, planned and answered.
	callCost = 50_000
	// byteCost is the cost of a byte that is sent to the client.
	byteCost = 1
)

// Cost is what a statement has cost that kept a backend busy for so many nanoseconds and sent so
// many bytes.
func Cost(busy, bytes int64) float64 {
	return callCost + float64(max(busy, 0)) + byteCost*float64(max(bytes, 0))
}

// Meter decides which statements of a session are sampled. It is a Poisson process on the axis of
// cost: every unit of cost has the same chance to be hit, whatever was hit before, and a statement
// is sampled if one of its units is.
type Meter struct{ left float64 }

// draw returns a random number of the exponential distribution with mean 1.
var draw = rand.ExpFloat64

// NewMeter returns a meter that has counted nothing.
func NewMeter() Meter { return Meter{draw()} }

// Spend counts a statement's cost, and reports whether the statement is sampled. rate is
// Sampler.Rate.
func (m *Meter) Spend(cost, rate float64) bool {
	m.left -= cost * rate
	return m.left < 0
}

// Weigh returns the weight of a statement for which Spend has reported true.
func (m *Meter) Weigh(cost, rate float64) float64 {
	m.left = draw()
	return -1 / math.Expm1(-cost*rate)
}

// Way is how a statement was carried out.
type Way uint8

// The ways.
const (
	None     Way = iota // by no shard
	One                 // by one shard
	Scatter             // rows of several shards were read
	Several             // several shards have done more than read
	Commit              // the end of a transaction of one shard
	TwoPhase            // the end of a transaction of several shards

	ways
)

// Sample is a statement that stands for others. Its strings are shared with their owners.
type Sample struct {
	Weight                    float64
	Busy, Waited, Bytes, Rows int64 // times in nanoseconds
	Database, User            string
	Text                      string   // of the statement, without its values; "" if it is not known
	Shard                     string   // of a statement that one shard has run
	Shards                    []string // of other statements
	Keys                      [MaxKeys]Key
	KeyCount                  uint8
	Way                       Way
	Write, Failed             bool
}

const (
	// stripeSize bounds the samples that one stripe holds between two drains.
	stripeSize = 512
	// least is the smallest mean distance of samples on the axis of cost. Any statement costs ten
	// times as much, so practically all are sampled.
	least = callCost / 10
)

// Sampler holds samples until they are drained, and sets the rate at which they come. It is safe
// for concurrent use; those who put samples into different stripes do not wait for each other.
type Sampler struct {
	rate    atomic.Uint64 // bits of a float64: samples per unit of cost
	stripes []stripe

	// Drain alone uses what follows.
	distance float64 // 1 / rate
	spare    []Sample
	taken    float64 // samples since the beginning
	missed   float64
}

type stripe struct {
	mu     sync.Mutex
	held   []Sample
	missed int
	_      [64]byte // stripes do not share cache lines
}

// NewSampler returns a sampler that is off.
func NewSampler() *Sampler {
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < 16 {
		n *= 2
	}
	s := &Sampler{stripes: make([]stripe, n), distance: least}
	for i := range s.stripes {
		s.stripes[i].held = make([]Sample, 0, stripeSize)
	}
	s.spare = make([]Sample, 0, stripeSize)
	return s
}

// Rate is how many samples are taken per unit of cost, 0 if the sampler is off.
func (s *Sampler) Rate() float64 { return math.Float64frombits(s.rate.Load()) }

// Put keeps a copy of a sample. by spreads those who put, such as a session's id.
func (s *Sampler) Put(by int32, x *Sample) {
	t := &s.stripes[int(by)&(len(s.stripes)-1)]
	t.mu.Lock()
	if len(t.held) < stripeSize {
		t.held = append(t.held, *x)
	} else {
		t.missed++
	}
	t.mu.Unlock()
}

// Drain calls f with each sample since the last Drain, which was so many seconds ago. Then it sets
// the rate so that about perSecond samples come; with 0 the sampler is off.
func (s *Sampler) Drain(seconds, perSecond float64, f func(*Sample)) {
	n := 0.0
	for i := range s.stripes {
		t := &s.stripes[i]
		t.mu.Lock()
		held, missed := t.held, t.missed
		t.held, t.missed = s.spare[:0], 0
		t.mu.Unlock()
		all := float64(len(held) + missed)
		for j := range held {
			held[j].Weight *= all / float64(len(held)) // the samples that were missed were like these
			f(&held[j])
		}
		n += all
		s.taken, s.missed = s.taken+float64(len(held)), s.missed+float64(missed)
		clear(held)
		s.spare = held
	}
	if perSecond <= 0 {
		s.rate.Store(0)
		return
	}
	if seconds > 0 {
		s.distance = max(least, s.distance*min(max(n/(perSecond*seconds), 0.5), 8))
	}
	s.rate.Store(math.Float64bits(1 / s.distance))
}

// Counts returns how many samples were taken, and how many were missed because they came faster
// than they were drained. Who calls Drain may call it.
func (s *Sampler) Counts() (taken, missed float64) { return s.taken, s.missed }
