package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script is a store whose watch does one step after the other.
type script struct {
	Store
	steps []func(ctx context.Context, fn func(*Snapshot)) error
}

func (s *script) Watch(ctx context.Context, fn func(*Snapshot)) error {
	if len(s.steps) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step(ctx, fn)
}

func TestCurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := func(n int64) *Snapshot { s := sample(); s.Cluster = "c"; s.Version = n; return s }
		other := v(9)
		other.Cluster = "d"
		fails := func(context.Context, func(*Snapshot)) error { return ErrUnavailable }
		gives := func(snaps ...*Snapshot) func(context.Context, func(*Snapshot)) error {
			return func(ctx context.Context, fn func(*Snapshot)) error {
				for _, s := range snaps {
					fn(s)
					time.Sleep(time.Minute) // for the test to look
				}
				return ErrUnavailable
			}
		}
		store := &script{}
		for range 50 { // an outage of over a minute before the first snapshot
			store.steps = append(store.steps, fails)
		}
		store.steps = append(store.steps, gives(v(1), v(5)), fails, gives(v(5)), gives(other), gives(v(3)))

		c := NewCurrent(store, slog.New(slog.DiscardHandler))
		if c.Snapshot() != nil {
			t.Error("a snapshot before the first")
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := c.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
		cancel()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		if s, err := c.Wait(t.Context()); err != nil || s.Version != 1 {
			t.Fatalf("Wait: %+v, %v", s, err)
		}
		look := func(version int64, reason string) {
			t.Helper()
			synctest.Wait()
			if got := c.Snapshot().Version; got != version {
				t.Errorf("version %d, want %d", got, version)
			}
			if err := c.Err(); (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
				t.Errorf("Err %v, want %q", err, reason)
			}
		}
		look(1, "")
		time.Sleep(time.Minute)
		look(5, "")
		time.Sleep(time.Minute)
		look(5, "unavailable")
		time.Sleep(10 * time.Second)
		look(5, "") // back, unchanged
		time.Sleep(time.Minute)
		look(5, "now describes cluster d")
		if err := c.Foreign(); err == nil || c.Snapshot().Foreign == nil {
			t.Error("another cluster's directory bars nothing")
		}
		time.Sleep(time.Minute)
		look(3, "") // restored from a backup
		if err := c.Foreign(); err != nil {
			t.Errorf("the right directory is back: %v", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCurrentDenied(t *testing.T) {
	store := &script{steps: []func(context.Context, func(*Snapshot)) error{
		func(context.Context, func(*Snapshot)) error { return ErrDenied },
	}}
	if err := NewCurrent(store, slog.New(slog.DiscardHandler)).Run(t.Context()); !errors.Is(err, ErrDenied) {
		t.Errorf("got %v", err)
	}
}

// An outage does not lift what another cluster's directory has barred, and the right one
// does, also at the version it had.
func TestForeignThroughOutage(t *testing.T) {
	snap := sample()
	snap.Cluster, snap.Version = "c", 5
	other := sample()
	other.Cluster, other.Version = "d", 2
	c := NewCurrent(&script{}, slog.New(slog.DiscardHandler))
	c.accept(snap)
	c.accept(other)
	c.fail(ErrUnavailable)
	var foreign *ForeignError
	if err := c.Foreign(); !errors.As(err, &foreign) || foreign.Found != "d" {
		t.Errorf("after an outage: %v", err)
	}
	if _, err := c.Ensure(t.Context(), NumberingOf(snap), "l", nil, nil); err == nil {
		t.Error("entries are made in another cluster's directory")
	}
	again := *snap
	c.accept(&again)
	if err := errors.Join(c.Foreign(), c.Err()); err != nil {
		t.Errorf("the right directory is back: %v", err)
	}
}

// TestRenewed: a new epoch is waited for while the store can be reached.
func TestRenewed(t *testing.T) {
	c := NewCurrent(nil, slog.New(slog.DiscardHandler))
	c.ServeAs(3)
	if c.Renewed(t.Context(), 3) {
		t.Error("the epoch is a new one without a store")
	}
	c.err = nil
	done := make(chan bool)
	go func() { done <- c.Renewed(t.Context(), 3) }()
	c.ServeAs(4)
	if !<-done || !c.Renewed(t.Context(), 3) {
		t.Error("a new epoch goes unnoticed")
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	if c.Renewed(over, 4) {
		t.Error("the epoch is a new one")
	}
}

// TestOutageIsSaidOnce: the log has a line when the store goes away and one when it is back, however many reasons there are meanwhile.
func TestOutageIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sample()
		s.Cluster, s.Version = "c", 1
		later := *s
		later.Version = 2
		gives := func(snap *Snapshot) func(context.Context, func(*Snapshot)) error {
			return func(_ context.Context, fn func(*Snapshot)) error {
				fn(snap)
				time.Sleep(time.Minute)
				return ErrUnavailable
			}
		}
		store := &script{steps: []func(context.Context, func(*Snapshot)) error{gives(s)}}
		for i := range 100 {
			store.steps = append(store.steps, func(context.Context, func(*Snapshot)) error { return fmt.Errorf("reason %d: %w", i, ErrUnavailable) })
		}
		store.steps = append(store.steps, gives(&later), gives(&later))
		var log bytes.Buffer
		c := NewCurrent(store, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		if _, err := c.Reach(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if went, back := strings.Count(log.String(), "directory not watched"), strings.Count(log.String(), "directory is back"); went != 1 || back != 1 {
			t.Errorf("%d times away, %d times back:\n%s", went, back, &log)
		}
	})
}
