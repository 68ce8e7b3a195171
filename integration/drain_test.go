package integration

import (
	"context"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// TestDrain: SIGTERM lets a running transaction finish, ends idle clients and
// takes no new ones.
func TestDrain(t *testing.T) {
	p := harness.StartProgram(t, func(c *config.Config) { c.Limits.DrainTimeout = pgtest.Patience })
	mustExec(t, p.Connect(t, "postgres"), "create table d (a int)")
	idle, inside := p.Connect(t, "postgres"), p.Connect(t, "postgres")
	mustExec(t, idle, "select 1")
	mustExec(t, inside, "begin; insert into d values (1)")
	p.Signal(t, syscall.SIGTERM)

	// Idle sessions are told as PostgreSQL tells them at shutdown.
	began := time.Now()
	for {
		c, err := net.DialTimeout("tcp", p.Addr, time.Second)
		if err != nil {
			break
		}
		_ = c.Close()
		if took := time.Since(began); pgtest.Late(t, took, 5*time.Second) {
			t.Fatalf("still listening %s after SIGTERM", took)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if got := try(idle, "select 1"); got != "57P01" && got != "?" {
		t.Errorf("idle session got %q, want 57P01 or a closed connection", got)
	}
	mustExec(t, inside, "insert into d values (2); commit")
	p.WaitExit(t, 5*time.Second)
	if n, err := p.AdminInt(t.Context(), "select count(*) from d"); err != nil || n != 2 {
		t.Errorf("the transaction that was let finish left %d rows, %v", n, err)
	}
}

// TestDrainLimit: what does not finish in time is ended, and rolled back.
func TestDrainLimit(t *testing.T) {
	p := harness.StartProgram(t, func(c *config.Config) { c.Limits.DrainTimeout = 500 * time.Millisecond })
	conn := p.Connect(t, "postgres")
	mustExec(t, conn, "create table d (a int)")
	mustExec(t, conn, "begin; insert into d values (1)")
	p.Signal(t, syscall.SIGTERM)
	p.WaitExit(t, 5*time.Second)
	if got := try(conn, "commit"); got != "57P01" && got != "?" {
		t.Errorf("commit after the end: %q", got)
	}
	p.Await(t, "select count(*) = 0 from pg_locks where relation = 'd'::regclass and pid <> pg_backend_pid()")
	if n, err := p.AdminInt(t.Context(), "select count(*) from d"); err != nil || n != 0 {
		t.Errorf("the transaction that was cut off left %d rows, %v", n, err)
	}
}

// TestDrainDelay: after SIGTERM a proxy says first that it is not ready, and takes clients until its balancer has noticed.
func TestDrainDelay(t *testing.T) {
	p := harness.StartProgram(t, func(c *config.Config) { c.Limits.DrainDelay = pgtest.Patience })
	p.Signal(t, syscall.SIGTERM)
	for end := time.Now().Add(pgtest.Patience); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get("http://" + p.HTTP() + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("/readyz: %d", resp.StatusCode)
		}
	}
	mustExec(t, p.Connect(t, "postgres"), "select 1")
	p.Signal(t, syscall.SIGTERM)
	p.WaitExit(t, 5*time.Second)
}

// TestDrainKeep: idle clients may stay after SIGTERM, and are served until they leave.
func TestDrainKeep(t *testing.T) {
	p := harness.StartProgram(t, func(c *config.Config) {
		c.Limits.DrainTimeout, c.Limits.DrainIdle = pgtest.Patience, config.DrainKeep
	})
	conn := p.Connect(t, "postgres")
	mustExec(t, conn, "select 1")
	p.Signal(t, syscall.SIGTERM)
	for end := time.Now().Add(pgtest.Patience); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", p.Addr, time.Second)
		if err != nil {
			break
		}
		_ = c.Close()
		if time.Now().After(end) {
			t.Fatal("new clients are still taken")
		}
	}
	mustExec(t, conn, "create table kept (a int); insert into kept values (1)")
	_ = conn.Close(context.Background())
	p.WaitExit(t, 5*time.Second)
}

// TestSecondSignal: a second SIGTERM ends at once.
func TestSecondSignal(t *testing.T) {
	p := harness.StartProgram(t, func(c *config.Config) { c.Limits.DrainTimeout = time.Minute })
	conn := p.Connect(t, "postgres")
	mustExec(t, conn, "begin; select 1")
	p.Signal(t, syscall.SIGTERM)
	time.Sleep(200 * time.Millisecond)
	p.Signal(t, syscall.SIGTERM)
	p.WaitExit(t, 3*time.Second)
}

// TestProxyKilled: kill -9 of weft leaves no transaction open on the shards.
func TestProxyKilled(t *testing.T) {
	p := harness.StartProgram(t, func(*config.Config) {})
	conn := p.Connect(t, "postgres")
	mustExec(t, conn, "create table k (a int)")
	mustExec(t, conn, "begin; insert into k values (1); lock k")
	p.Signal(t, syscall.SIGKILL)
	p.WaitExit(t, 5*time.Second)
	p.Await(t, "select count(*) = 0 from pg_locks where relation = 'k'::regclass and pid <> pg_backend_pid()")
	if n, err := p.AdminInt(t.Context(), "select count(*) from k"); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestDrainInProcess drains the proxy object itself under load: no client sees
// anything but a clean refusal, and nothing acknowledged is lost.
func TestDrainInProcess(t *testing.T) {
	target := harness.StartWeft(t, func(*config.Config) {})
	setup := target.Connect(t, "postgres")
	mustExec(t, setup, "create table load (i serial)")
	type outcome struct {
		acked int
		end   string
	}
	const clients = 8
	outcomes := make(chan outcome, clients)
	for range clients {
		conn := target.Connect(t, "postgres")
		go func() {
			var o outcome
			for o.end == "" {
				err := pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
					_, err := tx.Exec(context.Background(), "insert into load default values")
					return err
				})
				if o.end = code(err); o.end == "" {
					o.acked++
				}
			}
			outcomes <- o
		}()
	}
	target.Await(t, "select count(*) > 50 from load")
	ctx, stop := context.WithTimeout(t.Context(), pgtest.Patience)
	defer stop()
	if err := target.Server.Drain(ctx); err != nil {
		t.Errorf("drain: %v", err)
	}
	acked := 0
	for range clients {
		o := <-outcomes
		acked += o.acked
		if !slices.Contains([]string{"57P01", "?"}, o.end) {
			t.Errorf("a client ended with %q, want 57P01 or a closed connection", o.end)
		}
	}
	n, err := target.AdminInt(t.Context(), "select count(*) from load")
	if err != nil || n < acked || n > acked+clients {
		t.Errorf("%d transactions were acknowledged, %d are there: %v", acked, n, err)
	}
}
