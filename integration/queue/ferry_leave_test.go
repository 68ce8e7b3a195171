package queue

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// leaving is readers of whom one leads and others wait for its answer, beside the four that came first.
type leaving struct {
	*held
	captain *reader
	riders  []*reader
}

// leaves lets four clients execute the read one after the other and others wait. Then one of the four is cancelled, so that the next
// ferry sails with many aboard.
func (w *world) leaves(t *testing.T) *leaving {
	t.Helper()
	w = w.in(t)
	h := w.hold(t, func(int) *pgx.Conn { return w.conn(0, "postgres") }, 12)
	first, others := h.readers[:4], h.readers[4:]
	for i, r := range first {
		h.start(r)
		h.await("an execution", func() (any, bool) { n := h.active(); return n, n == int64(i)+1 })
	}
	h.start(others...)
	if n := len(h.in(rides)); n != len(others) {
		t.Errorf("%d wait", n)
	}
	h.cancel(first[0])
	if err := h.answered(first[0]); code(err) != "57014" || !says(err, "user request") {
		t.Errorf("a session that leads and is cancelled: %v", err)
	}
	h.usable(first[0])
	l := &leaving{held: h}
	h.await("the next ferry", func() (any, bool) {
		for i, state := range h.states(others...) {
			if state == leads {
				l.captain, l.riders = others[i], slices.Delete(slices.Clone(others), i, i+1)
			}
		}
		return h.states(others...), l.captain != nil && h.active() == 4
	})
	h.readers = h.readers[1:]
	return l
}

func (h *held) cancel(r *reader) {
	h.Helper()
	if err := r.conn.PgConn().CancelRequest(h.Context()); err != nil {
		h.Error(err)
	}
}

// usable makes sure that a session goes on.
func (h *held) usable(r *reader) {
	h.Helper()
	if n := h.number(r.conn, "select 7::int8"); n != 7 {
		h.Errorf("%d", n)
	}
}

// vanish closes the connection of a client without a word.
func (h *held) vanish(r *reader) { _ = r.conn.PgConn().Conn().Close() }

// finish lets all go on. Those that are not expected to fail must have the answer of PostgreSQL. Nothing is left of the others.
func (h *held) finish(failing ...*reader) {
	h.Helper()
	want := h.release()
	for i, r := range h.readers {
		if slices.Contains(failing, r) {
			continue
		}
		if err := h.answered(r); err != nil || r.n != want {
			h.Errorf("client %d has read %d, which is %d: %v", i, r.n, want, err)
		}
		h.usable(r)
	}
	for _, r := range failing {
		<-r.done
	}
	h.nothingLeft()
}

// nothingLeft waits until no session waits for a read or executes one, and no connection of a client that is gone is known.
func (h *held) nothingLeft() {
	h.Helper()
	h.await("the end of all", func() (any, bool) {
		rows := h.rows(h.asks, "select * from weft.queues where kind = 'ferry' and (waiting > 0)")
		for _, r := range h.readers {
			if r.conn.IsClosed() && len(h.rows(h.asks, "select from weft.sessions where id = $1", r.id)) > 0 {
				return "a session whose client is gone", false
			}
		}
		return rows, len(rows) == 0 && h.active() == 0
	})
	h.await("no goroutine that waits", func() (any, bool) {
		b := make([]byte, 8<<20)
		stacks := string(b[:runtime.Stack(b, true)])
		return stacks, !strings.Contains(stacks, "proxy.(*outset).await(")
	})
}

// A session that waits for the answer of another one, or executes a read for others, may leave at any time. The others get their answers,
// and none gets an error that is not its own.
func TestLeaving(t *testing.T) {
	w := newWorld(t, "ferryleave", shares(config.CoalesceOn))
	a := w.conn(0, "postgres")
	w.reads(4)
	for _, x := range []struct {
		name string
		do   func(l *leaving) (failing []*reader)
	}{
		{"those who wait are cancelled", func(l *leaving) []*reader {
			for _, r := range l.riders[2:5] {
				l.cancel(r)
				if err := l.answered(r); code(err) != "57014" || !says(err, "user request") {
					l.Errorf("%v", err)
				}
				l.usable(r)
			}
			return l.riders[2:5]
		}},
		{"clients of those who wait are gone", func(l *leaving) []*reader {
			for _, r := range l.riders[:3] {
				l.vanish(r)
			}
			return l.riders[:3]
		}},
		{"those who wait are ended", func(l *leaving) []*reader {
			l.must(l.asks, "select pg_terminate_backend($1::int)", l.riders[1].id)
			if err := l.answered(l.riders[1]); code(err) != "57P01" {
				l.Errorf("%v", err)
			}
			return l.riders[1:2]
		}},
		{"the one that leads is cancelled", func(l *leaving) []*reader {
			l.cancel(l.captain)
			if err := l.answered(l.captain); code(err) != "57014" || !says(err, "user request") {
				l.Errorf("%v", err)
			}
			l.usable(l.captain)
			return []*reader{l.captain}
		}},
		{"the client of the one that leads is gone", func(l *leaving) []*reader {
			l.vanish(l.captain)
			return []*reader{l.captain}
		}},
		{"the one that leads is ended", func(l *leaving) []*reader {
			l.must(l.asks, "select pg_terminate_backend($1::int)", l.captain.id)
			if err := l.answered(l.captain); code(err) != "57P01" {
				l.Errorf("%v", err)
			}
			return []*reader{l.captain}
		}},
		{"the backend of the one that leads is ended", func(l *leaving) []*reader {
			pid := l.number(l.asks, "select backend_pid::int8 from weft.sessions where id = $1", l.captain.id)
			l.must(l.looks, "select pg_terminate_backend($1::int)", pid)
			if err := l.answered(l.captain); code(err) != "57P01" {
				l.Errorf("%v", err)
			}
			return []*reader{l.captain}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			w.awaitFerries(a, "on")
			l := w.leaves(t)
			l.finish(x.do(l)...)
		})
	}
}

// Each client has its own statement_timeout, its own error and its own answer where the one that leads has failed.
func TestFailing(t *testing.T) {
	w := newWorld(t, "ferryfail", shares(config.CoalesceOn))
	a := w.conn(0, "postgres")
	w.reads(4)
	t.Run("statement_timeout", func(t *testing.T) {
		w.awaitFerries(a, "on")
		h := w.hold(t, func(i int) *pgx.Conn {
			c := w.conn(0, "postgres")
			if i >= 6 {
				w.must(c, "set statement_timeout = '2s'")
			}
			return c
		}, 16)
		h.start(h.readers...)
		for i, r := range h.readers[6:] {
			if err := h.answered(r); code(err) != "57014" || !says(err, "statement timeout") {
				t.Errorf("client %d: %v", i, err)
			}
			h.usable(r)
		}
		h.finish(h.readers[6:]...)
	})
	t.Run("an error of the statement", func(t *testing.T) {
		w.awaitFerries(a, "on")
		shard := w.direct(42)
		w.must(a, "update acct set n = 0 where id = 42")
		w.must(shard, "begin")
		w.must(shard, "lock table acct in access exclusive mode")
		t.Cleanup(func() { _, _ = shard.Exec(context.Background(), "rollback") })
		answers := make(chan error)
		const clients = 12
		for range clients {
			c := w.conn(0, "postgres", "default_query_exec_mode=exec")
			go func() {
				var n int64
				answers <- c.QueryRow(context.Background(), "select 100 / n from acct where id = $1", 42).Scan(&n)
			}()
		}
		w.await("those who wait", func() (any, bool) {
			const about = "select count(*) from weft.sessions where statement like 'select $_ / n%' and state = $1"
			lead, wait := w.number(a, about, leads), w.number(a, about, rides)
			return fmt.Sprint(lead, " lead, ", wait, " wait"), lead+wait == clients && wait >= clients-4
		})
		w.must(shard, "commit")
		for range clients {
			if err := <-answers; code(err) != "22012" {
				t.Errorf("%v", err)
			}
		}
	})
}
