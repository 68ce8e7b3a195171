package storetest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/directory"
	"weft/pgserver/pgtest"
)

// Serving is a proxy that serves what the test says.
type Serving struct {
	mu      sync.Mutex
	served  directory.Served
	changed chan struct{}
}

// NewServing returns one that serves version.
func NewServing(version int64) *Serving {
	return &Serving{served: directory.Served{Version: version, Cleared: version}, changed: make(chan struct{})}
}

// Serving implements directory.Serving.
func (s *Serving) Serving() (directory.Served, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served, s.changed
}

// Set makes it serve version, and clear it.
func (s *Serving) Set(version int64) { s.Clear(version, version) }

// Clear makes it serve a version, and have cleared another.
func (s *Serving) Clear(version, cleared int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served = directory.Served{Version: version, Cleared: cleared}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Join registers a proxy and returns how to take it off the list.
func Join(t *testing.T, reg directory.Registry, id string, serving directory.Serving) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listed, done := make(chan struct{}, 10), make(chan error, 1)
	go func() {
		done <- reg.Register(ctx, directory.Proxy{ID: id, Address: id + ":1"}, serving, func(int64) { listed <- struct{}{} })
	}()
	next(t, listed)
	return func() {
		cancel()
		if err := next(t, done); err != nil {
			t.Errorf("Register %s: %v", id, err)
		}
	}
}

func testAcknowledge(t *testing.T, s directory.Store) {
	reg, ok := s.(directory.Registry)
	if !ok {
		t.Skip("this store keeps no list of proxies")
	}
	if err := reg.Acknowledged(t.Context(), 1<<40); err != nil {
		t.Errorf("without proxies: %v", err)
	}
	// Three real ones, which follow by themselves.
	made := Create(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, id := range []string{"one", "two", "three"} {
		cur := directory.NewCurrent(s, slog.New(slog.DiscardHandler))
		running.Go(func() { _ = cur.Run(ctx) })
		if _, err := cur.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		defer Join(t, reg, id, cur)()
	}
	if err := reg.Acknowledged(t.Context(), made.Version); err != nil {
		t.Error(err)
	}
	best := time.Hour
	for i := range 10 {
		began := time.Now()
		snap, err := s.Update(t.Context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
			next := old.Clone()
			next.Schemas = map[string]int64{"app": int64(i + 1)}
			return next, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := reg.Acknowledged(t.Context(), snap.Version); err != nil {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
		list, err := reg.Proxies(t.Context())
		if err != nil || len(list) != 3 {
			t.Fatalf("proxies: %v, %v", list, err)
		}
		for _, p := range list {
			if p.Serves.Version < snap.Version {
				t.Errorf("%s serves %d, which was acknowledged as %d", p.ID, p.Serves.Version, snap.Version)
			}
		}
	}
	t.Logf("a change was made and acknowledged by three proxies in %v at best", best)
	// The machine may be busy, but hardly for ten rounds.
	if pgtest.Late(t, best, 50*time.Millisecond) {
		t.Errorf("the quickest of ten took %v", best)
	}
}

func testAcknowledgeLate(t *testing.T, s directory.Store) {
	reg, ok := s.(directory.Registry)
	if !ok {
		t.Skip("this store keeps no list of proxies")
	}
	const version = 100
	quick, slow, newcomer := NewServing(version), NewServing(version-1), NewServing(version-2)
	defer Join(t, reg, "quick", quick)()
	defer Join(t, reg, "slow", slow)()
	leave := Join(t, reg, "leaves", NewServing(1))

	err := shortly(t, func(ctx context.Context) error { return reg.Acknowledged(ctx, version) })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "leaves at leaves:1 serves version 1, slow at slow:1 serves version 99") || strings.Contains(err.Error(), "quick") {
		t.Errorf("with two behind: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- reg.Acknowledged(t.Context(), version) }()
	pending := func(what string) {
		t.Helper()
		select {
		case err := <-done:
			t.Fatalf("%s: acknowledged, %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	pending("two behind")
	defer Join(t, reg, "newcomer", newcomer)()
	slow.Set(version + 5)
	pending("one about to leave, one new")
	leave()
	pending("one new and old-fashioned")
	newcomer.Set(version)
	if err := next(t, done); err != nil {
		t.Error(err)
	}
}

// testClear: a proxy that serves a version and has not cleared it is waited for by Cleared alone.
func testClear(t *testing.T, s directory.Store) {
	reg, ok := s.(directory.Registry)
	if !ok {
		t.Skip("this store keeps no list of proxies")
	}
	const version = 100
	busy := NewServing(version - 1)
	defer Join(t, reg, "busy", busy)()
	defer Join(t, reg, "idle", NewServing(version))()
	busy.Clear(version, version-1)
	if err := reg.Acknowledged(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	err := shortly(t, func(ctx context.Context) error { return reg.Cleared(ctx, version) })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not every proxy has cleared version 100 yet: busy at busy:1 has transactions that are not over") {
		t.Errorf("with one busy: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- reg.Cleared(t.Context(), version) }()
	select {
	case err := <-done:
		t.Fatalf("cleared, %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	busy.Clear(version+3, version+1)
	if err := next(t, done); err != nil {
		t.Error(err)
	}
}

// shortly calls f, which waits for something that does not come, for a moment, and returns its error. The moment
// is longer where the store takes longer to say what it waits for.
func shortly(t *testing.T, f func(ctx context.Context) error) (err error) {
	t.Helper()
	for d := 300 * time.Millisecond; d < Patience; d *= 2 {
		short, cancel := context.WithTimeout(t.Context(), d)
		err = f(short)
		cancel()
		if !errors.Is(err, directory.ErrUnavailable) {
			break
		}
	}
	return err
}
