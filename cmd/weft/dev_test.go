package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// The test binary is weft itself when a test runs it with this variable set: a
// real process to signal and kill, built with the race detector if the test is.
const runMain = "WEFT_TEST_RUN_MAIN"

func init() {
	if os.Getenv(runMain) != "" {
		main()
		os.Exit(0)
	}
}

// process is one running weft.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	out  output
}

// output may be read while the process writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func startWeft(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), runMain+"=1")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its ProcessState is looked at
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // ended already, usually
		<-p.done
		if t.Failed() {
			t.Logf("weft %s printed:\n%s", strings.Join(args, " "), p.out.String())
		}
	})
	return p
}

// exit waits for the process to end and returns its code.
func (p *process) exit(limit time.Duration) int {
	p.t.Helper()
	began := time.Now()
	select {
	case <-p.done:
		if took := time.Since(began); pgtest.Late(p.t, took, limit) {
			p.t.Errorf("ended after %v", took)
		}
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(pgtest.Patience):
		p.t.Fatalf("still running after %v", time.Since(began))
		return 0
	}
}

// stop asks the process to end, which must leave code 0.
func (p *process) stop(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	if code := p.exit(20 * time.Second); code != 0 {
		p.t.Fatalf("exit code %d after %v", code, sig)
	}
}

// cluster is the flags of a weft dev.
type cluster struct {
	dir, listen, http string
	portBase          int
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	addr := func() string { return fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)) }
	return &cluster{dir: filepath.Join(pgtest.Dir(t), "dev"), listen: addr(), http: addr(), portBase: freePorts(t, 2)}
}

// freePorts returns the first of n free ports in a row.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		first, err := pgserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		free := true
		for i := range n {
			free = free && pgserver.CheckPort(fmt.Sprintf("127.0.0.1:%d", first+i)) == nil
		}
		if free {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

func (c *cluster) args(more ...string) []string {
	return append([]string{
		"dev", "--dir", c.dir, "--listen", c.listen, "--http", c.http,
		"--port-base", strconv.Itoa(c.portBase), "--demo=false",
	}, more...)
}

// start runs weft dev and waits until /readyz says so.
func (c *cluster) start(t *testing.T, limit time.Duration, more ...string) *process {
	t.Helper()
	began := time.Now()
	p := startWeft(t, c.args(more...)...)
	for !ready(c.http) {
		select {
		case <-p.done:
			t.Fatalf("ended with code %d", p.cmd.ProcessState.ExitCode())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Since(began) > pgtest.Patience {
			t.Fatalf("not ready after %v", time.Since(began))
		}
	}
	if took := time.Since(began); pgtest.Late(t, took, limit) {
		t.Errorf("ready after %v", took)
	}
	t.Logf("ready after %v", time.Since(began).Round(time.Millisecond))
	return p
}

func ready(addr string) bool {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get("http://" + addr + "/readyz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// ask runs one statement and returns its first value.
func ask(t *testing.T, addr, sql string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patience)
	defer cancel()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%s user=postgres dbname=app sslmode=disable", host, port))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

func mustAsk(t *testing.T, addr, sql string) string {
	t.Helper()
	v, err := ask(t, addr, sql)
	if err != nil {
		t.Fatalf("%s: %s: %v", addr, sql, err)
	}
	return v
}

func (c *cluster) shard(i int) string { return fmt.Sprintf("127.0.0.1:%d", c.portBase+i) }

// postmaster is the process id of a shard's server, 0 while there is none.
func (c *cluster) postmaster(t *testing.T, i int) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("shard-%d", i), "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, _ := strconv.Atoi(line) // empty while it is being written
	return pid
}

// nothingLeft checks that no port listens and no server runs any more.
func (c *cluster) nothingLeft(t *testing.T) {
	t.Helper()
	for _, addr := range []string{c.listen, c.http, c.shard(0), c.shard(1)} {
		if err := pgserver.CheckPort(addr); err != nil {
			t.Error(err)
		}
	}
	cwds, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, cwd := range cwds {
		if to, err := os.Readlink(cwd); err == nil && strings.HasPrefix(to, c.dir) {
			t.Errorf("%s is still in %s", cwd, to)
		}
	}
}

// A first start that fails leaves nothing that binds the next one.
func TestDevFirstStartFails(t *testing.T) {
	c := newCluster(t)
	p := startWeft(t, c.args("--shards", "2", "--locale", "nonsense")...)
	if code := p.exit(20 * time.Second); code != 1 || !strings.Contains(p.out.String(), "nonsense") {
		t.Errorf("exit code %d, printed %s", code, p.out.String())
	}
	c.nothingLeft(t)
	p = c.start(t, 60*time.Second, "--shards", "1", "--locale", "C")
	if got := mustAsk(t, c.listen, "show lc_ctype"); got != "C" {
		t.Errorf("lc_ctype is %s", got)
	}
	p.stop(syscall.SIGTERM)
	c.nothingLeft(t)
}

// One cluster from its first start through everything that may happen to it.
func TestDev(t *testing.T) {
	c, whole := newCluster(t), t // processes live on between the steps
	p := c.start(t, 60*time.Second, "--shards", "2", "--bucket-count", "64")

	// The shards are servers of their own with the database in each.
	ids := map[string]bool{}
	for i := range 2 {
		ids[mustAsk(t, c.shard(i), "select system_identifier from pg_control_system()")] = true
		if got := mustAsk(t, c.shard(i), "show max_prepared_transactions"); got == "0" {
			t.Errorf("shard-%d cannot prepare transactions", i)
		}
		if got := mustAsk(t, c.shard(i), "show wal_level"); got != "logical" {
			t.Errorf("shard-%d: wal_level is %s", i, got)
		}
	}
	if len(ids) != 2 {
		t.Error("the shards share one system identifier")
	}
	mustAsk(t, c.listen, "create table t as select 1 as id")
	if got := mustAsk(t, c.shard(0), "select count(*) from t"); got != "1" {
		t.Errorf("the home shard has %s rows", got)
	}
	want := fmt.Sprintf("psql -h 127.0.0.1 -p %s -U postgres app", strings.TrimPrefix(c.listen, "127.0.0.1:"))
	eventually(t, want+" is printed", func() bool { return strings.Contains(p.out.String(), want) }) // after /readyz says so

	t.Run("second holder", func(t *testing.T) {
		other := *c
		other.listen, other.http = fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)), fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1))
		second := startWeft(t, other.args()...)
		if code := second.exit(10 * time.Second); code != 1 {
			t.Errorf("exit code %d", code)
		}
		for _, want := range []string{"process " + strconv.Itoa(p.cmd.Process.Pid), "listening on " + c.listen} {
			if !strings.Contains(second.out.String(), want) {
				t.Errorf("it does not say %q", want)
			}
		}
	})

	t.Run("second proxy", func(t *testing.T) {
		listen := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1))
		second := startWeft(t, "serve", "-c", filepath.Join(c.dir, "weft.yaml"), "--listen", listen)
		eventually(t, "the second proxy serves", func() bool {
			got, err := ask(t, listen, "select count(*) from t")
			return err == nil && got == "1"
		})
		second.stop(syscall.SIGTERM)
	})

	t.Run("dead shard", func(t *testing.T) {
		before := c.postmaster(t, 0)
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another server runs", func() bool {
			pid := c.postmaster(t, 0)
			return pid != 0 && pid != before
		})
		eventually(t, "the shard is back", func() bool {
			got, err := ask(t, c.listen, "select count(*) from t")
			return err == nil && got == "1"
		})
		eventually(t, "the proxy is ready again", func() bool { return ready(c.http) })
	})

	t.Run("stop and start", func(t *testing.T) {
		p.stop(syscall.SIGINT)
		c.nothingLeft(t)
		// Without --shards: the directory knows.
		p = c.start(whole, 15*time.Second)
		if got := mustAsk(t, c.listen, "select count(*) from t"); got != "1" {
			t.Errorf("%s rows after a restart", got)
		}
	})

	t.Run("kill -9", func(t *testing.T) {
		mustAsk(t, c.listen, "insert into t values (2)")
		before := c.postmaster(t, 1)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.done
		p = c.start(whole, 20*time.Second)
		if got := mustAsk(t, c.listen, "select count(*) from t"); got != "2" {
			t.Errorf("%s rows after kill -9", got)
		}
		if c.postmaster(t, 1) == before {
			t.Error("the old server was not ended")
		}
	})

	t.Run("second signal", func(t *testing.T) {
		ctx := t.Context()
		conn, err := pgx.Connect(ctx, "postgres://postgres@"+c.listen+"/app?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(ctx, "begin; insert into t values (3)"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		select {
		case <-p.done:
			t.Error("did not wait for the open transaction")
		default:
			p.stop(syscall.SIGTERM)
		}
		if took := time.Since(began); pgtest.Late(t, took, 6*time.Second) {
			t.Errorf("the second signal took %v to help", took)
		}
		c.nothingLeft(t)
	})

	t.Run("refused", func(t *testing.T) {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", freePorts(t, 2)))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		taken := l.Addr().String()
		owner := fmt.Sprintf("%s is in use by process %d", taken, os.Getpid())
		_, port, _ := net.SplitHostPort(taken)
		for _, tc := range []struct {
			flags []string
			want  []string
		}{
			{[]string{"--shards", "3"}, []string{"2 shards, not 3", "--dir"}},
			{[]string{"--bucket-count", "128"}, []string{"64 buckets, not 128"}},
			{[]string{"--shards", "0"}, []string{"--shards: 0"}},
			{[]string{"--pg-bin", "/nonexistent"}, []string{"no PostgreSQL server in /nonexistent"}},
			{[]string{"--listen", taken}, []string{owner, "--listen"}},
			{[]string{"--http", taken}, []string{owner, "--http"}},
			{[]string{"--port-base", port}, []string{owner, "--port-base"}},
			{[]string{"--http", c.listen}, []string{"asked for by --http and --listen"}},
		} {
			p := startWeft(t, c.args(tc.flags...)...)
			if code := p.exit(20 * time.Second); code != 1 {
				t.Errorf("%v: exit code %d", tc.flags, code)
			}
			for _, want := range tc.want {
				if !strings.Contains(p.out.String(), want) {
					t.Errorf("%v: no %q in %s", tc.flags, want, p.out.String())
				}
			}
			c.nothingLeft(t)
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	const limit = pgtest.Patience
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}
