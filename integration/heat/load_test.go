package heat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
)

const (
	keys     = 2000
	patience = 2 * time.Minute
)

func TestMain(m *testing.M) {
	harness.ShardCount = 2
	os.Exit(harness.Main(m))
}

// world is a database with sharded tables acct, by number, and page, by text, and proxies that serve
// it.
type world struct {
	*testing.T
	db      string
	proxies []*harness.Target
}

// newWorld starts proxies, one for each way to configure it.
func newWorld(t *testing.T, db string, configure ...func(*config.Config)) *world {
	t.Helper()
	var proxies []*harness.Target
	for _, c := range configure {
		proxies = append(proxies, harness.StartWeft(t, c))
	}
	return worldOf(t, db, proxies...)
}

// worldOf is newWorld for proxies that have been started.
func worldOf(t *testing.T, db string, proxies ...*harness.Target) *world {
	t.Helper()
	w := &world{T: t, db: db, proxies: proxies}
	w.proxies[0].CreatePrepared(t, db)
	c := w.conn(0, "postgres")
	w.must(c, "create table acct (id bigint primary key, n bigint not null default 0)")
	w.must(c, "create table page (path text primary key, n bigint not null default 0)")
	w.must(c, fmt.Sprintf("insert into acct (id) select i from generate_series(1, %d) i", keys))
	w.must(c, "select weft.shard_table('acct', 'id')")
	w.must(c, "select weft.shard_table('page', 'path')")
	w.must(c, "grant select on acct, page to public")
	return w
}

func plain(*config.Config) {}

func (w *world) conn(proxy int, user string, more ...string) *pgx.Conn {
	w.Helper()
	return w.proxies[proxy].Connect(w.T, user, append([]string{"dbname=" + w.db}, more...)...)
}

func (w *world) must(c *pgx.Conn, sql string, args ...any) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if _, err := c.Exec(ctx, sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) rows(c *pgx.Conn, sql string, args ...any) []map[string]any {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	rows, _ := c.Query(ctx, sql, args...)
	out, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return out
}

// await asks until the answer is as wanted, and returns how long that took.
func (w *world) await(what string, ask func() (answer any, ok bool)) time.Duration {
	w.Helper()
	began := time.Now()
	for {
		answer, ok := ask()
		if ok {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			w.Fatalf("%s: %v", what, answer)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// eventually waits until a check finds nothing.
func (w *world) eventually(check func() error) {
	w.Helper()
	w.await("to be as it should", func() (any, bool) {
		err := check()
		return err, err == nil
	})
}

// crew is clients that work until the test ends. Each waits a little between two statements, so that
// there is time for the proxies on a slow machine.
type crew struct {
	done   atomic.Int64 // statements
	hot    atomic.Int64 // those on the hot key
	writes atomic.Int64 // those of them that write
	halt   func()       // ends the clients
}

const pace = 4 * time.Millisecond

// start runs clients, two at each proxy, in all ways to send a statement. next runs one statement.
func (w *world) start(next func(ctx context.Context, c *pgx.Conn, r *rand.Rand, l *crew) error) *crew {
	w.Helper()
	l := &crew{}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 2 * len(w.proxies) {
		mode := []string{"cache_statement", "exec", "simple_protocol"}[i%3]
		c := w.conn(i%len(w.proxies), "postgres", "default_query_exec_mode="+mode)
		r := rand.New(rand.NewPCG(16, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := next(context.Background(), c, r, l); err != nil {
					w.Errorf("client %d: %v", i, err)
					return
				}
				l.done.Add(1)
				time.Sleep(pace)
			}
		})
	}
	l.halt = func() { stop(); wg.Wait() }
	w.Cleanup(l.halt)
	return l
}

// account reads or changes an account: one of five statements is about the account hot.
func account(hot int64) func(ctx context.Context, c *pgx.Conn, r *rand.Rand, l *crew) error {
	return func(ctx context.Context, c *pgx.Conn, r *rand.Rand, l *crew) error {
		id, write := 1+r.Int64N(keys), r.IntN(4) == 0
		if r.IntN(5) == 0 {
			id = hot
			l.hot.Add(1)
			if write {
				l.writes.Add(1)
			}
		}
		if write {
			_, err := c.Exec(ctx, "update acct set n = n + 1 where id = $1", id)
			return err
		}
		var n int64
		return c.QueryRow(ctx, "select n from acct where id = $1", id).Scan(&n)
	}
}
