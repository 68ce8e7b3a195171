package heat

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestCells(t *testing.T) {
	last := 0
	for i := 1; i < Cells; i++ {
		from, to := bounds(i)
		if cell(int64(from)) != i || cell(int64(to)-1) != i || to/from > 1.26 {
			t.Fatalf("cell %d is from %v to %v, and those are in %d and %d", i, from, to, cell(int64(from)), cell(int64(to)-1))
		}
	}
	for v := int64(1); v > 0; v = v*5/4 + 1 {
		c := cell(v)
		if c < last || c >= Cells {
			t.Fatalf("%d is in cell %d after %d", v, c, last)
		}
		last = c
	}
	if cell(-5) != 0 || cell(0) != 0 || cell(math.MaxInt64) != Cells-1 {
		t.Error("times out of range")
	}
}

// Quantiles are within one cell of the truth.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h Histogram
	var all []int64
	for range 20_000 {
		v := int64(100_000 * math.Exp(1.5*r.NormFloat64()))
		all = append(all, v)
		h.Add(v, 2.5)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.1, 0.5, 0.9, 0.99} {
		want := float64(all[int(q*float64(len(all)))])
		if got := h.Quantile(q); want > 9000 && math.Abs(got/want-1) > 0.25 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if (&Histogram{}).Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	var one Histogram
	one.Add(1_000_000, 1)
	if q := one.Quantile(1); q < 1_000_000 || q > 1_250_000 || one.Quantile(0) > q {
		t.Error(q)
	}
}

func TestHistogramJSON(t *testing.T) {
	var h, back Histogram
	h.Add(100, 1)
	h.Add(1_000_000, 2.5)
	h.Add(math.MaxInt64, 3)
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &back); err != nil || back != h {
		t.Errorf("%s: %v", text, err)
	}
	if err := json.Unmarshal([]byte(`[-1,5,97,5,1e30,5,3]`), &back); err != nil || back != (Histogram{}) {
		t.Errorf("cells that do not exist: %v", err)
	}
	if json.Unmarshal([]byte(`"x"`), &back) == nil {
		t.Error("a text that is no histogram was read")
	}
	back.Merge(&h, 2)
	back.Decay(0.5)
	if back != h {
		t.Error("twice and half is not the same")
	}
}
