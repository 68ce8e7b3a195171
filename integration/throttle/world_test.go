package throttle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
)

const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	harness.ShardCount = 2
	os.Exit(harness.Main(m))
}

// world is a database with a sharded table and proxies that serve it.
type world struct {
	*testing.T
	db      string
	proxies []*harness.Target
}

// plain makes no automatic throttles: a machine that stands still for a moment must not add one.
func plain(c *config.Config) { c.Heat.Throttle = config.ThrottleOff }

// newWorld starts proxies, one for each way to configure it.
func newWorld(t *testing.T, db string, configure ...func(*config.Config)) *world {
	t.Helper()
	w := &world{T: t, db: db}
	for _, c := range configure {
		w.proxies = append(w.proxies, harness.StartWeft(t, c))
	}
	t.Cleanup(w.unthrottle)
	w.proxies[0].CreatePrepared(t, db)
	c := w.conn(0, "postgres")
	w.must(c, "create table acct (id bigint primary key, n bigint not null default 0)")
	w.must(c, "create table home (id int)")
	w.must(c, "create table page (path text primary key, n bigint not null default 0)")
	w.must(c, "insert into acct (id) select i from generate_series(1, 200) i")
	w.must(c, "select weft.shard_table('acct', 'id')")
	w.must(c, "select weft.shard_table('page', 'path')")
	w.must(c, "grant select, update on acct, page, home to public")
	return w
}

func (w *world) conn(proxy int, user string, more ...string) *pgx.Conn {
	w.Helper()
	return w.proxies[proxy].Connect(w.T, user, append([]string{"dbname=" + w.db}, more...)...)
}

func (w *world) must(c *pgx.Conn, sql string, args ...any) {
	w.Helper()
	if _, err := c.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

// unthrottle ends all throttles, which all databases share.
func (w *world) unthrottle() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, w.proxies[len(w.proxies)-1].ConnString("postgres", "dbname=weft"))
	if err != nil {
		w.Error(err)
		return
	}
	defer c.Close(ctx)
	rows, _ := c.Query(ctx, "SHOW THROTTLES")
	list, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		w.Error(err)
	}
	for _, r := range list {
		if _, err := c.Exec(ctx, fmt.Sprintf("UNTHROTTLE %v", r["id"])); err != nil && code(err) != "42704" {
			w.Error(err)
		}
	}
}

// rows runs a query.
func (w *world) rows(c *pgx.Conn, sql string, args ...any) []map[string]any {
	w.Helper()
	rows, _ := c.Query(w.Context(), sql, args...)
	out, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return out
}

// throttle makes a throttle and returns its id.
func (w *world) throttle(c *pgx.Conn, args string) (id string) {
	w.Helper()
	return w.rows(c, "select weft.throttle("+args+")")[0]["id"].(string)
}

// await asks until the answer is as wanted.
func (w *world) await(what string, ask func() (answer any, ok bool)) {
	w.Helper()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answer, ok := ask()
		if ok {
			return
		}
		if time.Since(began) > patience {
			w.Fatalf("%s: %v", what, answer)
		}
	}
}

// awaitThrottles waits until a proxy knows so many throttles.
func (w *world) awaitThrottles(c *pgx.Conn, n int) {
	w.Helper()
	w.await(fmt.Sprintf("%d throttles", n), func() (any, bool) {
		rows := w.rows(c, "select * from weft.throttles where origin = 'manual'")
		return rows, len(rows) == n
	})
}

// code is the SQLSTATE of an error, "" for none.
func code(err error) string {
	if err == nil {
		return ""
	}
	if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) {
		return pe.Code
	}
	return err.Error()
}

// refused returns the error of a statement that a throttle refuses.
func (w *world) refused(err error) *pgconn.PgError {
	w.Helper()
	pe := (*pgconn.PgError)(nil)
	if !errors.As(err, &pe) || pe.Code != "53400" {
		w.Fatalf("not refused: %v", err)
	}
	return pe
}

// crowd is clients that run one statement again and again.
type crowd struct {
	passed, refused atomic.Int64
	halt            func()
}

// run lets clients of all proxies run a statement until the test ends. Errors other than refusals are
// errors.
func (w *world) run(each int, user, sql string, args ...any) *crowd {
	w.Helper()
	cr := &crowd{}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range each * len(w.proxies) {
		mode := []string{"cache_statement", "exec", "simple_protocol"}[i%3]
		c := w.conn(i%len(w.proxies), user, "default_query_exec_mode="+mode)
		wg.Go(func() {
			for ctx.Err() == nil {
				_, err := c.Exec(context.Background(), sql, args...)
				switch code(err) {
				case "":
					cr.passed.Add(1)
				case "53400":
					cr.refused.Add(1)
				default:
					w.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	cr.halt = sync.OnceFunc(func() { stop(); wg.Wait() })
	w.Cleanup(cr.halt)
	return cr
}
