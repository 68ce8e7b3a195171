package pool_test

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/pgserver/pgtest"
	"weft/pool"
)

// doorman lets logins to postgres in slowly, and counts how many stand at the door.
type doorman struct {
	addr        string
	now, most   atomic.Int64
	connections atomic.Int64
	shut        atomic.Bool // nobody is let in
}

func newDoorman(t *testing.T) *doorman {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &doorman{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { d.admit(c) })
		}
	})
	return d
}

func (d *doorman) admit(c net.Conn) {
	defer c.Close()
	d.connections.Add(1)
	n := d.now.Add(1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	time.Sleep(20 * time.Millisecond)
	for d.shut.Load() {
		time.Sleep(time.Millisecond)
	}
	d.now.Add(-1)
	to, err := net.Dial("tcp", postgres.Addr())
	if err != nil {
		return
	}
	defer to.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(to, c)
		to.Close()
	})
	_, _ = io.Copy(c, to)
	c.Close()
	wg.Wait()
}

// borrow has n sessions borrow a connection at once, each for a moment.
func borrow(t *testing.T, l *pool.Lane, n int, wg *sync.WaitGroup) {
	for range n {
		wg.Go(func() {
			c, err := l.Acquire(context.Background(), pool.Want{})
			if err != nil {
				t.Error(err)
				return
			}
			c.Release()
		})
	}
}

// TestMaxDials: no more logins to a server are under way than may be, and all sessions are served.
func TestMaxDials(t *testing.T) {
	d := newDoorman(t)
	_, sh := home(t, pool.Config{MaxDials: 3, MaxPerShard: 15, QueueTimeout: pgtest.Patience}, d.addr)
	l := lane(t, sh)
	var wg sync.WaitGroup
	conns := make(chan *pool.Conn, 15)
	for i := range 15 {
		wg.Go(func() {
			c, err := l.Acquire(context.Background(), pool.Want{Session: int32(i), Underway: i%3 == 0})
			if err != nil {
				t.Errorf("session %d: %v", i, err)
				return
			}
			conns <- c
		})
	}
	wg.Wait()
	close(conns)
	// The right of way lets one session dial above the bound now and then.
	if most := d.most.Load(); most > 5 {
		t.Errorf("%d logins at a time", most)
	}
	for c := range conns {
		c.Release()
	}
	// A connection that is given back is as good as a login.
	had := d.connections.Load()
	sh.CloseIdle()
	first := acquire(t, l, pool.Want{})
	borrow(t, l, 30, &wg)
	first.Release()
	wg.Wait()
	if n := d.connections.Load() - had; n > 15 {
		t.Errorf("%d logins for 30 sessions", n)
	}
}

// TestRamp: when a shard has a primary again, its first connection is made before others are dialled, unless its server takes long.
func TestRamp(t *testing.T) {
	d := newDoorman(t)
	_, sh := home(t, pool.Config{HealthInterval: 10 * time.Millisecond, QueueTimeout: pgtest.Patience}, d.addr)
	l := lane(t, sh)
	d.shut.Store(true)
	defer d.shut.Store(false)
	sh.Seek(true)
	began := time.Now()
	sh.Seek(false)
	var wg sync.WaitGroup
	borrow(t, l, 4, &wg)
	for d.now.Load() < 4 {
		if n := d.now.Load(); n > 1 && time.Since(began) < 500*time.Millisecond {
			t.Fatalf("%d logins at a time", n)
		}
		time.Sleep(time.Millisecond)
	}
	d.shut.Store(false)
	wg.Wait()
}
