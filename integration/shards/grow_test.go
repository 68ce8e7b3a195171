package shards

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// growTo is how many shards TestGrow goes to.
var growTo = flag.Int("grow", 3, "TestGrow: the shards that a cluster of two grows to, and shrinks from")

// TestGrow: a cluster of two shards gets more while clients read and write. Every answer is exact,
// the new shard gets its quota, and nothing moves between the old ones. Then the cluster shrinks.
func TestGrow(t *testing.T) {
	w := newWorld(t, "grow", 2)
	c := w.conn(0)
	l := w.load()
	var more []string
	for n := 3; n <= *growTo; n++ {
		before := harness.Snapshot(t)
		was := before.PlacementOf(w.db, "")
		name := fmt.Sprintf("shard-%d", n-1)
		more = append([]string{name}, more...)
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
		w.shrink(c, more...)
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

// pace is how long a client rests between two pieces of work: proxies that share the machine with
// clients that never rest may get no processor for seconds, and then count as hung.
const pace = 20 * time.Millisecond

// do is one piece of work.
type do func(ctx context.Context, c *pgx.Conn) error

// work does something over and over. A machine that does much else may stand still for seconds:
// proxies then lose the directory or end what another proxy has left. A piece of work that fails so
// is done again by after, which must find out whether the piece was done.
func (l *load) work(proxy int, name string, f, after do) {
	c := l.w.conn(proxy)
	did := new(effort)
	l.did.Store(fmt.Sprintf("%s %d", name, proxy), did)
	timed := func(f do) error {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		if c.IsClosed() {
			again, err := pgx.ConnectConfig(ctx, c.Config())
			if err != nil {
				return err
			}
			c = again
			l.w.Cleanup(func() { _ = again.Close(context.Background()) })
		}
		began := time.Now()
		err := f(ctx, c)
		did.slowest.Store(max(did.slowest.Load(), int64(time.Since(began))))
		return err
	}
	l.wg.Go(func() {
		for !l.end.Load() && !l.w.Failed() {
			err := timed(f)
			for tries := 0; standstill(err) && tries < 10; tries++ {
				l.w.Logf("%s: %v", name, explained(err))
				time.Sleep(time.Second)
				err = timed(after)
			}
			if err != nil {
				l.w.Errorf("%s: %v", name, explained(err))
				return
			}
			did.n.Add(1)
			time.Sleep(pace)
		}
	})
}

// standstill reports whether an error comes from a proxy, or a directory, that stood still.
func standstill(err error) bool {
	var e interface{ SQLState() string }
	return errors.As(err, &e) && slices.Contains([]string{"08006", "57P01", "57P03", "55000"}, e.SQLState())
}

func (w *world) load() *load {
	l := &load{w: w}
	c := w.conn(0)
	w.must(c, "truncate line; update acct set balance = 1000, touched = 0")
	l.rates.Store(int64(value[int](w, c, "select count(*) from rate")))
	for i := range 2 {
		var id int
		l.work(i, "update", func(ctx context.Context, c *pgx.Conn) error {
			if id = 1 + 2*rand.IntN(accounts/2) + i; id > accounts {
				return nil
			}
			tag, err := c.Exec(ctx, "update acct set balance = balance + 1 where id = $1", id)
			if err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("account %d: %s", id, tag)
			}
			if err == nil {
				l.balance[id].Add(1)
			}
			return err
		}, func(ctx context.Context, c *pgx.Conn) error {
			var now int64
			if err := c.QueryRow(ctx, "select balance from acct where id = $1 for update", id).Scan(&now); err != nil {
				return err
			}
			if known := 1000 + l.balance[id].Load(); now != known && now != known+1 {
				return fmt.Errorf("account %d has %d, want %d or one more", id, now, known)
			}
			l.balance[id].Store(now - 1000)
			return nil
		})
		count := func(ctx context.Context, c *pgx.Conn) error {
			var n int
			err := c.QueryRow(ctx, "select count(*) from acct").Scan(&n)
			if err == nil && n != accounts {
				err = fmt.Errorf("%d of %d accounts", n, accounts)
			}
			return err
		}
		l.work(i, "count", count, count)
		var acct, line int64
		l.work(i, "block", func(ctx context.Context, c *pgx.Conn) error {
			acct, line = 1+rand.Int64N(accounts), l.lines.Add(1)
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				var was int64
				if err := tx.QueryRow(ctx, "select touched from acct where id = $1 for update", acct).Scan(&was); err != nil {
					return fmt.Errorf("account %d: %w", acct, err)
				}
				_, err := tx.Exec(ctx, "insert into line values ($1, $2, 'r1')", acct, line)
				time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
				return err
			})
		}, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "insert into line values ($1, $2, 'r1') on conflict do nothing", acct, line)
			return err
		})
		var n int64
		l.work(i, "reference", func(ctx context.Context, c *pgx.Conn) error {
			n = l.rates.Add(1)
			if _, err := c.Exec(ctx, "insert into rate values ($1, $2)", fmt.Sprintf("x%d", n), n); err != nil {
				return err
			}
			_, err := c.Exec(ctx, "update rate set value = value + 1 where code = 'r2'")
			return err
		}, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, "insert into rate values ($1, $2) on conflict do nothing", fmt.Sprintf("x%d", n), n)
			return err
		})
	}
	everywhere := func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, "update acct set touched = touched + 1")
		if err == nil && tag.RowsAffected() != accounts {
			err = fmt.Errorf("an update of all accounts: %s", tag)
		}
		time.Sleep(50 * time.Millisecond)
		return err
	}
	l.work(0, "everywhere", everywhere, everywhere)
	repeatable := func(ctx context.Context, c *pgx.Conn) error {
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
	}
	l.work(1, "repeatable", repeatable, repeatable)
	columns := 0
	schema := func(ctx context.Context, c *pgx.Conn) error {
		columns++
		_, err := c.Exec(ctx, fmt.Sprintf("alter table line add column c%d int", columns))
		time.Sleep(700 * time.Millisecond)
		return again(err)
	}
	l.work(1, "schema", schema, schema)
	w.Cleanup(l.halt)
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

// halt ends the clients.
func (l *load) halt() {
	l.end.Store(true)
	l.wg.Wait()
}

// stop ends the clients and compares.
func (l *load) stop() {
	w := l.w
	w.Helper()
	l.halt()
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
		w.removed(c, name)
		if _, there := harness.Snapshot(w.T).Shard(name); there {
			w.Errorf("%s is still there", name)
		}
		if n := value[int](w, c, "select count(*) from weft.moves where kind = 'leave' and state = 'done' and from_shards = array[$1]", name); n != 1 {
			w.Errorf("weft.moves does not tell that %s has left", name)
		}
	}
}

// removed removes a shard. Transactions of clients may keep it for a while.
func (w *world) removed(c *pgx.Conn, name string) {
	w.Helper()
	began := time.Now()
	for {
		_, err := c.Exec(context.Background(), "select weft.remove_shard($1)", name)
		if err == nil {
			return
		}
		if e := (*pgconn.PgError)(nil); !errors.As(err, &e) || e.Code != "55006" || time.Since(began) > patience {
			w.Fatalf("removing %s: %v", name, explained(err))
		}
		w.Logf("removing %s: %v", name, err)
	}
}
