package tx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

func TestMain(m *testing.M) {
	harness.ShardCount = shards
	os.Exit(harness.Main(m))
}

const (
	shards = 3
	// patience is how long something may take that must happen.
	patience = pgtest.Patience
	accounts = 60
)

// world is a database with a sharded table acct (id, balance 1000, note), a home
// table and a reference table, and proxies that serve it.
type world struct {
	t       *testing.T
	db      string
	proxies []*harness.Target
	keys    [shards][]int64 // of acct, by shard
	eyes    [shards]*pgx.Conn
}

func newWorld(t *testing.T, db string, proxies int, configure ...func(*config.Config)) *world {
	t.Helper()
	w := &world{t: t, db: db}
	for range proxies {
		w.proxies = append(w.proxies, harness.StartWeft(t, func(cfg *config.Config) {
			for _, f := range configure {
				f(cfg)
			}
		}))
	}
	w.fill()
	return w
}

// fill makes the tables.
func (w *world) fill() {
	t, db := w.t, w.db
	t.Helper()
	w.proxies[0].CreatePrepared(t, db)
	c := w.conn(0)
	must(t, c, `create table acct (id bigint primary key, balance bigint not null default 1000, note text, at timestamptz default now());
		create table home (id bigint primary key, v int);
		create table ref (id bigint primary key, v int)`)
	must(t, c, fmt.Sprintf("insert into acct (id) select i from generate_series(1, %d) i", accounts))
	must(t, c, "insert into home select i, i from generate_series(1, 10) i; insert into ref select i, i from generate_series(1, 10) i")
	must(t, c, "select weft.shard_table('acct', 'id')")
	must(t, c, "select weft.reference_table('ref')")
	for i := range shards {
		rows, err := w.eye(i).Query(context.Background(), "select id from acct order by id")
		if err != nil {
			t.Fatal(err)
		}
		if w.keys[i], err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil || len(w.keys[i]) < 3 {
			t.Fatalf("%d keys on shard %d, %v", len(w.keys[i]), i, err)
		}
	}
}

// conn connects to a proxy.
func (w *world) conn(proxy int, more ...string) *pgx.Conn {
	w.t.Helper()
	return w.proxies[proxy].Connect(w.t, "postgres", append([]string{"dbname=" + w.db}, more...)...)
}

// direct connects to a shard itself.
func (w *world) direct(shard int) *pgx.Conn {
	w.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, w.proxies[0].Shards()[shard].ConnString(w.db)+" application_name=direct")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// eye is the connection by which the world itself looks at a shard, a new one if the server has ended the last.
func (w *world) eye(shard int) *pgx.Conn {
	w.t.Helper()
	if w.eyes[shard] == nil || w.eyes[shard].Ping(context.Background()) != nil {
		w.eyes[shard] = w.direct(shard)
	}
	return w.eyes[shard]
}

// quiet complains of what is left on the shards.
func (w *world) quiet() {
	w.t.Helper()
	for i := range shards {
		c := w.eye(i)
		within(w.t, fmt.Sprintf("shard %d has no open transaction", i), func() bool {
			return value[int](w.t, c, "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'direct' and state <> 'idle'") == 0
		})
		within(w.t, fmt.Sprintf("shard %d has no prepared transaction", i), func() bool {
			return value[int](w.t, c, "select count(*) from pg_prepared_xacts where database = current_database()") == 0
		})
	}
}

// nothingUsed makes sure that all backends are given back.
func (w *world) nothingUsed() {
	for i, p := range w.proxies {
		admin := p.Connect(w.t, "postgres", "dbname=weft", "default_query_exec_mode=simple_protocol")
		defer func() { _ = admin.Close(context.Background()) }()
		within(w.t, fmt.Sprintf("proxy %d has given all backends back", i), func() bool {
			rows, err := admin.Query(context.Background(), "SHOW POOLS")
			if err != nil {
				w.t.Fatal(err)
			}
			used := 0
			list, err := pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, r := range list {
				if fmt.Sprint(r["database"]) == w.db && fmt.Sprint(r["used"]) != "0" {
					used++
				}
			}
			return used == 0
		})
	}
}

// total is the money there is, read from the shards.
func (w *world) total() (sum int64) {
	w.t.Helper()
	for i := range shards {
		sum += value[int64](w.t, w.eye(i), "select coalesce(sum(balance), 0)::int8 from acct")
	}
	return sum
}

func must(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if err := exec(c, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func exec(c *pgx.Conn, sql string, args ...any) error {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	_, err := c.Exec(ctx, sql, args...)
	return err
}

// later runs a statement in the background.
func later(c *pgx.Conn, sql string, args ...any) <-chan error {
	done := make(chan error, 1)
	go func() { done <- exec(c, sql, args...) }()
	return done
}

func value[T any](t *testing.T, c *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := c.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// code is the SQLSTATE of an error, empty if it is none.
func code(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	if err != nil {
		return "?????"
	}
	return ""
}

// fails complains if an error has another SQLSTATE.
func fails(t *testing.T, err error, want string) *pgconn.PgError {
	t.Helper()
	e := (*pgconn.PgError)(nil)
	if !errors.As(err, &e) {
		t.Fatalf("%v instead of %s", err, want)
	}
	if e.Code != want {
		t.Fatalf("%s %s (%s) instead of %s", e.Code, e.Message, e.Detail, want)
	}
	return e
}
