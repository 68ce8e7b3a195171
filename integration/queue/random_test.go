package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

// books is what random clients have done to the keys.
type books struct{ sure, unsure [201]atomic.Int64 }

// client runs random transactions. Rows are locked in the order of their keys, so that PostgreSQL by itself never finds a deadlock.
type client struct {
	*world
	books *books
	rng   *rand.Rand
	proxy int
	user  string
	conn  *pgx.Conn
}

func (c *client) connect() {
	if c.conn != nil {
		_ = c.conn.Close(context.Background())
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	conn, err := pgx.Connect(ctx, c.proxies[c.proxy].ConnString(c.user, "dbname="+c.db))
	if err != nil {
		c.Errorf("connect: %v", err)
	}
	c.conn = conn
}

// once runs one transaction. It returns false when the test has failed.
func (c *client) once() bool {
	before, behind := 1+c.rng.IntN(41), 43+c.rng.IntN(158)
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var keys []int
	switch kind := c.rng.IntN(100); {
	case kind < 40:
		keys = []int{42}
	case kind < 55:
		keys = []int{42, behind} // often on two shards
	case kind < 70:
		keys = []int{before, 42}
	case kind < 80:
		keys = []int{before, behind}
	case kind < 90:
		keys = []int{before, 42, behind}
	case kind < 93:
		_, err := c.conn.Exec(ctx, "select n from acct where id = 42 for update nowait")
		return c.fine(err, "55P03", "53000")
	case kind < 96: // the client goes while it waits
		impatient, stop := context.WithTimeout(ctx, time.Duration(c.rng.IntN(20))*time.Millisecond)
		defer stop()
		c.books.unsure[42].Add(1)
		if _, err := c.conn.Exec(impatient, increment, 42); err != nil {
			c.connect()
		}
		return !c.Failed()
	default:
		return c.once2(ctx)
	}
	if len(keys) == 1 && c.rng.IntN(2) == 0 {
		_, err := c.conn.Exec(ctx, increment, keys[0])
		if err == nil {
			c.books.sure[keys[0]].Add(1)
		}
		return c.fine(err, "53000")
	}
	return c.block(ctx, keys)
}

// once2 runs what ties the session to a backend, or loosens it.
func (c *client) once2(ctx context.Context) bool {
	for _, sql := range [][]string{{"create temp table if not exists mine (id int)"}, {"discard all"}, {"select pg_advisory_lock(1000 + pg_backend_pid())", "discard all"}}[c.rng.IntN(3)] {
		if _, err := c.conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			c.Errorf("%s: %v", sql, err)
			return false
		}
	}
	_ = c.conn.DeallocateAll(ctx)
	return true
}

// block runs a block that increments keys.
func (c *client) block(ctx context.Context, keys []int) bool {
	tx, err := c.conn.Begin(ctx)
	if err != nil {
		return c.fine(err)
	}
	for _, k := range keys {
		if _, err := tx.Exec(ctx, increment, k); err != nil {
			_ = tx.Rollback(ctx)
			return c.fine(err, "53000")
		}
	}
	if c.rng.IntN(10) == 0 {
		return c.fine(tx.Rollback(ctx))
	}
	if err := tx.Commit(ctx); err != nil {
		return c.fine(err)
	}
	for _, k := range keys {
		c.books.sure[k].Add(1)
	}
	return true
}

// fine reports whether an error is one of those that are expected.
func (c *client) fine(err error, codes ...string) bool {
	got := code(err)
	for _, want := range append(codes, "") {
		if got == want {
			return true
		}
	}
	c.Errorf("%s through proxy %d: %v", c.user, c.proxy, err)
	return false
}

// Transactions of all kinds end, whether they wait for a hot row, hold something already, or go away. There is no deadlock, and
// each increment that was acknowledged is there.
func TestRandom(t *testing.T) {
	w := newWorld(t, "random", rows(config.ThrottleAuto), rows(config.ThrottleAuto))
	b, until := &books{}, time.Now().Add(*lasts)
	var count atomic.Int64
	var wg sync.WaitGroup
	for i := range 24 {
		c := &client{world: w, books: b, rng: rand.New(rand.NewPCG(1, uint64(i))), proxy: i % 2, user: "postgres"}
		if i >= 20 {
			c.user = "bob"
		}
		c.connect()
		wg.Go(func() {
			defer func() { _ = c.conn.Close(context.Background()) }()
			for time.Now().Before(until) && count.Add(1) <= *most && c.once() {
			}
		})
	}
	wg.Wait()
	a := w.conn(0, "postgres")
	for _, r := range w.rows(a, "select id, n from acct") {
		id, n := r["id"].(int64), r["n"].(int64)
		if sure, unsure := b.sure[id].Load(), b.unsure[id].Load(); n < sure || n > sure+unsure {
			t.Errorf("key %d is %d after %d to %d increments", id, n, sure, sure+unsure)
		}
	}
	queues := w.rows(a, "select * from weft.queues")
	t.Logf("%d transactions, %d increments of the hot key; %v", count.Load(), b.sure[42].Load(), queues)
	if len(queues) == 0 {
		t.Error("there was no queue")
	}
	w.await("that no place is lost", func() (any, bool) {
		rows := w.rows(a, "select * from weft.queues where used > 0 or waiting > 0")
		return rows, len(rows) == 0
	})
}
