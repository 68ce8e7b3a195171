package tally

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// maxBounds is how many bounds a histogram may have.
const maxBounds = 18

// Durations are bounds for times, in nanoseconds.
var Durations = []int64{
	100e3, 250e3, 500e3, 1e6, 2500e3, 5e6, 10e6, 25e6, 50e6, 100e6, 250e6, 500e6, 1e9, 2500e6, 5e9, 10e9, 30e9, 60e9,
}

// Bytes are bounds for amounts of memory.
var Bytes = []int64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30}

// Histogram counts values by size. It is safe for concurrent use; those who add
// to different stripes do not wait for each other's cache lines.
type Histogram struct {
	bounds  []int64
	stripes []stripe
}

type stripe struct {
	counts [maxBounds + 1]atomic.Uint64
	sum    atomic.Int64
	_      [64]byte // stripes do not share cache lines
}

// NewHistogram returns a histogram with these upper bounds, both ends of a range
// included in the lower one.
func NewHistogram(bounds []int64) *Histogram {
	if len(bounds) > maxBounds {
		panic("tally: too many bounds")
	}
	n := 1
	for n < runtime.GOMAXPROCS(0) && n < 16 {
		n *= 2
	}
	return &Histogram{bounds: bounds, stripes: make([]stripe, n)}
}

// Add counts a value. by spreads those who add, such as a session's id.
func (h *Histogram) Add(by int32, v int64) {
	s := &h.stripes[int(by)&(len(h.stripes)-1)]
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	s.counts[i].Add(1)
	s.sum.Add(v)
}

// Reading is what a histogram has counted.
type Reading struct {
	Bounds []int64
	// Counts are how many values were up to each of the bounds.
	Counts []uint64
	Count  uint64
	Sum    int64
}

// Read returns what has been counted. What is added meanwhile may be in some of
// it.
func (h *Histogram) Read() Reading {
	r := Reading{Bounds: h.bounds, Counts: make([]uint64, len(h.bounds))}
	for i := range h.stripes {
		s := &h.stripes[i]
		for b := range h.bounds {
			r.Counts[b] += s.counts[b].Load()
		}
		r.Count += s.counts[len(h.bounds)].Load()
		r.Sum += s.sum.Load()
	}
	for b := 1; b < len(r.Counts); b++ {
		r.Counts[b] += r.Counts[b-1]
	}
	if n := len(r.Counts); n > 0 {
		r.Count += r.Counts[n-1]
	}
	return r
}

// Quantile returns a bound that the share q of all values do not exceed, 0 if
// there are none.
func (r Reading) Quantile(q float64) int64 {
	want := uint64(q * float64(r.Count))
	if r.Count == 0 {
		return 0
	}
	if i, _ := slices.BinarySearch(r.Counts, max(want, 1)); i < len(r.Bounds) {
		return r.Bounds[i]
	}
	return r.Bounds[len(r.Bounds)-1]
}

// epoch is what Now counts from.
var epoch = time.Now()

// Now is the time since this process began, in nanoseconds and never 0. It costs
// half of what time.Now does.
func Now() int64 { return int64(time.Since(epoch)) + 1 }

// Time returns when it was that Now returned t.
func Time(t int64) time.Time { return epoch.Add(time.Duration(t)) }
