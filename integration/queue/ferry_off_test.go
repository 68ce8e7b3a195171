package queue

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// measured lets a proxy show its metrics. what returns what weft_coalesced_total says of an action.
func measured(t *testing.T, configure func(*config.Config)) (with func(*config.Config), what func(action string) string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	with = func(c *config.Config) { configure(c); c.HTTP.Listen = addr }
	return with, func(action string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(line, `weft_coalesced_total{action="`+action+`"} `); ok {
				return strings.TrimSpace(n)
			}
		}
		return "missing"
	}
}

// Off, reads of a hot key are not shared and not counted.
func TestOff(t *testing.T) {
	with, count := measured(t, shares(config.ThrottleOff))
	w := newWorld(t, "ferryoff", with)
	a := w.conn(0, "postgres")
	w.reads(8)
	w.await("a warm key", func() (any, bool) {
		rows := w.rows(a, "select * from weft.hot_keys where key = '42' and verdict is not null")
		return w.rows(a, "select * from weft.hot_keys"), len(rows) > 0
	})
	h := w.hold(t, func(int) *pgx.Conn { return w.conn(0, "postgres") }, 12)
	h.start(h.readers...)
	h.await("12 executions", func() (any, bool) { n := h.active(); return n, n == 12 })
	if rows := w.rows(a, "select * from weft.queues where kind = 'ferry'"); len(rows) > 0 {
		t.Errorf("%v", rows)
	}
	h.finish()
	for _, action := range []string{"led", "rode", "alone", "would_ride"} {
		if n := count(action); n != "0" {
			t.Errorf("%s: %s", action, n)
		}
	}
}

// While weft observes, nobody waits, and those that would have waited are counted.
func TestWouldShare(t *testing.T) {
	with, count := measured(t, shares(config.ThrottleObserve))
	w := newWorld(t, "ferrywould", with)
	a := w.conn(0, "postgres")
	w.reads(4)
	w.awaitFerries(a, "observe")
	before := w.shared(a)
	h := w.hold(t, func(int) *pgx.Conn { return w.conn(0, "postgres") }, 12)
	h.start(h.readers...)
	h.await("12 executions", func() (any, bool) { n := h.active(); return n, n == 12 })
	if n := len(h.in(rides)); n > 0 {
		t.Errorf("%d wait", n)
	}
	if n := w.shared(a) - before; n < 8 {
		t.Errorf("%d would have waited", n)
	}
	h.finish()
	for _, action := range []string{"led", "rode", "alone"} {
		if n := count(action); n != "0" {
			t.Errorf("%s: %s", action, n)
		}
	}
	if n := count("would_ride"); len(n) < 1 || n == "0" || n == "missing" {
		t.Errorf("would_ride: %s", n)
	}
}

// Sessions are left out that say so, wherever they say it, and those whose reads may differ from the reads of others.
func TestLeftOut(t *testing.T) {
	w := newWorld(t, "ferryout", shares(config.CoalesceOn))
	a := w.conn(0, "postgres")
	w.must(a, "do $$ begin create role cid login; exception when duplicate_object then null; end $$")
	w.must(a, "alter role cid set weft.coalesce = off")
	w.reads(4)
	w.awaitFerries(a, "on")
	const each = 6
	for _, x := range []struct {
		name, user, startup, set string
		late                     string // once the statement has been prepared
		early                    bool   // the snapshot is taken before the lock is waited for, as PostgreSQL does with one snapshot per transaction
	}{
		{name: "SET", user: "postgres", set: "set weft.coalesce = off"},
		{name: "set_config", user: "postgres", set: "select set_config('weft.coalesce', 'no', false)"},
		{name: "startup", user: "postgres", startup: "options='-c weft.coalesce=0'"},
		{name: "ALTER ROLE", user: "cid"},
		{name: "a block", user: "postgres", late: "begin"},
		{name: "a block that only reads", user: "postgres", late: "begin isolation level repeatable read read only", early: true},
		{name: "SERIALIZABLE", user: "postgres", set: "set default_transaction_isolation = 'SERIALIZABLE'", early: true},
		{name: "a temporary table", user: "postgres", set: "create temp table x (n int)"},
		{name: "an advisory lock", user: "postgres", set: "select pg_advisory_lock_shared(7)"},
		{name: "session pooling", user: "bob"},
		{name: "atomic reads", user: "postgres", set: "set weft.read = 'atomic'"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := w.in(t)
			h := w.hold(t, func(int) *pgx.Conn {
				var more []string
				if x.startup != "" {
					more = append(more, x.startup)
				}
				c := w.conn(0, x.user, more...)
				if x.set != "" {
					if _, err := c.Exec(t.Context(), x.set, pgx.QueryExecModeSimpleProtocol); err != nil {
						t.Fatal(err)
					}
				}
				return c
			}, each)
			h.quiet = x.early
			if x.late != "" {
				for _, r := range h.readers {
					h.must(r.conn, x.late)
				}
			}
			h.start(h.readers...)
			h.await("an execution for each", func() (any, bool) { n := h.active(); return n, n == each })
			h.finish()
			if x.late != "" {
				for _, r := range h.readers {
					h.must(r.conn, "rollback")
				}
			}
		})
	}
}
