package pool_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"weft/heat"
	"weft/pgserver/pgtest"
	"weft/pool"
)

// later acquires a connection in the background, and waits until the session is in the queue as number n.
func later(t *testing.T, p *pool.Pool, l *pool.Lane, want pool.Want, n int) <-chan *pool.Conn {
	t.Helper()
	got := make(chan *pool.Conn, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		c, err := l.Acquire(ctx, want)
		if err != nil {
			t.Errorf("acquire: %v", err)
		}
		got <- c
	}()
	eventually(t, func() string {
		if _, _, waiting := counts(p); waiting != n {
			return fmt.Sprintf("%d waiting, want %d", waiting, n)
		}
		return ""
	})
	return got
}

// No more connections are lent than the limit allows, though more are open. Sessions that hold connections are not held up.
func TestSetLimit(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 8, QueueTimeout: time.Minute})
	l := lane(t, sh)
	var lent []*pool.Conn
	for range 4 {
		lent = append(lent, acquire(t, l, pool.Want{}))
	}
	p.SetLimit("home", 2)
	if r := p.Rooms()["home"]; r != (heat.Room{Lent: 4, Most: 8}) {
		t.Errorf("%+v", r)
	}
	got := later(t, p, l, pool.Want{}, 1)
	lent[0].Release()
	lent[1].Release()
	underway := acquire(t, l, pool.Want{Session: 7, Underway: true})
	underway.Release()
	if r := p.Rooms()["home"]; r != (heat.Room{Lent: 2, Waiting: 1, Most: 8}) {
		t.Errorf("%+v", r)
	}
	lent[2].Release()
	c := <-got
	c.Release()
	lent[3].Release()

	// A limit that rises lets those in who wait.
	a, b := acquire(t, l, pool.Want{}), acquire(t, l, pool.Want{})
	got = later(t, p, l, pool.Want{}, 1)
	p.SetLimit("home", 0)
	c = <-got
	for _, c := range []*pool.Conn{a, b, c} {
		c.Release()
	}
	if open, idle, waiting := counts(p); open != idle || waiting != 0 {
		t.Errorf("%d open, %d idle, %d waiting", open, idle, waiting)
	}
	if r := p.Rooms()["home"]; r.Lent != 0 {
		t.Errorf("%+v", r)
	}
}

// Connections that sessions keep do not use up the limit.
func TestKeep(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 8, QueueTimeout: time.Minute})
	l := lane(t, sh)
	a, b := acquire(t, l, pool.Want{}), acquire(t, l, pool.Want{})
	p.SetLimit("home", 2)
	got := later(t, p, l, pool.Want{}, 1)
	a.Keep()
	a.Keep()
	c := <-got
	got = later(t, p, l, pool.Want{}, 1)
	b.Keep()
	d := <-got
	a.Release()
	b.Discard()
	if r := p.Rooms()["home"]; r.Lent != 2 {
		t.Errorf("%+v", r)
	}
	got = later(t, p, l, pool.Want{}, 1)
	c.Release()
	(<-got).Release()
	d.Release()
	if r := p.Rooms()["home"]; r.Lent != 0 || r.Waiting != 0 {
		t.Errorf("%+v", r)
	}
}

// Statements over several shards wait for the limit of each, and hold nothing meanwhile. In the end all get through.
func TestTogetherWithLimits(t *testing.T) {
	p, lanes := several(t, pool.Config{MaxPerShard: 8, QueueTimeout: time.Minute}, 3)
	p.SetLimit("s1", 1)
	hot := acquire(t, lanes[1], pool.Want{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 5 {
				for _, c := range together(t, lanes, pool.Want{Session: int32(i + 1)}) {
					c.Release()
				}
			}
		})
	}
	eventually(t, func() string {
		if n := waiting(p, "s1"); n != 4 {
			return fmt.Sprintf("%d wait for the shard with a limit", n)
		}
		return ""
	})
	for _, name := range []string{"s0", "s2"} {
		if r := p.Rooms()[name]; r.Lent != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	hot.Release()
	wg.Wait()
}
