package reshard

import (
	"math/rand/v2"
	"testing"
	"time"
)

// machine is what rounds take on it.
type machine struct {
	fixed  float64 // milliseconds for a round
	tables float64 // milliseconds for its tables, however few their rows are
	perRow float64 // milliseconds
	bytes  int64   // of a row
}

// run makes rounds of a job on the machine, whose times are right give or take a fifth. It returns the rows of a
// round and how long the round held writers, on average over the second half.
func (m machine) run(p *Pace, r *rand.Rand, rounds int, target time.Duration) (rows, held float64) {
	for i := range rounds {
		n := max(1, int64(float64(p.Rows(target))*(0.7+0.3*r.Float64()))) // whole buckets are rarely as many as fit
		carrying := (m.tables + m.perRow*float64(n)) * (0.8 + 0.4*r.Float64())
		whole := carrying + m.fixed*(0.8+0.4*r.Float64())
		p.Carried(n, n*m.bytes, time.Duration(carrying*float64(time.Millisecond)), time.Duration(whole*float64(time.Millisecond)))
		if i >= rounds/2 {
			rows += float64(n) / float64(rounds-rounds/2)
			held += whole / float64(rounds-rounds/2)
		}
	}
	return rows, held
}

// TestPace: rounds hold writers for about the target time if they can, and carry rows for half of it if
// they cannot: a round of few rows would be as long.
func TestPace(t *testing.T) {
	const target = 100 * time.Millisecond
	for name, c := range map[string]struct {
		machine
		want float64
	}{
		"the rows take it all":           {machine{0, 0, 0.05, 100}, 2000},
		"half is for the rows":           {machine{50, 0, 0.05, 100}, 1000},
		"the rest takes longer":          {machine{90, 0, 0.05, 100}, 1000},
		"the rest takes four times that": {machine{400, 0, 0.05, 100}, 1000},
		"the rows are wide":              {machine{100, 0, 5, 100_000}, 10},
		"the rows are narrow":            {machine{20, 0, 0.002, 20}, 40_000},
		"there are many tables":          {machine{100, 200, 0.05, 100}, 500},
		"many tables of wide rows":       {machine{100, 200, 1, 10_000}, 26},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				var p Pace
				rows, held := c.run(&p, rand.New(rand.NewPCG(seed, 1)), 60, target)
				if rows < 0.6*c.want || rows > 1.3*c.want {
					t.Errorf("seed %d: %.0f rows held writers for %.0f ms, want about %.0f rows", seed, rows, held, c.want)
				}
			}
		})
	}
}

// TestPaceFollows: when a machine becomes slower or faster, the rounds follow.
func TestPaceFollows(t *testing.T) {
	const target = 100 * time.Millisecond
	for seed := range uint64(50) {
		var p Pace
		r := rand.New(rand.NewPCG(seed, 2))
		for i, perRow := range []float64{0.05, 0.4, 0.05} {
			want := 80 / perRow
			if rows, held := (machine{20, 0, perRow, 1000}).run(&p, r, 60, target); rows < 0.6*want || rows > 1.3*max(want, 262) {
				t.Errorf("seed %d, part %d: %.0f rows held writers for %.0f ms, want about %.0f rows", seed, i, rows, held, want)
			}
		}
	}
}

// TestPaceSteps: the first rounds, and those after some that gave way.
func TestPaceSteps(t *testing.T) {
	const target = 100 * time.Millisecond
	var p Pace
	if got := p.Rows(target); got != 500 {
		t.Errorf("the first round carries %d rows", got)
	}
	p.Carried(500, 50_000, 50*time.Millisecond, 80*time.Millisecond)
	if got := p.Rows(target); got != 700 {
		t.Errorf("after the first round %d", got)
	}
	p.GaveWay()
	p.GaveWay()
	if got := p.Rows(target); got != 175 {
		t.Errorf("after two that gave way %d", got)
	}
	p.Carried(0, 0, 0, time.Millisecond)
	if got := p.Rows(target); got != 350 {
		t.Errorf("after one that went through %d", got)
	}
	for range 100 {
		p.GaveWay()
	}
	if got := p.Rows(time.Millisecond); got < 1 {
		t.Errorf("never less than a row, got %d", got)
	}
}
