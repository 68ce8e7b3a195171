package primary

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
)

// inFlight waits until a server runs n statements that sleep.
func (w *world) inFlight(s *pgserver.Server, n int) {
	w.t.Helper()
	w.await("statements under way", func() bool { return w.sleeping(s) >= n })
}

// sleeping counts the statements of a server that sleep.
func (w *world) sleeping(s *pgserver.Server) int {
	return w.ask(s, "select count(*)::int from pg_stat_activity where wait_event = 'PgSleep'")
}

// modes are the ways in which pgx sends a statement.
var modes = map[string]pgx.QueryExecMode{
	"simple": pgx.QueryExecModeSimpleProtocol, "exec": pgx.QueryExecModeExec, "describe": pgx.QueryExecModeDescribeExec,
	"cached description": pgx.QueryExecModeCacheDescribe, "prepared": pgx.QueryExecModeCacheStatement,
}

// TestReadsRepeated: queries whose server dies under them are asked again, of the new primary, in each protocol, on one shard and
// over several, also by sessions with settings of their own, and whether they were being parsed or executed. The client notices
// a pause.
func TestReadsRepeated(t *testing.T) {
	w := newWorld(t)
	for _, day := range []struct {
		what string
		lose func()
	}{
		// Each backend sends a warning before it ends, and the server goes on.
		{"crash of another process", func() {
			kill(t, w.ask(w.a.Server, "select pid from pg_stat_activity where backend_type = 'background writer'"), syscall.SIGKILL)
		}},
		// The same, and the server stops.
		{"immediate stop", func() {
			kill(t, w.a.PID(), syscall.SIGQUIT)
			<-w.a.Done()
			if err := w.a.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"killed", func() {
			w.a.Kill()
			if err := w.b.Promote(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		w.readsRepeated(day.what, day.lose)
	}
}

func kill(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// readsRepeated asks queries in all ways, and loses the primary of shop-1 under them.
func (w *world) readsRepeated(day string, lose func()) {
	t := w.t
	type result struct {
		what      string
		sum, want int
		err       error
	}
	ask := func(c *pgx.Conn, m pgx.QueryExecMode, sql string) (sum int, err error) {
		rows, err := c.Query(w.within(), sql, m, w.there)
		if err != nil {
			return 0, err
		}
		return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	}
	var asks []func() result
	for mode, m := range modes {
		for what, sql := range map[string]string{"one shard": "select k from t where k = $1", "several shards": "select sum(k)::int from t where $1 > 0"} {
			for proxy, parsed := range []bool{false, true} {
				c := w.connect(proxy)
				w.must(c, "set work_mem = '7MB'")
				w.must(c, "set application_name = 'retry'")
				want := map[string]int{"one shard": w.there, "several shards": 820}[what]
				if parsed {
					if _, err := ask(c, m, sql); err != nil {
						t.Fatal(err)
					}
				}
				asks = append(asks, func() result {
					r := result{what: fmt.Sprintf("%s, %s, parsed before: %v", mode, what, parsed), want: want}
					r.sum, r.err = ask(c, m, sql)
					return r
				})
			}
		}
	}
	lock, err := pgx.Connect(w.within(), w.a.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close(context.Background())
	w.must(lock, "begin")
	w.must(lock, "lock table t")
	results := make(chan result, len(asks))
	for _, ask := range asks {
		go func() { results <- ask() }()
	}
	w.await("queries under way", func() bool {
		return w.ask(w.a.Server, "select count(*)::int from pg_stat_activity where wait_event_type = 'Lock'") == len(asks)
	})
	lose()
	for range asks {
		if r := <-results; r.err != nil || r.sum != r.want {
			t.Errorf("%s: %s: %d, %v", day, r.what, r.sum, r.err)
		}
	}
}

// TestNotRepeated: what may have changed something, and what the client has got in part, is not done again. The session goes on.
func TestNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.must(w.connect(0), "create function add(int) returns int language sql volatile as 'update t set v = v + 1 where k = $1 returning v'")
	sleepy := fmt.Sprintf("update t set v = v + 1 from pg_sleep(3) where k = %d", w.there)
	for what, sql := range map[string]string{
		"08007 a write":                 sleepy,
		"08006 a write in a block":      "begin;" + sleepy,
		"08006 a read in a block":       fmt.Sprintf("begin; select k from t, pg_sleep(3) where k = %d", w.there),
		"08006 a result that has begun": fmt.Sprintf("select k, repeat('x', 9000), case when g > 100 then pg_sleep(3) end from t, generate_series(1, 101) g where k = %d", w.there),
		"08007 several statements":      fmt.Sprintf("update t set v = v + 100 where k = %d; select k from t, pg_sleep(3) where k = %d", w.there, w.there),
	} {
		c, begun := w.connect(0), strings.Contains(what, "begun")
		defer func() {
			if begun && c.IsClosed() {
				return
			}
			if _, err := c.Exec(w.within(), "select 1"); err != nil && code(err) != "25P02" {
				t.Errorf("%s: the session does not go on: %v", what, err)
			}
		}()
		if b, rest, ok := strings.Cut(sql, ";"); ok && b == "begin" {
			w.must(c, b)
			sql = rest
		}
		done := w.later(c, sql)
		defer func() {
			// A client that has half a row cannot be told, and is disconnected.
			if err := <-done; code(err) != what[:5] && (!begun || !c.IsClosed()) {
				t.Errorf("%s: %v", what, err)
			}
		}()
	}
	w.inFlight(w.a.Server, 5)
	w.a.Kill()
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if v := w.ask(w.b, fmt.Sprintf("select v from t where k = %d", w.there)); v != 0 {
			t.Errorf("the row has %d", v)
		}
	})
}

// TestShutdown: a server that stops says that it has rolled back what it was doing, so statements are repeated, writes too. What an
// administrator ends alone is not.
func TestShutdown(t *testing.T) {
	w := newWorld(t)
	var waits []<-chan error
	for mode, m := range modes {
		c := w.connect(len(mode) % 2)
		done := make(chan error, 1)
		go func() {
			_, err := c.Exec(w.within(), "update t set v = v + $2 from pg_sleep(3) where k = $1", m, w.there+0*len(mode), 1)
			done <- err
		}()
		waits = append(waits, done)
	}
	alone := w.connect(0)
	killed := w.later(alone, fmt.Sprintf("select k from t, pg_sleep(60) where k = %d", w.there))
	w.inFlight(w.a.Server, 2) // updates of one row wait for each other
	w.await("the query that is ended", func() bool {
		return w.ask(w.a.Server, "select count(pg_terminate_backend(pid))::int from pg_stat_activity where query like '%pg_sleep(60)%' and pid <> pg_backend_pid() and wait_event = 'PgSleep'") > 0
	})
	if err := <-killed; code(err) != "57P01" {
		t.Errorf("a query whose backend an administrator has ended: %v", err)
	}
	time.Sleep(100 * time.Millisecond)
	if err := w.a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, done := range waits {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if v := w.ask(w.b, fmt.Sprintf("select v from t where k = %d", w.there)); v != len(modes) {
		t.Errorf("the row has %d, not %d", v, len(modes))
	}
}
