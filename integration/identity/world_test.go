package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
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
	harness.ShardCount = 3
	os.Exit(harness.Main(m))
}

// world is a cluster of three shards with an etcd of its own, a database with rows on all
// of them, and a proxy.
type world struct {
	*harness.Target
	t        *testing.T
	endpoint string
	database string
	rows     int
	store    interface {
		directory.Store
		directory.Registry
		directory.Lookups
	}
}

func newWorld(t *testing.T, database string) *world {
	t.Helper()
	endpoint, _ := harness.StartEtcd(t)
	w := &world{t: t, endpoint: endpoint, database: database, rows: 100, store: harness.Store(t, endpoint, "test")}
	w.Target = w.proxy()
	w.CreateDatabase(t, database)
	c := w.Connect(t, "postgres", "dbname="+database)
	for _, sql := range []string{
		"create table t (k int primary key, v int)", "select weft.shard_table('t', 'k')",
		"create table r (id int primary key, x text)", "select weft.reference_table('r')",
		"create table h (id int)",
		"insert into t select g, g from generate_series(1, 100) g", "insert into r values (1, 'a')", "insert into h values (1), (2)",
	} {
		w.must(c, sql)
	}
	return w
}

// proxy starts one more.
func (w *world) proxy(change ...func(*config.Config)) *harness.Target {
	w.t.Helper()
	return harness.StartWeft(w.t, func(c *config.Config) {
		c.Etcd.Endpoints = []string{w.endpoint}
		c.HTTP.Listen = "127.0.0.1:0"
		c.Pool.HealthInterval = 50 * time.Millisecond
		for _, f := range change {
			f(c)
		}
	})
}

func (w *world) must(c *pgx.Conn, sql string) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), time.Minute)
	defer stop()
	if _, err := c.Exec(ctx, sql); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// count asks a proxy for the rows of the sharded table.
func (w *world) count(target *harness.Target) (n int, err error) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), pgtest.Patience)
	defer stop()
	c, err := pgx.Connect(ctx, target.ConnString("postgres", "dbname="+w.database))
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, "select count(*) from t").Scan(&n)
	return n, err
}

// all waits until a proxy gives all rows.
func (w *world) all(target *harness.Target) {
	w.t.Helper()
	var n int
	var err error
	for end := time.Now().Add(pgtest.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if n, err = w.count(target); err == nil && n == w.rows {
			return
		}
		if err == nil {
			break
		}
	}
	w.t.Errorf("%d rows, %v; want %d", n, err, w.rows)
}

// refuses waits until a proxy refuses to count, with a code and a message. An answer that is
// not all rows fails the test.
func (w *world) refuses(target *harness.Target, code, says string) {
	w.t.Helper()
	var n int
	var err error
	for end := time.Now().Add(pgtest.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		n, err = w.count(target)
		if err == nil && n != w.rows {
			w.t.Fatalf("a wrong answer: %d rows of %d", n, w.rows)
		}
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == code && strings.Contains(e.Message, says) {
			if e.Hint == "" {
				w.t.Errorf("no hint: %+v", e)
			}
			return
		}
	}
	w.t.Fatalf("%d rows, %v; want %s %q", n, err, code, says)
}

// ready waits until /readyz gives a status and a text.
func ready(t *testing.T, target *harness.Target, status int, says string) {
	t.Helper()
	var code int
	var body []byte
	for end := time.Now().Add(pgtest.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + target.Server.HTTPAddr().String() + "/readyz?verbose")
		if err != nil {
			t.Fatal(err)
		}
		code = resp.StatusCode
		body, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		if code == status && strings.Contains(string(body), says) {
			return
		}
	}
	t.Errorf("/readyz: %d %s, want %d %s", code, body, status, says)
}

// files writes a weft.yaml and a cluster.yaml that lists these servers.
func (w *world) files(cluster, more string, servers ...*pgserver.Temp) (weft, shards string) {
	w.t.Helper()
	var b strings.Builder
	b.WriteString("bucket_count: 64\nshards:\n")
	for i, s := range servers {
		fmt.Fprintf(&b, "- {name: shard-%d, hosts: ['%s'], options: {sslmode: disable}}\n", i, s.Addr())
	}
	return w.write("weft.yaml", fmt.Sprintf("cluster: %s\netcd: {endpoints: ['%s']%s}\n", cluster, w.endpoint, more)), w.write("cluster.yaml", b.String())
}

func (w *world) write(name, text string) string {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// stamps waits until the database is stamped on every shard.
func (w *world) stamped() {
	w.t.Helper()
	for i, s := range w.Shards() {
		want := fmt.Sprintf(", shard shard-%d, server ", i)
		got := ""
		for end := time.Now().Add(pgtest.Patience); !strings.Contains(got, want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				w.t.Fatalf("shard-%d is stamped %q", i, got)
			}
			got = w.direct(s, "select coalesce(obj_description(to_regnamespace('weft'), 'pg_namespace'), '')")
		}
	}
}

// direct asks a server itself, in the world's database.
func (w *world) direct(s *pgserver.Temp, sql string) (out string) {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), pgtest.Patience)
	defer stop()
	c, err := pgx.Connect(ctx, s.ConnString(w.database))
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close(ctx)
	if err := c.QueryRow(ctx, sql).Scan(&out); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return out
}
