package reshard

import "testing"

// TestWarmth: buckets with the usual work are alike, and hot ones are told apart by powers of two.
func TestWarmth(t *testing.T) {
	load := map[int32]float64{1: 1, 2: 3, 3: 40, 4: 80, 5: 4} // 128 in 64 buckets: the mean is 2
	w := NewWarmth(load, 64)
	for bucket, want := range map[int]int{0: 0, 1: 0, 2: 0, 3: 4, 4: 5, 5: 1, 63: 0} {
		if got := w.Class(bucket); got != want {
			t.Errorf("bucket %d: class %d, want %d", bucket, got, want)
		}
	}
	for name, w := range map[string]Warmth{"zero": {}, "no work": NewWarmth(nil, 64), "work of nothing": NewWarmth(map[int32]float64{1: 0}, 64), "no buckets": NewWarmth(load, 0)} {
		if got := w.Class(1); got != 0 {
			t.Errorf("%s: class %d", name, got)
		}
	}
}
