package seek

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/primary"
)

// Shard is the pool's side of a shard. See pool.Shard.
type Shard interface {
	Lead(address string)
	Raise(g primary.Generation, r primary.Ruling)
	Fence(timeline uint32)
	Seek(sought bool)
	Split()
	// Paused reports whether an operator keeps sessions from the shard. No connection to its servers is kept meanwhile.
	Paused() bool
	Drain(d pool.Drain)
	// Empty reports whether no session uses a connection to the shard.
	Empty() bool
	CloseIdle()
	// Anticipate logs in to servers one of which is about to be the primary, in the background.
	Anticipate(addresses []string)
	Answers() uint64
	// Watched says where to learn what is known of the servers.
	Watched(view func() *primary.View)
	// Dial logs in to the server at an address, for probes.
	Dial(ctx context.Context, address string) (primary.Conn, error)
}

// Config is what a Seeker needs. All fields are required, except where it says otherwise.
type Config struct {
	Log      *slog.Logger
	Snapshot func() *directory.Snapshot
	// Changed returns a channel that is closed when the snapshot changes. Nil: it never does.
	Changed func() <-chan struct{}
	// Shard returns the pool's side of a shard, and tells the pool what the directory says of it.
	Shard func(*directory.Shard) Shard
	// Waits reports whether sessions wait while a shard has no primary.
	Waits  func() bool
	Timing func() primary.Timing
	// Lag is how far behind a standby may be before the log says so. Nil or 0: the log does not.
	Lag func() time.Duration
	// Enter tells the directory of the generation of a view, and which server has it. Nil: there is no directory.
	Enter func(ctx context.Context, shard string, v *primary.View) error
	// EndDrain takes a drain out of the directory. It is needed where Enter is.
	EndDrain func(ctx context.Context, shard, key string) error
	// Settle ends the transactions in doubt that a shard's primary is concerned with, as far as that is possible before ctx ends. Sessions wait
	// for it when the shard had no primary, or has another one. Nil: nothing is in doubt.
	Settle func(ctx context.Context, shard string)
	Guard  func(where string, f func()) func()
}

// Seeker watches the servers of all shards. Its methods may be called by several goroutines.
type Seeker struct {
	cfg  Config
	news chan struct{} // delivers when the directory may have to be told

	mu     sync.Mutex
	shards map[string]*watched
}

// watched is a shard whose servers are watched.
type watched struct {
	*primary.Watcher
	name    string
	shard   Shard
	spec    *directory.Shard // guarded by the Seeker's mu
	stop    context.CancelFunc
	journal *journal
	drain   drain
	// fence is the timeline whose backends were closed because the directory says that it is over. Guarded by the Seeker's mu.
	fence uint32
	gate  gate
}

// New returns a Seeker that watches nothing before Run.
func New(cfg Config) *Seeker {
	return &Seeker{cfg: cfg, news: make(chan struct{}, 1), shards: map[string]*watched{}}
}

// lookInterval is how often the snapshot is looked at without being told that it has changed.
const lookInterval = time.Second

// Run watches until ctx ends.
func (s *Seeker) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.forget()
	wg.Go(s.cfg.Guard("generations of shards", func() { s.enter(ctx) }))
	for {
		var changed <-chan struct{}
		if s.cfg.Changed != nil {
			changed = s.cfg.Changed()
		}
		if snap := s.cfg.Snapshot(); snap != nil && snap.Foreign == nil {
			s.follow(ctx, &wg, snap)
		}
		s.look()
		s.expire(time.Now())
		timer := time.NewTimer(lookInterval)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// follow watches the shards of a snapshot and no others.
func (s *Seeker) follow(ctx context.Context, wg *sync.WaitGroup, snap *directory.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, w := range s.shards {
		if _, ok := snap.Shard(name); !ok {
			w.stop()
			delete(s.shards, name)
		}
	}
	for i := range snap.Shards {
		spec := &snap.Shards[i]
		if w := s.shards[spec.Name]; w != nil {
			s.refresh(w, spec)
		} else {
			s.shards[spec.Name] = s.watch(ctx, wg, spec)
		}
		s.handOver(s.shards[spec.Name], spec)
	}
}

// look has the log tell of standbys that are behind or away.
func (s *Seeker) look() {
	limit := time.Duration(0)
	if s.cfg.Lag != nil {
		limit = s.cfg.Lag()
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.shards {
		w.journal.look(w.View(), limit, now)
	}
}

// refresh notes what another snapshot says of a shard. mu is held.
func (s *Seeker) refresh(w *watched, spec *directory.Shard) {
	old := w.spec
	if w.spec = spec; old == spec {
		return
	}
	if !old.Reaches(spec) {
		s.cfg.Shard(spec)
		w.SetHosts(spec.Hosts)
	}
	w.Heed(spec.Ruling, spec.Generation())
	if old.Generation() != spec.Generation() {
		w.Know(spec.Generation())
	}
}

// watch starts to watch a shard. mu is held.
func (s *Seeker) watch(ctx context.Context, wg *sync.WaitGroup, spec *directory.Shard) *watched {
	ctx, stop := context.WithCancel(ctx)
	sh := s.cfg.Shard(spec)
	w := &watched{name: spec.Name, shard: sh, spec: spec, stop: stop, journal: newJournal(s.cfg.Log, spec.Name), drain: drain{tell: sh.Drain}}
	w.gate.begin = func(settle func(context.Context)) {
		wg.Go(s.cfg.Guard("settlement of a shard", func() { settle(ctx) }))
	}
	w.Watcher = primary.NewWatcher(primary.Config{
		Dial: sh.Dial, Heard: sh.Answers,
		Changed: func(was, now *primary.View) { s.changed(w, was, now) },
		Timing:  s.cfg.Timing, Guard: s.cfg.Guard,
		Brief: sh.Paused,
	}, spec.Hosts, spec.Generation())
	w.Heed(spec.Ruling, spec.Generation()) // before any server is asked
	sh.Watched(w.View)
	wg.Go(s.cfg.Guard("watcher of a shard", func() { w.Run(ctx) }))
	return w
}

// forget ends all watches.
func (s *Seeker) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, w := range s.shards {
		w.stop()
		delete(s.shards, name)
	}
}

// changed tells the pool of a new view of a shard.
func (s *Seeker) changed(w *watched, was, now *primary.View) {
	sh := w.shard
	if !now.Open() || becomes(was, now) {
		s.shut(w, now.State == primary.Split) // before the pool dials another server
	}
	sh.Raise(now.Generation, now.Ruling)
	lead := now.Primary
	if now.State == primary.Unknown {
		lead = ""
	}
	sh.Lead(lead)
	if now.State == primary.Seeking {
		sh.Anticipate(now.Standbys())
	}
	if was.Open() && !now.Open() && now.Suspect() != primary.Silent {
		sh.CloseIdle()
	}
	w.journal.note(was, now, time.Now())
	switch {
	case becomes(was, now):
		s.settle(w)
	case !was.Open() && now.Open():
		s.open(w)
	}
	s.handedOver(w, now)
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// enterTimeout bounds a change of the directory, and enterInterval is how often it is looked at: a change may have failed, and the directory
// takes no generation of a shard before it knows the shard's system.
const (
	enterTimeout  = 2 * time.Second
	enterInterval = time.Second
)

// enter tells the directory of new generations until ctx ends.
func (s *Seeker) enter(ctx context.Context) {
	if s.cfg.Enter == nil {
		return
	}
	told := false
	tick := time.NewTicker(enterInterval)
	defer tick.Stop()
	for {
		err := s.enterAll(ctx)
		if err != nil && !told && ctx.Err() == nil {
			s.cfg.Log.Warn("the directory was not told which server is the primary of a shard", "err", err)
		}
		told = err != nil
		select {
		case <-ctx.Done():
			return
		case <-s.news:
		case <-tick.C:
		}
	}
}

// enterAll tells the directory of each generation that is known for certain.
func (s *Seeker) enterAll(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, enterTimeout)
	defer stop()
	var failed error
	for name, v := range s.Views() {
		if v.State != primary.Steady {
			continue
		}
		if err := s.cfg.Enter(ctx, name, v); err != nil {
			failed = err
		}
	}
	if err := s.endDrains(ctx); err != nil {
		failed = err
	}
	return failed
}

// Views returns what is known of each shard.
func (s *Seeker) Views() map[string]*primary.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*primary.View, len(s.shards))
	for name, w := range s.shards {
		out[name] = w.View()
	}
	return out
}

// Accounts returns what was counted of each shard.
func (s *Seeker) Accounts() map[string]Account {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]Account, len(s.shards))
	for name, w := range s.shards {
		out[name] = w.journal.account(w.View(), now)
	}
	return out
}

// View returns what is known of the servers of a shard, nil if they are not watched.
func (s *Seeker) View(shard string) *primary.View {
	if w := s.find(shard); w != nil {
		return w.View()
	}
	return nil
}

// find returns the watch of a shard, nil if there is none.
func (s *Seeker) find(shard string) *watched {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards[shard]
}

// Suspect has the servers of a shard looked at, and returns when that was done.
func (s *Seeker) Suspect(ctx context.Context, shard string) {
	if w := s.find(shard); w != nil {
		w.Suspect(ctx)
	}
}

// Describe says what each server of a shard has answered.
func (s *Seeker) Describe(shard string) string {
	if w := s.find(shard); w != nil {
		return w.View().Describe()
	}
	return "its servers are not watched"
}
