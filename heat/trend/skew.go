package trend

import (
	"math"
	"slices"

	"weft/heat"
)

const (
	// minute is how many seconds a point stands for, and hour how many points are kept.
	minute = 60.0
	hour   = 60
	// leastPoints is how many points there must be before anything is unusual, and leastDrift the same
	// for a drift, which needs to know how much evenness changes by itself.
	leastPoints, leastDrift = 10, 20
	// leastSamples is on how many samples a look must rest at least; it also needs one for each bucket.
	leastSamples = 500.0
	// fallen is the part of the usual number of effective buckets below which there are too few of them, and
	// lowFor for how many seconds they must be. risen is the part at which it is over.
	fallen, risen = 0.5, 0.75
	lowFor        = 300.0
	// drifted is how many standard deviations of drift are a warning. slack is what each minute may be off
	// without being drift, and leastDeviation is the least standard deviation: evenness changes by that much in healthy
	// databases.
	drifted, slack = 5.0, 1.0
	leastDeviation = 0.02
)

// Skew is how evenly the work of one database was spread over the last hour.
type Skew struct {
	// Effective and Evenness have a point for each minute, the newest last.
	Effective []float32 `json:"e,omitempty"`
	Evenness  []float32 `json:"v,omitempty"`
	// Sums of the minute that has begun, over so many seconds.
	EffectiveSum float64 `json:"es,omitempty"`
	EvennessSum  float64 `json:"vs,omitempty"`
	Seconds      float64 `json:"s,omitempty"`
	// Low is for how many seconds there have been too few effective buckets, and Drift how far evenness has gone below
	// what is usual, in standard deviations that add up from minute to minute.
	Low   float64 `json:"low,omitempty"`
	Drift float64 `json:"drift,omitempty"`
	// Usual is the median of Effective, 0 if too little is known.
	Usual float64 `json:"usual,omitempty"`
	// Warned says that the work is less evenly spread than usual; Now is over how many effective buckets, and Top which
	// share the heaviest bucket has, which is First.
	Warned bool    `json:"warned,omitempty"`
	Now    float64 `json:"now,omitempty"`
	Top    float64 `json:"top,omitempty"`
	First  int     `json:"first,omitempty"`
}

// Next returns what is known after another look, so many seconds after the last one. The look rests on so
// many samples, over so many buckets. One with too few samples says nothing, and ends a warning.
func (k Skew) Next(s heat.Skew, buckets int, samples, elapsed float64) Skew {
	if samples < max(leastSamples, float64(buckets)) {
		k.Low, k.Drift, k.Warned = 0, 0, false
		return k
	}
	elapsed = min(max(elapsed, 0), minute)
	k.EffectiveSum, k.EvennessSum, k.Seconds = k.EffectiveSum+elapsed*s.Effective, k.EvennessSum+elapsed*s.Evenness, k.Seconds+elapsed
	if k.Seconds >= minute {
		k.point(k.EffectiveSum/k.Seconds, k.EvennessSum/k.Seconds)
		k.EffectiveSum, k.EvennessSum, k.Seconds = 0, 0, 0
	}
	k.Usual = 0
	if len(k.Effective) >= leastPoints {
		k.Usual = median(k.Effective)
	}
	if s.Effective < fallen*k.Usual {
		k.Low += elapsed
	} else {
		k.Low = 0
	}
	k.Now, k.Top, k.First = s.Effective, s.Top, s.First
	switch {
	case k.Low >= lowFor || k.Drift > drifted:
		k.Warned = true
	case s.Effective >= risen*k.Usual && k.Drift < drifted/2:
		k.Warned = false
	}
	return k
}

// point adds a minute.
func (k *Skew) point(effective, evenness float64) {
	if len(k.Evenness) >= leastDrift {
		middle := median(k.Evenness)
		off := make([]float32, len(k.Evenness))
		for i, x := range k.Evenness {
			off[i] = float32(math.Abs(float64(x) - middle))
		}
		// The median distance of a normal distribution is 0.6745 of its standard deviation.
		deviation := max(leastDeviation, median(off)/0.6745)
		// A drift that is over is forgotten as soon as it was built up.
		k.Drift = min(2*drifted, max(0, k.Drift+(middle-evenness)/deviation-slack))
	}
	k.Effective, k.Evenness = push(k.Effective, effective, hour), push(k.Evenness, evenness, hour)
}

// push appends to a copy of a list, of which the last n stay.
func push(list []float32, x float64, n int) []float32 {
	return append(slices.Clone(list[max(0, len(list)-n+1):]), float32(x))
}

func median(list []float32) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return float64(sorted[len(sorted)/2])
}
