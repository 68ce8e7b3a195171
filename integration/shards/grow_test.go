package shards

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
)

// TestGrow: a cluster of two shards gets a third and a fourth while clients read and write. Every
// answer is exact, the new shard gets its quota, and nothing moves between the old ones.
func TestGrow(t *testing.T) {
	w := newWorld(t, "grow", 2)
	c := w.conn(0)
	l := w.load()
	for n := 3; n <= 4; n++ {
		before := harness.Snapshot(t)
		was := before.PlacementOf(w.db, "")
		name := fmt.Sprintf("shard-%d", n-1)
		s := harness.EmptyServer(t, nil)
		began := time.Now()
		job := value[string](w, c, "select weft.add_shard($1, $2, max_pause => '5s')", name, s.Addr()) // a machine that does much else is slow
		w.must(c, "select weft.wait_move($1)", job)
		w.must(c, "select weft.wait_move($1)", job) // a job that is over is waited for no longer
		if n := value[int](w, c, "select count(*) from weft.moves where job = $1 and kind = 'join' and state = 'done' and to_shards = array[$2] and ended is not null", job, name); n != 1 {
			t.Errorf("weft.moves does not tell that %s has joined", name)
		}
		if _, err := c.Exec(t.Context(), "select weft.undo_move($1)", job); err == nil || !strings.Contains(err.Error(), "cannot be undone") {
			t.Errorf("undoing a join: %v", err)
		}
		t.Logf("%s joined and got its buckets in %s", name, time.Since(began).Round(time.Millisecond))
		after := harness.Snapshot(t)
		is := after.PlacementOf(w.db, "")
		moved := 0
		for b := range was {
			if from, to := before.Shards[was[b]].Name, after.Shards[is[b]].Name; from != to {
				moved++
				if to != name {
					t.Errorf("bucket %d went from %s to %s", b, from, to)
				}
			}
		}
		if quota := 64 / n; moved != quota {
			t.Errorf("%d buckets moved, want %d", moved, quota)
		}
		if t.Failed() {
			break
		}
	}
	if !t.Failed() {
		w.shrink(c, "shard-3", "shard-2")
	}
	l.stop()
	w.settled(c)
}

// load is clients that read and write until it is stopped, and what they must find.
type load struct {
	w       *world
	end     atomic.Bool
	wg      sync.WaitGroup
	balance [accounts + 1]atomic.Int64
	lines   atomic.Int64
	rates   atomic.Int64
	did     sync.Map // the effort of each kind of work, by its name and proxy
}

// effort counts how often a kind of work was done, and how long the longest of it took.
type effort struct {
	n       atomic.Int64
	slowest atomic.Int64
}

// work does something over and over.
func (l *load) work(proxy int, name string, f func(ctx context.Context, c *pgx.Conn) error) {
	c := l.w.conn(proxy)
	did := new(effort)
	l.did.Store(fmt.Sprintf("%s %d", name, proxy), did)
	l.wg.Go(func() {
		for !l.end.Load() && !l.w.Failed() {
			ctx, stop := context.WithTimeout(context.Background(), patience)
			began := time.Now()
			err := f(ctx, c)
			stop()
			did.slowest.Store(max(did.slowest.Load(), int64(time.Since(began))))
			if err != nil {
				l.w.Errorf("%s: %v", name, explained(err))
				return
			}
			did.n.Add(1)
		}
	})
}

func (w *world) load() *load {
	l := &load{w: w}
	c := w.conn(0)
	w.must(c, "truncate line; update acct set balance = 1000, touched = 0")
	l.rates.Store(int64(value[int](w, c, "select count(*) from rate")))
	for i := range 2 {
		l.work(i, "update", func(ctx context.Context, c *pgx.Conn) error {
			id := 1 + 2*rand.IntN(accounts/2) + i
			if id > accounts {
				return nil
			}
			tag, err := c.Exec(ctx, "update acct set balance = balance + 1 where id = $1", id)
			if err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("account %d: %s", id, tag)
			}
			l.balance[id].Add(1)
			return err
		})
		l.work(i, "count", func(ctx context.Context, c *pgx.Conn) error {
			var n int
			err := c.QueryRow(ctx, "select count(*) from acct").Scan(&n)
			if err == nil && n != accounts {
				err = fmt.Errorf("%d of %d accounts", n, accounts)
			}
			return err
		})
		l.work(i, "block", func(ctx context.Context, c *pgx.Conn) error {
			id, n := 1+rand.IntN(accounts), l.lines.Add(1)
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				var was int64
				if err := tx.QueryRow(ctx, "select touched from acct where id = $1 for update", id).Scan(&was); err != nil {
					return fmt.Errorf("account %d: %w", id, err)
				}
				_, err := tx.Exec(ctx, "insert into line values ($1, $2, 'r1')", id, n)
				time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
				return err
			})
		})
		l.work(i, "reference", func(ctx context.Context, c *pgx.Conn) error {
			n := l.rates.Add(1)
			if _, err := c.Exec(ctx, "insert into rate values ($1, $2)", fmt.Sprintf("x%d", n), n); err != nil {
				return err
			}
			_, err := c.Exec(ctx, "update rate set value = value + 1 where code = 'r2'")
			time.Sleep(10 * time.Millisecond)
			return err
		})
	}
	l.work(0, "everywhere", func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, "update acct set touched = touched + 1")
		if err == nil && tag.RowsAffected() != accounts {
			err = fmt.Errorf("an update of all accounts: %s", tag)
		}
		time.Sleep(50 * time.Millisecond)
		return err
	})
	l.work(1, "repeatable", func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			for range 3 {
				var n int
				if err := tx.QueryRow(ctx, "select count(*) from acct").Scan(&n); err != nil || n != accounts {
					return errors.Join(err, fmt.Errorf("%d of %d accounts in a block", n, accounts))
				}
				time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
			}
			return nil
		})
	})
	columns := 0
	l.work(1, "schema", func(ctx context.Context, c *pgx.Conn) error {
		columns++
		_, err := c.Exec(ctx, fmt.Sprintf("alter table line add column c%d int", columns))
		time.Sleep(700 * time.Millisecond)
		return again(err)
	})
	return l
}

// again lets errors go that PostgreSQL's clients try again after.
func again(err error) error {
	var e interface{ SQLState() string }
	if errors.As(err, &e) && (e.SQLState() == "40001" || e.SQLState() == "40P01") {
		return nil
	}
	return err
}

// stop ends the clients and compares.
func (l *load) stop() {
	w := l.w
	w.Helper()
	l.end.Store(true)
	l.wg.Wait()
	l.did.Range(func(k, v any) bool {
		did := v.(*effort)
		w.Logf("%s: %d, the slowest took %s", k, did.n.Load(), time.Duration(did.slowest.Load()).Round(time.Millisecond))
		return true
	})
	c := w.conn(0)
	for id := 1; id <= accounts; id++ {
		if got, want := value[int64](w, c, "select balance from acct where id = $1", id), 1000+l.balance[id].Load(); got != want {
			w.Errorf("account %d has %d, want %d", id, got, want)
		}
	}
	if n := value[int64](w, c, "select count(*) from line"); n != l.lines.Load() {
		w.Errorf("%d lines, want %d", n, l.lines.Load())
	}
	if n := value[int64](w, c, "select count(*) from rate"); n != l.rates.Load() {
		w.Errorf("%d rates, want %d", n, l.rates.Load())
	}
}

// shrink drains shards and removes them.
func (w *world) shrink(c *pgx.Conn, names ...string) {
	w.Helper()
	for _, name := range names {
		for _, r := range values(w, c, "select * from weft.drain_shard($1, max_pause => '5s')", name) {
			w.must(c, "select weft.wait_move($1)", r["job"])
		}
		if n := w.spread()[name]; n != 0 {
			w.Errorf("%s has %d buckets after it was drained", name, n)
		}
		w.must(c, "select weft.remove_shard($1)", name)
		if _, there := harness.Snapshot(w.T).Shard(name); there {
			w.Errorf("%s is still there", name)
		}
		if n := value[int](w, c, "select count(*) from weft.moves where kind = 'leave' and state = 'done' and from_shards = array[$1]", name); n != 1 {
			w.Errorf("weft.moves does not tell that %s has left", name)
		}
	}
}
