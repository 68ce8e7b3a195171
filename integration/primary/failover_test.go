package primary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
)

// TestPause: while a shard has no primary, clients wait. What they notice is a pause.
func TestPause(t *testing.T) {
	w := newWorld(t, func(c *config.Config) { c.Failover.InTransaction = 200 * time.Millisecond })
	first, second, block := w.connect(0), w.connect(1), w.connect(0)
	w.must(first, write(w.there))
	w.must(second, write(w.there))
	w.must(block, "begin")
	w.must(block, write(w.here))
	w.a.Kill()
	w.seeking(0, "shop-1")
	w.seeking(1, "shop-1")
	waits := []<-chan error{w.later(first, write(w.there)), w.later(second, "select sum(v) from t")}

	// A transaction that holds another shard waits for a short time only, and is told what is known.
	_, err := block.Exec(w.within(), write(w.there))
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "57P03" || !strings.Contains(e.Detail, w.a.Addr()+" refuses connections") || !strings.Contains(e.Detail, w.b.Addr()+" is a standby") {
		t.Errorf("in a block: %v, %+v", err, e)
	}
	w.must(block, "rollback")
	w.must(block, write(w.here)) // the other shard is not concerned

	// Timeouts and cancel requests end the wait.
	w.must(block, "set statement_timeout = '150ms'")
	if _, err := block.Exec(w.within(), write(w.there)); code(err) != "57014" {
		t.Errorf("with a statement_timeout: %v", err)
	}
	w.must(block, "reset statement_timeout")
	ctx, stop := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer stop()
	impatient := w.connect(1)
	if _, err := impatient.Exec(ctx, write(w.there)); err == nil {
		t.Error("a statement that is cancelled succeeds")
	}
	w.must(w.connect(0), write(w.here)) // clients log in meanwhile
	for i := range w.proxies {
		if status, body := w.ready(i, ""); status != 200 {
			t.Errorf("proxy %d is not ready during a failover: %d %s", i, status, body)
		}
	}
	for i, done := range waits {
		select {
		case err := <-done:
			t.Errorf("statement %d does not wait: %v", i, err)
		default:
		}
	}
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, done := range waits {
		if err := <-done; err != nil {
			t.Errorf("statement %d: %v", i, err)
		}
	}
	w.generation(2)
	for i := range w.proxies {
		w.must(w.connect(i), write(w.there))
	}
	if n := w.ask(w.b, fmt.Sprintf("select v from t where k = %d", w.there)); n != 5 {
		t.Errorf("the row was written %d times, not 5", n)
	}
}

// TestOldPrimary: an old primary that is started again beside the promoted one gets nothing, from either proxy.
func TestOldPrimary(t *testing.T) {
	w := newWorld(t)
	var acknowledged atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 4 {
		target := w.proxies[i%2].ConnString("postgres", "dbname=postgres", "default_query_exec_mode=simple_protocol")
		wg.Go(func() {
			for ctx.Err() == nil {
				c, err := pgx.Connect(ctx, target)
				if err != nil {
					continue
				}
				// A server's FATAL ends a session.
				for ctx.Err() == nil && !c.IsClosed() {
					if _, err := c.Exec(ctx, write(w.there)); err == nil {
						acknowledged.Add(1)
					}
				}
				_ = c.Close(context.Background())
			}
		})
	}
	defer wg.Wait()
	defer stop()
	progress := func() {
		t.Helper()
		n := acknowledged.Load()
		w.await("writes", func() bool { return acknowledged.Load() > n+20 })
	}
	progress()
	w.a.Kill()
	// What the standby had not got is lost: the shard is asynchronous.
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	progress()
	w.generation(2)
	if err := w.a.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("select v from t where k = %d", w.there)
	old := w.ask(w.a.Server, sum)
	progress()
	w.b.Kill()
	for i := range w.proxies {
		w.seeking(i, "shop-1")
	}
	time.Sleep(300 * time.Millisecond) // the clients look for another server
	if n := w.ask(w.a.Server, sum); n != old {
		t.Errorf("%d rows were written to the old primary", n-old)
	}
	if _, body := w.ready(0, "?verbose"); !strings.Contains(body, "shop-1 is seeking: stale, away") {
		t.Errorf("/readyz: %s", body)
	}
	b, err := w.b.Config().Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.b = b
	progress()
	stop()
	wg.Wait()
	if n := w.ask(w.a.Server, sum); n != old {
		t.Errorf("%d rows were written to the old primary", n-old)
	}
}

// TestFrozen: a primary that stands still and is replaced loses its sessions, and gets nothing when it goes on.
func TestFrozen(t *testing.T) {
	w := newWorld(t)
	c, other := w.connect(0), w.connect(1)
	w.must(c, write(w.there))
	w.must(other, write(w.there))
	sum := fmt.Sprintf("select v from t where k = %d", w.there)
	w.await("the standby", func() bool { return w.ask(w.b, sum) == 2 }) // it would lack what it has not received
	w.a.Pause()
	defer w.a.Resume()
	hangs := w.later(c, write(w.there))
	w.seeking(0, "shop-1")
	w.seeking(1, "shop-1")
	waits := w.later(other, write(w.there))
	select {
	case err := <-hangs:
		t.Errorf("a statement on a server that stands still: %v", err)
	default:
	}
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-hangs; code(err) != "08007" && code(err) != "08006" {
		t.Errorf("a statement that was sent to the old primary: %v", err)
	}
	if err := <-waits; err != nil {
		t.Errorf("a statement that waits: %v", err)
	}
	w.generation(2)
	w.a.Resume()
	for range 20 {
		w.must(c, write(w.there))
		w.must(other, write(w.there))
	}
	if n := w.ask(w.b, sum); n != 43 {
		t.Errorf("the new primary has %d writes, not 43", n)
	}
	if n := w.ask(w.a.Server, sum); n > 3 {
		t.Errorf("the old primary has %d writes", n)
	}
}

// TestRestart: clients of a shard with one server wait while it restarts, and so do those that log in.
func TestRestart(t *testing.T) {
	w := newWorld(t)
	c := w.connect(0)
	w.must(c, write(w.here))
	w.home.Kill()
	w.seeking(0, "shop-0")
	waits := w.later(c, write(w.here))
	w.must(w.connect(0), write(w.there)) // another shard lets clients in
	if err := w.home.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
}

// TestNoWait: with failover.wait = 0 clients get an error at once, and find the new primary all the same.
func TestNoWait(t *testing.T) {
	w := newWorld(t, func(c *config.Config) { c.Failover.Wait = 0 })
	c := w.connect(0)
	w.must(c, write(w.there))
	w.a.Kill()
	for range 3 {
		if _, err := c.Exec(w.within(), write(w.there)); err == nil {
			t.Error("a shard without a primary is written to")
		}
	}
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.await("a write", func() bool {
		_, err := c.Exec(w.within(), write(w.there))
		return err == nil
	})
	w.generation(2)
}
