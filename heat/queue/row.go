package queue

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"weft/heat"
)

const (
	// Slots is how many transactions of the cluster write a hot key at a time.
	Slots = 4
	// MaxWaiting is how many transactions of a proxy may wait for one key.
	MaxWaiting = 64
	// Crowd is how many writers of a key are too many if backends of the shard wait for locks.
	Crowd = 3
	// quietFor is how long a row stays closed after a transaction had to wait.
	quietFor = 15 * time.Second
)

// Mode is what becomes of hot keys.
type Mode string

// The modes. The empty one is off.
const (
	Observe Mode = "observe" // what would be done is counted, and nothing is done
	Auto    Mode = "auto"
)

// Metrics counts what has become of transactions at all rows. Rows come and go, and the counts stay.
type Metrics struct{ Waited, Refused, WouldWait, WouldRefuse atomic.Int64 }

// Row is the queue of one hot key. It is safe for concurrent use.
type Row struct {
	metrics *Metrics

	mu     sync.Mutex
	mode   Mode
	closed bool
	slots  int
	used   int
	queue  []*Place // in the order in which they came; those that have left are taken out
	waits  heat.Histogram

	served, waited, refused int64
	lastWait                time.Time // when a transaction had to wait, or would have
	asked, counted          int64
	perSecond               float64
	ticked                  time.Time
}

// NewRow returns an open row.
func NewRow(m *Metrics, now time.Time) *Row {
	return &Row{metrics: m, mode: Observe, slots: Slots, ticked: now}
}

// Place is the place of a transaction at a row, or the wait for one. A Place belongs to one goroutine.
type Place struct {
	of      *Row
	since   time.Time
	granted chan struct{}
	has     bool // guarded by the row's mu
	left    bool
}

// Enter asks for a place. It returns nil if too many transactions wait already.
func (r *Row) Enter(now time.Time) *Place {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	p := &Place{of: r, since: now, granted: make(chan struct{})}
	if r.closed && r.mode == Observe {
		r.note(now)
	}
	if !r.closed || r.mode != Auto || r.used < r.slots && len(r.queue) == 0 {
		r.grant(p)
		return p
	}
	r.lastWait = now
	if len(r.queue) >= MaxWaiting {
		r.refused++
		r.metrics.Refused.Add(1)
		return nil
	}
	r.waited++
	r.metrics.Waited.Add(1)
	r.queue = append(r.queue, p)
	return p
}

// note counts what would have become of a transaction. mu is held.
func (r *Row) note(now time.Time) {
	switch beyond := r.used - r.slots; {
	case beyond < 0:
		return
	case beyond >= MaxWaiting:
		r.refused++
		r.metrics.WouldRefuse.Add(1)
	default:
		r.waited++
		r.metrics.WouldWait.Add(1)
	}
	r.lastWait = now
}

// grant gives a transaction its place. mu is held.
func (r *Row) grant(p *Place) {
	r.used++
	r.served++
	p.has = true
	close(p.granted)
}

// serve gives places to those who wait. mu is held.
func (r *Row) serve(now time.Time) {
	for len(r.queue) > 0 && (!r.closed || r.mode != Auto || r.used < r.slots) {
		p := r.queue[0]
		r.queue[0] = nil
		r.queue = r.queue[1:]
		r.waits.Add(int64(now.Sub(p.since)), 1)
		r.grant(p)
	}
	if len(r.queue) == 0 {
		r.queue = nil
	}
}

// Granted is closed when the place is there.
func (p *Place) Granted() <-chan struct{} { return p.granted }

// Has reports whether the place is there.
func (p *Place) Has() bool {
	select {
	case <-p.granted:
		return true
	default:
		return false
	}
}

// Leave gives the place back, or ends the wait for it. A second Leave does nothing.
func (p *Place) Leave(now time.Time) {
	r := p.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.left {
		return
	}
	if p.left = true; p.has {
		r.used--
	} else {
		for i, x := range r.queue {
			if x == p {
				r.queue = append(r.queue[:i:i], r.queue[i+1:]...)
				break
			}
		}
	}
	r.serve(now)
}

// GaveUp counts a transaction that has waited for too long.
func (r *Row) GaveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused++
	r.metrics.Refused.Add(1)
}

// Judge says what is known of the key in this second: hot says that transactions write it and wait for each other, and locks
// that backends of its shard wait for locks. It reports whether the row is of use: others may be forgotten.
func (r *Row) Judge(hot, locks bool, mode Mode, now time.Time) (useful bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mode = mode
	r.closed = mode != "" && (hot || locks && r.used >= Crowd || len(r.queue) > 0 || !r.lastWait.IsZero() && now.Sub(r.lastWait) < quietFor)
	r.serve(now)
	if elapsed := now.Sub(r.ticked).Seconds(); elapsed >= 0.1 {
		f := math.Exp2(-elapsed)
		r.perSecond = f*r.perSecond + (1-f)*float64(r.asked-r.counted)/elapsed
		r.counted, r.ticked = r.asked, now
		r.waits.Decay(math.Exp2(-elapsed / 30))
	}
	return r.closed
}

// Open lets all transactions go on, for good: the key is no longer looked at.
func (r *Row) Open(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = false
	r.serve(now)
}

// SetPart gives this proxy a part of the slots, one at least.
func (r *Row) SetPart(part float64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots = max(1, int(math.Ceil(Slots*part-0.5))) // of two halves none is rounded up
	r.serve(now)
}

// Figures is what a proxy has counted of a row.
type Figures struct {
	Mode    Mode
	Closed  bool
	Slots   int
	Used    int
	Waiting int
	Demand  float64 // transactions per second
	Served  int64
	Waited  int64 // or would have, if the row is observed
	Refused int64
	WaitP99 float64 // milliseconds
}

// Figures returns what this proxy has counted.
func (r *Row) Figures() Figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Figures{r.mode, r.closed, r.slots, r.used, len(r.queue), r.perSecond, r.served, r.waited, r.refused, r.waits.Quantile(0.99) / 1e6}
}
