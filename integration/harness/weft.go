package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"weft/auth"
	"weft/config"
	"weft/directory"
	"weft/directory/embedded"
	"weft/directory/etcd"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/server"
	"weft/twopc"
)

// ShardCount is how many shards the cluster gets, for a TestMain to set. Two are
// enough to tell home from elsewhere.
var ShardCount = 2

const clusterName = "test"

// cluster is what wefts of this test binary serve: shards and directory.
type cluster struct {
	shards []*pgserver.Temp
	etcd   *embedded.Server
	dir    string // logs, etcd's data, the built program
}

var (
	theCluster = sync.OnceValues(func() (*cluster, error) { return startCluster() })
	// theRouted declares a table of the test database. It has servers of its own, for a
	// database belongs to one cluster.
	theRouted = sync.OnceValues(func() (*cluster, error) {
		return startCluster(directory.Table{Database: Database, Schema: "public", Name: "declared", Kind: directory.Reference})
	})
)

func startCluster(tables ...directory.Table) (*cluster, error) {
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	dir, err := os.MkdirTemp("", "weft-cluster-*")
	if err != nil {
		return nil, err
	}
	shared.onStop(func() error { return os.RemoveAll(dir) })
	c := &cluster{dir: dir, shards: make([]*pgserver.Temp, ShardCount)}
	errs := make([]error, ShardCount)
	var wg sync.WaitGroup
	for i := range c.shards {
		wg.Go(func() { c.shards[i], errs[i] = startServer(ctx) })
	}
	wg.Wait()
	for _, s := range c.shards {
		if s != nil {
			shared.onStop(s.Close)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	quiet := slog.New(slog.DiscardHandler)
	c.etcd, err = embedded.Start(ctx, embedded.Config{Dir: filepath.Join(dir, "etcd"), Listen: "127.0.0.1:0", Log: quiet, NoFsync: true})
	if err != nil {
		return nil, err
	}
	shared.onStop(c.etcd.Close)
	return c, c.declare(ctx, c.etcd, clusterName, slices.Repeat([]int{1}, ShardCount), tables...)
}

// declare writes the first shards, one for each weight, into a directory;
// shard-0 is home.
func (c *cluster) declare(ctx context.Context, etcd *embedded.Server, name string, weights []int, tables ...directory.Table) error {
	store, err := etcd.Store(name)
	if err != nil {
		return err
	}
	return c.enter(ctx, store, weights, tables...)
}

// enter writes them into a store.
func (c *cluster) enter(ctx context.Context, store directory.Store, weights []int, tables ...directory.Table) error {
	_, err := store.Update(ctx, func(*directory.Snapshot) (*directory.Snapshot, error) {
		list := make([]directory.Shard, len(weights))
		for i, weight := range weights {
			list[i] = directory.Shard{
				Name: fmt.Sprintf("shard-%d", i), Hosts: []string{c.shards[i].Addr()},
				Options: map[string]string{"sslmode": "disable"}, Weight: weight,
			}
		}
		snap := directory.New(64, list[0].Name, list)
		for _, t := range tables {
			snap.PutTable(t)
		}
		return snap, nil
	})
	return err
}

// Snapshot returns the cluster as the directory has it now.
func Snapshot(tb testing.TB) *directory.Snapshot {
	tb.Helper()
	c, err := theCluster()
	if err != nil {
		tb.Fatal(err)
	}
	store, err := c.etcd.Store(clusterName)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	defer stop()
	s, err := store.Load(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// forget takes away what was declared in a database that is gone: proxies would go on
// looking after it.
func (c *cluster) forget(ctx context.Context, database string) error {
	store, err := etcd.Open(etcd.Config{Endpoints: []string{c.etcd.Endpoint()}, Prefix: etcd.Prefix(clusterName), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer store.Close()
	_, err = store.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		next.DropDatabase(database)
		return next, nil
	})
	return err
}

// config is what a test may change before its weft starts: everyone trusted,
// no HTTP, a free port.
func (c *cluster) config() config.Config {
	cfg := config.Default()
	if way := os.Getenv("WEFT_TEST_LOOP"); way != "" { // tests run in both ways
		cfg.Loop = way
	}
	cfg.Cluster = clusterName
	cfg.Etcd.Endpoints = []string{c.etcd.Endpoint()}
	cfg.Listen = "127.0.0.1:0"
	cfg.HTTP.Listen = ""
	cfg.Auth = auth.Config{
		Method: auth.MethodTrust,
		Users:  []auth.User{{Name: "carol", Password: "secret"}, {Name: "erin", Password: "secret"}},
		Rules: []auth.Rule{ // as hba
			{Type: "host", Users: []string{"carol", "frank"}, Method: auth.MethodScramSHA256},
			{Type: "host", Users: []string{"erin"}, Method: auth.MethodMD5},
			{Type: "host", Users: []string{"grace"}, Method: auth.MethodReject},
			{Type: "host", Method: auth.MethodTrust},
		},
	}
	cfg.Pool.MaxPerShard = 40
	cfg.Failover.Wait = 0     // tests that stop a shard look at the errors; integration/failover waits
	cfg.Pool.OverloadWait = 0 // a machine that is busy with other things makes clients wait, too
	return cfg
}

var sharedWeft, sharedRouted lazyTarget

// Routed returns a proxy over shards of its own for which the test database has
// a declared table, though nobody uses it: so every statement is planned and
// routed, and must do what it does without.
func Routed(tb testing.TB) *Target {
	tb.Helper()
	return sharedRouted.get(tb, func(ctx context.Context) (*Target, error) {
		c, err := theRouted()
		if err != nil {
			return nil, err
		}
		t, stop, err := c.startWeft(ctx, "routed", func(*config.Config) {})
		if err != nil {
			return nil, err
		}
		shared.onStop(stop)
		for _, s := range t.servers[1:] {
			a := &adminConn{server: s}
			t.others = append(t.others, a)
			shared.onStop(func() error { return a.close(context.Background()) })
		}
		return t, nil
	})
}

// Weft returns the weft cluster of this test binary: the proxy runs in this
// process, so that the race detector sees it.
func Weft(tb testing.TB) *Target {
	tb.Helper()
	return sharedWeft.get(tb, func(ctx context.Context) (*Target, error) {
		t, stop, err := startWeft(ctx, "shared", func(*config.Config) {})
		if err == nil {
			shared.onStop(stop)
		}
		return t, err
	})
}

// StartEtcd starts an etcd of the test's own that knows the shared shards; a
// weft uses it if configured with the endpoint. The test may stop it.
func StartEtcd(tb testing.TB) (endpoint string, stop func()) {
	tb.Helper()
	c, err := theCluster()
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pgtest.Patience)
	defer cancel()
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: tb.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), NoFsync: true})
	if err != nil {
		tb.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := etcd.Close(); err != nil {
			tb.Errorf("stop etcd: %v", err)
		}
	})
	tb.Cleanup(stop)
	if err := c.declare(ctx, etcd, clusterName, slices.Repeat([]int{1}, ShardCount)); err != nil {
		tb.Fatal(err)
	}
	return etcd.Endpoint(), stop
}

// StartWeft starts one more proxy over the same shards, for one test alone.
func StartWeft(tb testing.TB, configure func(*config.Config)) *Target {
	tb.Helper()
	return StartWeftWith(tb, configure, nil)
}

// StartWeftWith does so and calls stopAt, if not nil, at every point of its commits,
// in the goroutine of whoever has got there.
func StartWeftWith(tb testing.TB, configure func(*config.Config), stopAt func(twopc.Point)) *Target {
	tb.Helper()
	return startOwn(tb, configure, func(o *server.Options) { o.StopAt = stopAt })
}

// StartWatchful does so with a proxy that looks every time for what it does about saturated shards.
func StartWatchful(tb testing.TB, every time.Duration, configure func(*config.Config)) *Target {
	tb.Helper()
	return startOwn(tb, configure, func(o *server.Options) { o.LookEvery = every })
}

func startOwn(tb testing.TB, configure func(*config.Config), more func(*server.Options)) *Target {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), pgtest.Patience)
	defer cancel()
	t, stop, err := startWeft(ctx, "own", configure, more)
	if err != nil {
		tb.Fatalf("start weft: %v", err)
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Errorf("stop weft: %v", err)
		}
	})
	t.Reset(tb)
	return t
}

func startWeft(ctx context.Context, name string, configure func(*config.Config), more ...func(*server.Options)) (*Target, func() error, error) {
	c, err := theCluster()
	if err != nil {
		return nil, nil, err
	}
	return c.startWeft(ctx, name, configure, more...)
}

func (c *cluster) startWeft(ctx context.Context, name string, configure func(*config.Config), more ...func(*server.Options)) (*Target, func() error, error) {
	cfg := c.config()
	configure(&cfg)
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, nil, err
	}
	log, err := os.CreateTemp(c.dir, name+"-*.log")
	if err != nil {
		return nil, nil, errors.Join(err, l.Close())
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	opt := server.Options{
		Config: cfg, Listener: l,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})),
	}
	for _, f := range more {
		f(&opt)
	}
	s, err := server.Start(ctx, opt)
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	t := c.target(s.Addr().String(), log.Name())
	t.Server, t.LogFile = s, log.Name()
	stop := func() error {
		return errors.Join(t.admin.close(context.Background()), s.Close(), log.Close())
	}
	return t, stop, nil
}

// target is a proxy over the cluster's shards.
func (c *cluster) target(addr, log string) *Target {
	home := c.shards[0]
	t := &Target{Name: "weft", Addr: addr, Home: home, servers: c.shards, admin: &adminConn{server: home}, Log: log}
	t.forget = c.forget
	t.logs = func(tb testing.TB, failed func() bool) {
		files := []string{log}
		for _, s := range c.shards {
			files = append(files, s.LogFile())
		}
		tailOnFailure(tb, failed, files...)
	}
	return t
}
