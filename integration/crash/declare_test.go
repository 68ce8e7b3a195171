package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/directory"
)

// tableRows is how many rows the declared table begins with.
const tableRows = 20000

// TestDeclare declares a table and takes it back while clients read and write
// it, and something dies or stands still at a random moment.
func TestDeclare(t *testing.T) {
	together(t)
	w := newWorld(t, "c_declare", nil)
	w.proxy(nil)
	setup := w.conn(1)
	must(t, setup, "create table d (id bigint primary key, v bigint not null default 0, note text); create table decl (id bigint primary key)")
	must(t, setup, fmt.Sprintf("insert into d select i, 0, repeat('x', 100) from generate_series(1, %d) i", tableRows))
	declare(t, setup, "select weft.shard_table('decl', 'id')")

	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var clients []*client
	for i := range 6 {
		c := &client{w: w, id: i, proxy: i % 2, acked: map[int64]int64{}, unsure: map[int64]bool{}}
		clients = append(clients, c)
		wg.Go(func() { c.run(ctx) })
	}
	defer func() {
		stop()
		wg.Wait()
	}()
	r := newRand(7)
	kinds := faults
	if *rounds == 1 {
		kinds = []fault{faults[0]} // the proxy's death is the worst
	}
	for n := range *rounds {
		kind := kinds[r.IntN(len(kinds))]
		if n < len(kinds) {
			kind = kinds[n]
		}
		w.round(r, n, kind)
		if t.Failed() {
			break
		}
	}
	// One more by itself, with all proxies alive: what waited goes on.
	time.Sleep(300 * time.Millisecond)
	stop()
	wg.Wait()
	got := w.rowsOf("d")
	for _, c := range clients {
		c.judge(got)
	}
	total := 0
	for _, c := range clients {
		total += c.writes
		t.Logf("client %d: %d writes, %d reads, %d errors %v", c.id, c.writes, c.reads, c.errors, c.codes)
	}
	if total == 0 {
		t.Error("nobody wrote anything")
	}
	for k := int64(1); k <= tableRows; k++ {
		if _, ok := got[k]; !ok {
			t.Errorf("row %d is gone", k)
			break
		}
	}
	w.clean("d")
}

// fault is something bad that happens during a move that proxy 0 makes.
type fault struct {
	name string
	do   func(w *world, r *rand.Rand, move *pgx.Conn, done <-chan error)
}

var faults = []fault{
	{"kill proxy", func(w *world, r *rand.Rand, _ *pgx.Conn, _ <-chan error) {
		w.weft[0].Signal(w.t, syscall.SIGKILL)
		w.weft[0].WaitExit(w.t, 5*time.Second)
		p := w.proxy(nil) // the next one, in its place
		w.mu.Lock()
		w.weft[0], w.wire[0] = p, w.wire[len(w.wire)-1]
		w.weft, w.wire = w.weft[:2], w.wire[:2]
		w.mu.Unlock()
	}},
	{"kill shard", func(w *world, r *rand.Rand, _ *pgx.Conn, _ <-chan error) {
		s := w.any.Shards()[r.IntN(4)]
		s.Kill()
		time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
		if err := s.Restart(context.Background()); err != nil {
			w.t.Fatal(err)
		}
	}},
	{"pause shard", func(w *world, r *rand.Rand, _ *pgx.Conn, _ <-chan error) {
		s := w.any.Shards()[r.IntN(4)]
		s.Pause()
		time.Sleep(time.Duration(500+r.IntN(5000)) * time.Millisecond)
		s.Resume()
	}},
	{"pause proxy", func(w *world, r *rand.Rand, _ *pgx.Conn, _ <-chan error) {
		w.weft[0].Signal(w.t, syscall.SIGSTOP)
		time.Sleep(time.Duration(1000+r.IntN(15000)) * time.Millisecond)
		w.weft[0].Signal(w.t, syscall.SIGCONT)
	}},
	{"freeze etcd", func(w *world, r *rand.Rand, _ *pgx.Conn, _ <-chan error) {
		for _, c := range w.wire {
			c.freeze()
		}
		time.Sleep(time.Duration(500+r.IntN(15000)) * time.Millisecond)
		for _, c := range w.wire {
			c.reconnect()
		}
	}},
	{"cut etcd", func(w *world, r *rand.Rand, _ *pgx.Conn, _ <-chan error) {
		for _, c := range w.wire {
			c.sever()
		}
		time.Sleep(time.Duration(500+r.IntN(5000)) * time.Millisecond)
		for _, c := range w.wire {
			c.reconnect()
		}
	}},
	{"cancel", func(w *world, _ *rand.Rand, move *pgx.Conn, _ <-chan error) {
		_ = move.PgConn().CancelRequest(context.Background())
	}},
	{"disconnect", func(w *world, _ *rand.Rand, move *pgx.Conn, _ <-chan error) {
		_ = move.PgConn().Conn().Close()
	}},
}

// round moves the table once, with a fault, and sees that all is well after it.
func (w *world) round(r *rand.Rand, n int, f fault) {
	t := w.t
	t.Helper()
	now := w.settled("d")
	sql := "select weft.unshard_table('d')"
	if now == nil {
		sql = "select weft.shard_table('d', 'id')"
		if r.IntN(4) == 0 {
			sql = "select weft.reference_table('d')"
		}
	}
	move := w.conn(0)
	began := time.Now()
	done := later(t, move, sql)
	delay := time.Duration(r.IntN(900)) * time.Millisecond
	time.Sleep(delay)
	f.do(w, r, move, done)
	var err error
	select {
	case err = <-done:
	case <-time.After(2 * patience):
		t.Fatalf("round %d: %s with %s after %s does not return", n, sql, f.name, delay)
	}
	told := time.Since(began)
	after := w.settled("d")
	t.Logf("round %d: %s, %s after %s: answered %s after %s, over after %s: %s → %s", n, sql, f.name, delay, brief(err),
		told.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), kindOf(now), kindOf(after))
	if err == nil && kindOf(now) == kindOf(after) {
		t.Errorf("round %d: acknowledged, and not so", n)
	}
	w.quiesce(func() {
		got := w.rowsOf("d")
		if len(got) < tableRows {
			t.Errorf("round %d: %d rows of at least %d", n, len(got), tableRows)
		}
		w.clean("d")
	})
	// Everybody gets on.
	w.mu.Lock()
	w.passed = map[int]bool{}
	w.mu.Unlock()
	within(t, patience, fmt.Sprintf("round %d: all clients go on", n), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.passed) == 6
	})
}

func kindOf(t *directory.Table) string {
	if t == nil {
		return "home"
	}
	return string(t.Kind)
}

func brief(err error) string {
	if err == nil {
		return "ok"
	}
	if s := err.Error(); len(s) > 150 {
		return s[:150]
	}
	return err.Error()
}
