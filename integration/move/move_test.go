package move

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/reshard"
)

var loadFor = flag.Duration("load", 6*time.Second, "how long TestMoveUnderLoad moves buckets")

const (
	shards   = 3
	accounts = 400
	patience = 3 * time.Minute // a slow machine takes its time
)

func TestMain(m *testing.M) {
	harness.ShardCount = shards
	os.Exit(harness.Main(m))
}

// world is a database with two colocated tables, acct (id, balance, touched) and line (acct, n),
// and proxies that serve it.
type world struct {
	*testing.T
	db      string
	proxies []*harness.Target
}

func newWorld(t *testing.T, db string, proxies int) *world {
	t.Helper()
	w := empty(t, db, proxies)
	c := w.conn(0)
	w.must(c, `create table acct (id bigint primary key, balance bigint not null default 1000, touched int not null default 0, note text);
		create table line (acct bigint not null, n bigint not null, body text, primary key (acct, n));`)
	w.must(c, fmt.Sprintf("insert into acct (id) select i from generate_series(1, %d) i", accounts))
	w.must(c, "select weft.shard_table('acct', 'id')")
	w.must(c, "select weft.shard_table('line', 'acct')")
	return w
}

// empty makes a database without tables. Jobs that a failed test leaves end with it, or those of the next test would
// wait for them.
func empty(t *testing.T, db string, proxies int) *world {
	t.Helper()
	w := &world{T: t, db: db}
	for range proxies {
		w.proxies = append(w.proxies, harness.StartWeft(t, func(*config.Config) {}))
	}
	w.proxies[0].CreatePrepared(t, db)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		c := w.conn(0)
		for _, job := range w.lines(c, "select job from weft.moves where state in ('preparing', 'running', 'paused', 'finishing', 'failed')") {
			w.must(c, "select weft.cancel_move($1)", strings.Trim(job, "[]"))
		}
	})
	return w
}

func (w *world) conn(proxy int) *pgx.Conn {
	w.Helper()
	return w.proxies[proxy].Connect(w.T, "postgres", "dbname="+w.db)
}

func (w *world) must(c *pgx.Conn, sql string, args ...any) pgconn.CommandTag {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	tag, err := c.Exec(ctx, sql, args...)
	if err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return tag
}

func value[T any](w *world, c *pgx.Conn, sql string, args ...any) (v T) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := c.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		w.Errorf("%s: %v", sql, err)
	}
	return v
}

// move takes buckets to a shard, and waits until they are there.
func (w *world) move(c *pgx.Conn, buckets []int, to string) {
	w.Helper()
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(buckets), " ", ","), "[]")
	job := value[string](w, c, "select weft.move_buckets($1, $2)", text, to)
	w.must(c, "select weft.wait_move($1)", job)
}

// settled fails unless every row is where the placement says and nothing is left behind.
func (w *world) settled(c *pgx.Conn) {
	w.Helper()
	w.verified(c)
	for i, s := range w.proxies[0].Shards() {
		d, err := pgx.Connect(context.Background(), s.ConnString(w.db))
		if err != nil {
			w.Fatal(err)
		}
		// A client may be told of its commit before all shards have followed.
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			n := value[int](w, d, "select count(*) from pg_prepared_xacts where database = current_database()")
			if n == 0 {
				break
			}
			if time.Now().After(end) {
				w.Fatalf("%d transactions are prepared on shard %d", n, i)
			}
		}
		_ = d.Close(context.Background())
	}
}

// verified fails unless every row is where the placement says.
func (w *world) verified(c *pgx.Conn) {
	w.Helper()
	rows, _ := c.Query(context.Background(), "select * from weft.verify_placement()")
	found, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range found {
		if f["misplaced"] != "0" {
			w.Errorf("%v", f)
		}
	}
}

// TestMove: rows are on another shard afterwards, and nobody can tell.
func TestMove(t *testing.T) {
	w := newWorld(t, "move_once", 2)
	c, other := w.conn(0), w.conn(1)
	names := []string{}
	for _, s := range harness.Snapshot(t).Shards {
		names = append(names, s.Name)
	}
	w.must(c, "insert into line select i % 400 + 1, i, 'x' from generate_series(1, 1000) i")
	var all []int
	for b := range 64 {
		all = append(all, b)
	}
	for _, to := range []string{names[1], names[2], names[0]} {
		w.move(c, all, to)
		for _, c := range []*pgx.Conn{c, other} {
			if n := value[int](w, c, "select count(*) from acct"); n != accounts {
				t.Errorf("%d accounts after the move to %s", n, to)
			}
			if n := value[int](w, c, "select count(*) from acct join line on acct = id"); n != 1000 {
				t.Errorf("%d joined lines after the move to %s", n, to)
			}
			if id := value[int](w, c, "select id from acct where id = $1", 17); id != 17 {
				t.Errorf("account 17 is %d", id)
			}
		}
		w.settled(c)
	}
}

// TestMoveUnderLoad: buckets go back and forth while clients read and write through two proxies.
// Every answer is exact.
func TestMoveUnderLoad(t *testing.T) {
	w := newWorld(t, "move_load", 2)
	for _, err := range w.load(*loadFor) {
		t.Error(err)
	}
}

// TestBarrierIsNeeded: without the barrier the same load goes wrong within seconds.
func TestBarrierIsNeeded(t *testing.T) {
	w := newWorld(t, "move_open", 2)
	reshard.Open.Store(true)
	defer reshard.Open.Store(false)
	for began := time.Now(); time.Since(began) < 2*patience; {
		if wrong := w.load(5 * time.Second); len(wrong) > 0 {
			t.Logf("as it should, something went wrong: %v", wrong[0])
			return
		}
	}
	t.Error("nothing went wrong without the barrier: the load proves nothing")
}

// load moves buckets back and forth beside clients, and returns what went wrong.
func (w *world) load(d time.Duration) (wrong []error) { return w.loadBeside(d, false) }

// loadBeside is load, beside other jobs if shared is set.
func (w *world) loadBeside(d time.Duration, shared bool) (wrong []error) {
	t := w.T
	c := w.conn(0)
	w.must(c, "update acct set balance = 1000; truncate line")
	var mu sync.Mutex
	report := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Errorf(format, args...))
	}
	failed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(wrong) > 0
	}
	var names []string
	for _, s := range harness.Snapshot(t).Shards {
		names = append(names, s.Name)
	}
	var end time.Time // d after all clients are connected
	start := make(chan struct{})
	var wg sync.WaitGroup
	var balance [accounts + 1]atomic.Int64
	var lines, updates, counts, blocks, everywhere, repeated atomic.Int64
	var slowest atomic.Int64
	work := func(proxy int, f func(ctx context.Context, c *pgx.Conn) error) {
		c := w.conn(proxy)
		wg.Go(func() {
			<-start
			for time.Now().Before(end) && !failed() {
				ctx, stop := context.WithTimeout(context.Background(), patience)
				began := time.Now()
				err := f(ctx, c)
				stop()
				if d := int64(time.Since(began)); d > slowest.Load() {
					slowest.Store(d)
				}
				if err != nil {
					report("%w", err)
					return
				}
			}
		})
	}
	for i := range 4 {
		work(i%2, func(ctx context.Context, c *pgx.Conn) error {
			id := 1 + rand.IntN(accounts/4)*4 + i
			if id > accounts {
				return nil
			}
			tag, err := c.Exec(ctx, "update acct set balance = balance + 1 where id = $1", id)
			if err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("account %d: %s", id, tag)
			}
			balance[id].Add(1)
			updates.Add(1)
			return err
		})
	}
	for i := range 2 {
		work(i, func(ctx context.Context, c *pgx.Conn) error {
			var id int64
			want := 1 + rand.IntN(accounts)
			return c.QueryRow(ctx, "select id from acct where id = $1", want).Scan(&id)
		})
		work(i, func(ctx context.Context, c *pgx.Conn) error {
			var n int
			err := c.QueryRow(ctx, "select count(*) from acct").Scan(&n)
			if err == nil && n != accounts {
				err = fmt.Errorf("%d of %d accounts", n, accounts)
			}
			counts.Add(1)
			return err
		})
		work(i, func(ctx context.Context, c *pgx.Conn) error {
			id, n := 1+rand.IntN(accounts), lines.Add(1)
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
				blocks.Add(1)
				var was int64
				if err := tx.QueryRow(ctx, "select touched from acct where id = $1 for update", id).Scan(&was); err != nil {
					return fmt.Errorf("account %d: %w", id, err)
				}
				if _, err := tx.Exec(ctx, "insert into line values ($1, $2)", id, n); err != nil {
					return err
				}
				time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
				tag, err := tx.Exec(ctx, "update acct set note = $2 where id = $1", id, fmt.Sprint(n))
				if err == nil && tag.RowsAffected() != 1 {
					err = fmt.Errorf("account %d in a block: %s", id, tag)
				}
				return err
			})
		})
	}
	work(0, func(ctx context.Context, c *pgx.Conn) error {
		tag, err := c.Exec(ctx, "update acct set touched = touched + 1")
		if err == nil && tag.RowsAffected() != accounts {
			err = fmt.Errorf("an update of all accounts: %s", tag)
		}
		everywhere.Add(1)
		time.Sleep(50 * time.Millisecond)
		return err
	})
	work(1, func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			for range 3 {
				var n int
				if err := tx.QueryRow(ctx, "select count(*) from acct").Scan(&n); err != nil || n != accounts {
					return errors.Join(err, fmt.Errorf("%d of %d accounts in a block", n, accounts))
				}
				var id int
				if err := tx.QueryRow(ctx, "select id from acct where id = $1", 1+rand.IntN(accounts)).Scan(&id); err != nil {
					return fmt.Errorf("in a block: %w", err)
				}
				time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
			}
			repeated.Add(1)
			return nil
		})
	})
	rounds := 0
	end = time.Now().Add(d)
	close(start)
	for time.Now().Before(end) && !failed() {
		var buckets []int
		for b := range 64 {
			if rand.IntN(4) == 0 {
				buckets = append(buckets, b)
			}
		}
		if shared {
			text := strings.Trim(strings.ReplaceAll(fmt.Sprint(buckets), " ", ","), "[]")
			var job string
			if err := c.QueryRow(context.Background(), "select weft.move_buckets($1, $2)", text, names[rand.IntN(shards)]).Scan(&job); err != nil {
				time.Sleep(10 * time.Millisecond) // another job runs
				continue
			}
			w.must(c, "select weft.wait_move($1)", job)
		} else {
			w.move(c, buckets, names[rand.IntN(shards)])
		}
		rounds++
	}
	wg.Wait()
	t.Logf("%d jobs beside %d updates, %d counts, %d blocks, %d updates of all, %d repeatable blocks; the slowest took %s",
		rounds, updates.Load(), counts.Load(), blocks.Load(), everywhere.Load(), repeated.Load(), time.Duration(slowest.Load()).Round(time.Millisecond))
	if failed() {
		return wrong
	}
	for id := 1; id <= accounts; id++ {
		if got, want := value[int64](w, c, "select balance from acct where id = $1", id), 1000+balance[id].Load(); got != want {
			report("account %d has %d, want %d", id, got, want)
		}
	}
	if n := value[int64](w, c, "select count(*) from line"); n != lines.Load() {
		report("%d lines, want %d", n, lines.Load())
	}
	if !failed() {
		w.settled(c)
	}
	return wrong
}
