package gather

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
)

// TestTooLarge: what a statement may bring together is bounded, in each way of
// doing so, and the client hears by which setting.
func TestTooLarge(t *testing.T) {
	w := newHeavyWorld(t, "g_large", nil)
	for _, tc := range []struct{ name, set, sql string }{
		{"inline", "set weft.max_gather_bytes = '1kB'", join},
		{"staged", "set weft.max_gather_bytes = '1kB'; set weft.inline_bytes = 1", join},
		{"staged late", "set weft.max_gather_bytes = '4MB'; set weft.inline_bytes = '100kB'", "select count(pad) from (select k, pad from big order by pad, k offset 1) x"},
		{"distinct", "set weft.max_gather_bytes = '1kB'", "select distinct v from oth"},
		{"group", "set weft.max_gather_bytes = '1kB'", "select v, count(*) from oth group by v"},
	} {
		for i, m := range modes {
			open := i > 0
			c := w.conn().PgConn()
			for set := range strings.SplitSeq(tc.set, "; ") {
				if _, err := ask(c, set); err != nil {
					t.Fatal(err)
				}
			}
			if open {
				_, _ = ask(c, "begin")
				_, _ = ask(c, "savepoint s")
			}
			err := m.run(c, tc.sql)
			var e *pgconn.PgError
			if !errors.As(err, &e) || e.Code != "53400" || !strings.Contains(e.Hint, "weft.max_gather_bytes") {
				t.Errorf("%s, %s: %v", tc.name, m.name, err)
			}
			if open && i == 1 { // as after any error
				if _, err := ask(c, "rollback to s"); err != nil {
					t.Errorf("%s: %v", tc.name, err)
				}
				if _, err := ask(c, "select count(*) from oth"); err != nil {
					t.Errorf("%s: after the savepoint: %v", tc.name, err)
				}
				_, _ = ask(c, "rollback")
				open, err = false, error(&pgconn.PgError{Code: "53400"})
			}
			if !open {
				_, _ = ask(c, "reset all")
			}
			if open {
				_, _ = ask(c, "rollback")
				_, _ = ask(c, "reset all")
			}
			w.ended(c, tc.name+", "+m.name, err, "53400", false)
			_ = c.Close(context.Background())
		}
	}
	w.quiet()
	w.free(0)
}

// TestNoTemporary: a role that may not create temporary tables gathers all the
// same.
func TestNoTemporary(t *testing.T) {
	w := newWorld(t, "g_notemp", nil)
	must(t, w.conn(), "grant select on oth to alice")
	for i := range shards {
		must(t, w.direct(i), "revoke temporary on database g_notemp from public")
	}
	c := w.as("alice")
	must(t, c, stageAll)
	if n := value[int](t, c, "select count(*) from oth a join oth b on a.v = b.k"); n != othRows {
		t.Errorf("%d rows", n)
	}
}

// TestGone: clients that end in the middle of rows, or never read them, keep
// nobody.
func TestGone(t *testing.T) {
	w := newHeavyWorld(t, "g_gone", nil)
	_, _ = ask(w.conn().PgConn(), join)
	within(t, "the pools are at rest", func() bool { return w.lent() == 0 })
	before := runtime.NumGoroutine()
	for _, sql := range []string{"select k, pad from big", "select k, pad from big order by k", "select k, pad from big order by pad, k", long} {
		for _, set := range []string{"", stageAll} {
			c := w.conn().PgConn()
			_, _ = ask(c, set)
			raw, err := c.Hijack()
			if err != nil {
				t.Fatal(err)
			}
			query := append([]byte{'Q', 0, 0, 0, byte(len(sql) + 5)}, sql...)
			if _, err := raw.Conn.Write(append(query, 0)); err != nil {
				t.Fatal(err)
			}
			if sql == long {
				w.victim(0, map[string]string{"": inline, stageAll: staged}[set])
			} else {
				if _, err := io.ReadFull(raw.Conn, make([]byte, 10000)); err != nil {
					t.Fatal(err)
				}
			}
			if tcp, ok := raw.Conn.(*net.TCPConn); ok && set == "" {
				_ = tcp.SetLinger(0) // as if its machine had died
			}
			_ = raw.Conn.Close()
			if sql == long {
				// PostgreSQL does not look for its client while it computes, either.
				for i := range shards {
					must(t, w.direct(i), "select pg_terminate_backend(pid) from pg_stat_activity where "+busy)
				}
			}
		}
	}
	w.quiet()
	w.free(before)
}

// TestClose: a proxy that is told to end does so while a client reads nothing.
func TestClose(t *testing.T) {
	w := newHeavyWorld(t, "g_close", nil)
	for _, sql := range []string{"select k, pad from big", "select k, pad from big order by pad, k", long} {
		raw, err := w.conn().PgConn().Hijack()
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Conn.Close()
		query := append([]byte{'Q', 0, 0, 0, byte(len(sql) + 5)}, sql...)
		if _, err := raw.Conn.Write(append(query, 0)); err != nil {
			t.Fatal(err)
		}
	}
	w.victim(0, inline)
	time.Sleep(300 * time.Millisecond)
	done := make(chan error, 1)
	go func() { done <- w.weft.Server.Close() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	w.quiet()
}

// TestSmallPool: many statements, few connections: whoever holds some waits for
// the others in the order of the shards.
func TestSmallPool(t *testing.T) {
	w := newWorld(t, "g_pool", func(c *config.Config) { c.Pool.MaxPerShard, c.Pool.QueueTimeout = 2, patience })
	texts := map[string]string{
		"select count(*) from big":                                     fmt.Sprint(bigRows),
		"select count(*) from oth a join oth b on a.v = b.k":           fmt.Sprint(othRows),
		"select count(*) from oth a join home h on a.v = h.k":          "10",
		"select max(k) from (select k from big order by k limit 10) x": "10",
	}
	var wg sync.WaitGroup
	for range 8 {
		c := w.conn().PgConn()
		wg.Go(func() {
			for i := range 4 {
				if i%3 == 1 {
					_, _ = ask(c, stageAll)
				} else {
					_, _ = ask(c, "reset weft.inline_bytes")
				}
				for sql, want := range texts {
					if got, err := ask(c, sql); err != nil || got != want {
						t.Errorf("%s: %q %v", sql, got, err)
					}
				}
			}
		})
	}
	wg.Wait()
	w.quiet()
	w.free(0)
}

// TestCrossed: blocks that hold shards and want each other's wait as long as the
// queue lets them, not for ever.
func TestCrossed(t *testing.T) {
	w := newWorld(t, "g_crossed", func(c *config.Config) { c.Pool.MaxPerShard, c.Pool.QueueTimeout = 1, time.Second })
	a, b := w.conn().PgConn(), w.conn().PgConn()
	ka, kb := w.keyOn(1, 0), w.keyOn(2, 0)
	for _, step := range []struct {
		c   *pgconn.PgConn
		sql string
	}{{a, join}, {a, "begin"}, {b, "begin"}, {a, fmt.Sprintf("select v from oth where k = %d", ka)}, {b, fmt.Sprintf("select v from oth where k = %d", kb)}} {
		if _, err := ask(step.c, step.sql); err != nil {
			t.Fatalf("%s: %v", step.sql, err)
		}
	}
	done := make(chan error, 2)
	for _, c := range []*pgconn.PgConn{a, b} {
		go func() {
			_, err := ask(c, "select count(*) from oth")
			done <- err
		}()
	}
	first, second := await(t, "one", done), await(t, "the other", done)
	if code(first) != "53300" && code(second) != "53300" {
		t.Errorf("got %v and %v", first, second)
	}
	_, _ = ask(a, "rollback")
	_, _ = ask(b, "rollback")
	w.works(a, "a")
	w.works(b, "b")
	w.quiet()
	w.free(0)
}
