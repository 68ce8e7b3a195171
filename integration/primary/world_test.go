package primary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/directory"
	"weft/directory/etcd"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

func TestMain(m *testing.M) {
	harness.ShardCount = 1 // its servers are not used
	os.Exit(harness.Main(m))
}

// world is a cluster of two shards: the home shard is one server, and the other one is a primary with a standby. Two proxies serve it.
type world struct {
	t        *testing.T
	endpoint string
	home     *pgserver.Temp
	a        *pgserver.Temp   // the primary of shop-1 at the beginning
	b        *pgserver.Server // its standby
	store    *etcd.Store
	config   config.Config // of the proxies
	proxies  [2]*harness.Target
	here     int // a key on the home shard
	there    int // a key on shop-1
}

const clusterName = "primary"

func newWorld(t *testing.T, change ...func(*config.Config)) *world {
	t.Helper()
	endpoint, _ := harness.StartEtcd(t)
	return newWorldAt(t, endpoint, change...)
}

// newWorldAt is newWorld with an etcd.
func newWorldAt(t *testing.T, endpoint string, change ...func(*config.Config)) *world {
	t.Helper()
	w := &world{t: t, endpoint: endpoint}
	w.home = pgtest.Start(t, pgserver.Config{})
	w.a = pgtest.Start(t, pgserver.Config{Settings: pgserver.ReplicationSettings()})
	w.b = pgtest.Standby(t, w.a.Server)
	store := harness.Store(t, w.endpoint, clusterName)
	w.store = store
	_, err := store.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) {
		plain := map[string]string{"sslmode": "disable"}
		return directory.New(16, "shop-0", []directory.Shard{
			{Name: "shop-0", Hosts: []string{w.home.Addr()}, Options: plain, Weight: 1},
			{Name: "shop-1", Hosts: []string{w.a.Addr(), w.b.Addr()}, Options: plain, Weight: 1},
		}), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.proxies {
		w.proxies[i] = harness.StartWeft(t, func(c *config.Config) {
			c.Cluster = clusterName
			c.Etcd.Endpoints = []string{w.endpoint}
			c.HTTP.Listen = "127.0.0.1:0"
			c.Failover.Wait = pgtest.Patience
			c.Failover.ProbeInterval = 50 * time.Millisecond
			for _, f := range change {
				f(c)
			}
			w.config = *c
		})
	}
	c := w.connect(0)
	w.must(c, "create table t (k int primary key, v int)")
	w.must(c, "select weft.shard_table('t', 'k')")
	w.must(c, "insert into t select g, 0 from generate_series(1, 40) g")
	w.here, w.there = w.ask(w.home.Server, "select min(k) from t"), w.ask(w.a.Server, "select min(k) from t")
	return w
}

// connect opens a session on a proxy, in the database that initdb makes.
func (w *world) connect(proxy int) *pgx.Conn {
	w.t.Helper()
	return w.proxies[proxy].Connect(w.t, "postgres", "dbname=postgres", "default_query_exec_mode=simple_protocol")
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

// write is a statement that changes a row.
func write(k int) string { return fmt.Sprintf("update t set v = v + 1 where k = %d", k) }

// later runs a statement in the background.
func (w *world) later(c *pgx.Conn, sql string) <-chan error {
	done := make(chan error, 1)
	ctx := w.within()
	go func() {
		_, err := c.Exec(ctx, sql)
		done <- err
	}()
	return done
}

// generation waits until the directory has a generation of shop-1 with this timeline.
func (w *world) generation(timeline uint32) {
	w.t.Helper()
	w.await("the directory's generation", func() bool {
		snap, err := w.store.Load(w.within())
		if err != nil {
			w.t.Fatal(err)
		}
		sh, _ := snap.Shard("shop-1")
		return sh.Timeline == timeline && sh.Fork != 0 && sh.System != ""
	})
}

func (w *world) await(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(pgtest.Patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// seeking waits until a proxy knows that a shard has no primary.
func (w *world) seeking(proxy int, shard string) {
	w.t.Helper()
	w.await("the search for a primary of "+shard, func() bool {
		_, body := w.ready(proxy, "?verbose")
		return strings.Contains(body, shard+" is seeking")
	})
}

// ready asks /readyz of a proxy.
func (w *world) ready(proxy int, query string) (status int, body string) {
	w.t.Helper()
	resp, err := http.Get("http://" + w.proxies[proxy].Server.HTTPAddr().String() + "/readyz" + query)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}
