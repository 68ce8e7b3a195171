package pool_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"weft/pgerr"
	"weft/pool"
)

// TestDrain: while a shard is drained on all proxies, nothing begins there; what has begun goes on, until the shard is shut.
func TestDrain(t *testing.T) {
	_, sh := home(t, pool.Config{QueueTimeout: 50 * time.Millisecond})
	l := lane(t, sh)
	held := acquire(t, l, pool.Want{})
	sh.Drain(pool.DrainBegun)
	if !sh.Paused() || sh.Empty() {
		t.Errorf("paused %v, empty %v", sh.Paused(), sh.Empty())
	}
	if _, err := l.Acquire(context.Background(), pool.Want{}); code(err) != pgerr.CannotConnectNow || !strings.Contains(pgerr.From(err).Hint, "weft drain --end") {
		t.Errorf("something new: %v", err)
	}
	before := pool.Want{Underway: true}
	acquire(t, l, before).Release()
	sh.Drain(pool.DrainShut)
	if _, err := l.Acquire(context.Background(), before); code(err) != pgerr.CannotConnectNow {
		t.Errorf("a transaction that began before, on a shard that is shut: %v", err)
	}
	// Sessions that wait at a shut gate look again when it is only closed.
	got := make(chan error, 1)
	go func() {
		c, err := l.Acquire(context.Background(), before)
		if err == nil {
			c.Release()
		}
		got <- err
	}()
	sh.Drain(pool.DrainBegun)
	if err := <-got; err != nil {
		t.Errorf("a transaction that began before, on a shard that is opened for it again: %v", err)
	}
	sh.Drain(pool.DrainShut)
	sh.Seek(true)
	if sh.Drain(pool.DrainNone); !sh.Sought() || sh.Paused() {
		t.Errorf("sought %v, paused %v after the drain", sh.Sought(), sh.Paused())
	}
	sh.Seek(false)
	held.Release()
	if !sh.Empty() || sh.Open() != 0 {
		t.Errorf("empty %v, %d connections are open", sh.Empty(), sh.Open())
	}
	acquire(t, l, pool.Want{}).Release()
}

// TestFence: connections to servers of a timeline that is over are closed and not opened, until that is taken back.
func TestFence(t *testing.T) {
	_, sh := home(t, pool.Config{Verify: func(pool.Login) error { return nil }})
	l := lane(t, sh)
	c := acquire(t, l, pool.Want{})
	sh.Fence(1)
	if _, err := c.Exec("select 1"); err == nil {
		t.Error("a connection in use is still open")
	}
	c.Discard()
	if _, err := l.Acquire(context.Background(), pool.Want{}); code(err) != pgerr.CannotConnectNow || !strings.Contains(pgerr.From(err).Detail, "about to be promoted") {
		t.Errorf("a new connection: %v", err)
	}
	sh.Fence(0)
	acquire(t, l, pool.Want{}).Release()
}
