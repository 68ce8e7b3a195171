package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// readsOnce is the read that clients share.
const readsOnce = "select n from acct where id = $1"

// shares lets reads of hot keys share executions.
func shares(mode string) func(*config.Config) {
	return func(c *config.Config) {
		rows(config.ThrottleOff)(c)
		c.Heat.Coalesce = mode
	}
}

// reads lets so many clients read key 42 until halt is called, so that the key is hot. Their text is not that of readsOnce.
func (w *world) reads(clients int) (halt func()) {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range clients {
		c := w.conn(i%len(w.proxies), "postgres")
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Exec(context.Background(), "select n, id from acct where id = $1", 42); err != nil && ctx.Err() == nil {
					w.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	halt = sync.OnceFunc(func() { stop(); wg.Wait() })
	w.Cleanup(halt)
	return halt
}

// awaitFerries waits until all proxies let reads of key 42 share executions.
func (w *world) awaitFerries(c *pgx.Conn, mode string) {
	w.Helper()
	w.await("ferries of a hot key", func() (any, bool) {
		rows := w.rows(c, "select * from weft.queues where key like 'key 42 of %' and kind = 'ferry' and mode = $1", mode)
		return w.rows(c, "select * from weft.hot_keys"), len(rows) == len(w.proxies)
	})
}

// shared is how many reads have got the answer of another one, in all proxies.
func (w *world) shared(c *pgx.Conn) int64 {
	w.Helper()
	return w.number(c, "select coalesce(sum(waited), 0)::int8 from weft.queues where kind = 'ferry'")
}

// stale lets clients of all proxies read a counter that others increment, and counts the answers that are older than what was
// acknowledged before the client has asked.
func (w *world) stale(clients int, most int64, goesOn func() bool) {
	w.Helper()
	var acknowledged, asked, old atomic.Int64
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for i := range 2 {
		c := w.conn(i%len(w.proxies), "postgres")
		wg.Go(func() {
			for ctx.Err() == nil {
				var n int64
				if err := c.QueryRow(context.Background(), "update acct set n = n + 1 where id = 42 returning n").Scan(&n); err != nil {
					w.Errorf("writer: %v", err)
					return
				}
				for now := acknowledged.Load(); n > now && !acknowledged.CompareAndSwap(now, n); now = acknowledged.Load() {
				}
				time.Sleep(500 * time.Microsecond)
			}
		})
	}
	var readers sync.WaitGroup
	var more atomic.Bool
	more.Store(true)
	wg.Go(func() {
		for more.Load() {
			more.Store(goesOn())
			time.Sleep(200 * time.Millisecond)
		}
	})
	for i := range clients {
		mode := []string{"cache_statement", "exec", "simple_protocol", "cache_describe"}[i%4]
		c := w.conn(i/4%len(w.proxies), "postgres", "default_query_exec_mode="+mode)
		readers.Go(func() {
			for (asked.Add(1) <= most || more.Load()) && !w.Failed() {
				before := acknowledged.Load()
				var n int64
				if err := c.QueryRow(context.Background(), readsOnce, 42).Scan(&n); err != nil {
					w.Errorf("reader %d: %v", i, err)
					return
				}
				if n < before {
					old.Add(1)
					w.Errorf("reader %d (%s): %d after %d was acknowledged", i, mode, n, before)
				}
			}
		})
	}
	readers.Wait()
	stop()
	wg.Wait()
	w.Logf("%d reads, %d writes, %d stale", asked.Load(), acknowledged.Load(), old.Load())
}

// No answer that is shared is older than what was acknowledged before its client has asked, through whichever proxy.
func TestNotStale(t *testing.T) {
	w := newWorld(t, "stale", shares(config.CoalesceOn), shares(config.CoalesceOn))
	a := w.conn(0, "postgres")
	halt := w.reads(8)
	w.awaitFerries(a, "on")
	halt()
	var total int64
	last, began := map[any]int64{}, time.Now()
	w.stale(64, 20_000, func() bool {
		for _, row := range w.rows(a, "select proxy, waited from weft.queues where kind = 'ferry'") { // a busy proxy may be missing
			n := row["waited"].(int64)
			if n < last[row["proxy"]] { // the key was not hot for a while
				last[row["proxy"]] = 0
			}
			if n > last[row["proxy"]] {
				total, began = total+n-last[row["proxy"]], time.Now()
			}
			last[row["proxy"]] = n
		}
		return total < *sharing && time.Since(began) < patience
	})
	if total < *sharing {
		t.Errorf("%d reads were shared", total)
	}
	t.Logf("%d shared: %v", total, w.rows(a, "select proxy, served, waited, refused, wait_p99_ms from weft.queues"))
}
