package pool_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pgserver/pgtest"
	"weft/pool"
)

// several returns lanes to n shards, which are the same server.
func several(t *testing.T, cfg pool.Config, n int) (*pool.Pool, []*pool.Lane) {
	t.Helper()
	p, _ := home(t, cfg)
	var lanes []*pool.Lane
	for i := range n {
		s := &directory.Shard{Name: fmt.Sprint("s", i), Hosts: []string{postgres.Addr()}, Options: map[string]string{"sslmode": "disable"}}
		lanes = append(lanes, lane(t, p.Shard(s)))
	}
	return p, lanes
}

func together(t *testing.T, lanes []*pool.Lane, want pool.Want) []*pool.Conn {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	conns, err := pool.Together(ctx, lanes, want, nil)
	if err != nil {
		t.Errorf("together: %v", err)
	}
	return conns
}

// waiting is how many wait for a shard.
func waiting(p *pool.Pool, shard string) int {
	n := 0
	for _, l := range p.Lanes() {
		if l.Shard == shard {
			n += l.Waiting
		}
	}
	return n
}

// A session that waits for one of several shards holds no connection to the others.
func TestTogetherHoldsNothing(t *testing.T) {
	p, lanes := several(t, pool.Config{MaxPerShard: 1, QueueTimeout: time.Minute}, 3)
	hot := acquire(t, lanes[1], pool.Want{})
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			for _, c := range together(t, lanes, pool.Want{Session: int32(i + 1)}) {
				c.Release()
			}
		})
	}
	eventually(t, func() string {
		if n := waiting(p, "s1"); n != 5 {
			return fmt.Sprintf("%d wait for the hot shard", n)
		}
		return ""
	})
	for range 3 {
		acquire(t, lanes[0], pool.Want{}).Release()
		acquire(t, lanes[2], pool.Want{}).Release()
	}
	if waiting(p, "s0")+waiting(p, "s2") > 0 {
		t.Error("somebody waits for a healthy shard")
	}
	hot.Release()
	wg.Wait()
	if open, idle, n := counts(p); n != 0 || open != idle || open > 3 {
		t.Errorf("%d open, %d idle, %d waiting", open, idle, n)
	}
}

// Sessions that need several full shards in any order all get them in the end.
func TestTogetherAmongOthers(t *testing.T) {
	p, lanes := several(t, pool.Config{MaxPerShard: 2, QueueTimeout: time.Minute}, 4)
	var done atomic.Int64
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for j := range 10 {
				some := []*pool.Lane{lanes[(i+j)%4], lanes[(i+2*j+1)%4]}
				if i%3 == 0 {
					some = []*pool.Lane{lanes[3], lanes[1], lanes[0], lanes[2]}
				}
				if some[0] == some[1] {
					some = some[:1]
				}
				conns := together(t, some, pool.Want{Session: int32(i + 1)})
				time.Sleep(2 * time.Millisecond)
				for k, c := range conns {
					if c.Lane() != some[k] {
						t.Error("a connection is of another lane")
					}
					c.Release()
				}
				done.Add(1)
			}
		})
	}
	for i := range 8 { // single shards, too
		wg.Go(func() {
			for j := range 20 {
				c := acquire(t, lanes[(i+j)%4], pool.Want{Session: int32(100 + i)})
				time.Sleep(time.Millisecond)
				c.Release()
			}
		})
	}
	wg.Wait()
	if done.Load() != 120 {
		t.Errorf("%d of 120 got their connections", done.Load())
	}
	if open, idle, n := counts(p); n != 0 || open != idle {
		t.Errorf("%d open, %d idle, %d waiting", open, idle, n)
	}
}

// Who waits in vain for one of several shards is told so, and has lent nothing.
func TestTogetherFails(t *testing.T) {
	p, lanes := several(t, pool.Config{MaxPerShard: 1, QueueTimeout: 100 * time.Millisecond}, 3)
	hot := acquire(t, lanes[2], pool.Want{})
	if _, err := pool.Together(t.Context(), lanes, pool.Want{Session: 1}, nil); code(err) != pgerr.TooManyConnections {
		t.Errorf("a full shard: %v", err)
	}
	cancel := make(chan struct{}, 1)
	cancel <- struct{}{}
	if _, err := pool.Together(t.Context(), lanes, pool.Want{Session: 1, Cancel: cancel}, nil); code(err) != pgerr.QueryCanceled {
		t.Errorf("cancelled: %v", err)
	}
	hot.Release()
	if open, idle, n := counts(p); n != 0 || open != idle {
		t.Errorf("%d open, %d idle, %d waiting", open, idle, n)
	}
}

// asker has one key and priority.
type asker struct {
	key      uint64
	priority pool.Priority
}

func (a asker) Ask() (uint64, pool.Priority) { return a.key, a.priority }

// await returns when so many sessions wait for a connection.
func await(t *testing.T, p *pool.Pool, sessions int) {
	t.Helper()
	eventually(t, func() string {
		if _, _, n := counts(p); n != sessions {
			return fmt.Sprintf("%d wait", n)
		}
		return ""
	})
}

// A connection goes round among the keys that wait for it: the few who came last with other keys do not
// wait for the many of one key.
func TestKeysTakeTurns(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 1, QueueTimeout: 10 * time.Minute})
	l := lane(t, sh)
	held := acquire(t, l, pool.Want{})
	const flood, others = 40, 8
	served := make(chan uint64, flood+others)
	var wg sync.WaitGroup
	for i := range flood + others {
		key := uint64(max(1, i-flood+2))
		wg.Go(func() {
			c := acquire(t, l, pool.Want{Asker: asker{key, pool.PriorityHigh}})
			served <- key
			c.Release()
		})
		await(t, p, i+1)
	}
	held.Release()
	wg.Wait()
	early := 0
	for range flood / 2 {
		if <-served > 1 {
			early++
		}
	}
	if early != others {
		t.Errorf("%d of %d keys were served before half of the flood", early, others)
	}
}

// In overload clients wait for OverloadWait only, and are told when to come back. A session that holds
// connections is not refused.
func TestOverload(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 1, QueueTimeout: time.Minute, OverloadWait: 300 * time.Millisecond})
	l := lane(t, sh)
	var refused, served atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	stop := make(chan struct{})
	for i := range 60 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				want := pool.Want{Session: int32(i + 1), Underway: i == 0}
				c, err := l.Acquire(context.Background(), want)
				switch {
				case err == nil:
					served.Add(1)
					time.Sleep(20 * time.Millisecond)
					c.Release()
				case code(err) != pgerr.InsufficientResources || i == 0 || !strings.Contains(pgerr.From(err).Detail, "retry_after_ms="):
					t.Errorf("session %d: %v", i, err)
					return
				default:
					refused.Add(1)
				}
				if i == 0 {
					time.Sleep(50 * time.Millisecond)
				}
			}
		})
	}
	eventually(t, func() string {
		if refused.Load() == 0 {
			return "nobody is refused"
		}
		return ""
	})
	at := served.Load()
	eventually(t, func() string {
		if served.Load() < at+20 {
			return "nobody is served"
		}
		return ""
	})
	close(stop)
	wg.Wait()
	if got := sh.Stats.Refusals.Load(); got < refused.Load() {
		t.Errorf("%d are counted as refused, of %d", got, refused.Load())
	}
	t.Logf("%d served, %d refused in %v", served.Load(), refused.Load(), time.Since(began))
	// Afterwards all is as before: one that waits for a second is not refused.
	c := acquire(t, l, pool.Want{})
	time.AfterFunc(time.Second, c.Release)
	acquire(t, l, pool.Want{}).Release()
	if _, _, n := counts(p); n != 0 {
		t.Errorf("%d waiting", n)
	}
}

// Sessions that set custom parameters, and leave connections with them behind, do not starve those that
// set none.
func TestQueueOfUnlike(t *testing.T) {
	_, sh := home(t, pool.Config{MaxPerShard: 2, QueueTimeout: time.Minute})
	l := lane(t, sh)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				c, err := l.Acquire(ctx, pool.Want{Placeholders: map[string]bool{"my.x": true}, Asker: asker{3, pool.PriorityLow}})
				if err != nil {
					return
				}
				c.NotePlaceholder("my.x")
				time.Sleep(2 * time.Millisecond)
				c.Release()
			}
		})
	}
	for range 5 {
		c := acquire(t, l, pool.Want{})
		time.Sleep(2 * time.Millisecond)
		c.Release()
	}
}

// Urgent statements overtake others, and a user's priority bounds what its sessions ask for.
func TestPriorities(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 1, QueueTimeout: time.Minute, Users: map[string]pool.User{"postgres": {Priority: pool.PriorityNormal}}})
	l := lane(t, sh)
	held := acquire(t, l, pool.Want{})
	order := make(chan pool.Priority, 3)
	var wg sync.WaitGroup
	for i, priority := range []pool.Priority{pool.PriorityLow, pool.PriorityNormal, pool.PriorityHigh} {
		wg.Go(func() {
			c := acquire(t, l, pool.Want{Asker: asker{7, priority}})
			order <- priority
			c.Release()
		})
		await(t, p, i+1)
	}
	held.Release()
	wg.Wait()
	if a, b, c := <-order, <-order, <-order; a != pool.PriorityNormal || b != pool.PriorityHigh || c != pool.PriorityLow {
		t.Errorf("served %d, %d, %d", a, b, c) // high is no more than the user's normal
	}
}

// BenchmarkAcquire lends and gives back while nobody waits.
func BenchmarkAcquire(b *testing.B) {
	p, err := pool.New(pool.Config{MaxPerShard: 4})
	if err != nil {
		b.Fatal(err)
	}
	l := p.Shard(spec(postgres.Addr())).OpenLane(pool.Key{Database: "postgres", User: "postgres"})
	b.ReportAllocs()
	for b.Loop() {
		c, err := l.Acquire(b.Context(), pool.Want{Session: 7})
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
	}
}
