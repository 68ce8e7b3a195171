package gate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/pgerr"
)

// stub is the gate of one shard, as far as a Keeper sees it.
type stub struct {
	mu      sync.Mutex
	inside  int  // transactions that are being committed
	hangs   bool // answers nothing
	lost    bool // the connection that has shut it is gone
	holders int  // connections that have shut it
	shut    int  // how often it was shut
	conns   int  // connections in use
}

func (g *stub) set(f func(*stub)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(g)
}

func (g *stub) is(f func(*stub) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f(g)
}

type stubConn struct {
	g         *stub
	abandoned chan struct{}
	once      sync.Once
	holds     bool
}

func (c *stubConn) Abandon()   { c.once.Do(func() { close(c.abandoned) }) }
func (c *stubConn) Terminate() { c.let(); c.g.set(func(g *stub) { g.conns-- }) }

func (c *stubConn) let() {
	if c.holds {
		c.holds = false
		c.g.set(func(g *stub) { g.holders-- })
	}
}

func (c *stubConn) Exec(sql string) ([][]string, error) {
	var lock, idle int
	_, _ = fmt.Sscanf(sql, shutGate[:len("BEGIN;SET LOCAL lock_timeout = %d;SET LOCAL idle_in_transaction_session_timeout = %d")], &lock, &idle)
	began := time.Now()
	time.Sleep(50 * time.Microsecond)
	for {
		select {
		case <-c.abandoned:
			return nil, errors.New("abandoned")
		default:
		}
		switch {
		case c.g.is(func(g *stub) bool { return g.hangs }):
		case c.g.is(func(g *stub) bool { return g.lost }):
			return nil, errors.New("lost")
		case sql == openGate || sql == "ROLLBACK":
			c.let()
			return nil, nil
		case sql == stillShut:
			return nil, nil
		case c.g.is(func(g *stub) bool { return g.inside == 0 }):
			c.holds = true
			c.g.set(func(g *stub) { g.holders++; g.shut++ })
			return nil, nil
		case time.Since(began) >= time.Duration(lock)*time.Millisecond:
			return nil, errBusy()
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// newWorld is a Keeper of two shards.
func newWorld() (k *Keeper, stubs []*stub, gates []Gate, wait func()) {
	var wg sync.WaitGroup
	stubs = []*stub{{}, {}}
	gates = []Gate{{"0", "db"}, {"1", "db"}}
	k = New(Config{
		Spawn: func(f func()) { wg.Go(f) },
		Dial: func(gate Gate) (Conn, error) {
			g := stubs[gate.Shard[0]-'0']
			g.set(func(g *stub) { g.conns++ })
			return &stubConn{g: g, abandoned: make(chan struct{})}, nil
		},
	})
	return k, stubs, gates, wg.Wait
}

// open fails unless all gates are open and no connection is in use.
func open(t *testing.T, stubs []*stub) {
	t.Helper()
	for i, g := range stubs {
		if g.is(func(g *stub) bool { return g.holders != 0 || g.conns != 0 }) {
			t.Errorf("gate %d is shut", i)
		}
	}
}

// TestShared: readers that come together share the shutting of a gate; who comes later waits until writers have had
// their turn.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stubs, gates, wait := newWorld()
		first, err := k.Together(t.Context(), gates, First)
		if err != nil {
			t.Fatal(err)
		}
		second, err := k.Together(t.Context(), gates, First)
		if err != nil || second[0] != first[0] || second[1] != first[1] {
			t.Fatalf("not shared: %v", err)
		}
		time.Sleep(2 * join)
		if _, err := k.Together(t.Context(), gates, First); !isBusy(err) {
			t.Errorf("one that came too late got %v", err)
		}
		done := make(chan error)
		go func() {
			third, err := k.InTurn(t.Context(), gates, Bound)
			if err == nil {
				err = k.LeaveAll(third)()
			}
			done <- err
		}()
		time.Sleep(time.Millisecond)
		if err := k.LeaveAll(first)(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
		if stubs[0].is(func(g *stub) bool { return g.holders != 1 || g.shut != 1 }) {
			t.Error("it was opened under one of the readers")
		}
		if err := k.LeaveAll(second)(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		wait()
		if stubs[0].shut != 2 {
			t.Errorf("shut %d times", stubs[0].shut)
		}
		open(t, stubs)
	})
}

// TestBusy: who finds somebody inside a gate lets go of the others, and gets in when that one has left.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stubs, gates, wait := newWorld()
		stubs[1].inside = 1
		began := time.Now()
		if _, err := k.Together(t.Context(), gates, First); !isBusy(err) || time.Since(began) > 2*First {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		wait()
		open(t, stubs)
		if _, err := k.InTurn(t.Context(), gates, Bound); !isBusy(err) {
			t.Error(err)
		}
		time.Sleep(rest / 2)
		k.mu.Lock()
		rests := k.gates[gates[1]] != nil && k.gates[gates[1]].ends
		k.mu.Unlock()
		if !rests {
			t.Error("the gate has no rest")
		}
		time.AfterFunc(Bound/2, func() { stubs[1].set(func(g *stub) { g.inside = 0 }) })
		held, err := k.InTurn(t.Context(), gates, Bound)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.LeaveAll(held)(); err != nil {
			t.Error(err)
		}
		wait()
		open(t, stubs)
	})
}

// TestGivenUp: a reader that gives up leaves no gate shut, also one that is shut afterwards.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stubs, gates, wait := newWorld()
		stubs[1].inside = 1
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(pgerr.New(pgerr.QueryCanceled, "cancelled")) })
		time.AfterFunc(20*time.Millisecond, func() { stubs[1].set(func(g *stub) { g.inside = 0 }) })
		began := time.Now()
		if _, err := k.InTurn(ctx, gates, Bound); pgerr.From(err).Code != pgerr.QueryCanceled || time.Since(began) != 10*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		wait()
		open(t, stubs)
		if stubs[1].shut != 1 {
			t.Errorf("shut %d times", stubs[1].shut)
		}
	})
}

// TestLost: a reader learns that a gate was open before it left: its connection was lost, or it took too long.
func TestLost(t *testing.T) {
	for name, lose := range map[string]func(g *stub){
		"lost": func(g *stub) { g.lost = true },
		"deaf": func(g *stub) { g.hangs = true },
		"late": func(*stub) { time.Sleep(longest + time.Second) },
	} {
		synctest.Test(t, func(t *testing.T) {
			k, stubs, gates, wait := newWorld()
			held, err := k.Together(t.Context(), gates, First)
			if err != nil {
				t.Fatal(err)
			}
			if name == "late" {
				lose(nil)
				open(t, stubs)
			} else {
				stubs[1].set(lose)
			}
			if err := k.LeaveAll(held)(); err == nil {
				t.Errorf("%s: the reader has not heard of it", name)
			}
			wait()
			open(t, stubs)
		})
	}
}

// TestDeaf: a shard that does not answer keeps readers for a moment, and those of other shards not at all.
func TestDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stubs, gates, wait := newWorld()
		stubs[1].hangs = true
		done := make(chan error)
		go func() {
			_, err := k.Together(t.Context(), gates, First)
			done <- err
		}()
		time.Sleep(time.Millisecond)
		began := time.Now()
		held, err := k.InTurn(t.Context(), gates[:1], Bound)
		if err != nil || time.Since(began) > time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if err := k.LeaveAll(held)(); err != nil {
			t.Error(err)
		}
		if err := <-done; pgerr.From(err).Code != pgerr.ConnectionFailure || time.Since(began) > 2*deaf {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		wait()
		open(t, stubs)
	})
}
