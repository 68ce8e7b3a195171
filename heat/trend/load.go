package trend

import (
	"encoding/binary"
	"math"
	"slices"
)

const (
	// step is how many seconds a point of a Load stands for; day is how many points are kept, and leastDay how
	// many there must be for a forecast.
	step          = 300.0
	day, leastDay = 288, 276
	// smooth and smoothTrend are how much the newest point counts for the level and for the trend. damp is what is left of the trend
	// with each step: a load that rises does not rise for ever. So forecasts look a few hours ahead: all that a trend can still
	// add is 49 of its steps.
	smooth, smoothTrend, damp = 0.3, 0.1, 0.98
	// ahead is how many steps ahead the past is predicted, to see what forecasts are worth. worth is how far off they may have
	// been on average, as a part of the load.
	ahead, worth = 12, 0.2
	// scale is how many parts of one are kept of a load.
	scale = 100.0
)

// Load is how much one shard had to do over the last day. Points has two bytes for each five minutes.
type Load struct {
	Points  []byte  `json:"p,omitempty"`
	Sum     float64 `json:"t,omitempty"` // of the step that has begun, over so many seconds
	Seconds float64 `json:"s,omitempty"`
}

// Next returns what is known after another look, so many seconds after the last one.
func (l Load) Next(load, elapsed float64) Load {
	elapsed = min(max(elapsed, 0), step)
	l.Sum, l.Seconds = l.Sum+elapsed*load, l.Seconds+elapsed
	if l.Seconds >= step {
		x := uint16(math.Round(min(max(l.Sum/l.Seconds*scale, 0), math.MaxUint16)))
		l.Points = binary.BigEndian.AppendUint16(slices.Clone(l.Points[max(0, len(l.Points)-2*(day-1)):]), x)
		l.Sum, l.Seconds = 0, 0
	}
	return l
}

// Full returns after how many seconds the load reaches a capacity. It is not known if less than a day is, if
// forecasts for the last day would have been off by more than a fifth, or if the load does not get there
// within a day.
func (l Load) Full(capacity float64) (seconds float64, known bool) {
	points := l.points()
	if len(points) < leastDay || capacity <= 0 {
		return 0, false
	}
	h := holt{level: points[0]}
	made := make([]float64, len(points)) // for each point, ahead of it
	off, all := 0.0, 0.0
	for i, x := range points {
		if i >= ahead {
			off, all = off+math.Abs(made[i-ahead]-x), all+x
		}
		if i > 0 {
			h.see(x)
		}
		made[i] = h.after(ahead)
	}
	if off > worth*all {
		return 0, false
	}
	for n := range day {
		if h.after(n) >= capacity {
			return float64(n) * step, true
		}
	}
	return 0, false
}

func (l Load) points() []float64 {
	out := make([]float64, len(l.Points)/2)
	for i := range out {
		out[i] = float64(binary.BigEndian.Uint16(l.Points[2*i:])) / scale
	}
	return out
}

// holt is Holt's linear trend, damped.
type holt struct{ level, trend float64 }

// see takes the next point.
func (h *holt) see(x float64) {
	before := h.level
	h.level = smooth*x + (1-smooth)*(before+damp*h.trend)
	h.trend = smoothTrend*(h.level-before) + (1-smoothTrend)*damp*h.trend
}

// after is the forecast so many steps ahead.
func (h *holt) after(n int) float64 {
	return h.level + h.trend*damp*(1-math.Pow(damp, float64(n)))/(1-damp)
}
