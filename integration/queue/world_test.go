package queue

import (
	"context"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
)

const patience = 3 * time.Minute

var (
	lasts   = flag.Duration("for", 20*time.Second, "how long random transactions run")
	most    = flag.Int64("most", 1<<62, "how many random transactions run at most")
	sharing = flag.Int64("reads", 2000, "how many reads that share an execution TestNotStale looks at")
	bench   = flag.Duration("measure", 0, "how long each measurement of TestBench takes; 0: none")
)

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

// rows lets hot rows queue. Users named bob are pooled by session.
func rows(mode string) func(*config.Config) {
	return func(c *config.Config) {
		c.Heat.Rows, c.Heat.Throttle = mode, config.ThrottleOff
		c.Pool.MaxPerShard, c.Pool.QueueTimeout = 30, patience
		c.Auth.Users = append(c.Auth.Users, auth.User{Name: "bob", PoolMode: "session"})
	}
}

// newWorld starts proxies, one for each way to configure it.
func newWorld(t *testing.T, db string, configure ...func(*config.Config)) *world {
	t.Helper()
	w := &world{T: t, db: db}
	for _, c := range configure {
		w.proxies = append(w.proxies, harness.StartWeft(t, c))
	}
	w.proxies[0].CreatePrepared(t, db)
	c := w.conn(0, "postgres")
	w.must(c, "create table acct (id bigint primary key, n bigint not null default 0)")
	w.must(c, "insert into acct (id) select i from generate_series(1, 200) i")
	w.must(c, "select weft.shard_table('acct', 'id')")
	w.must(c, "grant select, update on acct to public")
	return w
}

// in is the world in a part of a test: clients leave at its end.
func (w *world) in(t *testing.T) *world { return &world{t, w.db, w.proxies} }

func (w *world) conn(proxy int, user string, more ...string) *pgx.Conn {
	w.Helper()
	return w.proxies[proxy].Connect(w.T, user, append([]string{"dbname=" + w.db}, more...)...)
}

// direct connects to the shard that has a key.
func (w *world) direct(key int) *pgx.Conn {
	w.Helper()
	for _, s := range w.proxies[0].Shards() {
		c, err := pgx.Connect(w.Context(), "postgres://postgres@"+s.Addr()+"/"+w.db+"?sslmode=disable")
		if err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() { _ = c.Close(context.Background()) })
		if len(w.rows(c, "select from acct where id = $1", key)) == 1 {
			return c
		}
	}
	w.Fatalf("no shard has key %d", key)
	return nil
}

func (w *world) must(c *pgx.Conn, sql string, args ...any) {
	w.Helper()
	if _, err := c.Exec(w.Context(), sql, args...); err != nil {
		w.Fatalf("%s: %v", sql, err)
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

// number runs a query that returns one number.
func (w *world) number(c *pgx.Conn, sql string, args ...any) (n int64) {
	w.Helper()
	if err := c.QueryRow(w.Context(), sql, args...).Scan(&n); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return n
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

// awaitQueues waits until all proxies have a queue for key 42, which clients write. Meanwhile the row is locked again and again, so that
// backends wait for locks however slow the proxies are beside the shard.
func (w *world) awaitQueues(c *pgx.Conn, mode string) {
	w.Helper()
	holder, halt, done := w.direct(42), make(chan struct{}), make(chan struct{})
	defer func() { close(halt); <-done }()
	go func() {
		defer close(done)
		for {
			select {
			case <-halt:
				return
			default:
			}
			if _, err := holder.Exec(context.Background(), "begin; select from acct where id = 42 for update; select pg_sleep(0.02); commit"); err != nil {
				w.Errorf("holder: %v", err)
				return
			}
		}
	}()
	w.await("queues of a hot row", func() (any, bool) {
		rows := w.rows(c, "select * from weft.queues where key = 'key 42 of acct' and kind = 'row' and mode = $1 and waited > 0", mode)
		return w.rows(c, "select * from weft.warnings"), len(rows) == len(w.proxies)
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

// says reports whether an error of PostgreSQL's protocol has a text in its message or hint.
func says(err error, text string) bool {
	pe := (*pgconn.PgError)(nil)
	return errors.As(err, &pe) && (strings.Contains(pe.Message, text) || strings.Contains(pe.Hint, text))
}
