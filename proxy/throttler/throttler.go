package throttler

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/heat/throttle"
	"weft/pgerr"
)

const (
	// every is how often demand is measured.
	every = time.Second
	// again is how long the throttler waits before it watches the directory again.
	again = time.Second
)

// Config is what a Throttler needs.
type Config struct {
	// Store keeps throttles. Nil: there are none.
	Store directory.Throttles
	Log   *slog.Logger
	// Others asks the other proxies what they have counted. silent is how many have not answered.
	Others func(ctx context.Context) (counted [][]throttle.Figures, silent int)
	// Cores is how many cores shards have, as far as that is known.
	Cores func() map[string]float64
	// Guarded returns f for a goroutine that may panic.
	Guarded func(f func()) func()
}

// Throttler knows the throttles in effect. It is safe for concurrent use.
type Throttler struct {
	cfg     Config
	table   atomic.Pointer[throttle.Table]
	metrics *throttle.Metrics

	mu   sync.Mutex
	live map[int64]*throttle.Live
}

// New returns a Throttler without throttles.
func New(cfg Config) *Throttler {
	return &Throttler{cfg: cfg, metrics: throttle.NewMetrics(), live: map[int64]*throttle.Live{}}
}

// Table returns the throttles in effect, nil if there are none.
func (t *Throttler) Table() *throttle.Table { return t.table.Load() }

// Metrics returns what throttles have done since the proxy began.
func (t *Throttler) Metrics() *throttle.Metrics { return t.metrics }

// Run works until ctx ends.
func (t *Throttler) Run(ctx context.Context) {
	if t.cfg.Store == nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(t.cfg.Guarded(func() { t.watch(ctx) }))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.Second(ctx)
		}
	}
}

// watch follows the directory. While the directory is away, what is in effect ends by the clock of this proxy.
func (t *Throttler) watch(ctx context.Context) {
	for {
		err := t.cfg.Store.WatchThrottles(ctx, t.set)
		if ctx.Err() != nil {
			return
		}
		t.cfg.Log.Debug("throttles are not watched, trying again", "err", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// set replaces all throttles by those that the directory has.
func (t *Throttler) set(rules []throttle.Rule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, live := time.Now(), map[int64]*throttle.Live{}
	for _, r := range rules {
		live[r.ID] = throttle.NewLive(r, t.live[r.ID], t.metrics, now)
	}
	t.live = live
	t.publish(now)
}

// publish makes the table of the throttles that have not ended. mu is held.
func (t *Throttler) publish(now time.Time) {
	var rules []*throttle.Live
	for _, l := range t.live {
		if !l.Over(now) {
			rules = append(rules, l)
		}
	}
	slices.SortFunc(rules, func(a, b *throttle.Live) int { return cmp.Compare(a.ID, b.ID) })
	t.table.Store(throttle.NewTable(rules))
}

// Second measures demand, and takes this proxy's part of each limit.
func (t *Throttler) Second(ctx context.Context) {
	now := time.Now()
	rules := t.Table().All()
	if len(rules) == 0 {
		return
	}
	if len(throttle.Without(rules, now)) < len(rules) {
		t.mu.Lock()
		t.publish(now)
		t.mu.Unlock()
		rules = t.Table().All()
	}
	for _, l := range rules {
		l.Tick(now)
	}
	all, proxies := t.total(ctx, rules)
	cores := t.cfg.Cores()
	for _, l := range rules {
		l.SetPart(throttle.Part(proxies, l.Figures().Demand, all[l.ID].Demand), cores, time.Now())
	}
}

// total adds up what all proxies have counted, and says how many proxies there are.
func (t *Throttler) total(ctx context.Context, rules []*throttle.Live) (all map[int64]throttle.Figures, proxies int) {
	counted, silent := t.cfg.Others(ctx)
	all = map[int64]throttle.Figures{}
	for _, list := range append(counted, Figures(rules)) {
		for _, f := range list {
			before := all[f.ID]
			before.ID = f.ID
			all[f.ID] = before.Plus(f)
		}
	}
	return all, len(counted) + silent + 1
}

// Figures returns what this proxy has counted of each rule.
func Figures(rules []*throttle.Live) []throttle.Figures {
	out := make([]throttle.Figures, len(rules))
	for i, l := range rules {
		out[i] = l.Figures()
	}
	return out
}

// Row is a throttle with what all proxies have counted.
type Row struct {
	throttle.Rule
	Ends    time.Time
	Figures throttle.Figures
}

// Rows lists the throttles in effect. It asks the other proxies.
func (t *Throttler) Rows(ctx context.Context) []Row {
	rules := throttle.Without(t.Table().All(), time.Now())
	if len(rules) == 0 {
		return nil
	}
	all, _ := t.total(ctx, rules)
	out := make([]Row, len(rules))
	for i, l := range rules {
		out[i] = Row{l.Rule, l.Ends, all[l.ID]}
	}
	return out
}

// Put stores a new throttle of a user. It is in effect here when Put returns, and soon in all proxies.
func (t *Throttler) Put(ctx context.Context, r throttle.Rule) (int64, error) {
	if t.cfg.Store == nil {
		return 0, pgerr.New(pgerr.FeatureNotSupported, "this proxy has no directory to keep throttles in").
			WithHint("Send it to a proxy that has one: etcd in weft.yaml.")
	}
	if err := r.Validate(); err != nil {
		return 0, err
	}
	return t.store(ctx, func(now []throttle.Rule) (throttle.Rule, error) {
		if !throttle.Room(now) {
			return r, pgerr.New(pgerr.ProgramLimitExceeded, "there are %d throttles already, and not more at a time", throttle.MaxManual).
				WithHint("SELECT weft.unthrottle(id) ends one. weft.throttles has the ids.")
		}
		return r, nil
	})
}

// store stores a throttle and puts it into effect here.
func (t *Throttler) store(ctx context.Context, fn func([]throttle.Rule) (throttle.Rule, error)) (int64, error) {
	stored, err := t.cfg.Store.PutThrottle(ctx, fn)
	if err != nil {
		return 0, storeError(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if l := t.live[stored.ID]; l == nil || l.Revision < stored.Revision {
		t.live[stored.ID] = throttle.NewLive(stored, l, t.metrics, now)
		t.publish(now)
	}
	return stored.ID, nil
}

// Drop ends a throttle. It reports false if there is none of that ID.
func (t *Throttler) Drop(ctx context.Context, id int64) (bool, error) {
	if t.cfg.Store == nil {
		return false, nil
	}
	ok, err := t.cfg.Store.DropThrottle(ctx, id)
	if err != nil {
		return false, storeError(err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, id)
	t.publish(time.Now())
	return ok, nil
}

// storeError words that the directory did not answer.
func storeError(err error) error {
	if e := (*pgerr.Error)(nil); errors.As(err, &e) || errors.Is(err, errOvertaken) {
		return err
	}
	return pgerr.New(pgerr.SystemError, "throttles cannot be changed now").WithDetail("%s", err.Error()).WithHint("Is etcd reachable? Throttles in effect end by themselves.").WithCause(err)
}
