package heat

import (
	"math"
	"slices"
)

// Skew says how evenly an amount is spread over places.
type Skew struct {
	// Evenness is the entropy of the amounts as a share of the largest possible one: 1 if all places
	// have the same, 0 if one has all.
	Evenness float64
	// Effective is over how many equal places the same entropy would come from.
	Effective float64
	// Gini is 0 if all places have the same, and near 1 if one has all.
	Gini float64
	// Top is the share of the place that has most, and First which one that is.
	Top   float64
	First int
	// OverMean and OverMedian are by how much that place is over the mean and over the median.
	OverMean, OverMedian float64
}

// NewSkew says how evenly amounts are spread over places, which are all that there are, those with
// nothing included. The amounts are estimates that rest on so many samples; what their noise alone
// would make of equal amounts is left out. 0 samples: the amounts are exact.
func NewSkew(amounts []float64, samples float64) Skew {
	n := float64(len(amounts))
	sum := 0.0
	for _, x := range amounts {
		sum += x
	}
	if n == 0 || sum <= 0 {
		return Skew{Evenness: 1, Effective: n, First: -1}
	}
	s := Skew{}
	entropy, used := 0.0, 0.0
	for i, x := range amounts {
		if x <= 0 {
			continue
		}
		p := x / sum
		entropy -= p * math.Log(p)
		used++
		if p > s.Top {
			s.Top, s.First = p, i
		}
	}
	if samples > 0 {
		// Miller's and Madow's correction: few samples look less even than what they are from.
		entropy += (used - 1) / (2 * samples)
	}
	entropy = min(max(entropy, 0), math.Log(n))
	s.Evenness, s.Effective, s.OverMean = 1, math.Exp(entropy), s.Top*n
	if n > 1 {
		s.Evenness = entropy / math.Log(n)
	}
	sorted := slices.Clone(amounts)
	slices.Sort(sorted)
	if median := sorted[len(sorted)/2]; median > 0 {
		s.OverMedian = s.Top * sum / median
	}
	area := 0.0
	for i, x := range sorted {
		area += (2*float64(i+1) - n - 1) * x
	}
	s.Gini = area / (n * sum)
	if samples > 0 {
		s.Gini = max(0, s.Gini-noiseGini(samples/n))
	}
	return s
}

// noiseGini is the Gini of equal amounts that are counted with a mean of so many samples each. It is
// e^-x (I0(x) + I1(x)) with x = 2 × mean: half the mean difference of two Poisson numbers, over
// their mean.
func noiseGini(mean float64) float64 {
	x := 2 * mean
	if x > 200 {
		return 1 / math.Sqrt(math.Pi*mean)
	}
	// e^-x In(x) is the mean of e^(x (cos t - 1)) cos nt, for t from 0 to π.
	const steps = 400
	sum := 0.0
	for i := range steps {
		c := math.Cos((float64(i) + 0.5) * math.Pi / steps)
		sum += math.Exp(x*(c-1)) * (1 + c)
	}
	return sum / steps
}
