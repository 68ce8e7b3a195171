package gather

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/pgserver/pgtest"
)

// prompt is how long shards may go on after they were told to stop, on a machine that is not busy.
const prompt = 3 * time.Second

// TestCancel: a cancel request, and statement_timeout, end a statement in every
// phase, on all shards, at once.
func TestCancel(t *testing.T) {
	w := newWorld(t, "g_cancel", nil)
	for _, p := range phases {
		for i, m := range modes {
			for _, how := range []string{"cancel", "timeout"} {
				if how == "timeout" && i > 0 {
					continue
				}
				open := i == 1
				what := fmt.Sprintf("%s, %s, %s, block %t", p.name, m.name, how, open)
				c := w.conn().PgConn()
				if _, err := ask(c, p.set); err != nil {
					t.Fatal(err)
				}
				if open {
					_, _ = ask(c, "begin")
				}
				if how == "timeout" {
					_, _ = ask(c, "set statement_timeout = '300ms'")
				}
				_, _, release, done := p.stand(w, func() error { return m.run(c, p.sql) })
				began := time.Now()
				if how == "cancel" {
					if err := c.CancelRequest(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
				err := await(t, what, done)
				if d := time.Since(began); pgtest.Late(t, d, prompt) {
					t.Errorf("%s: it took %s", what, d)
				}
				release()
				w.still()
				_, _ = ask(c, "reset statement_timeout")
				w.ended(c, what, err, "57014", open)
				_ = c.Close(context.Background())
			}
		}
	}
	w.free(0)
}

// TestTimeout: statement_timeout counts for a statement as a whole, however many
// shards take their time one after another, and wherever it was set.
func TestTimeout(t *testing.T) {
	w := newWorld(t, "g_timeout", nil)
	must(t, w.conn(), "alter role alice set statement_timeout = '700ms'; grant select on oth to alice")
	t.Cleanup(func() { must(t, w.conn(), "alter role alice reset statement_timeout") })
	must(t, w.conn(), `create function slow(int) returns int language plpgsql immutable as 'begin perform pg_sleep(0.12); return $1; end'`)
	keys := ""
	for i := range 3 * shards {
		keys += fmt.Sprintf(", %d", w.keyOn(i%shards, i/shards))
	}
	c := w.as("alice").PgConn()
	_, _ = ask(c, "set weft.max_parallel_shards = 1")
	began := time.Now()
	// Every shard takes less than the limit.
	_, err := ask(c, "select count(*) from oth where k in ("+keys[2:]+") and slow(v) > 0")
	if d := time.Since(began); code(err) != "57014" || pgtest.Late(t, d, prompt) {
		t.Errorf("shards that together take longer: %v after %s", err, d)
	}
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) && e.Message != "canceling statement due to statement timeout" {
		t.Errorf("the client is told %q", e.Message)
	}
	if got, err := ask(c, "select count(*) from oth"); got != fmt.Sprint(othRows) {
		t.Errorf("afterwards %q %v", got, err)
	}
	w.quiet()
}

// TestCancelQueued: the request comes while the statement waits for a connection.
func TestCancelQueued(t *testing.T) {
	w := newWorld(t, "g_queue", func(c *config.Config) { c.Pool.MaxPerShard, c.Pool.QueueTimeout = 1, patience })
	for _, how := range []string{"cancel", "timeout"} {
		holder, c := w.conn(), w.conn().PgConn()
		if how == "timeout" {
			_, _ = ask(c, "set statement_timeout = '300ms'")
		}
		if _, err := ask(c, join); err != nil { // described
			t.Fatal(err)
		}
		must(t, holder, "begin")
		must(t, holder, "select v from oth where k = $1", w.keyOn(1, 0))
		done := make(chan error, 1)
		go func() {
			_, err := ask(c, join)
			done <- err
		}()
		if how == "cancel" {
			time.Sleep(200 * time.Millisecond)
			if err := c.CancelRequest(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		err := await(t, how, done)
		if d := time.Since(began); pgtest.Late(t, d, prompt) {
			t.Errorf("%s: it took %s", how, d)
		}
		must(t, holder, "rollback")
		_, _ = ask(c, "reset statement_timeout")
		w.ended(c, how, err, "57014", false)
	}
	w.quiet()
	w.free(0)
}

// TestCancelAnywhere: hundreds of requests at random moments. Whatever a statement
// ends with, the next one is right, and nothing is left behind.
func TestCancelAnywhere(t *testing.T) {
	w := newHeavyWorld(t, "g_random", func(c *config.Config) { c.Pool.MaxPerShard = 6 })
	texts := []struct{ sql, want string }{
		{"select count(*), sum(k) from big", fmt.Sprintf("%d %d", bigRows, bigRows*(bigRows+1)/2)},
		{"select g, count(*) from big group by g order by g limit 1", "0 714"},
		{"select count(*) from (select distinct v, pad from big) x", fmt.Sprint(bigRows)},
		{"select count(*) from oth a join oth b on a.v = b.k", fmt.Sprint(othRows)},
		{"select count(*) from oth a, oth b where a.v > b.v", fmt.Sprint(othRows * (othRows - 1) / 2)},
		{"select k from big order by k limit 2", "1 2"},
		{"select count(*) from (select k, pad from big order by pad, k offset 10) x", fmt.Sprint(bigRows - 10)},
		{"select max(b.k) from big b join home h on b.v = h.v", "10"},
	}
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	var cancelled, answered atomic.Int32
	const clients, each = 4, 20
	for n := range clients {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		wg.Go(func() {
			c := w.conn().PgConn()
			defer c.Close(context.Background())
			for i := range each {
				_, _ = ask(c, []string{"reset weft.inline_bytes", stageAll, "set weft.max_parallel_shards = 1", "set weft.native = off", "reset all"}[r.IntN(5)])
				open := r.IntN(3) == 0
				if open {
					_, _ = ask(c, "begin")
				}
				text := texts[r.IntN(len(texts))]
				m := modes[r.IntN(2)]
				done := make(chan error, 1)
				go func() { done <- m.run(c, text.sql) }()
				time.Sleep(time.Duration(r.ExpFloat64() * float64(8*time.Millisecond)))
				_ = c.CancelRequest(context.Background())
				var err error
				select {
				case err = <-done:
				case <-time.After(patience):
					t.Errorf("%d: %s: no answer", i, text.sql)
					return
				}
				switch {
				case err == nil:
					answered.Add(1)
				case code(err) == "57014":
					cancelled.Add(1)
				default:
					t.Errorf("%d: %s: %v", i, text.sql, err)
				}
				if open {
					if want := map[bool]byte{true: 'T', false: 'E'}[err == nil]; c.TxStatus() != want {
						t.Errorf("%d: %s: %v leaves the transaction %c", i, text.sql, err, c.TxStatus())
					}
					if _, err := ask(c, "rollback"); err != nil {
						t.Errorf("rollback: %v", err)
					}
				}
				next := texts[r.IntN(len(texts))]
				if got, err := ask(c, next.sql); err != nil || got != next.want {
					t.Errorf("%d: after %s, %s gave %q %v, want %q", i, text.sql, next.sql, got, err, next.want)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d cancelled, %d answered", cancelled.Load(), answered.Load())
	if cancelled.Load() < clients*each/10 {
		t.Errorf("only %d of %d were cancelled", cancelled.Load(), clients*each)
	}
	w.quiet()
	w.free(before)
}
