package failover

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/dev"
	"weft/dev/supervisor"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// cluster is a weft dev with standbys, and the flags to start it again.
type cluster struct {
	t       testing.TB
	program string
	dir     string
	listen  string
	args    []string

	cmd  *exec.Cmd
	done <-chan struct{} // closed when the process has ended
	out  output
}

// output is what the process prints; it may be read meanwhile.
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

const shards = 2

// newCluster starts weft dev with two shards of a primary and a standby each. more are further flags.
func newCluster(t testing.TB, more ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, program: harness.ProgramPath(t), dir: filepath.Join(pgtest.Dir(t), "dev"), listen: loopback(freePorts(t, 1))}
	c.args = []string{
		"dev", "--dir", c.dir, "--listen", c.listen, "--http", loopback(freePorts(t, 1)), "--port-base", fmt.Sprint(freePorts(t, 2*shards)),
		"--shards", fmt.Sprint(shards), "--replicas", "1", "--bucket-count", "64", "--demo=false",
	}
	c.args = append(c.args, more...)
	c.start()
	t.Cleanup(func() {
		c.end(syscall.SIGTERM)
		if t.Failed() {
			t.Logf("weft dev printed:\n%s", c.out.String())
		}
	})
	return c
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// freePorts returns the first of n free ports in a row.
func freePorts(t testing.TB, n int) int {
	t.Helper()
	for range 100 {
		first, err := pgserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		free := true
		for i := range n {
			free = free && pgserver.CheckPort(loopback(first+i)) == nil
		}
		if free {
			return first
		}
	}
	t.Fatal("no free ports")
	return 0
}

// start runs weft dev and returns when it is ready.
func (c *cluster) start() {
	c.t.Helper()
	began := strings.Count(c.out.String(), "ready after")
	cmd := exec.Command(c.program, c.args...)
	cmd.Stdout, cmd.Stderr = &c.out, &c.out
	done, err := harness.Spawn(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd, c.done = cmd, done
	await(c.t, "weft dev is ready", func() bool {
		select {
		case <-done:
			c.t.Fatalf("weft dev ended at its start:\n%s", c.out.String())
		default:
		}
		return strings.Count(c.out.String(), "ready after") > began
	})
}

// end ends weft dev by a signal.
func (c *cluster) end(sig syscall.Signal) {
	c.t.Helper()
	_ = c.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-c.done:
	case <-time.After(pgtest.Patience):
		_ = c.cmd.Process.Kill()
		c.t.Fatalf("weft dev still runs after %v", sig)
	}
}

// server is one of weft status --json.
type server struct {
	Address  string `json:"address"`
	Role     string `json:"role"`
	Timeline int    `json:"timeline"`
	PID      int    `json:"pid"`
	Dir      string `json:"data_directory"`
	Lag      *int64 `json:"lag_bytes"`
}

// servers asks weft status for the servers of a shard.
func (c *cluster) servers(shard int) []server {
	c.t.Helper()
	var out []byte
	await(c.t, "weft status", func() (ok bool) { // on a busy machine etcd may not answer
		var err error
		out, err = exec.Command(c.program, "status", "-c", filepath.Join(c.dir, "weft.yaml"), "--json").Output()
		return err == nil
	})
	var st struct {
		Shards []struct {
			Name  string   `json:"name"`
			Hosts []server `json:"hosts"`
		} `json:"shards"`
	}
	if err := json.Unmarshal(out, &st); err != nil {
		c.t.Fatal(err)
	}
	// A server whose Patroni is frozen is none of the shard's.
	if n := len(st.Shards); n != shards || len(st.Shards[shard].Hosts) != 2 && !slices.Contains(c.args, "--patroni") {
		c.t.Fatalf("weft status: %s", out)
	}
	return st.Shards[shard].Hosts
}

// primary returns a shard's primary, which may have to be waited for.
func (c *cluster) primary(shard int) (p server) {
	c.t.Helper()
	await(c.t, "a primary", func() bool {
		for _, s := range c.servers(shard) {
			if s.Role == "primary" && s.PID != 0 {
				p = s
				return true
			}
		}
		return false
	})
	return p
}

// awaitStandby waits until a shard has a standby that can take over: commits wait for it, and whoever promotes servers knows that they do.
func (c *cluster) awaitStandby(shard int) {
	c.t.Helper()
	await(c.t, "a standby", func() bool {
		p := c.primary(shard)
		got, err := ask(c.t.Context(), p.Address, "select count(*) from pg_stat_replication where sync_state = 'sync'")
		return err == nil && got == "1" && c.replaces(shard, p)
	})
}

// replaces reports whether the standby of a primary would be promoted: commits wait for the standby some time before.
func (c *cluster) replaces(shard int, primary server) bool {
	c.t.Helper()
	if !slices.Contains(c.args, "--patroni") {
		all, err := dev.Servers(c.t.Context(), c.dir)
		return err == nil && slices.ContainsFunc(all, func(s supervisor.Status) bool { return s.Shard == fmt.Sprintf("shard-%d", shard) && s.Replaces })
	}
	for _, s := range c.servers(shard) {
		if s.Address != primary.Address {
			return c.patroniSays(s, "/sync")
		}
	}
	return false
}

// patroniSays asks the Patroni of a server whether something is so.
func (c *cluster) patroniSays(s server, path string) bool {
	c.t.Helper()
	resp, err := http.Get("http://" + c.patroniOf(s).REST.Listen + path)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// thawsSafely reports whether a Patroni that was frozen leaves the leader key to its successor when it goes on. Before version 3.0.3 it may take the key back, with
// etcd's API version 3, and the successor gives way, with all that was acknowledged meanwhile.
func (c *cluster) thawsSafely(shard int) bool {
	c.t.Helper()
	resp, err := http.Get("http://" + c.patroniOf(c.primary(shard)).REST.Listen + "/patroni")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var answer struct {
		Patroni struct {
			Version string `json:"version"`
		} `json:"patroni"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		c.t.Fatal(err)
	}
	var major, minor, patch int
	_, _ = fmt.Sscanf(answer.Patroni.Version, "%d.%d.%d", &major, &minor, &patch) // what is missing is 0
	return major > 3 || major == 3 && (minor > 0 || patch >= 3)
}

// patroniOf returns the settings of a server's Patroni.
func (c *cluster) patroniOf(s server) (settings struct {
	REST struct {
		Listen string `json:"listen"`
	} `json:"restapi"`
},
) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "patroni", filepath.Base(s.Dir)+".yml"))
	if err == nil {
		err = json.Unmarshal(text, &settings)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return settings
}

// order runs a command of weft dev about a shard.
func (c *cluster) order(what string, shard int) string {
	c.t.Helper()
	out, err := exec.Command(c.program, "dev", what, fmt.Sprintf("shard-%d", shard), "--dir", c.dir).CombinedOutput()
	if err != nil {
		c.t.Fatalf("weft dev %s: %v: %s", what, err, out)
	}
	return string(out)
}

// ask runs a statement in a session of its own and returns its first value.
func ask(ctx context.Context, addr, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres://postgres@"+addr+"/app?sslmode=disable")
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

// mustAsk asks the proxy until it has an answer.
func (c *cluster) mustAsk(sql string) (got string) {
	c.t.Helper()
	var err error
	for end := time.Now().Add(pgtest.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if got, err = ask(c.t.Context(), c.listen, sql); err == nil {
			return got
		}
	}
	c.t.Fatalf("%s: %v", sql, err)
	return ""
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(pgtest.Patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, pgtest.Patience)
		}
	}
}
