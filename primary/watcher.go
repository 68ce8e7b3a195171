package primary

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a connection to one server, for probes.
type Conn interface {
	// Ask runs a query and returns its rows as text, NULL as "". It ends with ctx. After an error the connection is
	// closed, unless the error is the server's answer.
	Ask(ctx context.Context, sql string) ([][]string, error)
	Close()
}

// Timing is how often servers are probed.
type Timing struct {
	// Interval is between two probes of a server. Default 500ms.
	Interval time.Duration
	// Seeking is between two probes of a server while no primary is known. Default 20ms. After seekLong it is two and a half times as long.
	Seeking time.Duration
	// Timeout is how long a server may take to answer before it counts as silent. Default 1s.
	Timeout time.Duration
	// Patience is how long an answer is waited for before the connection is given up. Default 10s.
	Patience time.Duration
}

// WithDefaults returns t with every zero field set to its default.
func (t Timing) WithDefaults() Timing {
	for _, f := range []struct {
		d *time.Duration
		v time.Duration
	}{{&t.Interval, 500 * time.Millisecond}, {&t.Seeking, 20 * time.Millisecond}, {&t.Timeout, time.Second}, {&t.Patience, 10 * time.Second}} {
		if *f.d == 0 {
			*f.d = f.v
		}
	}
	return t
}

// seekLong is how long a primary is sought before servers are probed less often. Patroni promotes another server than one that is frozen within
// 30 s.
const seekLong = 45 * time.Second

// pause returns how long to wait between two probes of a server.
func (t Timing) pause(v *View, now time.Time) time.Duration {
	switch {
	case v.Open():
		return t.Interval
	case now.Sub(v.Since) > seekLong:
		return t.Seeking * 5 / 2
	}
	return t.Seeking
}

// Config is what a Watcher needs. Dial is required.
type Config struct {
	// Dial logs in to the server at an address. Its own timeout bounds it.
	Dial func(ctx context.Context, address string) (Conn, error)
	// Heard counts the answers that came from the primary on other connections, so that a server that is slow to answer
	// probes is not taken for silent. Nil: only probes count.
	Heard func() uint64
	// Changed is told of each view that differs from the one before in more than LSNs. The views come in order. Changed must
	// not block, nor call the Watcher.
	Changed func(was, now *View)
	// Timing returns how often to probe. Nil: the defaults.
	Timing func() Timing
	// Brief reports whether a connection is closed after each probe, so that a server that is shut down does not wait for its end. Nil:
	// connections stay open.
	Brief func() bool
	// Guard wraps the function of a goroutine, so that a panic ends only that goroutine. Nil: panics are not caught.
	Guard func(where string, f func()) func()
}

// Watcher watches the servers of a shard. Its methods may be called by several goroutines.
type Watcher struct {
	cfg  Config
	view atomic.Pointer[View]
	// hurried is when Hurry was last heeded, in nanoseconds since 1970.
	hurried atomic.Int64

	// mu guards everything below. It is never held across the network.
	mu      sync.Mutex
	judge   Judge
	watched map[string]*watch
	more    chan struct{} // delivers when watched has changed
	waiting []waiting
}

// watch is what a Watcher does with one server.
type watch struct {
	address string
	wake    chan struct{} // delivers when the server is to be probed at once
	// began is when the probe under way began, zero if there is none, and heard is what Config.Heard returned then. Guarded by the Watcher's mu.
	began time.Time
	heard uint64

	// The rest belongs to the goroutine of the watch.

	conn Conn
	// fork is where a timeline of the server began, and parent is the one that it left. forkOf is the timeline, 0 if none was asked for.
	fork   LSN
	parent uint32
	forkOf uint32
}

// waiting is a caller of Suspect.
type waiting struct {
	since time.Time
	done  chan struct{}
}

// NewWatcher returns a Watcher of a shard with these servers, whose generation is g as far as it is known.
func NewWatcher(cfg Config, hosts []string, g Generation) *Watcher {
	if cfg.Guard == nil {
		cfg.Guard = func(_ string, f func()) func() { return f }
	}
	if cfg.Timing == nil {
		cfg.Timing = func() Timing { return Timing{} }
	}
	if cfg.Changed == nil {
		cfg.Changed = func(_, _ *View) {}
	}
	w := &Watcher{cfg: cfg, watched: map[string]*watch{}, more: make(chan struct{}, 1)}
	now := time.Now()
	w.judge.Know(g, now)
	w.judge.SetHosts(hosts, now)
	w.view.Store(w.judge.View(now))
	w.setWatched(hosts)
	return w
}

// View returns what is known now.
func (w *Watcher) View() *View { return w.view.Load() }

// SetHosts says which servers the shard has from now on.
func (w *Watcher) SetHosts(hosts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.setWatched(hosts)
	w.judge.SetHosts(hosts, time.Now())
	w.publish()
}

// setWatched notes which servers are to be watched. mu is held, or w is new.
func (w *Watcher) setWatched(hosts []string) {
	next := map[string]*watch{}
	for _, h := range hosts {
		if next[h] = w.watched[h]; next[h] == nil {
			next[h] = &watch{address: h, wake: make(chan struct{}, 1)}
		}
	}
	w.watched = next
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// Know says which generation the directory has.
func (w *Watcher) Know(g Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.Know(g, time.Now())
	w.publish()
}

// Heed says what an operator has ruled: see Judge.Heed. When it returns, Config.Changed has been told.
func (w *Watcher) Heed(r Ruling, g Generation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.Heed(r, g, time.Now())
	w.publish()
}

// Fence says which timeline is over: see Judge.Fence. When it returns, Config.Changed has been told.
func (w *Watcher) Fence(timeline uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.judge.Fence(timeline, time.Now())
	w.publish()
}

// Suspect has all servers probed at once, because the primary could not be used, and returns the view after the primary has
// answered, or has failed to. It returns at the latest when ctx ends.
func (w *Watcher) Suspect(ctx context.Context) *View {
	w.mu.Lock()
	done := make(chan struct{})
	w.waiting = append(w.waiting, waiting{time.Now(), done})
	for _, s := range w.watched {
		s.hurry()
	}
	w.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
		w.mu.Lock()
		w.waiting = slices.DeleteFunc(w.waiting, func(o waiting) bool { return o.done == done })
		w.mu.Unlock()
	}
	return w.View()
}

// hurryInterval bounds how often Hurry is heeded.
const hurryInterval = 20 * time.Millisecond

// Hurry has all servers probed at once, and does not wait for that.
func (w *Watcher) Hurry() {
	now, last := time.Now().UnixNano(), w.hurried.Load()
	if now-last < int64(hurryInterval) || !w.hurried.CompareAndSwap(last, now) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.watched {
		s.hurry()
	}
}

// hurry has the server probed at once.
func (s *watch) hurry() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	running := map[*watch]context.CancelFunc{}
	for {
		w.mu.Lock()
		watched := w.watched
		w.mu.Unlock()
		for s, stop := range running {
			if watched[s.address] != s {
				stop()
				delete(running, s)
			}
		}
		for _, s := range watched {
			if running[s] == nil {
				ctx, stop := context.WithCancel(ctx)
				running[s] = stop
				wg.Go(w.cfg.Guard("watcher of a server", func() { w.watch(ctx, s) }))
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range running {
				stop()
			}
			return
		case <-w.more:
		}
	}
}

// watch probes one server until ctx ends.
func (w *Watcher) watch(ctx context.Context, s *watch) {
	defer s.hangUp()
	for ctx.Err() == nil {
		seen := w.probe(ctx, s)
		if ctx.Err() != nil {
			return
		}
		if w.cfg.Brief != nil && w.cfg.Brief() {
			s.hangUp()
		}
		w.see(s, seen)
		timer := time.NewTimer(w.cfg.Timing().WithDefaults().pause(w.View(), time.Now()))
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// probe asks a server once. While the server does not answer, it is seen as silent.
func (w *Watcher) probe(ctx context.Context, s *watch) Sighting {
	timing := w.cfg.Timing().WithDefaults()
	began := time.Now()
	var timer *time.Timer
	w.mu.Lock() // silent takes it first, so that timer is set by then
	s.began, s.heard = began, w.heard()
	timer = time.AfterFunc(timing.Timeout, w.cfg.Guard("watcher of a server", func() {
		if w.silent(s, began) {
			timer.Reset(timing.Timeout)
		}
	}))
	w.mu.Unlock()
	defer timer.Stop()
	seen, err := s.ask(ctx, timing.Patience)
	if err != nil && s.conn == nil {
		// The connection was lost, perhaps alone: a new one tells more.
		var c Conn
		if c, err = w.cfg.Dial(ctx, s.address); err == nil {
			s.conn = c
			seen, err = s.ask(ctx, timing.Patience)
		}
	}
	if err != nil {
		seen = Failed(err)
	}
	seen.At = began
	return seen
}

// heard returns what Config.Heard does. mu is held.
func (w *Watcher) heard() uint64 {
	if w.cfg.Heard == nil {
		return 0
	}
	return w.cfg.Heard()
}

// silent notes that a server has not answered the probe that began at a time, and reports whether to look again later: other
// connections have heard of the server meanwhile.
func (w *Watcher) silent(s *watch, began time.Time) (again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.began != began || w.watched[s.address] != s {
		return false
	}
	if v := w.View(); v.Primary == s.address && v.State == Steady {
		if heard := w.heard(); heard != s.heard {
			s.heard = heard
			return true
		}
	}
	w.judge.See(s.address, Sighting{Kind: Silent, At: began, Err: context.DeadlineExceeded}, time.Now())
	w.publish()
	w.answer(s, time.Now())
	return false
}

// see notes what a probe has seen.
func (w *Watcher) see(s *watch, seen Sighting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watched[s.address] != s {
		return
	}
	s.began = time.Time{}
	w.judge.See(s.address, seen, time.Now())
	w.publish()
	w.answer(s, seen.At)
}

// publish makes the judge's view the present one. mu is held.
func (w *Watcher) publish() {
	was, now := w.View(), w.judge.View(time.Now())
	w.view.Store(now)
	if !was.sameAs(now) {
		w.cfg.Changed(was, now)
	}
	if was.Open() && !now.Open() {
		for _, s := range w.watched {
			s.hurry()
		}
	}
}

// answer lets the callers of Suspect go that have waited since before a probe of the primary. If there is no primary, each server
// counts. mu is held.
func (w *Watcher) answer(s *watch, began time.Time) {
	if p := w.View().Primary; p != "" && p != s.address {
		return
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(o waiting) bool {
		if began.Before(o.since) {
			return false
		}
		close(o.done)
		return true
	})
}

// sameAs reports whether two views differ in nothing but LSNs and lags.
func (v *View) sameAs(other *View) bool {
	return v.State == other.State && v.Primary == other.Primary && v.Generation == other.Generation && v.Ruling == other.Ruling && v.Fence == other.Fence &&
		slices.EqualFunc(v.Servers, other.Servers, func(a, b Server) bool {
			return a.Address == b.Address && a.Role == b.Role && a.Seen.Kind == b.Seen.Kind
		})
}

// ask runs the probe on the connection that the server has. If the connection is lost meanwhile, or there was none, conn is nil
// afterwards.
func (s *watch) ask(ctx context.Context, patience time.Duration) (Sighting, error) {
	if s.conn == nil {
		return Sighting{}, context.Canceled
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	rows, err := s.conn.Ask(ctx, Probe)
	if err != nil {
		s.hangUp()
		return Sighting{}, err
	}
	seen, err := ReadSighting(rows)
	if err == nil && seen.Kind == Primary && seen.Generation.Timeline > 1 {
		seen.Generation.Fork, seen.Parent = s.forkAt(ctx, seen.Generation.Timeline)
	}
	return seen, err
}

// forkAt returns where a timeline of the server began, and which one it left, 0 if the server does not tell. It asks once for each timeline.
func (s *watch) forkAt(ctx context.Context, timeline uint32) (fork LSN, parent uint32) {
	if s.forkOf == timeline {
		return s.fork, s.parent
	}
	rows, err := s.conn.Ask(ctx, HistorySQL(timeline))
	if err != nil && kindOf(err) != Unable {
		return 0, 0 // the connection is lost, and the next probe tells
	}
	s.fork, s.parent, s.forkOf = 0, 0, timeline
	if err == nil && len(rows) == 1 && len(rows[0]) == 1 {
		s.fork, s.parent = ReadFork(rows[0][0])
	}
	return s.fork, s.parent
}

// hangUp closes the connection.
func (s *watch) hangUp() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.conn = nil
}
