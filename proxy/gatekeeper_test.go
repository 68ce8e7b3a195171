package proxy

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

// gateStub is the gate of one shard, as far as a gatekeeper sees it.
type gateStub struct {
	mu      sync.Mutex
	inside  int  // transactions that are being committed
	hangs   bool // answers nothing
	lost    bool // the connection that has shut it is gone
	holders int  // connections that have shut it
	shut    int  // how often it was shut
	conns   int  // connections in use
}

func (g *gateStub) set(f func(*gateStub)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(g)
}

func (g *gateStub) is(f func(*gateStub) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f(g)
}

type gateStubConn struct {
	g         *gateStub
	abandoned chan struct{}
	once      sync.Once
	holds     bool
}

func (c *gateStubConn) Abandon()   { c.once.Do(func() { close(c.abandoned) }) }
func (c *gateStubConn) Terminate() { c.let(); c.g.set(func(g *gateStub) { g.conns-- }) }

func (c *gateStubConn) let() {
	if c.holds {
		c.holds = false
		c.g.set(func(g *gateStub) { g.holders-- })
	}
}

func (c *gateStubConn) Exec(sql string) ([][]string, error) {
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
		case c.g.is(func(g *gateStub) bool { return g.hangs }):
		case c.g.is(func(g *gateStub) bool { return g.lost }):
			return nil, errors.New("lost")
		case sql == openGate || sql == "ROLLBACK":
			c.let()
			return nil, nil
		case sql == stillShut:
			return nil, nil
		case c.g.is(func(g *gateStub) bool { return g.inside == 0 }):
			c.holds = true
			c.g.set(func(g *gateStub) { g.holders++; g.shut++ })
			return nil, nil
		case time.Since(began) >= time.Duration(lock)*time.Millisecond:
			return nil, errLockTimeout()
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// gateWorld is a gatekeeper of two shards.
func gateWorld() (k *gatekeeper, stubs []*gateStub, gates []ownKey, wait func()) {
	var wg sync.WaitGroup
	stubs = []*gateStub{{}, {}}
	gates = []ownKey{{"0", "db"}, {"1", "db"}}
	k = &gatekeeper{
		spawn: func(f func()) { wg.Go(f) },
		dial: func(gate ownKey) (gateConn, error) {
			g := stubs[gate.shard[0]-'0']
			g.set(func(g *gateStub) { g.conns++ })
			return &gateStubConn{g: g, abandoned: make(chan struct{})}, nil
		},
	}
	return k, stubs, gates, wg.Wait
}

// open fails unless all gates are open and no connection is in use.
func open(t *testing.T, stubs []*gateStub) {
	t.Helper()
	for i, g := range stubs {
		if g.is(func(g *gateStub) bool { return g.holders != 0 || g.conns != 0 }) {
			t.Errorf("gate %d is shut", i)
		}
	}
}

// TestGateShared: readers that come together share the shutting of a gate; who comes later waits until writers have had
// their turn.
func TestGateShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stubs, gates, wait := gateWorld()
		first, err := k.together(t.Context(), gates, gateFirst)
		if err != nil {
			t.Fatal(err)
		}
		second, err := k.together(t.Context(), gates, gateFirst)
		if err != nil || second[0] != first[0] || second[1] != first[1] {
			t.Fatalf("not shared: %v", err)
		}
		time.Sleep(2 * gateJoin)
		if _, err := k.together(t.Context(), gates, gateFirst); !isBusy(err) {
			t.Errorf("one that came too late got %v", err)
		}
		done := make(chan error)
		go func() {
			third, err := k.inTurn(t.Context(), gates, gateBound)
			if err == nil {
				err = k.leaveAll(third)()
			}
			done <- err
		}()
		time.Sleep(time.Millisecond)
		if err := k.leaveAll(first)(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
		if stubs[0].is(func(g *gateStub) bool { return g.holders != 1 || g.shut != 1 }) {
			t.Error("it was opened under one of the readers")
		}
		if err := k.leaveAll(second)(); err != nil {
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

// TestGateBusy: who finds somebody inside a gate lets go of the others, and gets in when that one has left.
func TestGateBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stubs, gates, wait := gateWorld()
		stubs[1].inside = 1
		began := time.Now()
		if _, err := k.together(t.Context(), gates, gateFirst); !isBusy(err) || time.Since(began) > 2*gateFirst {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		wait()
		open(t, stubs)
		if _, err := k.inTurn(t.Context(), gates, gateBound); !isBusy(err) {
			t.Error(err)
		}
		time.Sleep(gateRest / 2)
		k.mu.Lock()
		rests := k.gates[gates[1]] != nil && k.gates[gates[1]].ends
		k.mu.Unlock()
		if !rests {
			t.Error("the gate has no rest")
		}
		time.AfterFunc(gateBound/2, func() { stubs[1].set(func(g *gateStub) { g.inside = 0 }) })
		held, err := k.inTurn(t.Context(), gates, gateBound)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.leaveAll(held)(); err != nil {
			t.Error(err)
		}
		wait()
		open(t, stubs)
	})
}

// TestGateGivenUp: a reader that gives up leaves no gate shut, also one that is shut afterwards.
func TestGateGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stubs, gates, wait := gateWorld()
		stubs[1].inside = 1
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(errCancelled()) })
		time.AfterFunc(20*time.Millisecond, func() { stubs[1].set(func(g *gateStub) { g.inside = 0 }) })
		began := time.Now()
		if _, err := k.inTurn(ctx, gates, gateBound); pgerr.From(err).Code != pgerr.QueryCanceled || time.Since(began) != 10*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		wait()
		open(t, stubs)
		if stubs[1].shut != 1 {
			t.Errorf("shut %d times", stubs[1].shut)
		}
	})
}

// TestGateLost: a reader learns that a gate was open before it left: its connection was lost, or it took too long.
func TestGateLost(t *testing.T) {
	for name, lose := range map[string]func(g *gateStub){
		"lost": func(g *gateStub) { g.lost = true },
		"deaf": func(g *gateStub) { g.hangs = true },
		"late": func(*gateStub) { time.Sleep(gateLongest + time.Second) },
	} {
		synctest.Test(t, func(t *testing.T) {
			k, stubs, gates, wait := gateWorld()
			held, err := k.together(t.Context(), gates, gateFirst)
			if err != nil {
				t.Fatal(err)
			}
			if name == "late" {
				lose(nil)
				open(t, stubs)
			} else {
				stubs[1].set(lose)
			}
			if err := k.leaveAll(held)(); err == nil {
				t.Errorf("%s: the reader has not heard of it", name)
			}
			wait()
			open(t, stubs)
		})
	}
}

// TestGateDeaf: a shard that does not answer keeps readers for a moment, and those of other shards not at all.
func TestGateDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, stubs, gates, wait := gateWorld()
		stubs[1].hangs = true
		done := make(chan error)
		go func() {
			_, err := k.together(t.Context(), gates, gateFirst)
			done <- err
		}()
		time.Sleep(time.Millisecond)
		began := time.Now()
		held, err := k.inTurn(t.Context(), gates[:1], gateBound)
		if err != nil || time.Since(began) > time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if err := k.leaveAll(held)(); err != nil {
			t.Error(err)
		}
		if err := <-done; pgerr.From(err).Code != pgerr.ConnectionFailure || time.Since(began) > 2*gateDeaf {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		wait()
		open(t, stubs)
	})
}
