package lossy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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

// pair is a primary and its standby.
type pair struct {
	a *pgserver.Temp
	b *pgserver.Server
}

// world is a cluster of two shards with a standby each, and two proxies. shop-0 is the home shard.
type world struct {
	*testing.T
	store    directory.Store
	endpoint string
	shards   [2]pair
	proxies  [2]*harness.Target
	keys     [2]int // a key of each shard
}

const clusterName = "lossy"

func newWorld(t *testing.T, change ...func(*config.Config)) *world {
	t.Helper()
	w := &world{T: t}
	endpoint, _ := harness.StartEtcd(t)
	var shards []directory.Shard
	for i := range w.shards {
		p := &w.shards[i]
		settings := pgserver.ReplicationSettings()
		settings["max_prepared_transactions"] = "100"
		p.a = pgtest.Start(t, pgserver.Config{Settings: settings})
		p.b = pgtest.Standby(t, p.a.Server)
		shards = append(shards, directory.Shard{
			Name: fmt.Sprintf("shop-%d", i), Hosts: []string{p.a.Addr(), p.b.Addr()}, Options: map[string]string{"sslmode": "disable"}, Weight: 1,
		})
	}
	store := harness.Store(t, endpoint, clusterName)
	w.store, w.endpoint = store, endpoint
	if _, err := store.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) {
		return directory.New(16, "shop-0", shards), nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range w.proxies {
		w.proxies[i] = harness.StartWeft(t, func(c *config.Config) {
			c.Cluster = clusterName
			c.Etcd.Endpoints = []string{endpoint}
			c.HTTP.Listen = "127.0.0.1:0"
			c.Failover.Wait = pgtest.Patience
			c.Failover.ProbeInterval = 50 * time.Millisecond
			for _, f := range change {
				f(c)
			}
		})
	}
	c := w.connect(0)
	w.must(c, "create table t (k int, id bigserial, v int default 0, primary key (k, id))")
	w.must(c, "create index on t (id)")
	w.must(c, "select weft.shard_table('t', 'k')")
	w.must(c, "insert into t (k) select g from generate_series(1, 40) g")
	for i := range w.shards {
		w.keys[i] = value[int](w, w.shards[i].a.Server, "select min(k) from t")
	}
	return w
}

func (w *world) connect(proxy int) *pgx.Conn {
	w.Helper()
	return w.proxies[proxy].Connect(w.T, "postgres", "dbname=postgres", "default_query_exec_mode=simple_protocol")
}

func (w *world) within() context.Context {
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	w.Cleanup(stop)
	return ctx
}

func (w *world) must(c *pgx.Conn, sql string) {
	w.Helper()
	if _, err := c.Exec(w.within(), sql); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
}

func (w *world) await(what string, is func() bool) {
	w.Helper()
	for end := time.Now().Add(pgtest.Patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("waited in vain for %s", what)
		}
	}
}

// value returns what a server answers.
func value[T any](w *world, s *pgserver.Server, sql string) (v T) {
	w.Helper()
	c, err := pgx.Connect(w.within(), s.ConnString("postgres"))
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(w.within(), sql).Scan(&v); err != nil {
		w.Fatalf("%s: %v", sql, err)
	}
	return v
}

// cut lets the standby of a shard get nothing more.
func (w *world) cut(shard int) { w.shards[shard].b.Kill() }

// failOver kills the primary of a shard, and promotes its standby as far as it got.
func (w *world) failOver(shard int) {
	w.Helper()
	p := &w.shards[shard]
	p.a.Kill()
	b, err := p.b.Config().Start(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	p.b = b
	if err := b.Promote(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// synchronous makes commits of a shard wait for its standby.
func (w *world) synchronous(shard int) {
	w.Helper()
	p := &w.shards[shard]
	if err := p.a.SetSynchronous(p.b.Config().Name); err != nil {
		w.Fatal(err)
	}
	w.await("a synchronous standby", func() bool {
		return value[int](w, p.a.Server, "select count(*) from pg_stat_replication where sync_state = 'sync'") == 1
	})
}

// generation waits until the directory has a timeline of a shard.
func (w *world) generation(shard int, timeline uint32) {
	w.Helper()
	w.await("the directory's generation", func() bool {
		snap, err := w.store.Load(w.within())
		if err != nil {
			w.Fatal(err)
		}
		return snap.Shards[shard].Timeline == timeline
	})
}

// load runs statements on all proxies until stop is called, with new sessions where old ones have ended.
type load struct {
	w    *world
	stop func()

	mu   sync.Mutex
	rows map[string][]int64 // what each statement has returned
	errs map[string]int
}

// start runs clients that execute each statement again and again. A statement returns one number.
func (w *world) start(statements ...string) *load {
	l := &load{w: w, rows: map[string][]int64{}, errs: map[string]int{}}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range w.proxies {
		target := w.proxies[i].ConnString("postgres", "dbname=postgres", "default_query_exec_mode=simple_protocol")
		for _, sql := range statements {
			wg.Go(func() {
				for ctx.Err() == nil {
					c, err := pgx.Connect(ctx, target)
					if err != nil {
						continue
					}
					for ctx.Err() == nil && !c.IsClosed() {
						var n int64
						err := c.QueryRow(ctx, sql).Scan(&n)
						if ctx.Err() == nil {
							l.note(sql, n, err)
						}
					}
					_ = c.Close(context.Background())
				}
			})
		}
	}
	l.stop = func() { stop(); wg.Wait() }
	w.Cleanup(l.stop)
	return l
}

func (l *load) note(sql string, n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs[err.Error()]++
		return
	}
	l.rows[sql] = append(l.rows[sql], n)
}

// progress waits until each statement has succeeded a number of times more.
func (l *load) progress(times int) {
	l.w.Helper()
	count := func() map[string]int {
		l.mu.Lock()
		defer l.mu.Unlock()
		out := map[string]int{}
		for sql, rows := range l.rows {
			out[sql] = len(rows)
		}
		return out
	}
	before := count()
	l.w.await("progress of clients", func() bool {
		now := count()
		if len(now) < len(before) || len(now) == 0 {
			return false
		}
		for sql, n := range now {
			if n < before[sql]+times {
				return false
			}
		}
		return true
	})
}

// failures describes the errors that clients have seen.
func (l *load) failures() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for text, n := range l.errs {
		out = append(out, fmt.Sprintf("%d × %s", n, text))
	}
	return strings.Join(out, "\n")
}
