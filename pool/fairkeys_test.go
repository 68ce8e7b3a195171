package pool

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// wantKey is an Asker with one key.
type wantKey uint64

func (k wantKey) Ask() (uint64, Priority) { return uint64(k), PriorityNormal }

// desk is a simulated shard: clients send one statement after the other, each about its own key.
type desk struct {
	sh    Shard
	lane  Lane
	r     *rand.Rand
	now   time.Time
	takes func(key int) time.Duration
	spent []float64 // seconds of backends, by key
	loans []deskLoan
}

type deskLoan struct {
	until time.Time
	w     *waiter
	took  time.Duration
}

func newDesk(t *testing.T, keys int, takes func(key int) time.Duration) *desk {
	t.Helper()
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{r: rand.New(rand.NewPCG(7, 7)), now: time.Unix(1000, 0), takes: takes, spent: make([]float64, keys)}
	d.sh.pool, d.lane.shard = p, &d.sh
	d.lane.key, d.lane.costs = Key{Database: "d", User: "u"}, &costs{}
	return d
}

// send lets a client wait.
func (d *desk) send(key int) {
	d.sh.enqueue(&waiter{lane: &d.lane, want: Want{Asker: wantKey(key + 1)}, since: d.now})
}

// run lets so many backends work for a while.
func (d *desk) run(backends int, lasts time.Duration) {
	clear(d.spent)
	for end := d.now.Add(lasts); d.now.Before(end); {
		for len(d.loans) < backends {
			w := d.sh.queue.serve(func(w *waiter, _ bool) outcome {
				w.place.cost = d.lane.costs.of(w.place.key)
				return served
			})
			key := int(w.want.Asker.(wantKey)) - 1
			took := time.Duration(float64(d.takes(key)) * (0.9 + 0.2*d.r.Float64()))
			d.spent[key] += took.Seconds()
			d.loans = append(d.loans, deskLoan{d.now.Add(took), w, took})
		}
		next := slices.MinFunc(d.loans, func(a, b deskLoan) int { return a.until.Compare(b.until) })
		d.loans = slices.DeleteFunc(d.loans, func(l deskLoan) bool { return l == next })
		d.now = next.until
		d.lane.costs.took(next.w.place.key, int64(next.took))
		d.send(int(next.w.want.Asker.(wantKey)) - 1)
	}
}

// Ten keys, one of which has nine clients in ten, get the same time of a shard in every ten seconds, also where its clients
// wait for longer than that and where statements about some keys take longer.
func TestFairKeys(t *testing.T) {
	for name, takes := range map[string]func(int) time.Duration{
		"alike":  func(int) time.Duration { return 20 * time.Millisecond },
		"unlike": func(key int) time.Duration { return time.Duration(5+3*key) * time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, 10, takes)
			for key := range 10 {
				clients := 3
				if key == 0 {
					clients = 243
				}
				for range clients {
					d.send(key)
				}
			}
			d.run(2, 5*time.Second)
			for range 12 {
				d.run(2, 10*time.Second)
				if j := jain(d.spent); j < 0.97 {
					t.Errorf("index %.3f of %.2f", j, d.spent)
				}
			}
		})
	}
}

// Many more keys than have turns of their own are all served, and what is kept for them is bounded. A key that was there before them keeps its own
// turns.
func TestFairManyKeys(t *testing.T) {
	m := crowd{}
	l := fairLanes(1, 1)[0]
	const first = uint64(1) << 40
	for range 3 {
		m.add(l, false, classNormal, first, time.Millisecond)
	}
	for key := range uint64(5 * mostKeys) {
		m.add(l, false, classNormal, first+1+key, time.Millisecond)
	}
	m.add(l, false, classNormal, first, time.Millisecond)
	m.check(t)
	line := l.lines[classNormal][0]
	if n := len(line.keys); n > mostKeys+sharedKeys || line.keys[first].waiting != 4 {
		t.Errorf("%d keys take turns, and %d wait for the first one", n, line.keys[first].waiting)
	}
	all := func(*waiter, bool) outcome { return served }
	for n := len(m.all); n > 0; n-- {
		w := m.q.serve(all)
		if w == nil {
			t.Fatalf("%d are not served", n)
		}
	}
	if m.all = nil; m.q.spares.count > mostSpares || m.q.spareLines.count > mostSpareLines {
		t.Errorf("%d flows and %d lines are kept", m.q.spares.count, m.q.spareLines.count)
	}
	m.check(t)
}
