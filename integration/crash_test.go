package integration

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// gone are the SQLSTATEs that a client may see of a server that is not there:
// the connection class, and a server that starts up or shuts down.
var gone = []string{"08000", "08001", "08003", "08006", "08007", "57P01", "57P02", "57P03"}

// TestServerKilled kills the home shard's server while clients use it. weft
// goes on, says what is wrong in PostgreSQL's words, and serves again once the
// server is back.
func TestServerKilled(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Pool.QueueTimeout = 3 * time.Second })
	setup := target.Connect(t, "postgres")
	mustExec(t, setup, "create table acked (i int primary key)")

	idle, inside, busy := target.Connect(t, "postgres"), target.Connect(t, "postgres"), target.Connect(t, "postgres")
	mustExec(t, idle, "set my.kept = 'yes'")
	mustExec(t, inside, "begin; insert into acked values (-1)")
	asleep := make(chan string, 1)
	go func() { asleep <- try(busy, "select pg_sleep(30)") }()
	target.Await(t, "select count(*) = 1 from pg_stat_activity where wait_event = 'PgSleep'")

	// Writers that note what was acknowledged.
	var acked atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- write(ctx, target, &acked) }()
	for deadline := time.Now().Add(pgtest.Patience); acked.Load() < 20; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the writer does not get going")
		}
	}

	target.Home.Kill()
	select {
	case got := <-asleep:
		if !slices.Contains(gone, got) {
			t.Errorf("the running statement got %q, want one of %v", got, gone)
		}
	case <-time.After(pgtest.Patience):
		t.Error("the running statement was not told")
	}
	if got := try(inside, "select 1"); !slices.Contains(gone, got) {
		t.Errorf("the open transaction got %q, want one of %v", got, gone)
	}
	if _, err := pgx.Connect(ctx, target.ConnString("postgres")); err != nil && !slices.Contains(gone, code(err)) {
		t.Errorf("connecting got %v, want one of %v", err, gone)
	}

	if err := target.Home.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := acked.Load()
	for deadline := time.Now().Add(pgtest.Patience); acked.Load() < before+20; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("writes do not come back after the server did")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}

	fresh := target.Connect(t, "postgres")
	want := fmt.Sprintf("%d\n", acked.Load())
	if got := rows(t, fresh, fmt.Sprintf("select count(*) from acked where i between 1 and %d", acked.Load())); got != want {
		t.Errorf("%s of %s acknowledged rows are there", got, want)
	}
	if got := rows(t, fresh, "select count(*) from acked where i < 0"); got != "0\n" {
		t.Errorf("the transaction that died left %s rows", got)
	}
}

// write inserts 1, 2, 3 … until ctx ends, reconnecting and repeating whatever
// was not acknowledged.
func write(ctx context.Context, target *harness.Target, acked *atomic.Int64) error {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close(context.Background())
		}
	}()
	for ctx.Err() == nil {
		if conn == nil || conn.IsClosed() {
			c, err := pgx.Connect(ctx, target.ConnString("postgres"))
			if err != nil {
				if c := code(err); ctx.Err() == nil && c != "?" && !slices.Contains(gone, c) {
					return fmt.Errorf("reconnect: %w", err)
				}
				time.Sleep(20 * time.Millisecond)
				continue
			}
			conn = c
		}
		// The insert may have happened although its answer was lost.
		_, err := conn.Exec(ctx, "insert into acked values ($1) on conflict do nothing", acked.Load()+1)
		switch c := code(err); {
		case err == nil:
			acked.Add(1)
		case ctx.Err() != nil || c == "?" || slices.Contains(gone, c):
			time.Sleep(20 * time.Millisecond)
		default:
			return fmt.Errorf("insert: %w", err)
		}
	}
	return nil
}

// TestOtherShardKilled: a shard that is not asked does not matter.
func TestOtherShardKilled(t *testing.T) {
	target := harness.StartWeft(t, func(*config.Config) {})
	other := target.Shards()[1]
	conn := target.Connect(t, "postgres")
	mustExec(t, conn, "create table h (a int)")
	other.Kill()
	defer func() {
		if err := other.Restart(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	mustExec(t, conn, "insert into h values (1)")
	mustExec(t, target.Connect(t, "postgres"), "select * from h")
}

// TestServerHangs stops the server's processes without closing anything. A
// client can still give up, and others are served once it wakes.
func TestServerHangs(t *testing.T) {
	target := harness.StartWeft(t, func(*config.Config) {})
	conn := target.Connect(t, "postgres")
	mustExec(t, conn, "select 1")
	target.Home.Pause()
	resume := func() { target.Home.Resume() }
	defer resume()
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if _, err := conn.Exec(ctx, "select 2"); err == nil {
		t.Error("a stopped server answered")
	}
	resume()
	mustExec(t, target.Connect(t, "postgres"), "select 3")
}

// TestIdleBackendEnded: server connections that nobody was using are ended by
// an administrator. No client notices, whichever way it asks next.
func TestIdleBackendEnded(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Pool.HealthInterval = time.Hour })
	ask := []struct {
		name string
		do   func(conn *pgx.Conn) error
	}{
		{"simple", func(c *pgx.Conn) error {
			_, err := c.PgConn().Exec(context.Background(), "select 1").ReadAll()
			return err
		}},
		{"extended", func(c *pgx.Conn) error {
			var n int
			return c.QueryRow(context.Background(), "select $1::int", 1).Scan(&n)
		}},
		{"copy", func(c *pgx.Conn) error {
			_, err := c.CopyFrom(context.Background(), pgx.Identifier{"idle"}, []string{"a"}, pgx.CopyFromRows([][]any{{1}}))
			return err
		}},
		{"begin", func(c *pgx.Conn) error {
			_, err := c.PgConn().Exec(context.Background(), "begin; select 1; commit").ReadAll()
			return err
		}},
	}
	mustExec(t, target.Connect(t, "postgres"), "create table idle (a int)")
	conns := make([]*pgx.Conn, len(ask))
	for i, a := range ask {
		conns[i] = target.Connect(t, "postgres")
		mustExec(t, conns[i], "set my.own = 'kept'")
		mustExec(t, conns[i], "begin")
		if err := a.do(conns[i]); err != nil {
			t.Fatalf("before: %v", err)
		}
	}
	for _, conn := range conns { // each had a server connection of its own
		mustExec(t, conn, "commit")
	}
	err := target.Admin(within(t, 10*time.Second), "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
	if err != nil {
		t.Fatal(err)
	}
	// weft trusts a connection that was used less than a second ago without
	// looking at it.
	time.Sleep(1100 * time.Millisecond)
	for i, a := range ask {
		t.Run(a.name, func(t *testing.T) {
			if err := a.do(conns[i]); err != nil {
				t.Errorf("after: %v", err)
			}
			if got := rows(t, conns[i], "show my.own"); got != "kept\n" {
				t.Errorf("my.own is %q", got)
			}
		})
	}
}
