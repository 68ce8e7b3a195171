package tally

import (
	"fmt"
	"slices"
	"testing"
)

func TestHistogram(t *testing.T) {
	h := NewHistogram([]int64{10, 20, 30})
	for i, v := range []int64{1, 10, 11, 20, 31, 1000} {
		h.Add(int32(i), v)
	}
	r := h.Read()
	if !slices.Equal(r.Counts, []uint64{2, 4, 4}) || r.Count != 6 || r.Sum != 1073 {
		t.Errorf("%+v", r)
	}
	for q, want := range map[float64]int64{0: 10, 0.3: 10, 0.5: 20, 0.99: 30} {
		if got := r.Quantile(q); got != want {
			t.Errorf("quantile %v: %d, want %d", q, got, want)
		}
	}
	if NewHistogram(Durations).Read().Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	if !slices.IsSorted(Durations) || !slices.IsSorted(Bytes) {
		t.Error("bounds are not sorted")
	}
}

func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for k := range Kinds {
		if k.String() == "" || seen[k.String()] {
			t.Errorf("kind %d is called %q", k, k)
		}
		seen[k.String()] = true
	}
}

func TestCodes(t *testing.T) {
	var c Codes
	c.Add("23505")
	c.Add("23505")
	c.Add("not a code")
	for i := range 2 * maxCodes {
		c.Add(fmt.Sprintf("%05d", i))
	}
	all := c.All()
	if all["23505"] != 2 || all[OtherCode] < maxCodes || len(all) > maxCodes+1 {
		t.Errorf("%d codes, %v", len(all), all[OtherCode])
	}
}
