package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"weft/directory"
	"weft/heat/throttle"
)

func throttles(t *testing.T, s directory.Store) directory.Throttles {
	t.Helper()
	st, ok := s.(directory.Throttles)
	if !ok {
		t.Skip("this store keeps no throttles")
	}
	return st
}

// aThrottle is a valid throttle of a user.
func aThrottle(name string, lasts time.Duration) throttle.Rule {
	return throttle.Rule{
		Target: throttle.Target{Kind: throttle.User, Name: name, Value: []byte{0, 0xff}}, Class: throttle.Any, Limit: throttle.Limit{Rate: 5},
		Mode: throttle.Enforce, Origin: throttle.Manual, Reason: "<b>\x01", Created: time.Now().UTC().Truncate(time.Second), Lasts: lasts,
	}
}

// put stores a new throttle.
func put(t *testing.T, s directory.Throttles, r throttle.Rule) throttle.Rule {
	t.Helper()
	out, err := s.PutThrottle(t.Context(), func([]throttle.Rule) (throttle.Rule, error) { return r, nil })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// told is what a watch has told last.
type told struct {
	mu   sync.Mutex
	list []throttle.Rule
	n    int
}

func (w *told) ids() (out []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.list {
		out = append(out, r.ID)
	}
	return out
}

func (w *told) get(id int64) (throttle.Rule, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(w.list, func(r throttle.Rule) bool { return r.ID == id })
	if i < 0 {
		return throttle.Rule{}, false
	}
	return w.list[i], true
}

func watchThrottles(t *testing.T, s directory.Throttles) *told {
	t.Helper()
	w := &told{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- s.WatchThrottles(ctx, func(list []throttle.Rule) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.list, w.n = list, w.n+1
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	eventually(t, "the watch begins", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.n > 0 })
	return w
}

// What is stored is listed and told to those who watch, as it was, until it is dropped.
func testThrottles(t *testing.T, store directory.Store) {
	s := throttles(t, store)
	if list, err := s.Throttles(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	w := watchThrottles(t, s)
	want := aThrottle("report", time.Hour)
	got := put(t, s, want)
	if got.ID == 0 || got.Revision == 0 || got.Left != time.Hour {
		t.Fatalf("%+v", got)
	}
	next := put(t, s, aThrottle("web", time.Hour))
	if next.ID <= got.ID {
		t.Errorf("throttle %d comes after %d", next.ID, got.ID)
	}
	eventually(t, "the watch tells both", func() bool { return slices.Equal(w.ids(), []int64{got.ID, next.ID}) })
	list, err := s.Throttles(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	seen, _ := w.get(got.ID)
	for _, r := range []throttle.Rule{list[0], seen} {
		if !r.Target.Same(&want.Target) || r.Limit != want.Limit || r.Reason != want.Reason || r.Lasts != want.Lasts || !r.Created.Equal(want.Created) || r.Revision != got.Revision {
			t.Errorf("%+v, not %+v", r, want)
		}
	}
	if r, _ := w.get(got.ID); r.Left <= 59*time.Minute || r.Left > time.Hour {
		t.Errorf("%v are left", r.Left)
	}
	if late := watchThrottles(t, s); !slices.Equal(late.ids(), []int64{got.ID, next.ID}) {
		t.Errorf("a later watch tells %v", late.ids())
	} else if r, _ := late.get(got.ID); r.Left <= 50*time.Minute || r.Left > time.Hour {
		t.Errorf("%v are left", r.Left)
	}
	if ok, err := s.DropThrottle(t.Context(), got.ID); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	if ok, err := s.DropThrottle(t.Context(), got.ID); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	eventually(t, "the watch tells one", func() bool { return slices.Equal(w.ids(), []int64{next.ID}) })
	if again := put(t, s, want); again.ID <= next.ID {
		t.Errorf("throttle %d comes after %d", again.ID, next.ID)
	}
}

// A throttle ends by itself, with nobody who renews it; one that is replaced lasts longer.
func testThrottleEnds(t *testing.T, store directory.Store) {
	s := throttles(t, store)
	short := put(t, s, aThrottle("short", time.Second))
	long := put(t, s, aThrottle("long", time.Second))
	more := aThrottle("long", time.Hour)
	more.ID = long.ID
	if r := put(t, s, more); r.ID != long.ID || r.Revision <= long.Revision {
		t.Fatalf("%+v", r)
	}
	w := watchThrottles(t, s)
	eventually(t, "the short one ends", func() bool { return slices.Equal(w.ids(), []int64{long.ID}) })
	if list, err := s.Throttles(t.Context()); err != nil || len(list) != 1 || list[0].ID != long.ID {
		t.Errorf("%v, %v", list, err)
	}
	if ok, err := s.DropThrottle(t.Context(), short.ID); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// A throttle that is declared has no end, and is dropped as others are.
func testThrottleDeclared(t *testing.T, store directory.Store) {
	s := throttles(t, store)
	r := aThrottle("report", 0)
	r.Origin = throttle.Declared
	got := put(t, s, r)
	w := watchThrottles(t, s)
	if seen, ok := w.get(got.ID); !ok || seen.Lasts != 0 || seen.Origin != throttle.Declared {
		t.Errorf("%+v", seen)
	}
	r.ID, r.Limit.Rate = got.ID, 6
	if again := put(t, s, r); again.ID != got.ID || again.Revision <= got.Revision {
		t.Errorf("%+v", again)
	}
	eventually(t, "the watch tells of the new limit", func() bool { seen, _ := w.get(got.ID); return seen.Limit.Rate == 6 })
	if ok, err := s.DropThrottle(t.Context(), got.ID); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	eventually(t, "the watch tells of none", func() bool { return len(w.ids()) == 0 })
}

// Writers come one after the other: each sees what those before have stored, so a bound holds.
func testThrottleBound(t *testing.T, store directory.Store) {
	s := throttles(t, store)
	full := errors.New("full")
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, refused := map[int64]bool{}, 0
	for i := range 8 {
		wg.Go(func() {
			for j := range 2 {
				r, err := s.PutThrottle(t.Context(), func(now []throttle.Rule) (throttle.Rule, error) {
					if len(now) >= 5 {
						return throttle.Rule{}, full
					}
					return aThrottle(fmt.Sprint(i, "-", j), time.Hour), nil
				})
				mu.Lock()
				switch {
				case errors.Is(err, full):
					refused++
				case err != nil:
					t.Error(err)
				default:
					ids[r.ID] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if list, err := s.Throttles(t.Context()); err != nil || len(list) != 5 || len(ids) != 5 || refused != 11 {
		t.Errorf("%d are stored, of %d; %d were refused, %v", len(list), len(ids), refused, err)
	}
}
