package heat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// exact counts without a bound, beside a summary.
type exact map[int]float64

// holds checks what a summary says against the truth.
func (x exact) holds(t *testing.T, h Heaviest[int]) {
	t.Helper()
	listed := map[int]bool{}
	slack := 1e-9
	for _, e := range h.Entries {
		listed[e.Name] = true
		if truth := x[e.Name]; truth > e.Count*(1+slack)+slack || truth < (e.Count-e.Error)*(1-slack)-slack {
			t.Fatalf("%d: %v ± %v, %v in truth", e.Name, e.Count, e.Error, truth)
		}
	}
	for name, truth := range x {
		if !listed[name] && truth > h.Bound*(1+slack)+slack {
			t.Fatalf("%d has %v and is not listed, the bound is %v", name, truth, h.Bound)
		}
	}
}

func (x exact) decay(f float64) {
	for name := range x {
		x[name] *= f
	}
}

// Eight summaries of a skewed load: each is right within its bounds, and so are all together.
func TestSummary(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	zipf := rand.NewZipf(r, 1.2, 1, 100_000)
	together, total := exact{}, 0.0
	var merged Heaviest[int]
	for i := range 8 {
		s, x := NewSummary[int](256), exact{}
		for n := range 40_000 {
			name, cost := int(zipf.Uint64()), 1+r.ExpFloat64()
			s.Add(name, cost).Load.Read.Calls++
			x[name] += cost
			if n%5000 == 4999 {
				s.Decay(1, 0.9, 0.5)
				x.decay(0.9)
			}
		}
		h := s.Heaviest(200)
		x.holds(t, h)
		x.holds(t, s.Heaviest(1000))
		for name, n := range x {
			together[name] += n
			total += n
		}
		if i == 0 {
			merged = h
		} else {
			merged = merged.Merge(h, 200)
		}
	}
	together.holds(t, merged)
	// The ten heaviest are found, in about their order, with small errors.
	for name := range 10 {
		e := merged.Entries[name]
		if together[e.Name] < together[name]*0.9 || e.Error > total*8/256 || math.Abs(e.Count-e.Error/2-together[e.Name]) > total*4/256 {
			t.Errorf("place %d: %d with %v ± %v, %v in truth", name, e.Name, e.Count, e.Error, together[e.Name])
		}
	}
	if got := merged.Entries[0]; got.Load.Read.Calls < 8000 || got.Age != 8 {
		t.Errorf("the heaviest: %+v", got)
	}
}

// What becomes too light is forgotten, and what comes back after that is not taken for exact.
func TestSummaryForgets(t *testing.T) {
	s, x := NewSummary[int](4), exact{}
	for name := range 3 {
		s.Add(name, 1)
		x[name]++
	}
	s.Decay(1, 0.5, 0.6)
	x.decay(0.5)
	if len(s.Heaviest(9).Entries) != 0 || s.Bound() != 0.5 {
		t.Errorf("%+v", s.Heaviest(9))
	}
	s.Add(1, 2)
	x[1] += 2
	x.holds(t, s.Heaviest(9))
	if s.Get(1) == nil || s.Get(2) != nil {
		t.Error("the wrong entries")
	}
}

func TestMergeValues(t *testing.T) {
	a := Heaviest[int]{Entries: []Entry[int]{{Name: 1, Count: 5}}, Bound: 1}
	b := Heaviest[int]{Entries: []Entry[int]{{Name: 1, Count: 2, Known: true, Value: "one"}, {Name: 2, Count: 9}}, Bound: 3}
	m := a.Merge(b, 9)
	if len(m.Entries) != 2 || m.Bound != 4 || m.Entries[0].Name != 2 || m.Entries[0].Count != 10 || m.Entries[0].Error != 1 ||
		m.Entries[1].Count != 7 || m.Entries[1].Error != 0 || m.Entries[1].Value != "one" {
		t.Errorf("%+v", m)
	}
	if a.Entries[0].Count != 5 || b.Entries[1].Count != 9 {
		t.Error("Merge has changed what it was given")
	}
	if few := a.Merge(b, 1); len(few.Entries) != 1 || few.Bound != 7 {
		t.Errorf("%+v", few)
	}
}

// FuzzSummary: whatever is added, decayed and merged, the bounds hold.
func FuzzSummary(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 250, 6, 7, 1, 1, 1, 251, 9, 9, 252, 1, 2})
	f.Add([]byte("the quick brown fox jumps over the lazy dog \xfa\xfb\xfc\xfd\xfe"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		summaries := [2]*Summary[int]{NewSummary[int](5), NewSummary[int](3)}
		truths := [2]exact{{}, {}}
		at := 0
		for i, op := range ops {
			switch {
			case op >= 253:
				at = 1 - at
			case op >= 248:
				summaries[at].Decay(0.25, 1-float64(op-247)/8, 0.3)
				truths[at].decay(1 - float64(op-247)/8)
			default:
				cost := 0.25 * float64(1+i%7)
				summaries[at].Add(int(op%16), cost)
				truths[at][int(op%16)] += cost
			}
			truths[at].holds(t, summaries[at].Heaviest(4))
		}
		both := exact{}
		for _, x := range truths {
			for name, n := range x {
				both[name] += n
			}
		}
		a, b := summaries[0].Heaviest(4), summaries[1].Heaviest(9)
		both.holds(t, a.Merge(b, 4))
		both.holds(t, b.Merge(a, 16))
	})
}

func BenchmarkSummary(b *testing.B) {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), 1.1, 1, 1_000_000)
	names := make([]int, 1<<16)
	for i := range names {
		names[i] = int(zipf.Uint64())
	}
	s := NewSummary[int](maxEntries)
	for i := 0; b.Loop(); i++ {
		s.Add(names[i&(len(names)-1)], 1).Times.Add(70_000, 1)
	}
}
