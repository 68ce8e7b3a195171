package patroni_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/dev/patroni"
	"weft/dev/supervisor"
	"weft/directory/embedded"
	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// A shard of two servers under Patroni: its primary is killed and switched, and nothing that
// was acknowledged is lost.
func TestShard(t *testing.T) {
	program, err := patroni.Find()
	if err != nil {
		t.Skip("Patroni is an own package that not every machine with PostgreSQL has: ", err)
	}
	etcd, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	dir := pgtest.Dir(t)
	cfg := patroni.Config{Name: "shard-0", Program: program, Etcd: strings.TrimPrefix(etcd.Endpoint(), "http://"), Dir: filepath.Join(dir, "patroni")}
	for _, name := range []string{"shard-0", "shard-0-1"} {
		port, err := pgserver.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Servers = append(cfg.Servers, pgserver.Config{Install: pgtest.Install(t), Dir: filepath.Join(dir, name), Port: port, User: "postgres"})
	}
	s := patroni.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		run.Wait()
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		for _, c := range cfg.Servers {
			if pid := c.PID(); pid != 0 {
				t.Errorf("%s still runs, process %d", c.Dir, pid)
			}
		}
	})
	made, err := s.Open(t.Context())
	if err != nil || !made {
		t.Fatalf("made %v, %v", made, err)
	}
	run.Go(func() { s.Run(ctx) })
	first := primary(t, s)
	if first.Dir != cfg.Servers[0].Dir {
		t.Errorf("the first primary is in %s", first.Dir)
	}
	for _, c := range cfg.Servers {
		files, err := os.ReadDir(c.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Type()&os.ModeSocket != 0 {
				t.Errorf("%s has the socket %s, which pg_rewind fails to copy", c.Dir, f.Name())
			}
		}
	}
	ask(t, s, "create table t (id int)")
	for i, order := range []string{supervisor.Kill, supervisor.Switch} {
		before := primary(t, s)
		ask(t, s, fmt.Sprintf("insert into t values (%d)", i))
		text, err := s.Do(t.Context(), order)
		if err != nil {
			t.Fatalf("%s: %v", order, err)
		}
		t.Log(text)
		if primary(t, s).Dir == before.Dir {
			t.Errorf("%s: %s is the primary still", order, before.Dir)
		}
		if got := ask(t, s, "select count(*) from t"); got != fmt.Sprint(i+1) {
			t.Errorf("%s rows after %s", got, order)
		}
		await(t, "the standby is synchronous", func() bool {
			return slices.ContainsFunc(s.Servers(), func(st supervisor.Status) bool { return st.Replaces })
		})
	}
}

// primary waits for the primary.
func primary(t *testing.T, s *patroni.Shard) (p supervisor.Status) {
	t.Helper()
	await(t, "a primary", func() bool {
		for _, st := range s.Servers() {
			if st.Role == supervisor.Primary && st.PID != 0 {
				p = st
				return true
			}
		}
		return false
	})
	return p
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(pgtest.Patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, pgtest.Patience)
		}
	}
}

// ask runs a statement on the primary, which may have to be waited for.
func ask(t *testing.T, s *patroni.Shard, sql string) (got string) {
	t.Helper()
	var last error
	await(t, sql, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		conn, err := pgconn.Connect(ctx, "postgres://postgres@"+primary(t, s).Address+"/postgres?sslmode=disable&target_session_attrs=read-write")
		if err != nil {
			last = err
			return false
		}
		defer conn.Close(ctx)
		results, err := conn.Exec(ctx, sql).ReadAll()
		if err != nil {
			last = err
			return false
		}
		if len(results[0].Rows) > 0 {
			got = string(results[0].Rows[0][0])
		}
		return true
	})
	if last != nil {
		t.Logf("%s: %v before", sql, last)
	}
	return got
}
