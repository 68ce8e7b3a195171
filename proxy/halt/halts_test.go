package halt

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"weft/directory"
)

// A halt lasts from when this proxy hears of it, and another key begins anew.
func TestLeft(t *testing.T) {
	h, now := New(Config{}), time.Now()
	one := &directory.Halt{Key: "one", For: time.Second}
	for _, c := range []struct {
		halt *directory.Halt
		at   time.Duration
		want time.Duration
	}{
		{nil, 0, 0},
		{one, 0, time.Second},
		{one, 400 * time.Millisecond, 600 * time.Millisecond},
		{one, 2 * time.Second, 0},
		{&directory.Halt{Key: "two", For: time.Second}, 3 * time.Second, time.Second},
		{&directory.Halt{Key: "two", For: time.Second}, 5 * time.Second, 0},
	} {
		if got := h.Left(c.halt, now.Add(c.at)); got != c.want {
			t.Errorf("%+v at %s: %s, want %s", c.halt, c.at, got, c.want)
		}
	}
}

// A halt that is left behind is taken out of the directory, also after a failure.
func TestRun(t *testing.T) {
	var mu sync.Mutex
	changed, snap, asked := make(chan struct{}), &directory.Snapshot{}, 0
	set := func(halt *directory.Halt) {
		mu.Lock()
		defer mu.Unlock()
		snap = &directory.Snapshot{Halt: halt}
		close(changed)
		changed = make(chan struct{})
	}
	ended := make(chan string, 1)
	h := New(Config{
		Log:      slog.New(slog.DiscardHandler),
		Snapshot: func() *directory.Snapshot { mu.Lock(); defer mu.Unlock(); return snap },
		Changed:  func() <-chan struct{} { mu.Lock(); defer mu.Unlock(); return changed },
		End: func(_ context.Context, key string) error {
			if asked++; asked == 1 {
				return errors.New("etcd is away")
			}
			set(nil)
			ended <- key
			return nil
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); h.Run(ctx) }()
	set(&directory.Halt{Key: "k", For: 10 * time.Millisecond})
	select {
	case key := <-ended:
		if key != "k" {
			t.Error(key)
		}
	case <-time.After(3 * time.Minute):
		t.Error("the halt was not ended")
	}
	stop()
	<-over
}
