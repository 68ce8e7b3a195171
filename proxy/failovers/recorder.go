package failovers

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/primary"
)

// Config is what a Recorder needs. All fields are required, except where it says otherwise.
type Config struct {
	Log   *slog.Logger
	Proxy string
	Views func() map[string]*primary.View
	// Waiting returns how many sessions wait for a primary of a shard.
	Waiting func(shard string) int64
	// Paused returns how long clients have waited for a shard the last time, and whether they go on now.
	Paused func(shard string) (pause time.Duration, over bool)
	// Hasty reports whether commits of a shard may not have waited for its synchronous standbys, by a default of the server, of a role or of a database.
	Hasty func(shard string) bool
	// Store keeps failovers. Nil: only this proxy does.
	Store directory.Failovers
	Guard func(where string, f func()) func()
}

// Recorder notes failovers. Its methods may be called by several goroutines.
type Recorder struct {
	cfg    Config
	unsaid chan directory.Failover
	shards map[string]*shard // only look uses it

	mu     sync.Mutex
	seen   []directory.Failover // the last that this proxy has seen
	counts map[Count]uint64
}

// Count is what failovers are counted by. Lossy is yes, no or unknown.
type Count struct{ Shard, Lossy string }

// shard is what is known of one shard.
type shard struct {
	led     *primary.View // the last view with a primary
	written primary.Lag   // how far that primary had written, and when
	waits   waits         // what that primary's commits wait for
	// waiting is how many sessions have waited since led.
	waiting int64
}

const (
	interval   = 100 * time.Millisecond
	noteEvery  = time.Second
	noteWithin = 3 * time.Second
	// maxUnsaid bounds what waits for a directory that is away.
	maxUnsaid = 256
)

// New returns a Recorder that knows nothing before Run.
func New(cfg Config) *Recorder {
	return &Recorder{cfg: cfg, unsaid: make(chan directory.Failover, maxUnsaid), shards: map[string]*shard{}, counts: map[Count]uint64{}}
}

// Run looks until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if r.cfg.Store != nil {
		wg.Go(r.cfg.Guard("failovers", func() { r.write(ctx) }))
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		for name, v := range r.cfg.Views() {
			r.look(name, v)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look takes notice of the present view of a shard.
func (r *Recorder) look(name string, v *primary.View) {
	s := r.shards[name]
	if s == nil {
		s = &shard{}
		r.shards[name] = s
	}
	pause, over := r.cfg.Paused(name)
	if !over || !v.Open() { // clients wait until the new primary is settled
		s.waiting = max(s.waiting, r.cfg.Waiting(name))
		return
	}
	leader := v.Leader()
	if leader == nil {
		return
	}
	if s.led != nil && v.Generation.Above(s.led.Generation) {
		f := s.failover(name, r.cfg.Proxy, v, pause)
		f.Waited = f.Last > f.Fork && s.waits.cover(f.Fork) && !r.cfg.Hasty(name)
		r.note(f)
		s.written, s.waits = primary.Lag{}, waits{}
	}
	s.led, s.waiting = v, 0
	s.written.Mark(leader.Seen.At, leader.Seen.LSN)
	s.waits.see(v, leader)
}

// failover returns what is known of the change from the last primary to that of v, for which clients have waited.
func (s *shard) failover(name, proxy string, v *primary.View, pause time.Duration) directory.Failover {
	f := directory.Failover{
		Shard: name, At: v.Since, From: s.led.Primary, To: v.Primary, FromTimeline: s.led.Generation.Timeline, Timeline: v.Generation.Timeline, Fork: v.Generation.Fork,
	}
	_, f.Last = s.written.Last()
	f.Held = s.waits.held
	if f.Fork != 0 {
		f.Kept = s.written.Before(f.Fork)
	}
	f.Pauses = map[string]directory.Pause{proxy: {Sessions: s.waiting, Millis: float64(pause.Microseconds()) / 1000}}
	return f
}

// note keeps a failover, and has the directory told.
func (r *Recorder) note(f directory.Failover) {
	lossy := "unknown"
	lost, known := f.Lost()
	switch {
	case known && lost > 0:
		lossy = "yes"
		r.cfg.Log.Error("a failover has lost what the old primary wrote last", "shard", f.Shard, "from", f.From, "to", f.To, "timeline", f.Timeline, "fork", f.Fork.String(),
			"last", f.Last.String(), "bytes", lost, "nothing is lost from before", f.Kept.UTC().Format(time.RFC3339Nano), "next", "weft.failovers, weft.schema_diff()")
	case known:
		lossy = "no"
		if f.Last > f.Fork {
			r.cfg.Log.Info("a failover has dropped what the old primary wrote last, and none of it was acknowledged: commits have waited for a standby", "shard", f.Shard, "from", f.From, "to", f.To,
				"timeline", f.Timeline, "fork", f.Fork.String(), "last", f.Last.String())
		}
	}
	r.mu.Lock()
	r.counts[Count{f.Shard, lossy}]++
	r.seen = append(r.seen, f)
	if len(r.seen) > maxUnsaid {
		r.seen = slices.Delete(r.seen, 0, 1)
	}
	r.mu.Unlock()
	select {
	case r.unsaid <- f:
	default: // the directory is away, and has been for long
	}
}

// write tells the directory until ctx ends.
func (r *Recorder) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-r.unsaid:
			for !r.tell(ctx, f) {
				timer := time.NewTimer(noteEvery)
				select {
				case <-ctx.Done():
					timer.Stop()
					return
				case <-timer.C:
				}
			}
		}
	}
}

func (r *Recorder) tell(ctx context.Context, f directory.Failover) bool {
	ctx, stop := context.WithTimeout(ctx, noteWithin)
	defer stop()
	return r.cfg.Store.NoteFailover(ctx, f) == nil
}

// All returns the failovers that the directory has, or those that this proxy has seen if the directory cannot be asked, the latest first.
func (r *Recorder) All(ctx context.Context) []directory.Failover {
	var all []directory.Failover
	if r.cfg.Store != nil {
		ctx, stop := context.WithTimeout(ctx, noteWithin)
		defer stop()
		all, _ = r.cfg.Store.Failovers(ctx)
	}
	if all == nil {
		r.mu.Lock()
		all = slices.Clone(r.seen)
		r.mu.Unlock()
	}
	slices.SortStableFunc(all, func(a, b directory.Failover) int { return b.At.Compare(a.At) })
	return all
}

// Counts returns how many failovers this proxy has seen.
func (r *Recorder) Counts() map[Count]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[Count]uint64, len(r.counts))
	for c, n := range r.counts {
		out[c] = n
	}
	return out
}
