package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// ofReads are the backends that wait for a lock to execute readsOnce.
const ofReads = "from pg_stat_activity where query like '%select n from acct where id%' and pid <> pg_backend_pid() and datname = current_database() and wait_event_type = 'Lock'"

// reader is a client that reads key 42 once.
type reader struct {
	conn *pgx.Conn
	id   int64 // of the session
	done chan struct{}

	// Set before done is closed.
	n   int64
	err error
}

// held is readers whose shard makes them wait.
type held struct {
	*world
	shard   *pgx.Conn // holds the lock
	asks    *pgx.Conn // for what the proxy knows
	looks   *pgx.Conn // for what the shard knows
	readers []*reader
	quiet   bool // release does not change the key
}

// hold locks the table of key 42 on its shard, and prepares so many clients to read the key. A client that connect returns has no lock on
// the table.
func (w *world) hold(t *testing.T, connect func(i int) *pgx.Conn, clients int) *held {
	t.Helper()
	w = w.in(t)
	h := &held{world: w, shard: w.direct(42), asks: w.conn(0, "postgres"), looks: w.direct(42)}
	for i := range clients {
		c := connect(i)
		if _, err := c.Prepare(t.Context(), "r", readsOnce); err != nil {
			t.Fatal(err)
		}
		h.readers = append(h.readers, &reader{conn: c, id: int64(c.PgConn().PID()), done: make(chan struct{})})
	}
	h.must(h.shard, "begin")
	h.must(h.shard, "lock table acct in access exclusive mode")
	t.Cleanup(func() { _, _ = h.shard.Exec(context.Background(), "rollback") }) // before the clients are closed, which wait for the lock
	return h
}

// start lets readers read. It returns when all of them wait, for the lock or for each other.
func (h *held) start(readers ...*reader) {
	h.Helper()
	for _, r := range readers {
		go func() {
			defer close(r.done)
			r.err = r.conn.QueryRow(context.Background(), "r", 42).Scan(&r.n)
		}()
	}
	h.await("all who read", func() (any, bool) {
		for i, r := range readers {
			select {
			case <-r.done:
				h.Fatalf("client %d has not waited: %d, %v", i, r.n, r.err)
			default:
			}
		}
		states := h.states(readers...)
		return states, !slices.ContainsFunc(states, func(s string) bool { return s != leads && s != rides })
	})
}

// States of readers, as weft.sessions has them.
const (
	leads = "active"
	rides = "waiting for the answer to the same read"
)

// states tells what readers do.
func (h *held) states(readers ...*reader) (out []string) {
	h.Helper()
	for _, r := range readers {
		var state, statement string
		err := h.asks.QueryRow(h.Context(), "select state, coalesce(statement, '') from weft.sessions where id = $1", r.id).Scan(&state, &statement)
		if err != nil || state == leads && statement != readsOnce {
			state = fmt.Sprintf("%s: %s, %v", state, statement, err)
		}
		out = append(out, state)
	}
	return out
}

// in returns the readers in a state.
func (h *held) in(state string) (out []*reader) {
	h.Helper()
	for i, s := range h.states(h.readers...) {
		if s == state {
			out = append(out, h.readers[i])
		}
	}
	return out
}

// active is how many backends of the shard execute the read.
func (h *held) active() int64 { h.Helper(); return h.number(h.looks, "select count(*) "+ofReads) }

// release increments key 42, unless quiet, and lets all go on. It returns the value that readers see.
func (h *held) release() (n int64) {
	h.Helper()
	by := 1
	if h.quiet {
		by = 0
	}
	n = h.number(h.shard, "update acct set n = n + $1 where id = 42 returning n", by)
	h.must(h.shard, "commit")
	return n
}

// answered waits for the answer of a reader.
func (h *held) answered(r *reader) error {
	h.Helper()
	h.await("an answer", func() (any, bool) {
		select {
		case <-r.done:
			return nil, true
		default:
			return h.states(r), false
		}
	})
	return r.err
}

// Roles and settings are told apart, whatever policies make of them.
func TestRoles(t *testing.T) {
	w := newWorld(t, "ferryroles", shares(config.CoalesceOn))
	a := w.conn(0, "postgres")
	w.must(a, "do $$ begin create role ann login; exception when duplicate_object then null; end $$")
	w.must(a, "do $$ begin create role ben login; exception when duplicate_object then null; end $$")
	w.must(a, "create view mine as select id, n, current_user::text as me, current_setting('app.x', true) as x from acct")
	w.must(a, "grant select on mine to public")
	w.must(a, "alter table acct enable row level security")
	w.must(a, "create policy p on acct using (current_user <> 'ben' or current_setting('app.see', true) = 'yes')")
	w.reads(4)
	w.awaitFerries(a, "on")
	h := w.hold(t, func(i int) *pgx.Conn {
		c := w.conn(0, []string{"ann", "ben", "ben"}[i%3])
		if i%3 == 2 {
			w.must(c, "set app.see = 'yes'")
		}
		return c
	}, 30)
	h.start(h.readers...)
	if n := len(h.in(leads)); n > 12 {
		t.Errorf("%d executions are under way", n)
	}
	want := h.release()
	for i, r := range h.readers {
		if err := h.answered(r); (err == pgx.ErrNoRows) != (i%3 == 1) || err != nil && err != pgx.ErrNoRows || err == nil && r.n != want {
			t.Errorf("client %d: %d, %v", i, r.n, err)
		}
	}
}
