package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
)

// Keys says which keys statements are about. Several goroutines may use it, each with its own generator.
type Keys interface {
	// Next returns the next key, from 1 on.
	Next(r *rand.Rand) int64
}

// Even is so many keys of the same share.
type Even int64

// Next implements Keys.
func (n Even) Next(r *rand.Rand) int64 { return 1 + r.Int64N(int64(n)) }

// Zipf is keys of which number i has a share in proportion to 1/i^s, for any s.
type Zipf struct{ sums []float64 }

// NewZipf returns n such keys.
func NewZipf(n int, s float64) *Zipf {
	z := &Zipf{sums: make([]float64, n)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -s)
		z.sums[i] = sum
	}
	for i := range z.sums {
		z.sums[i] /= sum
	}
	return z
}

// Next implements Keys.
func (z *Zipf) Next(r *rand.Rand) int64 {
	i, _ := slices.BinarySearch(z.sums, r.Float64())
	return int64(min(i, len(z.sums)-1)) + 1
}

// Share is the share of a key.
func (z *Zipf) Share(key int64) float64 {
	if key == 1 {
		return z.sums[0]
	}
	return z.sums[key-1] - z.sums[key-2]
}

// Hot is other keys, and one that has a share of all statements. The key may move.
type Hot struct {
	Rest  Keys
	Share float64
	key   atomic.Int64
}

// Move makes another key the hot one; 0: none is.
func (h *Hot) Move(to int64) { h.key.Store(to) }

// Next implements Keys.
func (h *Hot) Next(r *rand.Rand) int64 {
	if key := h.key.Load(); key != 0 && r.Float64() < h.Share {
		return key
	}
	return h.Rest.Next(r)
}
