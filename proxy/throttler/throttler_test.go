package throttler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/directory"
	"weft/heat/throttle"
	"weft/pgerr"
)

// shelf is a store in memory.
type shelf struct {
	mu      sync.Mutex
	rules   []throttle.Rule
	last    int64
	away    bool
	changed chan struct{}
}

var _ directory.Throttles = (*shelf)(nil)

func newShelf() *shelf { return &shelf{changed: make(chan struct{})} }

func (s *shelf) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *shelf) PutThrottle(_ context.Context, fn func([]throttle.Rule) (throttle.Rule, error)) (throttle.Rule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return throttle.Rule{}, errors.New("the store is away")
	}
	r, err := fn(slices.Clone(s.rules))
	if err != nil {
		return r, err
	}
	s.last++
	if r.Revision = s.last; r.ID == 0 {
		r.ID = s.last
	}
	r.Left = r.Lasts
	s.rules = append(slices.DeleteFunc(s.rules, func(o throttle.Rule) bool { return o.ID == r.ID }), r)
	s.tell()
	return r, nil
}

func (s *shelf) DropThrottle(_ context.Context, id int64) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.rules)
	s.rules = slices.DeleteFunc(s.rules, func(o throttle.Rule) bool { return o.ID == id })
	s.tell()
	return len(s.rules) < n, nil
}

func (s *shelf) Throttles(context.Context) ([]throttle.Rule, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rules), nil
}

func (s *shelf) WatchThrottles(ctx context.Context, fn func([]throttle.Rule)) error {
	for {
		s.mu.Lock()
		rules, changed, away := slices.Clone(s.rules), s.changed, s.away
		s.mu.Unlock()
		if away {
			return errors.New("the store is away")
		}
		fn(rules)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// pair is two proxies that share a store.
type pair struct {
	store *shelf
	one   *Throttler
	two   *Throttler
}

func run(t *testing.T, f func(ctx context.Context, p *pair)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{store: newShelf()}
		of := func(other **Throttler) *Throttler {
			return New(Config{
				Store: p.store, Log: slog.New(slog.DiscardHandler), Guarded: func(f func()) func() { return f },
				Cores: func() map[string]float64 { return nil },
				Others: func(context.Context) ([][]throttle.Figures, int) {
					return [][]throttle.Figures{Figures((*other).Table().All())}, 0
				},
			})
		}
		p.one, p.two = of(&p.two), of(&p.one)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { p.one.Run(ctx) })
		wg.Go(func() { p.two.Run(ctx) })
		synctest.Wait()
		f(ctx, p)
		stop()
		wg.Wait()
	})
}

func rule(name string, rate float64, lasts time.Duration) throttle.Rule {
	return throttle.Rule{
		Target: throttle.Target{Kind: throttle.User, Name: name}, Class: throttle.Any, Limit: throttle.Limit{Rate: rate}, MaxWait: throttle.UsualWait,
		Mode: throttle.Enforce, Origin: throttle.Manual, Lasts: lasts,
	}
}

// passes counts how many of the statements that come in some seconds pass.
func passes(l *throttle.Live, perSecond, seconds int) (n int) {
	for range perSecond * seconds {
		if x := throttle.Ask([]*throttle.Live{l}, nil, time.Now()); x.Refusal == nil {
			n++
		}
		time.Sleep(time.Second / time.Duration(perSecond))
	}
	return n
}

// A rate is shared by the proxies, and goes where the demand is.
func TestShares(t *testing.T) {
	run(t, func(ctx context.Context, p *pair) {
		if _, err := p.one.Put(ctx, rule("a", 100, time.Hour)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		one, two := p.one.Table().All()[0], p.two.Table().All()[0]
		var wg sync.WaitGroup
		var a, b int
		wg.Go(func() { passes(one, 500, 5); a = passes(one, 500, 20) })
		wg.Go(func() { passes(two, 500, 5); b = passes(two, 500, 20) })
		wg.Wait()
		if a < 950 || a > 1050 || b < 950 || b > 1050 {
			t.Errorf("%d and %d passed in 20 seconds", a, b)
		}
		passes(one, 500, 10)
		if a = passes(one, 500, 20); a < 1400 || a > 1600 {
			t.Errorf("%d passed in 20 seconds, with no demand elsewhere", a)
		}
		rows := p.two.Rows(ctx)
		if len(rows) != 1 || rows[0].Figures.Demand < 400 || rows[0].Figures.Passed+rows[0].Figures.Delayed < 3000 {
			t.Errorf("%+v", rows)
		}
	})
}

// A throttle ends in time, also if the store is away, and one that is dropped at once.
func TestEnds(t *testing.T) {
	run(t, func(ctx context.Context, p *pair) {
		id, err := p.one.Put(ctx, rule("a", 1, time.Hour))
		if err != nil || len(p.one.Table().All()) != 1 {
			t.Fatal(err)
		}
		if _, err := p.two.Put(ctx, rule("b", 1, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if ok, err := p.two.Drop(ctx, id); !ok || err != nil || len(p.two.Table().All()) != 1 {
			t.Errorf("%v, %v", ok, err)
		}
		if ok, err := p.two.Drop(ctx, id); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		synctest.Wait()
		p.store.mu.Lock()
		p.store.away = true
		p.store.tell()
		p.store.mu.Unlock()
		time.Sleep(9 * time.Second)
		if len(p.one.Table().All()) != 1 {
			t.Error("the throttle has ended early")
		}
		time.Sleep(2 * time.Second)
		if p.one.Table() != nil || p.two.Table() != nil || p.one.Rows(ctx) != nil {
			t.Error("the throttle has not ended")
		}
		if _, err := p.one.Put(ctx, rule("a", 1, time.Hour)); pgerr.From(err).Code != pgerr.SystemError {
			t.Error(err)
		}
	})
}

// There is a bound, and what is wrong is not stored.
func TestBound(t *testing.T) {
	run(t, func(ctx context.Context, p *pair) {
		for range throttle.MaxManual {
			if _, err := p.one.Put(ctx, rule("a", 1, time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.two.Put(ctx, rule("a", 1, time.Hour)); pgerr.From(err).Code != pgerr.ProgramLimitExceeded {
			t.Error(err)
		}
		if _, err := p.two.Put(ctx, rule("a", -1, time.Hour)); pgerr.From(err).Code != pgerr.InvalidParameterValue {
			t.Error(err)
		}
	})
	if _, err := New(Config{}).Put(t.Context(), rule("a", 1, time.Hour)); pgerr.From(err).Code != pgerr.FeatureNotSupported {
		t.Error(err)
	}
}

// Automatic throttles are made once, extended while they are needed, and end then. A throttle of a user is left
// alone.
func TestAdjust(t *testing.T) {
	run(t, func(ctx context.Context, p *pair) {
		auto := throttle.Auto{Mode: throttle.Enforce, Max: 1, Lasts: 10 * time.Second}
		if _, err := p.two.Put(ctx, rule("hot", 1e6, time.Hour)); err != nil {
			t.Fatal(err)
		}
		hot := throttle.Hot{Target: throttle.Target{Kind: throttle.User, Name: "hot"}, Class: throttle.Any, Share: 0.5, Calls: 400, Pressing: true, Reason: "why"}
		other := hot
		other.Target.Name = "other"
		synctest.Wait()
		rates := map[float64]bool{}
		for range 20 {
			p.one.Adjust(ctx, auto, []throttle.Hot{hot, other})
			synctest.Wait()
			p.two.Adjust(ctx, auto, []throttle.Hot{hot, other}) // two judge for a moment
			synctest.Wait()
			rules := p.two.Table().All()
			if len(rules) != 2 || rules[0].Origin != throttle.Manual || rules[1].Origin != throttle.Automatic || rules[1].Target.Name != "hot" {
				t.Fatalf("%d rules", len(rules))
			}
			rates[rules[1].Limit.Rate] = true
			passes(rules[1], 400, 1)
		}
		if !rates[280] || len(rates) < 3 {
			t.Errorf("rates %v", rates)
		}
		time.Sleep(11 * time.Second)
		if rules := p.one.Table().All(); len(rules) != 1 || rules[0].Origin != throttle.Manual {
			t.Errorf("%d rules", len(rules))
		}
		p.store.away = true
		p.one.Adjust(ctx, auto, []throttle.Hot{hot})
	})
}
