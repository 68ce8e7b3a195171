package primary_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgerr"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/primary"
)

// plain is a connection of pgconn.
type plain struct{ *pgconn.PgConn }

func (p plain) Ask(ctx context.Context, sql string) ([][]string, error) {
	results, err := p.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, asServer(err)
	}
	var rows [][]string
	for _, r := range results[0].Rows {
		row := make([]string, len(r))
		for i, v := range r {
			row[i] = string(v)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (p plain) Close() { _ = p.PgConn.Close(context.Background()) }

// asServer words a server's error as package pool does.
func asServer(err error) error {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return &pgerr.Error{Severity: pgerr.Severity(pg.Severity), Code: pg.Code, Message: pg.Message, Routine: pg.Routine}
	}
	return err
}

func dial(ctx context.Context, address string) (primary.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	c, err := pgconn.Connect(ctx, "postgres://postgres@"+address+"/postgres?sslmode=disable")
	if err != nil {
		return nil, asServer(err)
	}
	return plain{c}, nil
}

func execute(t *testing.T, s *pgserver.Server, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// TestServers lets a Watcher see real servers: a standby, a promotion, and the old primary back.
func TestServers(t *testing.T) {
	a := pgtest.Start(t, pgserver.Config{})
	b := pgtest.Standby(t, a.Server)
	w := primary.NewWatcher(primary.Config{
		Dial: dial,
		Timing: func() primary.Timing {
			return primary.Timing{Interval: 20 * time.Millisecond, Seeking: 10 * time.Millisecond}
		},
	}, []string{a.Addr(), b.Addr()}, primary.Generation{})
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) })
	defer wg.Wait()
	defer stop()
	await := func(what string, is func(*primary.View) bool) *primary.View {
		t.Helper()
		for end := time.Now().Add(pgtest.Patience); ; time.Sleep(5 * time.Millisecond) {
			if v := w.View(); is(v) {
				return v
			} else if time.Now().After(end) {
				t.Fatalf("%s: %s, %s, %+v", what, v.State, v.Describe(), v.Servers)
			}
		}
	}
	v := await("start", func(v *primary.View) bool {
		return v.State == primary.Steady && v.Primary == a.Addr() && v.Servers[1].LagKnown && v.Servers[1].Lag == 0
	})
	first, standby := v.Servers[0].Seen, v.Servers[1].Seen
	if v.Generation.Timeline != 1 || first.LSN == 0 || first.Started.IsZero() || time.Since(first.Clock).Abs() > time.Hour {
		t.Errorf("the primary says %+v", first)
	}
	if standby.Kind != primary.Standby || standby.Received == 0 || standby.Generation != first.Generation {
		t.Errorf("the standby says %+v", standby)
	}
	await("the standby is attached", func(v *primary.View) bool {
		s := v.Servers[0].Seen
		return len(s.SyncStates) == 1 && s.SyncStates[0] == "async" && s.Flushed != 0
	})
	execute(t, b, "select pg_wal_replay_pause()")
	execute(t, a.Server, "create table t as select generate_series(1, 1000)")
	await("the standby is behind", func(v *primary.View) bool { return v.Servers[1].Lag > 0 && v.Servers[1].LagBytes > 0 })
	execute(t, b, "select pg_wal_replay_resume()")
	await("the standby has caught up", func(v *primary.View) bool { return v.Servers[1].LagKnown && v.Servers[1].Lag == 0 })

	a.Kill()
	await("the primary is gone", func(v *primary.View) bool { return v.State == primary.Seeking })
	execute(t, b, "select pg_promote()")
	v = await("the standby is promoted", func(v *primary.View) bool { return v.State == primary.Steady && v.Primary == b.Addr() })
	if v.Generation.Timeline != 2 || v.Generation.Fork == 0 {
		t.Errorf("generation %s", v.Generation)
	}
	if err := a.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	await("the old primary is back", func(v *primary.View) bool { return v.State == primary.Steady && v.Servers[0].Role == primary.Stale })
	b.Pause()
	await("the new primary stands still", func(v *primary.View) bool { return v.State == primary.Seeking && v.Suspect() == primary.Silent })
	b.Resume()
	await("it goes on", func(v *primary.View) bool { return v.State == primary.Steady && v.Primary == b.Addr() })
}

// TestProbeRights: a role without rights gets the answers that matter, and does not learn the fork.
func TestProbeRights(t *testing.T) {
	s := pgtest.Start(t, pgserver.Config{})
	execute(t, s.Server, "create role plain login")
	c, err := pgconn.Connect(t.Context(), fmt.Sprintf("postgres://plain@%s/postgres?sslmode=disable", s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := plain{c}.Ask(t.Context(), primary.Probe)
	if err != nil {
		t.Fatal(err)
	}
	defer plain{c}.Close()
	seen, err := primary.ReadSighting(rows)
	if err != nil || seen.Kind != primary.Primary || seen.Generation.Timeline != 1 || seen.LSN == 0 {
		t.Errorf("%+v, %v", seen, err)
	}
	if _, err := (plain{c}).Ask(t.Context(), primary.HistorySQL(2)); primary.Failed(err).Kind != primary.Unable {
		t.Errorf("the history: %v", err)
	}
}
