package ferry

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"weft/heat"
)

const (
	// Ferries is how many executions of one read are under way at a time, in one proxy.
	Ferries = 4
	// MaxAnswer bounds the bytes of an answer that is shared.
	MaxAnswer = 64 << 10
	// MaxBytes bounds the bytes of all answers that are kept at a time, in one proxy.
	MaxBytes = 16 << 20
	// shunFor is how long a read is not shared after its answer was found to be too large.
	shunFor = 10 * time.Second
	// quietFor is how long a pier stays of use after the last shared answer.
	quietFor = 15 * time.Second
)

// Mode is what becomes of reads that are the same.
type Mode string

// The modes. The empty one is off.
const (
	Observe Mode = "observe" // what would be shared is counted, and nothing is shared
	On      Mode = "on"
)

// Metrics counts what has become of reads at all piers. Piers come and go, and the counts stay.
type Metrics struct {
	// Led have been executed, Rode have got the answer of another one, Alone have waited for one in vain. WouldRide would have
	// waited.
	Led, Rode, Alone, WouldRide atomic.Int64
	// Bytes are the answers that are kept now.
	Bytes atomic.Int64
}

// Pier is where the reads of one hot key begin. It is safe for concurrent use.
type Pier struct {
	metrics *Metrics

	mu    sync.Mutex
	mode  Mode
	reads map[string]*read
	waits heat.Histogram

	underway, waiting int
	led, rode, alone  int64 // rode counts those that would have, if the pier is observed
	lastRide, ticked  time.Time
}

// read is one identity. The pier's mu guards it.
type read struct {
	identity string
	underway int
	boarding *ferry    // the ferry that has not sailed, nil for none
	shunned  time.Time // until then each executes the read itself
}

// ferry is one execution of a read, and those who wait for its answer. The pier's mu guards it.
type ferry struct {
	of     *read
	leader *Passage   // nil while too many are under way
	riders []*Passage // in the order in which they came
	sailed bool
	answer *Answer
	bytes  int64 // that are kept
	unread int   // riders that have the answer, and have not left
}

// Answer is what a server has answered to a read.
type Answer struct {
	// Description and Rows are whole messages of the protocol: the description of the result, nil if nobody has asked for
	// it, and the rows with the command tag behind them.
	Description, Rows []byte
	// Count is the number of rows.
	Count int64
}

// NewPier returns a pier whose reads are observed.
func NewPier(m *Metrics, now time.Time) *Pier {
	return &Pier{metrics: m, mode: Observe, reads: map[string]*read{}, ticked: now}
}

// Passage is the way of one session on a ferry. A Passage belongs to one goroutine.
type Passage struct {
	pier  *Pier
	of    *read
	on    *ferry // nil if the read is only observed
	since time.Time
	told  chan struct{} // nil if the session leads from the beginning

	// The pier's mu guards the others until told is closed.
	leads, left, decided bool
}

// Board lets a session aboard that is about to execute a read. It returns nil if the session is to execute the read by itself.
func (p *Pier) Board(identity string, now time.Time) *Passage {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mode == "" {
		return nil
	}
	r := p.reads[identity]
	if r == nil {
		r = &read{identity: identity}
		p.reads[identity] = r
	}
	if now.Before(r.shunned) {
		return nil
	}
	w := &Passage{pier: p, of: r, since: now}
	if p.mode == Observe {
		if r.underway >= Ferries {
			p.rode++
			p.lastRide = now
			p.metrics.WouldRide.Add(1)
		}
		p.lead(w)
		r.underway++
		p.underway++
		return w
	}
	if f := r.boarding; f != nil {
		w.on = f
		p.wait(w)
		return w
	}
	f := &ferry{of: r}
	r.boarding, w.on = f, f
	if r.underway >= Ferries {
		p.wait(w)
		return w
	}
	f.leader = w
	p.lead(w)
	r.underway++
	p.underway++
	return w
}

// lead says that a session executes the read. mu is held.
func (p *Pier) lead(w *Passage) {
	w.leads, w.decided = true, true
	if p.led++; w.on != nil {
		p.metrics.Led.Add(1)
	}
	if w.told != nil {
		close(w.told)
	}
}

// wait lets a session wait for a ferry. mu is held.
func (p *Pier) wait(w *Passage) {
	w.told = make(chan struct{})
	w.on.riders = append(w.on.riders, w)
	p.waiting++
}

// Waits reports whether the session waits to be told.
func (w *Passage) Waits() bool {
	if w.told == nil {
		return false
	}
	select {
	case <-w.told:
		return false
	default:
		return true
	}
}

// Told is closed when it is decided what becomes of a session that waits: it leads, has an answer, or executes the read by itself.
func (w *Passage) Told() <-chan struct{} { return w.told }

// Leads reports whether the session executes the read. It must not be called while Waits.
func (w *Passage) Leads() bool { return w.leads }

// Sail says that the session which leads is about to send the read: nobody boards any more. It reports whether others wait for the
// answer; if not, the answer need not be kept.
func (w *Passage) Sail() (wanted bool) {
	p := w.pier
	p.mu.Lock()
	defer p.mu.Unlock()
	f := w.on
	if f == nil || w.left {
		return false
	}
	f.sailed = true
	if w.of.boarding == f {
		w.of.boarding = nil
	}
	return len(f.riders) > 0
}

// Keep asks for room for n more bytes of the answer. It reports false if there is none: then the answer cannot be shared.
func (w *Passage) Keep(n int) bool {
	f := w.on
	if f.bytes+int64(n) > MaxAnswer {
		return false
	}
	if w.pier.metrics.Bytes.Add(int64(n)) > MaxBytes {
		w.pier.metrics.Bytes.Add(-int64(n))
		return false
	}
	f.bytes += int64(n)
	return true
}

// Land hands the answer to all who wait for it. a is not changed any more.
func (w *Passage) Land(a *Answer, now time.Time) {
	p := w.pier
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.left {
		return
	}
	if w.left = true; w.on == nil {
		p.end(w.of, now)
		return
	}
	f := w.on
	if w.of.boarding == f {
		w.of.boarding = nil
	}
	f.answer, f.unread = a, len(f.riders)
	p.rode += int64(len(f.riders))
	p.metrics.Rode.Add(int64(len(f.riders)))
	if len(f.riders) > 0 {
		p.lastRide = now
	}
	p.tell(f, now)
	if f.unread == 0 {
		p.drop(f)
	}
	p.end(w.of, now)
}

// Answer returns the answer for a session that has waited, nil if the session leads or executes the read by itself. The session
// must Leave when it has copied the answer.
func (w *Passage) Answer() *Answer {
	if w.on == nil || w.leads {
		return nil
	}
	return w.on.answer
}

// Shun is Leave for a session that leads and has found that the answer is too large to be shared. The read is not shared for a while.
func (w *Passage) Shun(now time.Time) {
	p := w.pier
	p.mu.Lock()
	w.of.shunned = now.Add(shunFor)
	p.reads[w.of.identity] = w.of
	p.mu.Unlock()
	w.Leave(now)
}

// Leave ends the passage. If the session leads and has not landed, another one leads, or all who wait execute the read by
// themselves if it was sent already. A second Leave does nothing.
func (w *Passage) Leave(now time.Time) {
	p := w.pier
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.left {
		return
	}
	w.left = true
	f := w.on
	switch {
	case f == nil:
		p.end(w.of, now)
	case !w.decided:
		p.stepOff(w)
	case !w.leads:
		if f.answer != nil {
			if f.unread--; f.unread == 0 {
				p.drop(f)
			}
		}
	case !f.sailed && len(f.riders) > 0:
		p.promote(f, now)
	default:
		p.alone += int64(len(f.riders))
		p.metrics.Alone.Add(int64(len(f.riders)))
		f.leader = nil
		p.tell(f, now)
		p.drop(f)
		if w.of.boarding == f {
			w.of.boarding = nil
		}
		p.end(w.of, now)
	}
}

// stepOff takes a session off that still waits. mu is held.
func (p *Pier) stepOff(w *Passage) {
	f := w.on
	for i, x := range f.riders {
		if x == w {
			f.riders = append(f.riders[:i:i], f.riders[i+1:]...)
			p.waiting--
			break
		}
	}
	if len(f.riders) == 0 && f.leader == nil && w.of.boarding == f {
		w.of.boarding = nil
		p.forget(w.of)
	}
}

// promote lets the first who waits lead. mu is held.
func (p *Pier) promote(f *ferry, now time.Time) {
	w := f.riders[0]
	f.riders = f.riders[1:]
	f.leader = w
	p.waiting--
	p.waits.Add(int64(now.Sub(w.since)), 1)
	p.lead(w)
}

// tell says to all who wait what has become of the ferry. mu is held.
func (p *Pier) tell(f *ferry, now time.Time) {
	for _, w := range f.riders {
		w.decided = true
		p.waits.Add(int64(now.Sub(w.since)), 1)
		close(w.told)
	}
	p.waiting -= len(f.riders)
	f.riders = nil
}

// drop forgets the bytes of an answer. mu is held.
func (p *Pier) drop(f *ferry) {
	p.metrics.Bytes.Add(-f.bytes)
	f.bytes = 0
}

// end notes that an execution of a read has ended, and lets the ferry go that waits. mu is held.
func (p *Pier) end(r *read, now time.Time) {
	r.underway--
	p.underway--
	if f := r.boarding; f != nil && f.leader == nil && r.underway < Ferries {
		p.promote(f, now)
		r.underway++
		p.underway++
	}
	p.forget(r)
}

// forget drops a read that no session is concerned with. mu is held.
func (p *Pier) forget(r *read) {
	if r.underway == 0 && r.boarding == nil && r.shunned.IsZero() {
		delete(p.reads, r.identity)
	}
}

// Tick says what becomes of reads from now on. It reports whether answers were shared lately, or would have been.
func (p *Pier) Tick(mode Mode, now time.Time) (useful bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
	for _, r := range p.reads {
		if !r.shunned.IsZero() && !now.Before(r.shunned) {
			r.shunned = time.Time{}
			p.forget(r)
		}
	}
	if elapsed := now.Sub(p.ticked).Seconds(); elapsed >= 0.1 {
		p.waits.Decay(math.Exp2(-elapsed / 30))
		p.ticked = now
	}
	return mode != "" && !p.lastRide.IsZero() && now.Sub(p.lastRide) < quietFor
}

// Figures is what a proxy has counted at a pier.
type Figures struct {
	Mode              Mode
	Underway, Waiting int
	Led, Rode, Alone  int64   // Rode counts those that would have, if the pier is observed
	WaitP99           float64 // milliseconds
}

// Figures returns what this proxy has counted.
func (p *Pier) Figures() Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Figures{p.mode, p.underway, p.waiting, p.led, p.rode, p.alone, p.waits.Quantile(0.99) / 1e6}
}
