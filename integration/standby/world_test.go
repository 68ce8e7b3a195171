package standby

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/directory"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

func TestMain(m *testing.M) {
	harness.ShardCount = 1 // its servers are not used
	os.Exit(harness.Main(m))
}

// world is a cluster of two shards, each a primary with a standby, and a proxy.
type world struct {
	t        *testing.T
	primary  [2]*pgserver.Temp
	standby  [2]*pgserver.Server
	store    directory.Store
	proxy    *harness.Target
	key      [2]int // a key on each shard
	endpoint string
}

const clusterName = "standby"

func newWorld(t *testing.T, change ...func(*config.Config)) *world {
	t.Helper()
	w := &world{t: t}
	w.endpoint, _ = harness.StartEtcd(t)
	var shards []directory.Shard
	for i := range w.primary {
		w.primary[i] = pgtest.Start(t, pgserver.Config{Settings: pgserver.ReplicationSettings()})
		w.standby[i] = pgtest.Standby(t, w.primary[i].Server)
		shards = append(shards, directory.Shard{
			Name: fmt.Sprintf("shop-%d", i), Hosts: []string{w.primary[i].Addr(), w.standby[i].Addr()}, Options: map[string]string{"sslmode": "disable"}, Weight: 1,
		})
	}
	w.store = harness.Store(t, w.endpoint, clusterName)
	if _, err := w.store.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) {
		return directory.New(16, "shop-0", shards), nil
	}); err != nil {
		t.Fatal(err)
	}
	w.proxy = harness.StartWeft(t, func(c *config.Config) {
		c.Cluster = clusterName
		c.Etcd.Endpoints = []string{w.endpoint}
		c.HTTP.Listen = "127.0.0.1:0"
		c.Failover.Wait = pgtest.Patience
		c.Failover.ProbeInterval = 20 * time.Millisecond
		for _, f := range change {
			f(c)
		}
	})
	c := w.connect()
	w.must(c, "create table t (k int primary key, v int, at text default current_setting('port'))")
	w.must(c, "select weft.shard_table('t', 'k')")
	w.must(c, "create table home (k int, v int)")
	w.must(c, "create table ref (k int primary key, v int)")
	w.must(c, "select weft.reference_table('ref')")
	w.must(c, "insert into t select g, g from generate_series(1, 40) g")
	w.must(c, "insert into home select g, g from generate_series(1, 3) g")
	w.must(c, "insert into ref select g, g from generate_series(1, 3) g")
	for i := range w.key {
		w.key[i] = w.ask(w.primary[i].Server, "select min(k) from t")
	}
	return w
}

// connect opens a session on the proxy, in the database that initdb makes.
func (w *world) connect(more ...string) *pgx.Conn {
	w.t.Helper()
	return w.proxy.Connect(w.t, "postgres", append([]string{"dbname=postgres", "default_query_exec_mode=simple_protocol"}, more...)...)
}

func (w *world) within() context.Context {
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	w.t.Cleanup(stop)
	return ctx
}

func (w *world) must(c *pgx.Conn, sql string) {
	w.t.Helper()
	if _, err := c.Exec(w.within(), sql); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// refused expects an error with this code.
func (w *world) refused(c *pgx.Conn, sql, want string) {
	w.t.Helper()
	if _, err := c.Exec(w.within(), sql); code(err) != want {
		w.t.Errorf("%s: %v, expected %s", sql, err, want)
	}
}

// value returns the first value of the first row.
func (w *world) value(c *pgx.Conn, sql string, args ...any) string {
	w.t.Helper()
	text, err := value(w.within(), c, sql, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func value(ctx context.Context, c *pgx.Conn, sql string, args ...any) (string, error) {
	var out any
	err := c.QueryRow(ctx, sql, args...).Scan(&out)
	return fmt.Sprint(out), err
}

// ask returns a number that a server gives.
func (w *world) ask(s *pgserver.Server, sql string) (n int) {
	w.t.Helper()
	c, err := pgx.Connect(w.within(), s.ConnString("postgres"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(w.within(), sql).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// tell runs a command on a server.
func (w *world) tell(s *pgserver.Server, sql string) {
	w.t.Helper()
	c, err := pgx.Connect(w.within(), s.ConnString("postgres"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(w.within(), sql); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) await(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(pgtest.Patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// follows waits until a session with a target reads the standbys of all shards.
func (w *world) follows(c *pgx.Conn) {
	w.t.Helper()
	w.await("standbys that are up to date", func() bool {
		for _, k := range w.key {
			if text, err := value(w.within(), c, fmt.Sprintf("select pg_is_in_recovery() from t where k = %d", k)); err != nil || text != "true" {
				return false
			}
		}
		return true
	})
}

// where is a query whose answer says whether a standby has answered it, for a key.
func where(k int) string { return fmt.Sprintf("select pg_is_in_recovery() from t where k = %d", k) }

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

// lines joins the rows of a query.
func (w *world) lines(c *pgx.Conn, sql string, args ...any) string {
	w.t.Helper()
	rows, err := c.Query(w.within(), sql, args...)
	if err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		v, err := rows.Values()
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, fmt.Sprint(v...))
	}
	if err := rows.Err(); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(out, "\n")
}
