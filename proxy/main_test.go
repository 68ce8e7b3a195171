package proxy_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/auth"
	"weft/directory"
	"weft/pgserver"
	"weft/pool"
	"weft/proxy"
)

// postgres is the one server behind the tests of this package.
var postgres *pgserver.Temp

func TestMain(m *testing.M) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	var err error
	postgres, err = pgserver.StartTemp(ctx, pgserver.Config{})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "start PostgreSQL:", err)
		os.Exit(1)
	}
	code := m.Run()
	if crashes := crashLog.take(); crashes != "" || crashLog.unclaimed {
		fmt.Fprintln(os.Stderr, "PostgreSQL has crashed", crashes)
		code = 1
	}
	if err := postgres.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "close PostgreSQL:", err)
		code = 1
	}
	os.Exit(code)
}

// weft is a proxy in front of one server, with what a test may want to change.
type weft struct {
	*proxy.Server
	addr   string
	served chan error
}

// startWeft starts a proxy in front of the package's server. It is closed, and
// must close, when the test ends.
func startWeft(tb testing.TB, p pool.Config, more ...func(*proxy.Config)) *weft {
	tb.Helper()
	blameCrashes(tb)
	w, err := newWeft(postgres.Addr(), p, more...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { w.close(tb) })
	return w
}

func newWeft(shard string, p pool.Config, more ...func(*proxy.Config)) (*weft, error) {
	a, err := auth.New(auth.Config{Method: auth.MethodTrust})
	if err != nil {
		return nil, err
	}
	snap := directory.New(16, "home", []directory.Shard{
		{Name: "home", Hosts: []string{shard}, Options: map[string]string{"sslmode": "disable"}, Weight: 1},
	})
	cfg := proxy.Config{Snapshot: func() *directory.Snapshot { return snap }, Auth: a, Pool: p}
	for _, f := range more {
		f(&cfg)
	}
	s, err := proxy.New(cfg)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &weft{Server: s, addr: l.Addr().String(), served: make(chan error, 1)}
	go func() { w.served <- s.Serve(context.Background(), l) }()
	return w, nil
}

// close ends the proxy and complains if that takes long.
func (w *weft) close(tb testing.TB) {
	tb.Helper()
	done := make(chan error, 1)
	go func() { done <- w.Close() }()
	select {
	case err := <-done:
		if err != nil {
			tb.Errorf("close: %v", err)
		}
	case <-time.After(patience):
		tb.Error("Close did not return")
		return
	}
	if err := <-w.served; err != nil {
		tb.Errorf("serve: %v", err)
	}
}

var databases struct {
	sync.Mutex
	n int
}

// database makes a database of the test's own and returns its name.
func database(tb testing.TB, setup string) string {
	tb.Helper()
	blameCrashes(tb)
	databases.Lock()
	databases.n++
	name := fmt.Sprintf("t%d", databases.n)
	databases.Unlock()
	direct(tb, "postgres", "CREATE DATABASE "+name)
	if setup != "" {
		direct(tb, name, setup)
	}
	return name
}

// direct runs SQL on the server itself, without weft.
func direct(tb testing.TB, database, sql string) {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, postgres.ConnString(database))
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// directUntil asks the server itself until a query has rows.
func directUntil(tb testing.TB, sql string) {
	tb.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := pgx.Connect(ctx, postgres.ConnString("postgres"))
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close(context.Background())
	for {
		tag, err := c.Exec(ctx, sql)
		if err != nil {
			tb.Fatalf("%s: %v", sql, err)
		}
		if tag.RowsAffected() > 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// awaitQueue waits until clients wait for a backend.
func awaitQueue(tb testing.TB, w *weft, clients int) {
	tb.Helper()
	for end := time.Now().Add(patience); w.Waiting() != clients; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("%d clients wait for a backend, not %d", w.Waiting(), clients)
		}
	}
}
