package sequence

import (
	"context"
	"sync"
	"time"

	"weft/pgerr"
)

// Allocator hands out values of sequences to many sessions.
type Allocator struct {
	source Source
	cfg    Config
	now    func() time.Time

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu    sync.RWMutex
	lines map[Name]*line

	// closing is locked after any other mutex. It guards closed, so that no draw begins once Close
	// waits for the draws.
	closing sync.Mutex
	closed  bool
	draws   sync.WaitGroup
}

// New returns an Allocator that draws from source.
func New(source Source, cfg Config) *Allocator {
	ctx, stop := context.WithCancel(context.Background())
	return &Allocator{
		source: source, cfg: cfg.withDefaults(), now: time.Now,
		ctx: ctx, stop: stop, lines: map[Name]*line{},
	}
}

// Close ends the draws under way and waits for them. A Take that waits, or is called later, gets
// the error that weft shuts down.
func (a *Allocator) Close() {
	a.closing.Lock()
	a.closed = true
	a.closing.Unlock()
	a.stop()
	a.draws.Wait()
}

// begin counts a draw that is about to begin. It returns false after Close.
func (a *Allocator) begin() bool {
	a.closing.Lock()
	defer a.closing.Unlock()
	if !a.closed {
		a.draws.Add(1)
	}
	return !a.closed
}

// Take appends n values of the sequence to dst, in the order in which the home shard counted them.
// epoch is the snapshot's count of sequences that were set to other values or replaced; Take
// returns no value drawn under an older epoch. If the block has too few values, Take waits for
// the home shard, and leaves the line when ctx ends: then the error is the cause of ctx, and
// other waiters lose nothing.
func (a *Allocator) Take(ctx context.Context, name Name, epoch int64, n int, dst []int64) ([]int64, error) {
	if n <= 0 {
		return dst, nil
	}
	l := a.lock(name)
	l.expire(epoch)
	if l.first == nil && len(l.block) >= n {
		dst = append(dst, l.take(n)...)
		l.mu.Unlock()
		return dst, nil
	}
	if err := ctx.Err(); err != nil {
		l.mu.Unlock()
		return dst, context.Cause(ctx)
	}
	w := &waiter{n: n, done: make(chan struct{})}
	l.join(w)
	a.draw(l)
	l.mu.Unlock()

	select {
	case <-w.done:
	case <-ctx.Done():
		if l.leave(w) {
			return dst, context.Cause(ctx)
		}
		// The Take was served at the same moment: use the values.
	}
	return append(dst, w.values...), w.err
}

// TryTake is Take, but takes only what has been drawn already. It reports false if that is too little.
func (a *Allocator) TryTake(name Name, epoch int64, n int, dst []int64) ([]int64, bool) {
	l := a.lock(name)
	defer l.mu.Unlock()
	l.expire(epoch)
	if l.first != nil || len(l.block) < n {
		return dst, false
	}
	return append(dst, l.take(n)...), true
}

// lock returns the sequence's line with its mutex held.
func (a *Allocator) lock(name Name) *line {
	for {
		a.mu.RLock()
		l := a.lines[name]
		a.mu.RUnlock()
		if l == nil {
			l = a.add(name)
		}
		l.mu.Lock()
		if !l.forgotten {
			return l
		}
		l.mu.Unlock() // the line was forgotten before it was locked: look again
	}
}

func errClosed() error {
	return pgerr.New(pgerr.AdminShutdown, "weft is shutting down").WithDetail("No value of a sequence can be drawn any more.")
}

// add returns the line of a sequence, making it if there is still none.
func (a *Allocator) add(name Name) *line {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.lines[name]; l != nil {
		return l
	}
	if len(a.lines) >= a.cfg.MaxSequences {
		a.forget()
	}
	l := &line{name: name, size: 1}
	a.lines[name] = l
	return l
}

// forget drops one sequence that no Take waits for: of a handful in the map's random order, the
// one drawn from least recently. Looking at all sequences would make every Take over the limit
// slower the more sequences there are. If each of the handful is busy the map grows by one; the
// number of waiters is bounded elsewhere.
func (a *Allocator) forget() {
	const handful = 32
	var oldest *line
	var since time.Time
	seen := 0
	for _, l := range a.lines {
		if seen++; seen > handful {
			break
		}
		l.mu.Lock()
		if l.idle() && (oldest == nil || l.drawn.Before(since)) {
			oldest, since = l, l.drawn
		}
		l.mu.Unlock()
	}
	if oldest == nil {
		return
	}
	oldest.mu.Lock()
	defer oldest.mu.Unlock()
	if oldest.idle() { // a Take may have come meanwhile
		oldest.forgotten = true
		delete(a.lines, oldest.name)
	}
}
