package queue

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

func after(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// closed returns a row whose key is hot.
func closed(mode Mode) *Row {
	r := NewRow(&Metrics{}, start)
	r.Judge(true, false, mode, start)
	return r
}

// Transactions get their places in the order in which they came, and not more have one than there are slots.
func TestOrder(t *testing.T) {
	r := closed(Auto)
	var places []*Place
	for range 12 {
		places = append(places, r.Enter(start))
	}
	for i, p := range places {
		if p.Has() != (i < Slots) {
			t.Fatalf("%d: %v", i, p.Has())
		}
	}
	places[6].Leave(after(1)) // gives up
	for i := range Slots {
		places[i].Leave(after(10))
		places[i].Leave(after(10)) // changes nothing
	}
	for i, want := range []bool{4: true, 5: true, 6: false, 7: true, 8: true, 9: false, 10: false, 11: false} {
		if i >= Slots && places[i].Has() != want {
			t.Errorf("%d: %v", i, places[i].Has())
		}
	}
	if f := r.Figures(); f.Used != 4 || f.Waiting != 3 || f.Served != 8 || f.Waited != 8 || f.WaitP99 < 5 || !f.Closed {
		t.Errorf("%+v", f)
	}
	r.SetPart(0.1, after(11))
	if f := r.Figures(); f.Slots != 1 {
		t.Errorf("%+v", f)
	}
	r.SetPart(2, after(12))
	if f := r.Figures(); f.Used != 7 || f.Waiting != 0 {
		t.Errorf("%+v", f)
	}
}

// The queue has a bound, and a place in it is free again when a transaction leaves.
func TestFull(t *testing.T) {
	r := closed(Auto)
	var last *Place
	for range Slots + MaxWaiting {
		if last = r.Enter(start); last == nil {
			t.Fatal("the queue is full early")
		}
	}
	if r.Enter(start) != nil {
		t.Fatal("the queue has no bound")
	}
	last.Leave(start)
	if r.Enter(start) == nil {
		t.Error("a place in the queue is lost")
	}
	if f := r.Figures(); f.Refused != 1 || r.metrics.Refused.Load() != 1 || r.metrics.Waited.Load() != MaxWaiting+1 {
		t.Errorf("%+v", f)
	}
}

// A row that is observed lets everybody pass, and counts who would have waited.
func TestObserve(t *testing.T) {
	r := closed(Observe)
	for range Slots + MaxWaiting + 2 {
		if p := r.Enter(start); p == nil || !p.Has() {
			t.Fatal("a transaction waits")
		}
	}
	if f := r.Figures(); f.Waited != MaxWaiting || f.Refused != 2 || r.metrics.WouldWait.Load() != MaxWaiting || r.metrics.WouldRefuse.Load() != 2 || r.metrics.Waited.Load() != 0 {
		t.Errorf("%+v", f)
	}
}

// A row is open until its key is hot, or until many write while backends wait for locks; and it opens when no transaction has waited for long.
func TestJudge(t *testing.T) {
	r := NewRow(&Metrics{}, start)
	var places []*Place
	for range Slots + 3 {
		places = append(places, r.Enter(start))
	}
	if r.Judge(false, false, Auto, after(1000)) || r.Figures().Closed {
		t.Error("closed although nothing is hot")
	}
	if !r.Judge(false, true, Auto, after(2000)) {
		t.Error("open although many wait for locks")
	}
	late := r.Enter(after(2100))
	if late.Has() {
		t.Error("a transaction too many")
	}
	for _, p := range places {
		p.Leave(after(2200))
	}
	if !late.Has() {
		t.Error("the transaction waits forever")
	}
	late.Leave(after(2300))
	if !r.Judge(false, false, Auto, after(10_000)) {
		t.Error("opened early")
	}
	if r.Judge(false, false, Auto, after(20_000)) {
		t.Error("never opens")
	}
	for range Slots + 1 {
		r.Enter(after(20_000))
	}
	r.Judge(true, false, Auto, after(21_000))
	late = r.Enter(after(21_100))
	if late.Has() {
		t.Error("closed, and lets everybody pass")
	}
	r.Open(after(21_200))
	if !late.Has() {
		t.Error("a row that is forgotten keeps transactions")
	}
	r = closed(Auto)
	for range Slots + 1 {
		late = r.Enter(start)
	}
	if r.Judge(true, true, "", after(1000)); !late.Has() {
		t.Error("switched off, and keeps transactions")
	}
}

// No place is lost, whatever transactions do.
func TestNoPlaceLost(t *testing.T) {
	r := closed(Auto)
	var inside, most atomic.Int64
	var wg sync.WaitGroup
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		wg.Go(func() {
			for range 300 {
				p := r.Enter(time.Now())
				if p == nil {
					continue
				}
				if !p.Has() && rng.IntN(4) == 0 { // cancelled
					p.Leave(time.Now())
					continue
				}
				<-p.Granted()
				n := inside.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				func() {
					defer func() { _ = recover() }()
					defer p.Leave(time.Now())
					defer inside.Add(-1)
					if rng.IntN(10) == 0 {
						panic("the session ends")
					}
				}()
			}
		})
	}
	wg.Wait()
	if f := r.Figures(); f.Used != 0 || f.Waiting != 0 || most.Load() > Slots {
		t.Errorf("%+v, %d at a time", f, most.Load())
	}
}

// Keys are told apart by their spelling, not by their hash.
func TestTable(t *testing.T) {
	a, twin := &Hot{Key: Key{"app", 1, 99, "7"}}, &Hot{Key: Key{"app", 1, 99, "4294967303"}}
	tab := NewTable([]*Hot{a, twin})
	named := tab.Named("app", 1, 99)
	if Spelled(named, []byte("7")) != a || Spelled(named, []byte("4294967303")) != twin || Spelled(named, []byte("8")) != nil {
		t.Error("wrong key")
	}
	if tab.Named("other", 1, 99) != nil || tab.Named("app", 2, 99) != nil || NewTable(nil) != nil || len((*Table)(nil).All()) != 0 || a.Sum() == twin.Sum() {
		t.Error("wrong name")
	}
}
