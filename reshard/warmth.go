package reshard

import "math"

// Warmth orders buckets by the work that clients make of them. Its zero value takes all for alike.
// Classes are wide: loads are estimates, and buckets beside each other should go together.
type Warmth struct {
	load map[int32]float64
	mean float64
}

// NewWarmth returns the order for buckets with these loads, in any unit, of so many buckets in all.
func NewWarmth(load map[int32]float64, buckets int) Warmth {
	sum := 0.0
	for _, x := range load {
		sum += x
	}
	if sum <= 0 || buckets <= 0 {
		return Warmth{}
	}
	return Warmth{load: load, mean: sum / float64(buckets)}
}

// Class returns how hot a bucket is: 0 is less than twice the mean, 1 less than four times, and so on.
func (w Warmth) Class(bucket int) int {
	if x := w.load[int32(bucket)]; x >= 2*w.mean && w.mean > 0 {
		return math.Ilogb(x / w.mean)
	}
	return 0
}
