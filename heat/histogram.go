package heat

import (
	"encoding/json"
	"math/bits"
)

const (
	// firstPower: times below 2^firstPower nanoseconds, 8 µs, are in the first cell.
	firstPower = 13
	// octaves from there on are divided into four cells each, up to 137 s.
	octaves = 24
	// Cells is how many cells a histogram has.
	Cells = 1 + 4*octaves
)

// Histogram counts times by their length. The bounds of a cell are at most a quarter apart.
type Histogram [Cells]float32

// cell returns the cell of a time in nanoseconds.
func cell(t int64) int {
	power := bits.Len64(uint64(max(t, 1))) - 1
	if power < firstPower {
		return 0
	}
	return min(1+4*(power-firstPower)+int(t>>(power-2))&3, Cells-1)
}

// bounds returns between which times a cell is.
func bounds(i int) (from, to float64) {
	if i == 0 {
		return 0, 1 << firstPower
	}
	unit := float64(uint64(1) << (firstPower + (i-1)/4 - 2))
	from = unit * float64(4+(i-1)%4)
	return from, from + unit
}

// Add counts a time in nanoseconds, with a weight.
func (h *Histogram) Add(t int64, weight float64) { h[cell(t)] += float32(weight) }

// Merge adds f times what another histogram has counted.
func (h *Histogram) Merge(o *Histogram, f float64) {
	for i := range h {
		h[i] += o[i] * float32(f)
	}
}

// Decay leaves a share of everything, and nothing of what has become too little to matter.
func (h *Histogram) Decay(f float64) {
	for i, n := range h {
		if n == 0 {
			continue // most cells are empty
		}
		if n *= float32(f); n < 1e-6 {
			n = 0
		}
		h[i] = n
	}
}

// Quantile returns about the time in nanoseconds that a share q of all times do not exceed, 0 if
// there are none.
func (h *Histogram) Quantile(q float64) float64 {
	sum := 0.0
	for _, n := range h {
		sum += float64(n)
	}
	want, last := q*sum, 0.0
	if sum == 0 {
		return 0
	}
	for i, n := range h {
		if n <= 0 {
			continue
		}
		from, to := bounds(i)
		if float64(n) >= want {
			return from + (to-from)*max(want, 0)/float64(n)
		}
		want, last = want-float64(n), to
	}
	return last
}

// Above returns how many times were counted in the cells from that of t on.
func (h *Histogram) Above(t int64) float64 {
	sum := 0.0
	for _, n := range h[cell(t):] {
		sum += float64(n)
	}
	return sum
}

// MarshalJSON writes the cells that are not empty: number, count, number, count, …
func (h Histogram) MarshalJSON() ([]byte, error) {
	list := []float32{}
	for i, n := range h {
		if n != 0 {
			list = append(list, float32(i), n)
		}
	}
	return json.Marshal(list)
}

// UnmarshalJSON reads what MarshalJSON has written. Cells that do not exist are left out.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var list []float32
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*h = Histogram{}
	for ; len(list) >= 2; list = list[2:] {
		if i := list[0]; i >= 0 && i < Cells {
			h[int(i)] = list[1]
		}
	}
	return nil
}
