package queue

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/heat/load"
)

const increment = "update acct set n = n + 1 where id = $1"

// crowd is clients that increment key 42 again and again.
type crowd struct {
	done, refused atomic.Int64
	halt          func()
}

// increments lets so many clients increment key 42 until halt is called. Errors other than full queues are errors.
func (w *world) increments(clients int) *crowd {
	w.Helper()
	cr := &crowd{}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range clients {
		mode := []string{"cache_statement", "exec", "simple_protocol"}[i%3]
		c := w.conn(i%len(w.proxies), "postgres", "default_query_exec_mode="+mode)
		wg.Go(func() {
			for ctx.Err() == nil {
				switch _, err := c.Exec(context.Background(), increment, 42); code(err) {
				case "":
					cr.done.Add(1)
				case "53000":
					if cr.refused.Add(1); !says(err, "wait for key 42 of acct") || !says(err, "weft.queues") {
						w.Errorf("client %d: %v", i, err)
					}
					time.Sleep(100 * time.Millisecond)
				default:
					w.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	cr.halt = sync.OnceFunc(func() { stop(); wg.Wait() })
	w.Cleanup(cr.halt)
	return cr
}

// updating counts the backends that work on the counter.
const updating = "select count(*) from pg_stat_activity where state = 'active' and query ~ 'update acct' and datname = current_database() and pid <> pg_backend_pid()"

// awaitFew waits for the clients that came before the queue.
func (w *world) awaitFew(shard *pgx.Conn) {
	w.Helper()
	w.await("those that came before the queue", func() (any, bool) { n := w.number(shard, updating); return n, n <= 4 })
}

// Few backends of the shard work on a counter that many clients increment, each increment counts, and other keys are not held up.
func TestCounter(t *testing.T) {
	w := newWorld(t, "counter", rows(config.ThrottleAuto), rows(config.ThrottleAuto))
	a, shard := w.conn(0, "postgres"), w.direct(42)
	cr := w.increments(64)
	w.awaitQueues(a, "auto")
	w.awaitFew(shard)
	above := 0
	for range 60 {
		n := w.number(shard, updating)
		if n > 4 { // the proxies have not agreed yet on who has more demand
			above++
		}
		if n > 8 {
			t.Errorf("%d backends at a time", n)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if above > 12 {
		t.Errorf("%d times of 60 there were more than 4 backends", above)
	}
	var took []time.Duration
	for i := range 200 {
		began := time.Now()
		w.must(a, increment, 1+i%40)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	cr.halt()
	t.Logf("%d increments, other keys: median %v, p99 %v", cr.done.Load(), took[100], took[198])
	if n := w.number(a, "select n from acct where id = 42"); n != cr.done.Load() || cr.refused.Load() > 0 {
		t.Errorf("the counter is %d after %d increments, %d were refused", n, cr.done.Load(), cr.refused.Load())
	}
	w.await("the end of the queues", func() (any, bool) {
		rows := w.rows(a, "select * from weft.queues")
		return rows, len(rows) == 0
	})
}

// By default queues only count who would wait.
func TestObserve(t *testing.T) {
	w := newWorld(t, "observe", rows(config.Default().Heat.Rows))
	a := w.conn(0, "postgres")
	cr := w.increments(24)
	w.awaitQueues(a, "observe")
	cr.halt()
	if n := w.number(a, "select n from acct where id = 42"); n != cr.done.Load() || cr.refused.Load() > 0 {
		t.Errorf("the counter is %d after %d increments", n, cr.done.Load())
	}
}

// A queue has a bound. Those who wait in it can be cancelled, have their statement_timeout, and hold no backend.
func TestFull(t *testing.T) {
	w := newWorld(t, "crowded", rows(config.ThrottleAuto))
	a, shard := w.conn(0, "postgres"), w.direct(42)
	cr := w.increments(40)
	w.awaitQueues(a, "auto")
	w.awaitFew(shard)
	t.Cleanup(func() { _, _ = shard.Exec(context.Background(), "rollback") }) // or clients wait for the row for ever
	impatient, locking := w.conn(0, "postgres"), w.conn(0, "postgres", "default_query_exec_mode=simple_protocol")
	w.must(impatient, "set statement_timeout = '300ms'")
	w.must(shard, "begin")
	w.must(shard, "select from acct where id = 42 for update")
	waiting := func(n int64) {
		t.Helper()
		w.await("those who wait", func() (any, bool) {
			rows := w.rows(a, "select * from weft.queues")
			return rows, len(rows) == 1 && rows[0]["waiting"] == n
		})
	}
	waiting(36)
	if _, err := impatient.Exec(t.Context(), increment, 42); code(err) != "57014" || !says(err, "statement timeout") {
		t.Error(err)
	}
	w.must(impatient, "set statement_timeout = 0")
	cancelled := make(chan error)
	go func() { _, err := impatient.Exec(context.Background(), increment, 42); cancelled <- err }()
	waiting(37)
	if err := impatient.PgConn().CancelRequest(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-cancelled; code(err) != "57014" || !says(err, "user request") {
		t.Error(err)
	}
	waiting(36)
	more := w.increments(32)
	waiting(64)
	w.await("one too many", func() (any, bool) { return nil, more.refused.Load() > 0 })
	for _, x := range []struct{ sql, code string }{
		{"select n from acct where id = 42 for update nowait", "55P03"},
		{"select n from acct where id = 42 for update", "53000"},
		{"update acct set n = n + 1 where id in (42)", "53000"},
	} {
		if _, err := locking.Exec(t.Context(), x.sql); code(err) != x.code || !says(err, "wait for key 42") {
			t.Errorf("%s: %v", x.sql, err)
		}
	}
	w.must(locking, "select n from acct where id = 42") // nothing holds up reads
	for i := range 40 {
		w.must(locking, increment, i+1)
	}
	if n := w.number(shard, "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"); n > 4 {
		t.Errorf("%d backends wait for the row", n)
	}
	w.must(shard, "commit")
	n := cr.done.Load()
	w.await("those who have waited", func() (any, bool) { return cr.done.Load(), cr.done.Load() > n+200 })
	cr.halt()
	more.halt()
	if n, done := w.number(a, "select n from acct where id = 42"), cr.done.Load()+more.done.Load(); n != done {
		t.Errorf("the counter is %d after %d increments", n, done)
	}
	if rows := w.rows(a, "select * from weft.queues"); len(rows) == 1 && (rows[0]["waiting"] != int64(0) || rows[0]["used"] != int64(0)) {
		t.Errorf("%v", rows)
	}
}

// Bar 12: as many increments are made as by as many clients of PostgreSQL itself.
func TestBench(t *testing.T) {
	if *bench == 0 {
		t.Skip("compares times, which other work on the machine changes; make bench-heat runs it. TestCounter is the short form.")
	}
	w := newWorld(t, "bench", rows(config.ThrottleAuto), rows(config.ThrottleAuto))
	a := w.conn(0, "postgres")
	measure := func(run func(i int) func() error) float64 {
		var done atomic.Int64
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for i := range 64 {
			f := run(i)
			wg.Go(func() {
				for ctx.Err() == nil {
					if err := f(); err != nil {
						t.Errorf("client %d: %v", i, err)
						return
					}
					done.Add(1)
				}
			})
		}
		time.Sleep(5 * time.Second) // until the queue is there
		before := done.Load()
		time.Sleep(*bench)
		n := done.Load() - before
		stop()
		wg.Wait()
		return float64(n) / bench.Seconds()
	}
	var pgs [64]*pgx.Conn
	for i := range pgs {
		pgs[i] = w.direct(42)
	}
	var ratios []float64
	for range 3 {
		straight := measure(func(i int) func() error {
			c := pgs[i]
			return func() error { _, err := c.Exec(context.Background(), increment, 42); return err }
		})
		through := measure(func(i int) func() error {
			c := w.conn(i%2, "postgres")
			return func() error { _, err := c.Exec(context.Background(), increment, 42); return err }
		})
		t.Logf("%.0f increments per second through weft, %.0f direct: %.2f; %v", through, straight, through/straight, w.rows(a, "select proxy, slots, waiting, wait_p99_ms from weft.queues"))
		ratios = append(ratios, through/straight)
	}
	slices.Sort(ratios)
	var b load.Bars
	b.AtLeast("12 increments of one row by 64 clients, beside PostgreSQL itself, median of 3", ratios[1], 1)
	if t.Logf("\n%s", &b); b.Missed() > 0 {
		t.Error("the bar is missed")
	}
}
