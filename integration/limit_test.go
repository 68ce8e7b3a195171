package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/auth"
	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// TestQueueTimeout: a client that waits too long for a server connection gets
// 53300 and may try again.
func TestQueueTimeout(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) {
		c.Pool.MaxPerShard = 2
		c.Pool.QueueTimeout = time.Second
	})
	a, b, waiting := target.Connect(t, "postgres"), target.Connect(t, "postgres"), target.Connect(t, "postgres")
	mustExec(t, a, "begin; select 1")
	mustExec(t, b, "begin; select 1")
	start := time.Now()
	if got := try(waiting, "select 1"); got != "53300" {
		t.Fatalf("third transaction on two connections: %q, want 53300", got)
	}
	if took := time.Since(start); took < 900*time.Millisecond || pgtest.Late(t, took, 4*time.Second) {
		t.Errorf("refused after %v, the limit is a second", took)
	}
	if _, err := waiting.Exec(within(t, 5*time.Second), "select $1::int", 1); code(err) != "53300" {
		t.Errorf("by extended query: %v, want 53300", err)
	}
	// BEGIN alone need not wait, what follows does and then fails the block or not:
	// either way the session must still be usable.
	mustExec(t, a, "commit")
	if st := waiting.PgConn().TxStatus(); st != 'I' {
		t.Errorf("status %q after a refused statement outside a block", st)
	}
	mustExec(t, waiting, "select 1")
	mustExec(t, b, "commit")
}

// TestQueueFair serves waiting clients in the order they came.
func TestQueueFair(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Pool.MaxPerShard = 1 })
	admin, holder := target.Connect(t, "postgres", "dbname=weft"), target.Connect(t, "postgres")
	const n = 8
	waiters := make([]*pgx.Conn, n)
	for i := range waiters {
		waiters[i] = target.Connect(t, "postgres")
	}
	mustExec(t, holder, "create table turn (at bigserial, who int); begin; select 1")
	var wg sync.WaitGroup
	for i, w := range waiters {
		wg.Go(func() {
			if got := try(w, fmt.Sprintf("insert into turn (who) values (%d)", i)); got != "" {
				t.Errorf("waiter %d: %s", i, got)
			}
		})
		waitFor(t, func() bool { return queued(t, admin) == int64(i+1) }) // so that they queue in this order
	}
	mustExec(t, holder, "commit")
	wg.Wait()
	if got := rows(t, holder, "select string_agg(who::text, '' order by at) from turn"); got != "01234567\n" {
		t.Errorf("served in the order %s", got)
	}
}

// queued asks the admin console how many clients wait for a connection to the home shard.
func queued(t *testing.T, admin *pgx.Conn) any {
	t.Helper()
	rows, _ := admin.Query(within(t, pgtest.Patience), "SHOW SHARDS")
	got, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		t.Fatal(err)
	}
	return got[0]["waiting"]
}

// TestUserLimit: one user's connections do not starve another.
func TestUserLimit(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) {
		c.Pool.MaxPerShard = 4
		c.Pool.MaxPerUser = 1
		c.Pool.QueueTimeout = time.Second
	})
	first, second, other := target.Connect(t, "alice"), target.Connect(t, "alice"), target.Connect(t, "bob")
	mustExec(t, first, "begin; select 1")
	if got := try(second, "select 1"); got != "53300" {
		t.Errorf("second transaction of the same user: %q, want 53300", got)
	}
	mustExec(t, other, "select 1")
	mustExec(t, first, "commit")
	mustExec(t, second, "select 1")
}

// TestShares: proxies that may open more connections than a shard has take a share each, and more
// again when others are gone.
func TestShares(t *testing.T) {
	const want, room, db = 150, 200, "shares" // weft's tables come into a database that is asked for them
	greedy := func(c *config.Config) { c.Pool.MaxPerShard = want }
	limit := func(w *harness.Target) (n int) {
		c := w.Connect(t, "postgres", "dbname="+db)
		defer c.Close(context.Background())
		if err := c.QueryRow(within(t, 10*time.Second), "select min(connection_limit) from weft.shards").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := harness.StartWeft(t, greedy)
	first.CreateDatabase(t, db)
	held := 0
	t.Run("together", func(t *testing.T) {
		second := harness.StartWeft(t, greedy)
		for deadline := time.Now().Add(pgtest.Patience); ; time.Sleep(100 * time.Millisecond) {
			a, b := limit(first), limit(second)
			if a > 0 && b > 0 && a+b <= room {
				held = a
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("proxies take %d and %d of %d connections", a, b, room)
			}
		}
	})
	for deadline := time.Now().Add(pgtest.Patience); limit(first) <= held; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a proxy still takes %d connections when the other is gone", limit(first))
		}
	}
}

// TestMaxClients refuses a client too many as PostgreSQL does.
func TestMaxClients(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Limits.MaxClients = 3 })
	for range 3 {
		mustExec(t, target.Connect(t, "postgres"), "select 1")
	}
	if c, err := pgx.Connect(within(t, 5*time.Second), target.ConnString("postgres")); code(err) != "53300" {
		if err == nil {
			_ = c.Close(t.Context())
		}
		t.Errorf("fourth of three clients: %v, want 53300", err)
	}
}

// TestStartupTimeout hangs up on a client that does not say who it is.
func TestStartupTimeout(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Limits.StartupTimeout = 3 * time.Second }) // time enough to connect to a shard
	var wg sync.WaitGroup
	for _, sent := range []string{"", "\x00\x00", "\x00\x00\x00\x20\x00\x03\x00\x00user"} {
		c, err := net.Dial("tcp", target.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(pgtest.Patience)); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			var ne net.Error
			if _, err := io.Copy(io.Discard, c); errors.As(err, &ne) && ne.Timeout() {
				t.Errorf("after %q the server waits for ever", sent)
			}
		})
	}
	wg.Wait()
	mustExec(t, target.Connect(t, "postgres"), "select 1")
}

// TestSlowReader: a client that asks for much and reads nothing holds up
// nobody else, not even on a pool with one connection to spare.
func TestSlowReader(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Pool.MaxPerShard = 2 })
	slow := target.Connect(t, "postgres")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader := slow.PgConn().Exec(ctx, "select repeat('x', 10000) from generate_series(1, 20000)") // 200 MB, unread
	target.Await(t, "select count(*) = 1 from pg_stat_activity where wait_event = 'ClientWrite'")
	start := time.Now()
	for range 50 {
		mustExec(t, target.Connect(t, "postgres"), "select 1")
	}
	if took := time.Since(start); pgtest.Late(t, took, 10*time.Second) {
		t.Errorf("50 others took %v", took)
	}
	// It goes away without having read: its server connection comes free.
	stop()
	_ = reader.Close()
	_ = slow.Close(context.Background())
	target.Await(t, "select count(*) = 0 from pg_stat_activity where wait_event = 'ClientWrite'")
}

// TestSessionPooling keeps a session's own server connection for users who ask
// for it.
func TestSessionPooling(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) {
		c.Auth.Users = append(c.Auth.Users, auth.User{Name: "alice", PoolMode: "session"})
	})
	a, b := target.Connect(t, "alice"), target.Connect(t, "alice")
	backend := func(c *pgx.Conn) string {
		// The server's own number for the backend, which weft does not translate.
		return rows(t, c, "select txid_current()*0 + extract(epoch from backend_start)*1000000 from pg_stat_get_activity(null) where application_name = current_setting('application_name') and state = 'active' and query like '%pg_stat_get_activity(null)%' limit 1")
	}
	mustExec(t, a, "set application_name = 'session a'")
	mustExec(t, b, "set application_name = 'session b'")
	first := backend(a)
	for range 5 {
		mustExec(t, b, "select 1")
		if got := backend(a); got != first {
			t.Errorf("session a moved from backend %s to %s", first, got)
		}
	}
	if other := backend(b); other == first {
		t.Errorf("two sessions on one backend %s", first)
	}
	// What belongs to a session needs no pinning here.
	mustExec(t, a, "create temp table tt (a int)")
	mustExec(t, a, "insert into tt values (1)")
}

// TestSSLAndGSSRequests: weft has neither here, says N to both and goes on.
func TestSSLAndGSSRequests(t *testing.T) {
	target := harness.Weft(t)
	c, err := net.Dial("tcp", target.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(pgtest.Patience)); err != nil {
		t.Fatal(err)
	}
	for _, request := range []string{"\x00\x00\x00\x08\x04\xd2\x16\x30", "\x00\x00\x00\x08\x04\xd2\x16\x2f"} {
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		if _, err := io.ReadFull(c, b[:]); err != nil || b[0] != 'N' {
			t.Fatalf("request %x: %q, %v; want N", request, b, err)
		}
	}
	if _, err := c.Write(startup("postgres")); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil || b[0] != 'R' {
		t.Fatalf("startup after both: %q, %v; want R", b, err)
	}
}

// TestRefusedLogins checks that a refused login leaves nothing behind.
func TestRefusedLogins(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		for range 30 {
			_, err := pgx.Connect(within(t, 10*time.Second), target.ConnString("nosuchuser"))
			if !slices.Contains([]string{"28000"}, code(err)) {
				t.Fatalf("unknown user: %v, want 28000", err)
			}
		}
		mustExec(t, target.Connect(t, "postgres"), "select 1")
	})
}
