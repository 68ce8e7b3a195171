package queue

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// held is clients that read key 42 while its shard makes them wait.
type held struct {
	*world
	shard *pgx.Conn
	asks  *pgx.Conn // for what the proxy knows
	conns []*pgx.Conn
	errs  []chan error
	rows  []int64
	done  sync.WaitGroup
}

// hold locks the table of key 42 on its shard, and lets so many clients read the key. It returns when all of them wait.
func (w *world) hold(connect func(i int) *pgx.Conn, clients int) *held {
	w.Helper()
	h := &held{world: w, shard: w.direct(42), asks: w.conn(0, "postgres"), rows: make([]int64, clients)}
	for i := range clients {
		h.conns, h.errs = append(h.conns, connect(i)), append(h.errs, make(chan error, 1))
		w.must(h.conns[i], "select 1 from acct where id = 42") // the functions of the database are known by now
		if _, err := h.conns[i].Prepare(w.Context(), "r", readsOnce); err != nil {
			w.Fatal(err)
		}
	}
	w.must(h.shard, "begin")
	w.must(h.shard, "lock table acct in access exclusive mode")
	for i, c := range h.conns {
		h.done.Go(func() { h.errs[i] <- c.QueryRow(context.Background(), "r", 42).Scan(&h.rows[i]) })
	}
	w.await("all who read", func() (any, bool) {
		reads, waiting := h.reading(), h.waiting()
		return fmt.Sprint(reads, " read, ", waiting, " wait"), reads+waiting >= int64(clients)
	})
	return h
}

// waiting is how many sessions wait for the answer of another one, and reading how many read for themselves and others.
func (h *held) waiting() int64 {
	h.Helper()
	return h.sessions("waiting for the answer to the same read")
}
func (h *held) reading() int64 { h.Helper(); return h.sessions("active") }

func (h *held) sessions(state string) int64 {
	h.Helper()
	return h.number(h.asks, "select count(*) from weft.sessions where state = $1 and statement = $2", state, readsOnce)
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
	h := w.hold(func(i int) *pgx.Conn {
		c := w.conn(0, []string{"ann", "ben", "ben"}[i%3])
		if i%3 == 2 {
			w.must(c, "set app.see = 'yes'")
		}
		return c
	}, 30)
	if n := h.reading(); n > 12 {
		t.Errorf("%d executions are under way", n)
	}
	if _, err := h.shard.Exec(t.Context(), "commit"); err != nil {
		t.Fatal(err)
	}
	h.done.Wait()
	for i, errs := range h.errs {
		if err := <-errs; (err == pgx.ErrNoRows) != (i%3 == 1) || err != nil && err != pgx.ErrNoRows {
			t.Errorf("client %d: %v", i, err)
		}
	}
}
