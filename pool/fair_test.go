package pool

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// line names a line of the queue: what fits one waiter there fits all.
type line struct {
	lane  *Lane
	grows bool
}

// crowd is a model of the queue: all waiters, in order of arrival.
type crowd struct {
	q    fair
	all  []*waiter
	free map[line]bool // the lines that an offer fits
}

func fairLanes(users, each int) []*Lane {
	var out []*Lane
	for u := range users {
		for i := range each {
			out = append(out, &Lane{key: Key{Database: "d", User: fmt.Sprint("u", u), Params: fmt.Sprint(i)}})
		}
	}
	return out
}

func (m *crowd) add(l *Lane, grows bool, c class, key uint64, cost time.Duration) *waiter {
	w := &waiter{lane: l, want: Want{Grows: grows}, place: place{class: c, key: key, cost: int64(cost)}}
	m.q.add(w)
	m.all = append(m.all, w)
	return w
}

func (m *crowd) forget(w *waiter) {
	i := slices.Index(m.all, w)
	m.all = slices.Delete(m.all, i, i+1)
}

// serve serves one waiter and compares with the model.
func (m *crowd) serve(t *testing.T) *waiter {
	t.Helper()
	order := m.q.order()
	newest := map[*waiter]bool{}
	for _, o := range m.all {
		key, tenant := o.place.strains()
		newest[o] = key.newest || tenant.newest
	}
	w := m.q.serve(func(w *waiter, _ bool) outcome {
		if m.free == nil || m.free[line{w.lane, w.want.Grows}] {
			return served
		}
		return short
	})
	fits := func(o *waiter) bool { return m.free == nil || m.free[line{o.lane, o.want.Grows}] }
	if w == nil {
		if i := slices.IndexFunc(m.all, fits); i >= 0 {
			t.Fatalf("nobody was served, though %+v could be", m.all[i].place)
		}
		return nil
	}
	if !fits(w) {
		t.Fatal("a waiter was served that the offer does not fit")
	}
	before := func(c class) int { return slices.Index(order[:], c) }
	for _, o := range m.all {
		if o != w && fits(o) && before(o.place.class) < before(w.place.class) {
			t.Fatalf("class %d was served before %d", w.place.class, o.place.class)
		}
	}
	same := slices.DeleteFunc(slices.Clone(m.all), func(o *waiter) bool {
		return o.lane != w.lane || o.want.Grows != w.want.Grows || o.place.class != w.place.class || o.place.key != w.place.key
	})
	first := same[0]
	if newest[w] {
		first = same[len(same)-1]
	}
	if first != w {
		t.Fatal("a waiter was served before another of its key whose turn it was")
	}
	m.forget(w)
	return w
}

// check walks the whole tree.
func (m *crowd) check(t *testing.T) {
	t.Helper()
	if m.q.waiting != len(m.all) {
		t.Fatalf("%d wait, the model has %d", m.q.waiting, len(m.all))
	}
	found := map[*waiter]bool{}
	var walk func(f *flow, depth int) int
	walk = func(f *flow, depth int) int {
		n := 0
		if depth == 3 {
			var last *waiter
			for w := f.first; w != nil; w = w.place.next {
				if w.place.in != f || w.place.prev != last {
					t.Fatal("a waiter is not linked as it should be")
				}
				last = w
				found[w] = true
				n++
			}
			if f.last != last {
				t.Fatal("the last waiter of a key is not the last")
			}
		}
		k := f.turn
		for range f.kids {
			if k.up != f || k.next.prev != k {
				t.Fatal("a flow is not linked as it should be")
			}
			n += walk(k, depth+1)
			k = k.next
		}
		if k != f.turn || n != f.waiting || depth > 0 && n == 0 {
			t.Fatalf("a flow of depth %d has %d waiters and counts %d", depth, n, f.waiting)
		}
		return n
	}
	for c := range m.q.tops {
		walk(&m.q.tops[c], 0)
	}
	if len(found) != len(m.all) {
		t.Fatalf("%d waiters are in the tree, the model has %d", len(found), len(m.all))
	}
	lanes := map[*Lane]int{}
	for _, w := range m.all {
		lanes[w.lane]++
	}
	for l, n := range lanes {
		if l.waiting != n {
			t.Fatalf("a lane counts %d waiters, the model has %d", l.waiting, n)
		}
	}
}

// FuzzFair compares the queue with a model while waiters come, leave and are served in any order.
func FuzzFair(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := crowd{}
		lanes := fairLanes(3, 2)
		for i := 0; i+3 < len(ops); i += 4 {
			a, b, c := int(ops[i+1]), int(ops[i+2]), int(ops[i+3])
			switch op := ops[i] % 8; {
			case op < 4:
				m.add(lanes[a%len(lanes)], b%5 == 0, class(b/8)%classes, uint64(c%7), time.Duration(1+c*c)*10*time.Microsecond)
			case op == 4 && len(m.all) > 0:
				w := m.all[a%len(m.all)]
				if !m.q.remove(w) || m.q.remove(w) {
					t.Fatal("a waiter did not leave once")
				}
				m.forget(w)
			case op == 5 && len(m.all) > 0:
				key, tenant := m.all[a%len(m.all)].place.strains()
				key.newest, tenant.newest = b%2 == 0, c%2 == 0
			case op == 6:
				m.free = map[line]bool{}
				for j, l := range lanes {
					m.free[line{l, false}], m.free[line{l, true}] = a>>j&1 == 1, b>>j&1 == 1
				}
			default:
				m.free = nil
				m.serve(t)
			}
			if op := ops[i] % 8; op == 6 {
				m.serve(t)
			}
			m.check(t)
		}
		m.free = nil
		for len(m.all) > 0 {
			m.serve(t)
		}
		m.check(t)
		if m.serve(t) != nil || len(m.q.tenants) != 0 {
			t.Fatal("an empty queue is not empty")
		}
	})
}

// Classes are served in order, and the lower ones get a few turns.
func TestFairClasses(t *testing.T) {
	m := crowd{}
	l := fairLanes(1, 1)[0]
	for range 500 {
		for _, c := range []class{classHigh, classNormal, classLow} {
			m.add(l, false, c, 0, time.Millisecond)
		}
	}
	var got [classes]int
	for range 400 {
		got[m.serve(t).place.class]++
	}
	if got[classLow] != 20 || got[classNormal] != 20 || got[classHigh] != 360 {
		t.Errorf("by class: %v", got)
	}
	m.add(l, false, classUnderway, 0, time.Millisecond)
	if w := m.serve(t); w.place.class != classUnderway {
		t.Errorf("class %d before one that is under way", w.place.class)
	}
}

// jain is Jain's index of fairness: 1 if all have the same, 1/n if one has all.
func jain(x []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
		squares += v * v
	}
	return sum * sum / (float64(len(x)) * squares)
}

// A simulated shard: clients of ten tenants, or of ten keys of one tenant, send one statement after the
// other. One of the ten has 90 % of the clients, and loans take longer for some.
func TestFairShares(t *testing.T) {
	for _, tc := range []struct {
		name  string
		keys  bool
		spell func(tenant int) time.Duration
	}{
		{"tenants", false, func(int) time.Duration { return 2 * time.Millisecond }},
		{"keys", true, func(int) time.Duration { return 2 * time.Millisecond }},
		{"tenants of unlike statements", false, func(i int) time.Duration { return time.Duration(1+i*i) * time.Millisecond }},
		{"a few long ones", true, func(i int) time.Duration {
			return []time.Duration{50, 1, 1, 2, 100, 1, 1, 1, 20, 1}[i] * time.Millisecond
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const tenants, servers, few = 10, 4, 6
			r := rand.New(rand.NewPCG(7, 7))
			var q fair
			lanes := fairLanes(tenants, 1)
			spent := make([]float64, tenants)
			var seen [tenants]costs
			who := map[*waiter]int{}
			send := func(i int) {
				l, key := lanes[i], uint64(0)
				if tc.keys {
					l, key = lanes[0], uint64(i*7)
				}
				w := &waiter{lane: l, place: place{class: classNormal, key: key}}
				who[w] = i
				q.add(w)
			}
			for i := range tenants {
				n := few
				if i == 0 {
					n = few * (tenants - 1) * 9
				}
				for range n {
					send(i)
				}
			}
			type loan struct {
				until time.Duration
				of    int
			}
			var loans []loan
			for now := time.Duration(0); now < 20*time.Second; {
				for len(loans) < servers {
					w := q.serve(func(w *waiter, _ bool) outcome {
						w.place.cost = seen[who[w]].of(0)
						return served
					})
					i := who[w]
					delete(who, w)
					took := time.Duration(float64(tc.spell(i)) * r.ExpFloat64())
					spent[i] += took.Seconds()
					seen[i].took(0, int64(took))
					loans = append(loans, loan{now + took, i})
				}
				next := slices.MinFunc(loans, func(a, b loan) int { return int(a.until - b.until) })
				loans = slices.DeleteFunc(loans, func(l loan) bool { return l == next })
				now = next.until
				send(next.of)
			}
			if j := jain(spent); j < 0.95 {
				t.Errorf("index %.3f of %.2v", j, spent)
			}
		})
	}
}

// A line that is passed over because its lane is short of connections may claim one after a while,
// and not before.
func TestFairClaims(t *testing.T) {
	var q fair
	lanes := fairLanes(2, 1)
	one := &waiter{lane: lanes[1], place: place{class: classNormal, cost: int64(time.Millisecond)}}
	q.add(one)
	for n := 1; ; n++ {
		q.add(&waiter{lane: lanes[0], place: place{class: classNormal, cost: int64(time.Millisecond)}})
		q.add(&waiter{lane: lanes[0], place: place{class: classNormal, cost: int64(time.Millisecond)}})
		w := q.serve(func(w *waiter, claim bool) outcome {
			if w.lane == lanes[0] || claim {
				return served
			}
			return short
		})
		if w == one {
			if n < 50 || n > 200 {
				t.Errorf("claimed after %d others of 1 ms", n)
			}
			return
		}
		if n > 1000 {
			t.Fatal("never claimed")
		}
	}
}

// A class that is passed over for a lower one, because its lane is short, claims too.
func TestFairClaimsOfClasses(t *testing.T) {
	var q fair
	lanes := fairLanes(2, 1)
	one := &waiter{lane: lanes[1], place: place{class: classNormal}}
	q.add(one)
	for n := 1; n < 200; n++ {
		q.add(&waiter{lane: lanes[0], place: place{class: classLow}})
		w := q.serve(func(w *waiter, claim bool) outcome {
			w.place.cost = int64(time.Millisecond)
			if w.lane == lanes[0] || claim {
				return served
			}
			return short
		})
		if w == one {
			if n < 30 {
				t.Errorf("claimed after %d others of 1 ms", n)
			}
			return
		}
	}
	t.Fatal("never claimed")
}

// An empty queue allocates nothing, nor does one that has been as long before.
func TestFairAllocations(t *testing.T) {
	var q fair
	lanes := fairLanes(4, 1)
	var waiters []*waiter
	for i := range 64 {
		waiters = append(waiters, &waiter{lane: lanes[i%4], place: place{class: classNormal, key: uint64(i % 16), cost: usualCost}})
	}
	all := func(*waiter, bool) outcome { return served }
	if n := testing.AllocsPerRun(100, func() {
		for _, w := range waiters {
			q.add(w)
		}
		for q.serve(all) != nil {
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkFair adds and serves a waiter beside 10,000 others.
func BenchmarkFair(b *testing.B) {
	for _, tenants := range []int{1, 10, 1000} {
		for _, keys := range []int{1, 64, 100_000} {
			b.Run(fmt.Sprintf("tenants=%d/keys=%d", tenants, keys), func(b *testing.B) {
				var q fair
				lanes := fairLanes(tenants, 1)
				r := rand.New(rand.NewPCG(1, 1))
				fill := func(w *waiter) {
					w.lane = lanes[r.IntN(tenants)]
					w.place = place{class: classNormal, key: r.Uint64N(uint64(keys)), cost: int64(r.ExpFloat64() * 1e6)}
					q.add(w)
				}
				for range 10_000 {
					fill(&waiter{})
				}
				all := func(*waiter, bool) outcome { return served }
				b.ReportAllocs()
				for b.Loop() {
					fill(q.serve(all))
				}
			})
		}
	}
}
