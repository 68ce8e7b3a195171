package failover

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
)

// accounts of the bank, and what each holds at first.
const (
	accounts = 40
	funds    = 1000
)

// work is clients that must not see an error, whatever happens to the primaries.
type work struct {
	t      testing.TB
	cancel context.CancelFunc
	wait   sync.WaitGroup
	done   map[string]*atomic.Int64 // transactions, by kind

	mu     sync.Mutex
	errors []string
}

// kinds are the clients' transactions. i is a number that no other transaction of the kind has.
var kinds = map[string]func(ctx context.Context, c *pgx.Conn, i int) error{
	"autocommit": func(ctx context.Context, c *pgx.Conn, i int) error {
		_, err := c.Exec(ctx, "insert into t (id) values ($1)", i)
		return err
	},
	"read": func(ctx context.Context, c *pgx.Conn, i int) error {
		_, err := c.Exec(ctx, "select count(*) from account")
		return err
	},
	// A transfer over two shards, mostly.
	"transfer": func(ctx context.Context, c *pgx.Conn, i int) error { return transfer(ctx, c, i, 0) },
	// A block that is open for up to some seconds.
	"slow": func(ctx context.Context, c *pgx.Conn, i int) error {
		return transfer(ctx, c, i, time.Duration(i%5)*time.Second)
	},
}

// transfer moves money between two accounts, and thinks meanwhile. The rows are locked in order, so that no two transfers wait for each other.
func transfer(ctx context.Context, c *pgx.Conn, i int, think time.Duration) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		a, b := sides(i)
		if _, err := tx.Exec(ctx, "update account set balance = balance - 1 where id = $1", a); err != nil {
			return err
		}
		time.Sleep(think)
		_, err := tx.Exec(ctx, "update account set balance = balance + 1 where id = $1", b)
		return err
	})
}

// sides are the accounts of a transfer, in the order in which they are locked.
func sides(i int) (a, b int) {
	a, b = i%accounts, (i*7+1)%accounts
	if a == b {
		b = (b + 1) % accounts
	}
	return min(a, b), max(a, b)
}

// startWork starts two clients of each kind, each at another proxy.
func startWork(t testing.TB, proxies ...string) *work {
	ctx, cancel := context.WithCancel(context.Background())
	w := &work{t: t, cancel: cancel, done: map[string]*atomic.Int64{}}
	for kind, do := range kinds {
		done := &atomic.Int64{}
		w.done[kind] = done
		for at, proxy := range proxies {
			w.wait.Go(func() {
				for i := at; ctx.Err() == nil; {
					w.session(ctx, proxy, kind, func(c *pgx.Conn) error {
						i += len(proxies)
						return do(context.Background(), c, i)
					}, done)
				}
			})
		}
	}
	t.Cleanup(w.stop)
	return w
}

// session runs some transactions in a session of its own, so that logins are tried, too.
func (w *work) session(ctx context.Context, proxy, kind string, do func(*pgx.Conn) error, done *atomic.Int64) {
	c, err := pgx.Connect(context.Background(), "postgres://postgres@"+proxy+"/app?sslmode=disable")
	if err == nil {
		for range 20 {
			if err = do(c); err != nil || ctx.Err() != nil {
				break
			}
			done.Add(1)
		}
		_ = c.Close(context.Background())
	}
	if err != nil {
		w.mu.Lock()
		w.errors = append(w.errors, fmt.Sprintf("%s %s: %v", time.Now().Format("05.000"), kind, err))
		w.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
}

// goesOn waits until each kind of transaction has been done.
func (w *work) goesOn() {
	w.t.Helper()
	for kind, n := range w.done {
		before := n.Load()
		await(w.t, kind, func() bool { return n.Load() > before+1 })
	}
}

func (w *work) stop() {
	w.cancel()
	w.wait.Wait()
}

// secondProxy starts another proxy of the cluster.
func (c *cluster) secondProxy() (listen string) {
	c.t.Helper()
	return c.anotherProxy(filepath.Join(c.dir, "weft.yaml"))
}

// anotherProxy starts a proxy with a configuration file.
func (c *cluster) anotherProxy(file string) (listen string) {
	c.t.Helper()
	listen = loopback(freePorts(c.t, 1))
	cmd := exec.Command(c.program, "serve", "-c", file, "--listen", listen, "--http", loopback(freePorts(c.t, 1)))
	cmd.Stdout, cmd.Stderr = &c.out, &c.out
	done, err := harness.Spawn(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-done
	})
	await(c.t, "the second proxy", func() bool {
		_, err := ask(c.t.Context(), listen, "select 1")
		return err == nil
	})
	return listen
}

// weft runs a command about the cluster.
func (c *cluster) weft(args ...string) (string, error) {
	out, err := exec.Command(c.program, append(args, "-c", filepath.Join(c.dir, "weft.yaml"))...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// openBank makes the tables, and fills the accounts.
func (c *cluster) openBank() {
	c.t.Helper()
	c.mustAsk("create table t (id bigint primary key)")
	c.mustAsk("select weft.shard_table('t', 'id')")
	c.mustAsk("create table account (id bigint primary key, balance bigint)")
	c.mustAsk("select weft.shard_table('account', 'id')")
	c.mustAsk(fmt.Sprintf("insert into account select n, %d from generate_series(0, %d) n", funds, accounts-1))
}

// A primary is changed by plan, twice, under two proxies whose clients write to one shard and to several, in blocks of some seconds, too. No client
// sees an error.
func TestSwitchover(t *testing.T) {
	c := newCluster(t)
	other := c.secondProxy()
	c.openBank()
	w := startWork(t, c.listen, other)
	w.goesOn()
	for _, shard := range []int{1, 0} {
		c.awaitStandby(shard)
		before := c.primary(shard)
		text, err := c.weft("switchover", fmt.Sprintf("shard-%d", shard), "--wait", "60s", "--for", "3m")
		if err != nil {
			t.Fatalf("switchover: %v: %s", err, text)
		}
		t.Log(text)
		if now := c.primary(shard); now.Address == before.Address {
			t.Errorf("%s is the primary of shard-%d still", now.Address, shard)
		}
		w.goesOn()
	}
	w.stop()
	// Nobody freezes a server here. On a machine that keeps one from answering for seconds, a block that has to wait for it is refused after failover.wait_in_transaction.
	stood := strings.Contains(c.out.String(), "does not answer")
	for _, e := range w.errors {
		if stood && strings.Contains(e, "(SQLSTATE 57P03)") {
			t.Logf("a server stood still: %s", e)
			continue
		}
		t.Error(e)
	}
	if got := c.mustAsk("select sum(balance) from account"); got != fmt.Sprint(accounts*funds) {
		t.Errorf("the accounts hold %s", got)
	}
	for kind, n := range w.done {
		t.Logf("%s: %d", kind, n.Load())
	}
	c.fences(1)
	c.drains(0, other)
}

// fences makes the proxies let go of a primary: clients wait, until that is taken back, and until there is another one.
func (c *cluster) fences(shard int) {
	c.t.Helper()
	name := fmt.Sprintf("shard-%d", shard)
	c.awaitStandby(shard)
	for _, end := range []func() error{
		func() error { _, err := c.weft("fence", "--shard", name, "--end"); return err },
		func() error { c.order("switch", shard); return nil },
	} {
		old := c.primary(shard)
		if text, err := c.weft("fence", "--shard", name, "--wait", "60s", "--on-timeout", "refuse"); err != nil || !strings.Contains(text, "have let go") {
			c.t.Fatalf("fence: %v: %s", err, text)
		}
		const sessions = "select count(*) from pg_stat_activity where backend_type = 'client backend' and datname = 'app' and pid <> pg_backend_pid()"
		await(c.t, "no backend is left", func() bool {
			got, err := ask(c.t.Context(), old.Address, sessions)
			return err == nil && got == "0"
		})
		got := make(chan error, 1)
		go func() {
			conn, err := pgx.Connect(context.Background(), "postgres://postgres@"+c.listen+"/app?sslmode=disable")
			if err == nil {
				_, err = conn.Exec(context.Background(), "select count(*) from account")
				_ = conn.Close(context.Background())
			}
			got <- err
		}()
		select {
		case err := <-got:
			c.t.Errorf("a read of a shard that is fenced does not wait: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		if err := end(); err != nil {
			c.t.Fatal(err)
		}
		if err := <-got; err != nil {
			c.t.Errorf("a read that has waited: %v", err)
		}
	}
}

// drains drains a shard on all proxies by a command of one of them: those of the other one wait, and go on.
func (c *cluster) drains(shard int, other string) {
	c.t.Helper()
	admin, err := pgx.Connect(c.t.Context(), "postgres://postgres@"+c.listen+"/weft?sslmode=disable&default_query_exec_mode=simple_protocol")
	if err != nil {
		c.t.Fatal(err)
	}
	defer admin.Close(context.Background())
	if _, err := admin.Exec(c.t.Context(), fmt.Sprintf("DRAIN SHARD shard-%d EVERYWHERE FOR 5m", shard)); err != nil {
		c.t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		conn, err := pgx.Connect(context.Background(), "postgres://postgres@"+other+"/app?sslmode=disable")
		if err == nil {
			_, err = conn.Exec(context.Background(), "select count(*) from account")
			_ = conn.Close(context.Background())
		}
		got <- err
	}()
	select {
	case err := <-got:
		c.t.Errorf("a read of a shard that is drained does not wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if text, err := c.weft("drain", "--end", fmt.Sprintf("shard-%d", shard)); err != nil || !strings.Contains(text, "not drained any more") {
		c.t.Errorf("drain --end: %v: %s", err, text)
	}
	if err := <-got; err != nil {
		c.t.Errorf("a read that has waited: %v", err)
	}
}
