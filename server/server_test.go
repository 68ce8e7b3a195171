package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	nethttp "net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/auth"
	"weft/config"
	"weft/directory"
	"weft/directory/embedded"
	"weft/directory/storetest"
	"weft/pool"
	"weft/proxy"
)

var quiet = slog.New(slog.DiscardHandler)

// echo is a frontend whose sessions last as long as their clients.
type echo struct {
	t        *testing.T
	sick     error
	sessions atomic.Int64
	closed   chan struct{}
	fail     chan error // ends Serve
	snapshot func() *directory.Snapshot
	config   *proxy.Config // what it was last given
	pid      int32         // the only session that it can cancel
	parts    parts         // what it was made of
}

func newEcho(t *testing.T) *echo {
	return &echo{t: t, closed: make(chan struct{}), fail: make(chan error, 1)}
}

func (e *echo) maker(p parts, snapshot func() *directory.Snapshot, _ prometheus.Registerer) (frontend, error) {
	e.snapshot, e.parts = snapshot, p
	if snapshot() == nil {
		e.t.Error("the frontend was made before there was a snapshot")
	}
	return e, nil
}

func (e *echo) Serve(ctx context.Context, l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			select {
			case err := <-e.fail:
				return err
			default:
				return nil
			}
		}
		e.sessions.Add(1)
		go func() {
			defer e.sessions.Add(-1)
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			go func() {
				<-e.closed
				c.Close()
			}()
			io.Copy(c, c)
		}()
	}
}

func (e *echo) Ready(context.Context, bool) ([]string, error) { return nil, e.sick }

func (e *echo) Yield(context.Context) {}

func (e *echo) Cancel(pid int32, key []byte) bool { return pid == e.pid && string(key) == "key" }

func (e *echo) Answer(_, _, message []byte) ([]byte, bool) {
	return message, string(message) == "for me"
}

func (e *echo) Reconfigure(c proxy.Config) error {
	e.config = &c
	return nil
}

func (e *echo) Drain(ctx context.Context) error {
	for e.sessions.Load() > 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (e *echo) Close() error {
	close(e.closed)
	return e.Drain(context.Background())
}

func testConfig() config.Config {
	c := config.Default()
	c.Listen, c.HTTP.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.Limits.DrainTimeout = 300 * time.Millisecond
	return c
}

func etcdServer(t *testing.T) *embedded.Server {
	t.Helper()
	e, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: quiet, NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func get(t *testing.T, addr net.Addr, path string) (int, string) {
	t.Helper()
	resp, err := nethttp.Get("http://" + addr.String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func talk(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLife(t *testing.T) {
	e := etcdServer(t)
	store, _ := e.Store("main")
	storetest.Create(t, store)
	front := newEcho(t)
	cfg := testConfig()
	cfg.Etcd.Endpoints = []string{e.Endpoint()}
	s, err := start(t.Context(), Options{Config: cfg, Log: quiet, Version: "v-test"}, front.maker)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	if code, body := get(t, s.HTTPAddr(), "/readyz"); code != 200 {
		t.Errorf("/readyz: %d %s", code, body)
	}
	front.sick = errors.New("home shard is down")
	if code, body := get(t, s.HTTPAddr(), "/readyz"); code != 503 || body != "home shard is down" {
		t.Errorf("/readyz: %d %s", code, body)
	}
	front.sick = nil
	_, metrics := get(t, s.HTTPAddr(), "/metrics")
	for _, want := range []string{`weft_build_info{version="v-test"} 1`, "weft_directory_up 1", "weft_directory_version ", "go_goroutines ", "process_cpu_seconds_total "} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if code, _ := get(t, s.HTTPAddr(), "/debug/pprof/"); code != 404 {
		t.Errorf("pprof is on by default: %d", code)
	}

	// It is listed before it lets clients in, and leaves the list when it ends.
	list, err := store.Proxies(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("proxies: %v, %v", list, err)
	}
	if list[0].Serves.Version != front.snapshot().Version || list[0].Address != s.Addr().String() || list[0].HTTP != s.HTTPAddr().String() || list[0].Version != "v-test" {
		t.Errorf("listed as %+v", list[0])
	}

	// A change reaches the frontend.
	next, err := store.Update(t.Context(), storetest.SetWeight(5))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Acknowledged(t.Context(), next.Version); err != nil {
		t.Fatal(err)
	}
	if got := front.snapshot().Version; got != next.Version {
		t.Errorf("version %d was acknowledged, %d is served", next.Version, got)
	}

	// Draining: no new clients, the old one goes on, and its end is the end.
	c := talk(t, s.Addr())
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	wait(t, func() bool {
		_, err := s.Ready(t.Context(), false)
		return err != nil
	})
	if code, body := get(t, s.HTTPAddr(), "/readyz"); code != 503 || body != "draining" {
		t.Errorf("/readyz while draining: %d %s", code, body)
	}
	wait(t, func() bool {
		c, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	c.Write([]byte("y"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("the session ended early: %v", err)
	}
	select {
	case err := <-drained:
		t.Errorf("Drain returned %v before the session ended", err)
	default:
	}
	c.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("Wait after Close: %v", err)
	}
	if list, err := store.Proxies(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("still listed: %v, %v", list, err)
	}
}

// Without a cluster, or without etcd, a server waits: alive, not ready, not
// listening. It begins when the cluster is there.
func TestWaitsForDirectory(t *testing.T) {
	e := etcdServer(t)
	front := newEcho(t)
	cfg := testConfig()
	cfg.Etcd.Endpoints = []string{e.Endpoint()}
	hl, err := net.Listen("tcp", "127.0.0.1:0") // to know the port before Start returns
	if err != nil {
		t.Fatal(err)
	}
	cfg.HTTP.Listen = hl.Addr().String()
	hl.Close()
	type result struct {
		s   *Server
		err error
	}
	started := make(chan result, 1)
	go func() {
		s, err := start(t.Context(), Options{Config: cfg, Log: quiet}, front.maker)
		started <- result{s, err}
	}()
	wait(t, func() bool {
		c, err := net.Dial("tcp", cfg.HTTP.Listen)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if code, body := get(t, hl.Addr(), "/readyz"); code != 503 || body != "waiting for the directory" {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _ := get(t, hl.Addr(), "/livez"); code != 200 {
		t.Errorf("/livez: %d", code)
	}
	store, _ := e.Store("main")
	storetest.Create(t, store)
	r := <-started
	if r.err != nil {
		t.Fatal(r.err)
	}
	defer r.s.Close()
	talk(t, r.s.Addr()).Close()
}

func TestStartGivesUpWithContext(t *testing.T) {
	cfg := testConfig()
	cfg.Etcd.Endpoints = []string{"127.0.0.1:1"}
	for name, user := range map[string]string{"open": "", "with login": "weft"} {
		cfg.Etcd.Username = user
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := start(ctx, Options{Config: cfg, Log: quiet}, newEcho(t).maker)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A given listener is closed whatever becomes of Start.
func TestStartFails(t *testing.T) {
	e := etcdServer(t)
	store, _ := e.Store("main")
	storetest.Create(t, store)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"invalid":  {func(c *config.Config) { c.Pool.Mode = "x" }, "pool.mode"},
		"http":     {func(c *config.Config) { c.HTTP.Listen = busy.Addr().String() }, "address already in use"},
		"tls":      {func(c *config.Config) { c.TLS.Cert, c.TLS.Key = "/none", "/none" }, "/none"},
		"auth":     {func(c *config.Config) { c.Auth.Users = []auth.User{{Name: "a", Password: "SCRAM-SHA-256$x"}} }, `user "a"`},
		"etcd tls": {func(c *config.Config) { c.Etcd.TLS.CA = "/none" }, "/none"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := testConfig()
		cfg.Etcd.Endpoints = []string{e.Endpoint()}
		c.change(&cfg)
		s, err := start(t.Context(), Options{Config: cfg, Listener: l, Log: quiet}, newEcho(t).maker)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if s != nil {
			t.Errorf("%s: a server beside the error", name)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: the listener was left open: %v", name, err)
		}
	}
	cfg := testConfig()
	cfg.Listen = busy.Addr().String()
	if _, err := start(t.Context(), Options{Config: cfg, Store: store, Log: quiet}, newEcho(t).maker); err == nil || !strings.Contains(err.Error(), "listen for clients") {
		t.Errorf("port in use: %v", err)
	}
}

// denied is a directory that knows us and refuses.
type denied struct{ directory.Store }

func (denied) Watch(context.Context, func(*directory.Snapshot)) error { return directory.ErrDenied }

// No use in waiting for what will not change by itself.
func TestStartDenied(t *testing.T) {
	_, err := start(t.Context(), Options{Config: testConfig(), Store: denied{}, Log: quiet}, newEcho(t).maker)
	if !errors.Is(err, directory.ErrDenied) {
		t.Errorf("got %v", err)
	}
}

func TestFailureEndsWait(t *testing.T) {
	e := etcdServer(t)
	store, _ := e.Store("main")
	storetest.Create(t, store)
	front := newEcho(t)
	s, err := start(t.Context(), Options{Config: testConfig(), Store: store, Log: quiet}, front.maker)
	if err != nil {
		t.Fatal(err)
	}
	front.fail <- errors.New("too many open files")
	s.listener.Close()
	if err := s.Wait(); err == nil || err.Error() != "accept: too many open files" {
		t.Errorf("Wait: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := store.Load(t.Context()); err != nil {
		t.Errorf("a store that was passed in is closed: %v", err)
	}
}

func TestRunDrains(t *testing.T) {
	e := etcdServer(t)
	store, _ := e.Store("main")
	storetest.Create(t, store)
	for name, c := range map[string]struct {
		stay bool
		want error
	}{
		"in time":  {false, nil},
		"too late": {true, context.DeadlineExceeded},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		front := newEcho(t)
		ended := make(chan error, 1)
		go func() {
			ended <- run(ctx, Options{Config: testConfig(), Store: store, Listener: l, Log: quiet}, front.maker)
		}()
		conn := talk(t, l.Addr())
		cancel()
		if !c.stay {
			conn.Close()
		}
		if err := <-ended; !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		conn.Close()
	}
}

func TestRunEndsWhileWaiting(t *testing.T) {
	cfg := testConfig()
	cfg.Etcd.Endpoints = []string{"127.0.0.1:1"}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := run(ctx, Options{Config: cfg, Log: quiet}, newEcho(t).maker); err != nil {
		t.Errorf("asked to end while waiting: %v", err)
	}
}

func TestPoolUsers(t *testing.T) {
	got := poolConfig(config.Default().Pool, []auth.User{
		{Name: "a", Password: "secret", PoolMode: "session", MaxConnections: 3, Priority: "low"},
		{Name: "b", Password: "md5" + strings.Repeat("0", 32), ServerUser: "c", ServerPassword: "d"},
	}, quiet)
	a, b := got.Users["a"], got.Users["b"]
	if a.Mode != "session" || a.MaxConnections != 3 || a.ServerUser != "a" || a.ServerPassword != "secret" {
		t.Errorf("a: %+v", a)
	}
	if a.Priority != pool.PriorityLow || b.Priority != pool.PriorityNormal || got.OverloadWait != 5*time.Second {
		t.Errorf("priorities %d and %d, overload_wait %v", a.Priority, b.Priority, got.OverloadWait)
	}
	if b.Mode != "" || b.ServerUser != "c" || b.ServerPassword != "d" {
		t.Errorf("b: %+v", b)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
}

func wait(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(storetest.Patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen")
		}
	}
}
