package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// served is a weft serve process with an etcd and one shard.
type served struct {
	*process
	listen, http, config string
}

// serve starts weft serve. It is not ready until something is applied.
func serve(t *testing.T, endpoint, settings string) *served {
	t.Helper()
	s := &served{
		listen: fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)),
		http:   fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)),
	}
	s.config = write(t, "weft.yaml", fmt.Sprintf("etcd: {endpoints: [%q], timeout: 3s}\nlisten: 127.0.0.1:1\nhttp: {listen: %q}\nauth: {method: trust}\n%s",
		endpoint, s.http, settings))
	s.process = startWeft(t, "serve", "-c", s.config, "--listen", s.listen)
	return s
}

func (s *served) apply(t *testing.T, shard *pgserver.Temp) {
	t.Helper()
	succeed(t, "apply", "-c", s.config, "-f", write(t, "cluster.yaml",
		fmt.Sprintf("shards: [{name: a, hosts: [%q], options: {sslmode: disable}}]\n", shard.Addr())))
	s.await(t, "ready", func() bool { return ready(s.http) })
}

func (s *served) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(pgtest.Patience); !ok(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.done:
			t.Fatalf("%s: ended with code %d", what, s.cmd.ProcessState.ExitCode())
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within 40s", what)
		}
	}
}

func (s *served) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (s *served) connect(t *testing.T) (*pgx.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres://postgres@"+s.listen+"/postgres?sslmode=disable")
	if err == nil {
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may be gone
	}
	return conn, err
}

func (s *served) get(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + s.http + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// From waiting for a cluster to the end of the last transaction, with an etcd
// that goes away in between.
func TestServe(t *testing.T) {
	shard := pgtest.Start(t, pgserver.Config{})
	endpoint := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1))

	// No etcd at all: it waits, and says for what.
	s := serve(t, endpoint, "")
	s.await(t, "waits for etcd", func() bool { return strings.Contains(s.out.String(), "waiting for the directory") })
	if code, body := s.get(t, "/readyz"); code != 503 || !strings.Contains(body, "waiting for the directory") {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if _, err := s.connect(t); err == nil {
		t.Error("connected before there was a cluster")
	}

	// An etcd without a cluster: it says what to do.
	e := testEtcd(t, endpoint)
	s.await(t, "asks for a cluster", func() bool { return strings.Contains(s.out.String(), "declare its shards with weft apply") })
	s.apply(t, shard)

	conn, err := s.connect(t)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "create table t (n int)"); err != nil {
		t.Fatal(err)
	}
	out := succeed(t, "status", "-c", s.config)
	if !strings.Contains(out, s.listen) || !strings.Contains(out, s.http) {
		t.Errorf("status does not list the proxy:\n%s", out)
	}

	// etcd goes away: queries do not notice.
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	s.await(t, "notices", func() bool {
		_, body := s.get(t, "/metrics")
		return strings.Contains(body, "weft_directory_up 0")
	})
	if _, err := s.connect(t); err != nil {
		t.Errorf("a new client while etcd is away: %v", err)
	}
	if !ready(s.http) {
		t.Error("not ready while etcd is away")
	}

	// The first SIGTERM: a running transaction may finish, nothing begins.
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "insert into t values (1)"); err != nil {
		t.Fatal(err)
	}
	s.signal(t, syscall.SIGTERM)
	s.await(t, "drains", func() bool { return !ready(s.http) })
	if _, err := s.connect(t); err == nil {
		t.Error("a new client while draining")
	}
	if _, err := tx.Exec(t.Context(), "insert into t values (2)"); err != nil {
		t.Fatalf("within a transaction while draining: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatalf("commit while draining: %v", err)
	}
	if code := s.exit(10 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	direct, err := pgx.Connect(t.Context(), shard.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(t.Context())
	var n int
	if err := direct.QueryRow(t.Context(), "select count(*) from t").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows were committed, %v", n, err)
	}
}

// A transaction that does not end: the second signal does not wait for it, and
// without one the limit does not.
func TestServeEnds(t *testing.T) {
	shard := pgtest.Start(t, pgserver.Config{})
	for name, c := range map[string]struct {
		settings string
		signals  []os.Signal
		want     string
	}{
		"second signal": {"", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, "ended by a second signal"},
		"interrupts":    {"", []os.Signal{syscall.SIGINT, syscall.SIGINT}, "ended by a second signal"},
		"limit":         {"limits: {drain_timeout: 300ms}\n", []os.Signal{syscall.SIGTERM}, "drain: sessions that still ran after 300ms were ended"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, testEtcd(t, "127.0.0.1:0").Endpoint(), c.settings)
			s.apply(t, shard)
			conn, err := s.connect(t)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), "begin; select 1"); err != nil {
				t.Fatal(err)
			}
			for _, sig := range c.signals {
				s.signal(t, sig)
				s.await2(func() bool { return !ready(s.http) })
			}
			if code := s.exit(5 * time.Second); code != 1 {
				t.Errorf("exit code %d", code)
			}
			if !strings.Contains(s.out.String(), c.want) {
				t.Errorf("did not say %q", c.want)
			}
		})
	}
}

// await2 waits for something that may also come about by the process's end.
func (s *served) await2(ok func() bool) {
	for !ok() {
		select {
		case <-s.done:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestServePortInUse(t *testing.T) {
	shard := pgtest.Start(t, pgserver.Config{})
	e := testEtcd(t, "127.0.0.1:0")
	s := serve(t, e.Endpoint(), "")
	s.apply(t, shard)
	for flag, other := range map[string][]string{
		"listen for clients": {"--listen", s.listen, "--http", ""},
		"http":               {"--listen", "127.0.0.1:0", "--http", s.http},
	} {
		p := startWeft(t, append([]string{"serve", "-c", s.config}, other...)...)
		if code := p.exit(10 * time.Second); code != 1 || !strings.Contains(p.out.String(), flag+": listen tcp") || !strings.Contains(p.out.String(), "address already in use") {
			t.Errorf("%s: exit code %d, %s", flag, code, p.out.String())
		}
	}
	s.stop(syscall.SIGTERM)
}
