package trend

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"weft/heat"
)

const (
	buckets = 4096
	look    = 15.0
)

// sampled is the skew of so many samples of a distribution over buckets.
func sampled(r *rand.Rand, n int, draw func() int) heat.Skew {
	amounts := make([]float64, buckets)
	for range n {
		amounts[draw()] += r.ExpFloat64()
	}
	return heat.NewSkew(amounts, float64(n)/2)
}

// zipf draws keys by Zipf's law with exponent 0.99, and puts them into buckets.
func zipf(r *rand.Rand) func() int {
	const keys = 100_000
	sums, sum := make([]float64, keys), 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -0.99)
		sums[i] = sum
	}
	return func() int {
		at, low, high := r.Float64()*sum, 0, keys-1
		for low < high {
			if middle := (low + high) / 2; sums[middle] < at {
				low = middle + 1
			} else {
				high = middle
			}
		}
		return int(uint64(low) * 0x9E3779B97F4A7C15 >> 52)
	}
}

// Even work and skewed work that stays as it is are nothing unusual, for thirty minutes and at any load.
func TestNoFalseAlarm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() int{"uniform": func() int { return r.IntN(buckets) }, "zipf": zipf(r)} {
		k := Skew{}
		for i := range int(30 * minute / look) {
			n := 30_000
			if i%3 == 0 {
				n = 9_000 // the load changes, and so does what is known
			}
			k = k.Next(sampled(r, n, draw), buckets, float64(n)/2, look)
			if k.Warned || k.Drift > drifted/2 || k.Low > look {
				t.Fatalf("%s, look %d: %+v", name, i, k)
			}
		}
		if k.Usual < 100 || len(k.Effective) != 30 {
			t.Errorf("%s: %+v", name, k)
		}
	}
}

// Few samples say nothing.
func TestTooFewSamples(t *testing.T) {
	k := Skew{}
	for range 400 {
		k = k.Next(heat.Skew{Effective: 4000, Evenness: 1}, buckets, 20_000, look)
	}
	for range 100 {
		k = k.Next(heat.Skew{Effective: 3, Evenness: 0.1}, buckets, 1000, look)
	}
	if k.Warned || k.Usual != 4000 {
		t.Errorf("%+v", k)
	}
}

// Work that gathers on a tenth of the buckets within ten minutes is warned of before it is all there.
func TestWorkGathers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	k := Skew{}
	part := 0.0 // of the work that is on the tenth
	draw := func() int {
		if r.Float64() < part {
			return r.IntN(buckets / 10)
		}
		return r.IntN(buckets)
	}
	for range 160 {
		k = k.Next(sampled(r, 20_000, draw), buckets, 10_000, look)
	}
	warned := 0.0
	for part < 1 && !k.Warned {
		part += look / (10 * minute)
		warned += look
		text, err := json.Marshal(k.Next(sampled(r, 20_000, draw), buckets, 10_000, look))
		if err != nil {
			t.Fatal(err)
		}
		k = Skew{} // another proxy goes on
		if err := json.Unmarshal(text, &k); err != nil {
			t.Fatal(err)
		}
	}
	if !k.Warned || warned > 10*minute {
		t.Fatalf("after %v seconds: %+v", warned, k)
	}
	t.Logf("warned after %v seconds, with %.0f %% of the work on a tenth of the buckets, %.0f effective ones of %.0f", warned, 100*part, k.Now, k.Usual)
	part = 0
	over := 0.0
	for ; k.Warned && over < 30*minute; over += look {
		k = k.Next(sampled(r, 20_000, draw), buckets, 10_000, look)
	}
	if k.Warned {
		t.Errorf("%+v", k)
	}
	t.Logf("over after %v seconds", over)
}

// Half of the usual buckets is unusual when it lasts for five minutes, and becomes usual when it stays.
func TestBecomesUsual(t *testing.T) {
	k := Skew{}
	give := func(effective, seconds float64) (warned float64) {
		for s := 0.0; s < seconds; s += look {
			k = k.Next(heat.Skew{Effective: effective, Evenness: 0.9}, buckets, 20_000, look) // evenness does not drift
			if k.Warned {
				warned += look
			}
		}
		return warned
	}
	if give(4000, 30*minute) > 0 || give(1900, 4*minute) > 0 || give(4000, minute) > 0 {
		t.Errorf("%+v", k)
	}
	if w := give(1900, 6*minute); w < 45 || w > 90 {
		t.Errorf("warned for %v seconds", w)
	}
	give(1900, 60*minute)
	if k.Warned || k.Usual != 1900 {
		t.Errorf("%+v", k)
	}
}

func TestForecast(t *testing.T) {
	feed := func(n int, at func(i int) float64) Load {
		l := Load{}
		for i := range n {
			for range 10 {
				l = l.Next(at(i), step/10)
			}
		}
		return l
	}
	for name, x := range map[string]struct {
		points int
		at     func(i int) float64
		known  bool
		from   float64 // minutes
		to     float64
	}{
		"rises":              {288, func(i int) float64 { return 1 + 0.02*float64(i) }, true, 5, 60},
		"rises, hours ahead": {288, func(i int) float64 { return 1 + 0.019*float64(i) }, true, 60, 240},
		"too little known":   {200, func(i int) float64 { return 1 + 0.02*float64(i) }, false, 0, 0},
		"stays":              {288, func(int) float64 { return 3 }, false, 0, 0},
		"full already":       {288, func(int) float64 { return 9 }, true, 0, 0},
		"cannot be told":     {288, func(i int) float64 { return 7 * float64(i/7%2) }, false, 0, 0},
		"rises too slowly":   {288, func(i int) float64 { return 1 + 0.001*float64(i) }, false, 0, 0},
	} {
		seconds, known := feed(x.points, x.at).Full(6.8)
		if known != x.known || seconds < 60*x.from || seconds > 60*x.to {
			t.Errorf("%s: %v seconds, %v", name, seconds, known)
		}
	}
	if l := feed(600, func(int) float64 { return 1 }); len(l.Points) != 2*day {
		t.Errorf("%d bytes", len(l.Points))
	}
	if _, known := (Load{}).Full(8); known {
		t.Error("nothing is known")
	}
}
