package heat

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(a, b, within float64) bool { return math.Abs(a-b) <= within }

func TestSkew(t *testing.T) {
	even := make([]float64, 100)
	for i := range even {
		even[i] = 3
	}
	one := make([]float64, 100)
	one[42] = 7
	half := make([]float64, 100)
	for i := range 50 {
		half[2*i] = 1
	}
	for name, c := range map[string]struct {
		amounts []float64
		want    Skew
	}{
		"even":       {even, Skew{Evenness: 1, Effective: 100, Gini: 0, Top: 0.01, First: 0, OverMean: 1, OverMedian: 1}},
		"one":        {one, Skew{Evenness: 0, Effective: 1, Gini: 0.99, Top: 1, First: 42, OverMean: 100}},
		"half":       {half, Skew{Evenness: math.Log(50) / math.Log(100), Effective: 50, Gini: 0.5, Top: 0.02, First: 0, OverMean: 2, OverMedian: 1}},
		"nothing":    {make([]float64, 8), Skew{Evenness: 1, Effective: 8, First: -1}},
		"no places":  {nil, Skew{Evenness: 1, First: -1}},
		"one place":  {[]float64{5}, Skew{Evenness: 1, Effective: 1, Top: 1, OverMean: 1, OverMedian: 1}},
		"two places": {[]float64{1, 3}, Skew{Evenness: 0.8113, Effective: 1.7548, Gini: 0.25, Top: 0.75, First: 1, OverMean: 1.5, OverMedian: 1}},
	} {
		got := NewSkew(c.amounts, 0)
		w := c.want
		if !near(got.Evenness, w.Evenness, 1e-4) || !near(got.Effective, w.Effective, 1e-3) || !near(got.Gini, w.Gini, 1e-9) || !near(got.Top, w.Top, 1e-9) ||
			got.First != w.First || !near(got.OverMean, w.OverMean, 1e-9) || !near(got.OverMedian, w.OverMedian, 1e-9) {
			t.Errorf("%s: %+v, want %+v", name, got, w)
		}
	}
}

// A load that is even in truth is called even, however few samples there are of it.
func TestSkewOfNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, samples := range []int{2_000, 20_000, 200_000} {
		amounts := make([]float64, 4096)
		for range samples {
			amounts[r.IntN(len(amounts))] += 15
		}
		raw, got := NewSkew(amounts, 0), NewSkew(amounts, float64(samples))
		if got.Evenness < 0.92 || got.Evenness < raw.Evenness || got.Gini > 0.02 {
			t.Errorf("%d samples: %+v, uncorrected %+v", samples, got, raw)
		}
	}
	if g := noiseGini(0.001); !near(g, 1, 0.01) {
		t.Errorf("nearly no samples: %v", g)
	}
	if a, b := noiseGini(99.9), noiseGini(100.1); !near(a, b, 0.001) {
		t.Errorf("the two formulas differ: %v, %v", a, b)
	}
}
