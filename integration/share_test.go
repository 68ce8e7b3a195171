package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// TestManyListeners: listeners hold no server connection each.
func TestManyListeners(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Pool.MaxPerShard = 3 })
	const n = 30
	listeners := make([]*pgx.Conn, n)
	for i := range listeners {
		listeners[i] = target.Connect(t, "postgres")
		mustExec(t, listeners[i], fmt.Sprintf("listen all_of_you; listen just_%d", i))
	}
	speaker := target.Connect(t, "postgres")
	mustExec(t, speaker, "notify all_of_you, 'hello'")
	for i, l := range listeners {
		mustExec(t, speaker, fmt.Sprintf("notify just_%d, '%d'", i, i))
		for _, want := range []string{"all_of_you hello", fmt.Sprintf("just_%d %d", i, i)} {
			got, err := l.WaitForNotification(within(t, 10*time.Second))
			if err != nil {
				t.Fatalf("listener %d: %v", i, err)
			}
			if have := got.Channel + " " + got.Payload; have != want {
				t.Errorf("listener %d heard %q, want %q", i, have, want)
			}
		}
	}
}

// TestUnlisten: who stops listening has heard what was sent before, and hears no more. A backend tells
// an idle client at once; through the connection that listens for all it must not come too late.
func TestUnlisten(t *testing.T) {
	target := harness.Weft(t)
	target.Reset(t)
	listener, speaker := target.Connect(t, "postgres"), target.Connect(t, "postgres")
	for i := range 50 {
		mustExec(t, listener, "listen news")
		mustExec(t, speaker, fmt.Sprintf("notify news, '%d'", i))
		mustExec(t, listener, []string{"unlisten news", "unlisten *"}[i%2])
		mustExec(t, speaker, "notify news, 'too late'")
		got, err := listener.WaitForNotification(within(t, 5*time.Second))
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if got.Payload != fmt.Sprint(i) {
			t.Fatalf("round %d: heard %q", i, got.Payload)
		}
	}
}

// TestListenSurvives: after the server was killed and is back, a listener is
// either told that its session is gone or hears again. It is never deaf.
func TestListenSurvives(t *testing.T) {
	target := harness.StartWeft(t, func(*config.Config) {})
	listener := target.Connect(t, "postgres")
	mustExec(t, listener, "listen news")
	target.Home.Kill()
	if err := target.Home.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 15*time.Second)
	heard := make(chan error, 1)
	go func() {
		_, err := listener.WaitForNotification(ctx)
		heard <- err
	}()
	for {
		conn, err := pgx.Connect(ctx, target.ConnString("postgres"))
		if err == nil {
			_, _ = conn.Exec(ctx, "notify news, 'back'") // the pool may still find dead connections
			_ = conn.Close(ctx)
		}
		select {
		case err := <-heard:
			if ctx.Err() != nil {
				t.Fatal("the listener neither heard nor was told")
			}
			t.Logf("listener: %v", err)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestPreparedEviction has more named statements than a backend may keep, used
// by clients in turn: each must still run its own.
func TestPreparedEviction(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) {
		c.Pool.MaxPerShard = 2
		c.Pool.MaxPrepared = 5
	})
	const clients, statements = 4, 20
	var wg sync.WaitGroup
	for c := range clients {
		conn := target.Connect(t, "postgres")
		wg.Go(func() {
			ctx := within(t, 30*time.Second)
			for s := range statements {
				// Half the texts are shared by all clients.
				text := fmt.Sprintf("select %d + $1::int", s)
				if s%2 == 0 {
					text = fmt.Sprintf("select %d + $1::int, %d", s, c)
				}
				if _, err := conn.Prepare(ctx, fmt.Sprint("s", s), text); err != nil {
					t.Errorf("client %d: prepare %d: %v", c, s, err)
					return
				}
			}
			for round := range 5 {
				for s := range statements {
					var got int
					dest := []any{&got}
					if s%2 == 0 {
						dest = append(dest, new(int))
					}
					if err := conn.QueryRow(ctx, fmt.Sprint("s", s), round).Scan(dest...); err != nil || got != s+round {
						t.Errorf("client %d, statement %d: %d, %v; want %d", c, s, got, err, s+round)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	n, err := target.AdminInt(t.Context(), "select count(*) from pg_stat_activity where datname = 'app' and application_name <> 'harness'")
	if err != nil || n > 3 {
		t.Errorf("%d server connections, want at most 2 and one that listens; %v", n, err)
	}
}

// TestPreparedDDL: a table changes under statements that pgx keeps prepared. A
// client that a direct connection would have served is served.
func TestPreparedDDL(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 20*time.Second)
		a, b := target.Connect(t, "postgres"), target.Connect(t, "postgres")
		mustExec(t, a, "create table t (id int, v text); insert into t values (1, 'x')")
		for _, conn := range []*pgx.Conn{a, b} {
			for range 6 { // past the point where PostgreSQL makes a generic plan
				var v string
				if err := conn.QueryRow(ctx, "select v from t where id = $1", 1).Scan(&v); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustExec(t, a, "alter table t add column w int")
		for _, conn := range []*pgx.Conn{a, b, target.Connect(t, "postgres")} {
			var v string
			if err := conn.QueryRow(ctx, "select v from t where id = $1", 1).Scan(&v); err != nil {
				t.Errorf("after ADD COLUMN: %v", err)
			}
		}
		// A client that never prepared the old shape must not see its ghost.
		fresh := func() {
			t.Helper()
			conn := target.Connect(t, "postgres")
			r, err := conn.Query(ctx, "select * from t")
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			if err := r.Err(); err != nil {
				t.Errorf("select * by a new client: %v", err)
			}
		}
		for range 3 {
			fresh()
		}
		mustExec(t, a, "alter table t drop column w")
		for range 6 {
			fresh()
		}
		mustExec(t, a, "drop table t; create table t (id int, v text, z int)")
		for range 6 {
			fresh()
		}
	})
}

// TestManyDatabases serves every database by its name.
func TestManyDatabases(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		target.CreateDatabase(t, "other")
		conn, err := pgx.Connect(within(t, 10*time.Second), target.ConnString("postgres", "dbname=other"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		mustExec(t, conn, "create table only_here (a int)")
		if got := rows(t, conn, "select current_database()"); got != "other\n" {
			t.Errorf("database %s", got)
		}
		if got := try(target.Connect(t, "postgres"), "select * from only_here"); got != "42P01" {
			t.Errorf("a table of another database: %q, want 42P01", got)
		}
	})
}

// TestCreateDatabase makes and drops a database through weft: it is then there,
// and gone, on every shard.
func TestCreateDatabase(t *testing.T) {
	both(t, func(t *testing.T, target *harness.Target) {
		ctx := within(t, 30*time.Second)
		exists := func(want bool) {
			t.Helper()
			for i, s := range target.Shards() {
				conn, err := pgx.Connect(ctx, s.ConnString("postgres"))
				if err != nil {
					t.Fatal(err)
				}
				var got bool
				err = conn.QueryRow(ctx, "select exists (select from pg_database where datname = 'made')").Scan(&got)
				_ = conn.Close(ctx)
				if err != nil || got != want {
					t.Errorf("server %d: database made exists: %v, want %v; %v", i, got, want, err)
				}
			}
		}
		conn := target.Connect(t, "postgres")
		mustExec(t, conn, "create database made")
		exists(true)
		if got := try(conn, "create database made"); got != "42P04" {
			t.Errorf("made twice: %q, want 42P04", got)
		}
		inside, err := pgx.Connect(ctx, target.ConnString("postgres", "dbname=made"))
		if err != nil {
			t.Fatal(err)
		}
		mustExec(t, inside, "create table in_made (a int)")
		if got := try(conn, "drop database made"); got != "55006" {
			t.Errorf("dropped in use: %q, want 55006", got)
		}
		if err := inside.Close(ctx); err != nil {
			t.Fatal(err)
		}
		// The server may take a moment to notice the client's end.
		for deadline := time.Now().Add(pgtest.Patience); ; time.Sleep(20 * time.Millisecond) {
			got := try(conn, "drop database made")
			if got == "" {
				break
			}
			if got != "55006" || time.Now().After(deadline) {
				t.Fatalf("drop: %s", got)
			}
		}
		exists(false)
		if got := try(conn, "drop database made"); got != "3D000" {
			t.Errorf("dropped twice: %q, want 3D000", got)
		}
	})
}

// TestDropShardedDatabase: with a database its declarations go, for all proxies, whose
// own connections are in nobody's way.
func TestDropShardedDatabase(t *testing.T) {
	ctx := context.Background()
	one := harness.StartWeft(t, func(*config.Config) {})
	two := harness.StartWeft(t, func(*config.Config) {})
	conn := one.Connect(t, "postgres")
	declarations := []string{"select weft.shard_table('t', 'id')", "select weft.reference_table('t')", "select 1"}
	for round, declare := range declarations {
		mustExec(t, conn, "create database sharded")
		for _, target := range []*harness.Target{one, two} {
			inside, err := pgx.Connect(ctx, target.ConnString("postgres", "dbname=sharded"))
			if err != nil {
				t.Fatal(err)
			}
			if target == one {
				mustExec(t, inside, "create table t (id int primary key, v int)")
				mustExec(t, inside, declare)
				mustExec(t, inside, "insert into t select g, 1 from generate_series(1, 100) g")
			}
			var n int
			if err := inside.QueryRow(ctx, "select count(*) from t").Scan(&n); err != nil || n != 100 {
				t.Errorf("round %d: %d rows, %v", round, n, err)
			}
			if target == one {
				// What was drawn in advance for the database before is not given again.
				mustExec(t, inside, "create table counted (id bigserial, k int)")
				mustExec(t, inside, "select weft.shard_table('counted', 'k')")
				for k := range 20 {
					mustExec(t, inside, fmt.Sprintf("insert into counted (k) values (%d)", k))
				}
				if err := inside.QueryRow(ctx, "select max(id) from counted").Scan(&n); err != nil || n != 20 {
					t.Errorf("round %d: counted to %d, %v", round, n, err)
				}
			}
			if err := inside.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if round < len(declarations)-1 {
			time.Sleep(1200 * time.Millisecond) // until the proxies have looked for transactions in doubt
			for _, sql := range []string{"alter database sharded rename to other", "create database other template sharded"} {
				if got := try(conn, sql); got != "0A000" {
					t.Errorf("%s: %q, want 0A000", sql, got)
				}
			}
		}
		// The proxy may take a moment to notice a client's end.
		for deadline := time.Now().Add(pgtest.Patience); ; time.Sleep(20 * time.Millisecond) {
			got := try(conn, "drop database sharded")
			if got == "" {
				break
			}
			if got != "55006" || time.Now().After(deadline) {
				t.Fatalf("drop: %s", got)
			}
		}
	}
}

// TestDirectoryAway: without etcd weft serves from what it knows, old clients
// and new ones.
func TestDirectoryAway(t *testing.T) {
	endpoint, stop := harness.StartEtcd(t)
	target := harness.StartWeft(t, func(c *config.Config) { c.Etcd.Endpoints = []string{endpoint} })
	old := target.Connect(t, "postgres")
	mustExec(t, old, "create table d (a int)")
	stop()
	time.Sleep(200 * time.Millisecond) // so that its watch has noticed
	mustExec(t, old, "insert into d values (1)")
	if got := rows(t, target.Connect(t, "alice"), "select 1"); got != "1\n" {
		t.Errorf("a new client of a new user: %q", got)
	}
}

// TestConcurrentSessions interleaves transactions of many sessions over few
// server connections; each sees its own.
func TestConcurrentSessions(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Pool.MaxPerShard = 3 })
	mustExec(t, target.Connect(t, "postgres"), "create table own (session int, n int)")
	var wg sync.WaitGroup
	for s := range 20 {
		conn := target.Connect(t, "postgres")
		wg.Go(func() {
			for n := range 15 {
				if got := try(conn, fmt.Sprintf("begin; insert into own values (%d, %d)", s, n)); got != "" {
					t.Errorf("session %d: %s", s, got)
					return
				}
				end := "commit"
				if n%3 == 0 {
					end = "rollback"
				}
				if got := try(conn, end); got != "" {
					t.Errorf("session %d: %s", s, got)
					return
				}
			}
		})
	}
	wg.Wait()
	if n, err := target.AdminInt(t.Context(), "select count(*) from (select session from own group by session having count(*) = 10) s"); err != nil || n != 20 {
		t.Errorf("%d of 20 sessions have their 10 rows, %v", n, err)
	}
}
