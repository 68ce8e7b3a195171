package ferry

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

func after(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }

func newPier(mode Mode) *Pier {
	p := NewPier(&Metrics{}, start)
	p.Tick(mode, start)
	return p
}

// lead lets n sessions execute a read, each on a ferry of its own.
func lead(t *testing.T, p *Pier, n int) (out []*Passage) {
	t.Helper()
	for range n {
		w := p.Board("a", start)
		if w.Waits() || !w.Leads() {
			t.Fatal("a session waits although ferries are free")
		}
		if w.Sail() {
			t.Fatal("somebody waits for the answer")
		}
		out = append(out, w)
	}
	return out
}

// empty reports an error if a pier has not forgotten everything.
func empty(t *testing.T, p *Pier) {
	t.Helper()
	if f := p.Figures(); f.Underway != 0 || f.Waiting != 0 || len(p.reads) != 0 || p.metrics.Bytes.Load() != 0 {
		t.Errorf("%+v, %d reads, %d bytes", f, len(p.reads), p.metrics.Bytes.Load())
	}
}

// Four executions of a read are under way. Those who come then share the next one, and nobody boards a ferry that has sailed.
func TestShare(t *testing.T) {
	p := newPier(On)
	first := lead(t, p, Ferries)
	var next []*Passage
	for range 5 {
		next = append(next, p.Board("a", start))
	}
	other := p.Board("b", start)
	if other.Waits() {
		t.Error("a session waits for another read")
	}
	other.Land(nil, start)
	for _, w := range next {
		if !w.Waits() {
			t.Fatal("a fifth execution is under way")
		}
	}
	first[2].Land(&Answer{Count: 1}, after(1))
	if next[0].Waits() || !next[0].Leads() || next[0].Answer() != nil {
		t.Fatal("nobody executes the read for those who wait")
	}
	late := p.Board("a", after(1)) // the ferry has not sailed
	if !late.Waits() || !next[0].Sail() {
		t.Fatal("the ferry is not the one that has not sailed")
	}
	tooLate := p.Board("a", after(1))
	if !next[0].Keep(100) || p.metrics.Bytes.Load() != 100 {
		t.Error("no room for the answer")
	}
	answer := &Answer{Count: 2}
	next[0].Land(answer, after(2))
	for _, w := range append(next[1:], late) {
		if w.Waits() || w.Leads() || w.Answer() != answer {
			t.Fatal("a session has no answer")
		}
		if p.metrics.Bytes.Load() != 100 {
			t.Error("the answer is forgotten before all have read it")
		}
		w.Leave(after(2))
		w.Leave(after(2))
	}
	if tooLate.Waits() || !tooLate.Leads() {
		t.Error("a session that came too late got the answer, or waits on")
	}
	if f := p.Figures(); f.Rode != 5 || f.Underway != Ferries || f.WaitP99 < 500 || p.metrics.Rode.Load() != 5 {
		t.Errorf("%+v", f)
	}
	for _, w := range append(first, tooLate) {
		w.Land(nil, after(3))
	}
	empty(t, p)
	if !p.Tick(On, after(10)) || p.Tick(On, after(60)) {
		t.Error("of use for too short or too long")
	}
}

// What those do who wait when the session that leads goes.
func TestLeave(t *testing.T) {
	p := newPier(On)
	first := lead(t, p, Ferries)
	board := func() (w [4]*Passage) {
		for i := range w {
			w[i] = p.Board("a", start)
		}
		return w
	}
	w := board()
	w[1].Leave(start)        // waits no longer
	first[0].Leave(after(1)) // an execution without an answer ends, and the ferry goes
	if w[0].Waits() || !w[0].Leads() {
		t.Fatal("the ferry does not go")
	}
	w[0].Leave(after(1)) // before it has sailed: the next one leads
	if w[2].Waits() || !w[2].Leads() || !w[3].Waits() {
		t.Fatal("nobody leads")
	}
	if !w[2].Sail() {
		t.Fatal("nobody waits")
	}
	w[2].Leave(after(2)) // after it has sailed: the other one executes the read itself
	if w[3].Waits() || w[3].Leads() || w[3].Answer() != nil || p.metrics.Alone.Load() != 1 {
		t.Error("a session waits for an answer that does not come")
	}
	w[3].Leave(after(2))
	w[2].Land(&Answer{}, after(2)) // changes nothing
	fourth := lead(t, p, 1)
	w = board()
	for _, x := range w {
		x.Leave(start)
	}
	for _, x := range append(first[1:], fourth...) {
		x.Land(nil, after(3))
	}
	empty(t, p)
	only := p.Board("a", start)
	only.Leave(start)
	empty(t, p)
}

// An answer that is too large is not shared, and the next sessions do not wait for it.
func TestShun(t *testing.T) {
	p := newPier(On)
	first := lead(t, p, Ferries-1)
	leader, rider := p.Board("a", start), p.Board("a", start)
	if !leader.Sail() || !leader.Keep(MaxAnswer-1) || leader.Keep(2) {
		t.Fatal("an answer has no bound")
	}
	leader.Shun(start)
	if rider.Waits() || rider.Leads() || rider.Answer() != nil {
		t.Error("a session waits for an answer that is too large")
	}
	if p.Board("a", after(1)) != nil {
		t.Error("a session boards for a large answer")
	}
	for _, w := range append(first, rider) {
		w.Leave(start)
	}
	p.Tick(On, after(5))
	if p.Board("a", after(6)) != nil {
		t.Error("forgotten too early")
	}
	p.Tick(On, after(11))
	empty(t, p)
	p.metrics.Bytes.Store(MaxBytes - 10)
	leader = p.Board("a", after(12))
	if leader.Keep(11) || !leader.Keep(10) {
		t.Error("all answers have no bound")
	}
	leader.Leave(after(12))
	if p.metrics.Bytes.Load() != MaxBytes-10 {
		t.Error(p.metrics.Bytes.Load())
	}
}

// Observed sessions do not wait, and are counted. Without a mode nobody boards.
func TestModes(t *testing.T) {
	p := newPier(Observe)
	var all []*Passage
	for range Ferries + 3 {
		w := p.Board("a", start)
		if w.Waits() || !w.Leads() || w.Sail() || w.Answer() != nil {
			t.Fatal("a session waits")
		}
		all = append(all, w)
	}
	if f := p.Figures(); f.Rode != 3 || p.metrics.WouldRide.Load() != 3 || p.metrics.Rode.Load() != 0 || f.Underway != Ferries+3 {
		t.Errorf("%+v", f)
	}
	for i, w := range all {
		if i%2 == 0 {
			w.Leave(start)
		}
		w.Land(nil, start)
	}
	empty(t, p)
	if p.Tick("", start); p.Board("a", start) != nil {
		t.Error("switched off, and a session boards")
	}
}

// Whatever sessions do, no answer is older than the session that gets it, not more executions are under way than there are ferries, and nothing
// is left over.
func TestExact(t *testing.T) {
	p := newPier(On)
	var written, underway, most, rode, stale atomic.Int64
	var wg sync.WaitGroup
	halt := make(chan struct{})
	go func() {
		for {
			select {
			case <-halt:
				return
			default:
				written.Add(1)
			}
		}
	}()
	for seed := range uint64(48) {
		rng := rand.New(rand.NewPCG(seed, 1))
		wg.Go(func() {
			for range 400 {
				asked := written.Load()
				w := p.Board(strconv.Itoa(rng.IntN(2)), time.Now())
				if w == nil {
					continue
				}
				if w.Waits() && rng.IntN(8) == 0 { // cancelled
					w.Leave(time.Now())
					continue
				}
				if w.Waits() {
					<-w.Told()
				}
				if !w.Leads() {
					if a := w.Answer(); a != nil {
						rode.Add(1)
						if a.Count < asked {
							stale.Add(1)
						}
					}
					w.Leave(time.Now())
					continue
				}
				if rng.IntN(16) == 0 { // the session ends before it has sent anything
					w.Leave(time.Now())
					continue
				}
				n := underway.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				wanted := w.Sail()
				a := &Answer{Count: written.Load()}
				time.Sleep(time.Duration(rng.IntN(50)) * time.Microsecond)
				underway.Add(-1)
				switch {
				case rng.IntN(16) == 0:
					w.Leave(time.Now()) // an error
				case wanted && !w.Keep(10):
					w.Shun(time.Now())
				default:
					w.Land(a, time.Now())
				}
			}
		})
	}
	wg.Wait()
	close(halt)
	empty(t, p)
	if stale.Load() > 0 || most.Load() > 2*Ferries || rode.Load() == 0 {
		t.Errorf("%d stale, %d at a time, %d shared", stale.Load(), most.Load(), rode.Load())
	}
}
