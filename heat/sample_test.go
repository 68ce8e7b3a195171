package heat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// seeded makes meters draw the same numbers each time.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	r := rand.New(rand.NewPCG(seed, 7))
	draw = r.ExpFloat64
	t.Cleanup(func() { draw = rand.ExpFloat64 })
	return r
}

// estimate is a sum over statements, and what the samples say of it.
type estimate struct{ truth, sampled, variance float64 }

func (e *estimate) add(x, chance, weight float64) {
	e.truth += x
	e.sampled += weight * x
	e.variance += x * x * (1 - chance) / chance
}

// Ten million statements whose samples come at a changing rate: every sum that the samples give is
// within three standard deviations of the truth, be it of few heavy statements, of many light ones,
// or of statements that come in a fixed pattern.
func TestUnbiased(t *testing.T) {
	r := seeded(t, 1)
	meters := make([]Meter, 7)
	for i := range meters {
		meters[i] = NewMeter()
	}
	const kinds = 4
	var calls, busy, bytes [kinds]estimate
	var all, failed estimate
	n, samples := 10_000_000, 0
	distance := 300_000.0
	for i := range n {
		if i%40_000 == 0 {
			distance = 300_000 * math.Exp(3*r.NormFloat64())
		}
		rate := 1 / distance
		kind, took, sent := 0, int64(r.ExpFloat64()*80_000), int64(60)
		switch {
		case i%50_000 == 17:
			kind, took = 1, 500_000_000 // few and heavy
		case i%3 == 0:
			kind, took = 2, 20_000 // BEGIN of a pattern
		case i%97 == 5:
			kind, sent = 3, 100_000
		}
		cost := Cost(took, sent)
		m, weight := &meters[i%len(meters)], 0.0
		if m.Spend(cost, rate) {
			weight = m.Weigh(cost, rate)
			samples++
		}
		chance := -math.Expm1(-cost * rate)
		calls[kind].add(1, chance, weight)
		busy[kind].add(float64(took), chance, weight)
		bytes[kind].add(float64(sent), chance, weight)
		all.add(1, chance, weight)
		if i%11 == 3 {
			failed.add(1, chance, weight)
		}
	}
	check := func(what string, e estimate) {
		t.Helper()
		if off := math.Abs(e.sampled-e.truth) / math.Sqrt(e.variance); off > 3 {
			t.Errorf("%s: %.0f estimated, %.0f in truth, %.1f standard deviations off", what, e.sampled, e.truth, off)
		}
	}
	for k := range kinds {
		check("calls", calls[k])
		check("busy time", busy[k])
		check("bytes", bytes[k])
	}
	check("all calls", all)
	check("failed calls", failed)
	if samples < n/100 || samples > n*9/10 {
		t.Errorf("%d samples of %d statements", samples, n)
	}
	if e := busy[1]; math.Abs(e.sampled/e.truth-1) > 0.02 {
		t.Errorf("heavy statements: %.0f of %.0f", e.sampled, e.truth)
	}
}

// Sessions that end after one statement are sampled like others.
func TestShortSessions(t *testing.T) {
	seeded(t, 2)
	const n, rate = 200_000, 1.0 / 1_000_000
	cost, sum := Cost(50_000, 0), 0.0
	for range n {
		if m := NewMeter(); m.Spend(cost, rate) {
			sum += m.Weigh(cost, rate)
		}
	}
	if math.Abs(sum/n-1) > 0.03 {
		t.Errorf("%.0f statements estimated of %d", sum, n)
	}
}

func TestCost(t *testing.T) {
	if Cost(-5, -5) != callCost || Cost(1000, 500) != callCost+1500 {
		t.Error(Cost(-5, -5), Cost(1000, 500))
	}
}

// simulate lets a sampler take a load of so many statements per second, and returns the rate of
// samples in the last of so many quarters of a second, and the calls estimated then.
func simulate(s *Sampler, m *Meter, load float64, ticks int, perSecond float64) (samples, calls float64) {
	for range ticks {
		cost := Cost(40_000, 100)
		for range int(load / 4) {
			if rate := s.Rate(); m.Spend(cost, rate) {
				s.Put(0, &Sample{Weight: m.Weigh(cost, rate)})
			}
		}
		samples, calls = 0, 0
		s.Drain(0.25, perSecond, func(x *Sample) { samples += 4; calls += 4 * x.Weight })
	}
	return samples, calls
}

// The rate of samples comes to what was asked for at any load, and the estimates stay right even
// while samples are missed.
func TestSamplerRate(t *testing.T) {
	seeded(t, 3)
	s, m := NewSampler(), NewMeter()
	if s.Rate() != 0 {
		t.Error("a new sampler is on")
	}
	s.Drain(0.25, 2000, func(*Sample) {})
	if samples, calls := simulate(s, &m, 400, 4, 2000); samples < 396 || math.Abs(calls-400) > 4 {
		t.Errorf("a light load: %.0f samples, %.0f calls", samples, calls)
	}
	if _, calls := simulate(s, &m, 100_000, 1, 2000); math.Abs(calls/100_000-1) > 0.05 {
		t.Errorf("the first tick of a heavy load: %.0f calls", calls)
	}
	if _, missed := s.Counts(); missed == 0 {
		t.Error("no sample was missed")
	}
	if samples, calls := simulate(s, &m, 100_000, 12, 1500); samples < 1000 || samples > 2100 || math.Abs(calls/100_000-1) > 0.15 {
		t.Errorf("a heavy load: %.0f samples, %.0f calls", samples, calls)
	}
	if samples, _ := simulate(s, &m, 400, 12, 2000); samples < 390 {
		t.Errorf("a light load again: %.0f samples", samples)
	}
	s.Drain(0.25, 0, func(*Sample) {})
	if samples, _ := simulate(s, &m, 1000, 1, 0); samples != 0 || s.Rate() != 0 {
		t.Errorf("%.0f samples of a sampler that is off", samples)
	}
	s.Drain(0, 2000, func(*Sample) {})
	if s.Rate() <= 0 || math.IsInf(s.Rate(), 0) || math.IsNaN(s.Rate()) {
		t.Errorf("a clock that stands still: rate %v", s.Rate())
	}
}

func TestNoAllocations(t *testing.T) {
	s, m := NewSampler(), NewMeter()
	s.Drain(0.25, 2000, func(*Sample) {})
	x := Sample{Database: "d", Shard: "s", KeyCount: 1}
	if n := testing.AllocsPerRun(1000, func() { record(s, &m, &x) }); n != 0 {
		t.Errorf("%v allocations for a statement that is sampled", n)
	}
	p := NewPicture()
	p.Add(&x)
	if n := testing.AllocsPerRun(100, func() {
		record(s, &m, &x)
		s.Drain(0.25, 2000, func(x *Sample) { p.Add(x) })
		p.Decay(0.25)
	}); n > 1 {
		t.Errorf("%v allocations to drain and add", n)
	}
}

// record is what a session does at the end of a statement.
func record(s *Sampler, m *Meter, x *Sample) {
	rate := s.Rate()
	if cost := Cost(x.Busy, x.Bytes); m.Spend(cost, rate) {
		x.Weight = m.Weigh(cost, rate)
		s.Put(1, x)
	}
}

// BenchmarkRecord: of every statement, at 1 sample in 15 statements, and off.
func BenchmarkRecord(b *testing.B) {
	for name, distance := range map[string]float64{"on": 15 * 100_000, "off": 0} {
		b.Run(name, func(b *testing.B) {
			s := NewSampler()
			if distance > 0 {
				s.rate.Store(math.Float64bits(1 / distance))
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				m := NewMeter()
				x := Sample{Database: "d", Shard: "s", KeyCount: 1, Busy: 50_000, Bytes: 100}
				for pb.Next() {
					record(s, &m, &x)
				}
			})
		})
	}
}
