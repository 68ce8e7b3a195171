package harness

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// Main runs a package's tests and then stops every server they started:
//
//	func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
func Main(m *testing.M) (code int) {
	if dir := os.Getenv(etcdDir); dir != "" {
		return serveEtcd(dir)
	}
	defer func() {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "harness:", err)
			code = max(code, 1)
		}
	}()
	return m.Run()
}

// shared are the targets of this test binary and how to stop them.
var shared registry

type registry struct {
	postgres lazyTarget

	mu    sync.Mutex
	stops []func() error // in the order of starting
}

type lazyTarget struct {
	once   sync.Once
	target *Target
	err    error
}

func (l *lazyTarget) get(tb testing.TB, start func(context.Context) (*Target, error)) *Target {
	tb.Helper()
	l.once.Do(func() {
		ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
		defer stop()
		l.target, l.err = start(ctx)
	})
	if l.err != nil {
		tb.Fatalf("start: %v", l.err)
	}
	return l.target
}

// onStop registers what ends something that was started.
func (r *registry) onStop(f func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stops = append(r.stops, f)
}

// stop ends everything, the newest first: weft before its shards.
func (r *registry) stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first error
	for i := len(r.stops) - 1; i >= 0; i-- {
		if err := r.stops[i](); err != nil && first == nil {
			first = err
		}
	}
	r.stops = nil
	return first
}

// Postgres returns the plain PostgreSQL server of this test binary.
func Postgres(tb testing.TB) *Target {
	tb.Helper()
	return shared.postgres.get(tb, startPostgres)
}

func startPostgres(ctx context.Context) (*Target, error) {
	s, err := startServer(ctx)
	if err != nil {
		return nil, fmt.Errorf("plain server: %w", err)
	}
	shared.onStop(s.Close)
	if err := requirePasswords(ctx, s); err != nil {
		return nil, fmt.Errorf("plain server: pg_hba.conf: %w", err)
	}
	t := &Target{Name: "postgres", Addr: s.Addr(), Home: s, servers: []*pgserver.Temp{s}, admin: &adminConn{server: s}}
	t.logs = func(tb testing.TB, failed func() bool) { tailOnFailure(tb, failed, s.LogFile()) }
	shared.onStop(func() error { return t.admin.close(context.Background()) })
	return t, nil
}
