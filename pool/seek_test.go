package pool_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/pgerr"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
)

// seeker is a Seeker that says what the test says.
type seeker struct {
	mu       sync.Mutex
	suspects int
	on       func()
}

func (s *seeker) Suspect(context.Context, string) {
	s.mu.Lock()
	s.suspects++
	on := s.on
	s.mu.Unlock()
	if on != nil {
		on()
	}
}

func (s *seeker) Describe(string) string { return "127.0.0.1:1 refuses connections" }

func (s *seeker) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspects
}

// TestSeek: sessions wait while a shard has no primary, as long as they may, and go on when there is one.
func TestSeek(t *testing.T) {
	s := &seeker{}
	_, sh := home(t, pool.Config{Seeker: s, Failover: pool.Failover{Wait: time.Hour, InTransaction: 20 * time.Millisecond}})
	l := lane(t, sh)
	acquire(t, l, pool.Want{}).Release()
	sh.Seek(true)
	if !sh.Sought() || sh.Paused() {
		t.Errorf("sought %v, paused %v", sh.Sought(), sh.Paused())
	}
	got := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := l.Acquire(context.Background(), pool.Want{})
		if err == nil {
			c.Release()
		}
		got <- err
	})
	_, err := l.Acquire(context.Background(), pool.Want{Underway: true})
	if code(err) != pgerr.CannotConnectNow || !strings.Contains(pgerr.From(err).Detail, "127.0.0.1:1 refuses connections") {
		t.Errorf("a transaction that holds other shards: %v", err)
	}
	cancel := make(chan struct{}, 1)
	cancel <- struct{}{}
	if _, err := l.Acquire(context.Background(), pool.Want{Cancel: cancel}); code(err) != pgerr.QueryCanceled {
		t.Errorf("a session that is cancelled: %v", err)
	}
	if _, err := l.Welcome(context.Background(), false); err != nil {
		t.Errorf("a client that logs in is not told the parameters that are known: %v", err)
	}
	other := sh.OpenLane(pool.Key{Database: "template1", User: "postgres"})
	defer other.CloseLane()
	if _, err := other.Welcome(context.Background(), false); code(err) != pgerr.CannotConnectNow {
		t.Errorf("a client that logs in: %v", err)
	}
	select {
	case err := <-got:
		t.Errorf("a session does not wait: %v", err)
	default:
	}
	sh.Seek(false)
	if err := <-got; err != nil {
		t.Errorf("after the search: %v", err)
	}
	if n := sh.Unled(); n != 1 || sh.Stats.Timeouts.Load() != 1 {
		t.Errorf("%d waited in vain", n)
	}
}

// TestSeekAndPause: an operator's pause and the search for a primary are undone separately.
func TestSeekAndPause(t *testing.T) {
	p, sh := home(t, pool.Config{Seeker: &seeker{}, QueueTimeout: 20 * time.Millisecond, Failover: pool.Failover{Wait: 20 * time.Millisecond}})
	l := lane(t, sh)
	refusedAs := func(says string) {
		t.Helper()
		if _, err := l.Acquire(context.Background(), pool.Want{}); code(err) != pgerr.CannotConnectNow || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	sh.Seek(true)
	refusedAs("has no primary")
	if err := p.Pause(t.Context(), sh); err != nil {
		t.Fatal(err)
	}
	refusedAs("has no primary")
	sh.Seek(false)
	refusedAs("paused by an operator")
	sh.Seek(true)
	p.Resume(sh)
	if sh.Paused() || !sh.Sought() {
		t.Errorf("paused %v, sought %v", sh.Paused(), sh.Sought())
	}
	refusedAs("has no primary")
	sh.Seek(false)
	acquire(t, l, pool.Want{}).Release()
}

// TestDoubt: a login that fails has the servers looked at, and is tried again once there is a primary.
func TestDoubt(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{})
	s := &seeker{}
	_, sh := home(t, pool.Config{Seeker: s, Failover: pool.Failover{Wait: pgtest.Patience}}, srv.Addr())
	s.on = func() { sh.Seek(true) }
	l := lane(t, sh)
	srv.Kill()
	got := make(chan error, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		c, err := l.Acquire(context.Background(), pool.Want{})
		if err == nil {
			c.Release()
		}
		got <- err
	})
	eventually(t, func() string {
		if s.count() == 0 {
			return "nothing is suspected"
		}
		return ""
	})
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	sh.Seek(false)
	if err := <-got; err != nil {
		t.Errorf("after the restart: %v", err)
	}
	// A server that is found well is tried a few times, not for ever.
	srv.Kill()
	s.mu.Lock()
	s.on, s.suspects = nil, 0
	s.mu.Unlock()
	if _, err := l.Acquire(context.Background(), pool.Want{}); code(err) != pgerr.ConnectionFailure || s.count() == 0 || s.count() > 5 {
		t.Errorf("%v, after %d looks", err, s.count())
	}
	bad := sh.OpenLane(pool.Key{Database: "postgres", User: "nobody there"})
	defer bad.CloseLane()
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.suspects = 0
	if _, err := bad.Acquire(context.Background(), pool.Want{}); err == nil || s.count() != 0 {
		t.Errorf("a login that is refused: %v, %d looks", err, s.count())
	}
}

// TestRift: no session waits for a shard with two primaries, and those that waited before are told.
func TestRift(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Hour} {
		_, sh := home(t, pool.Config{Seeker: &seeker{}, Failover: pool.Failover{Wait: wait, InTransaction: wait}})
		l := lane(t, sh)
		acquire(t, l, pool.Want{}).Release()
		got := make(chan error, 1)
		if wait > 0 {
			sh.Seek(true)
			go func() {
				_, err := l.Acquire(context.Background(), pool.Want{})
				got <- err
			}()
			eventually(t, func() string {
				if sh.AtGate() == 0 {
					return "the session does not wait"
				}
				return ""
			})
		} else {
			got <- pgerr.New(pgerr.CannotConnectNow, "two servers")
		}
		sh.Split()
		for _, want := range []pool.Want{{}, {Underway: true}, {Login: true}, {Login: true, Waits: true}} {
			_, err := l.Acquire(context.Background(), want)
			if code(err) != pgerr.CannotConnectNow || !strings.Contains(err.Error(), "two servers") || !strings.Contains(pgerr.From(err).Hint, "weft shard accept home") {
				t.Errorf("%+v: %v", want, err)
			}
		}
		if err := <-got; code(err) != pgerr.CannotConnectNow || !strings.Contains(err.Error(), "two servers") {
			t.Errorf("a session that has waited: %v", err)
		}
		sh.Seek(false)
		acquire(t, l, pool.Want{}).Release()
	}
}
