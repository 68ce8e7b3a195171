package gather

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// phase is a point in the life of a gathered statement at which something can be
// made to happen: it stands still there.
type phase struct {
	name  string
	set   string // before
	sql   string
	table string // that is locked on shard 1; "" if the statement takes long by itself
	where string // which backend is at work, on shard 1 or at home
}

const (
	join = "select a.k, b.v from oth a join oth b on a.v = b.k order by 1"
	// long is a remainder that takes minutes.
	long = "select count(*) from oth a, oth b, oth c, oth d where a.v + b.v + c.v + d.v = -1"

	waits  = "wait_event_type = 'Lock'"
	inline = "query like '%unnest(%'"
	staged = "query like '%weft_gather%' and query not like 'CREATE%'"

	stageAll = "set weft.inline_bytes = 1"
)

var phases = []phase{
	{"append", "", "select k, pad from big", "big", waits},
	{"merge", "", "select k, pad from big order by k", "big", waits},
	{"distinct", "", "select distinct g from big", "big", waits},
	{"aggregate", "", "select g, count(*), sum(v) from big group by g", "big", waits},
	{"one after another", "set weft.max_parallel_shards = 1", "select count(*) from big", "big", waits},
	{"gather inline", "", join, "oth", waits},
	{"gather staged", stageAll, join, "oth", waits},
	{"finish inline", "", long, "", inline},
	{"finish staged", stageAll, long, "", staged},
}

// stand lets a statement begin and come to its phase, unless it ends before: statement_timeout
// may be over before anybody has looked. The returned function ends what it waits for.
func (p *phase) stand(w *world, run func() error) (shard, pid int, release func(), done chan error) {
	release = func() {}
	if p.table != "" {
		shard, release = 1, w.block(1, p.table)
	}
	done = make(chan error, 1)
	go func() { done <- run() }()
	return shard, w.victim(shard, p.where, done), release, done
}

// mode is how a client sends a statement.
type mode struct {
	name string
	run  func(c *pgconn.PgConn, sql string) error
}

var modes = []mode{
	{"simple", func(c *pgconn.PgConn, sql string) error {
		_, err := c.Exec(context.Background(), sql).ReadAll()
		return err
	}},
	{"extended", func(c *pgconn.PgConn, sql string) error {
		return c.ExecParams(context.Background(), sql, nil, nil, nil, nil).Read().Err
	}},
	{"pipeline", func(c *pgconn.PgConn, sql string) error {
		var b pgconn.Batch
		b.ExecParams("select 1", nil, nil, nil, nil)
		b.ExecParams(sql, nil, nil, nil, nil)
		b.ExecParams("select 2", nil, nil, nil, nil)
		_, err := c.ExecBatch(context.Background(), &b).ReadAll()
		return err
	}},
}

// await returns how a statement ended, which must not take long.
func await(t *testing.T, what string, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		t.Fatalf("%s: no answer", what)
		return nil
	}
}

// ended judges how a statement ended: with that error, and a session that works.
func (w *world) ended(c *pgconn.PgConn, what string, err error, want string, open bool) {
	w.t.Helper()
	if got := code(err); got != want {
		w.t.Errorf("%s: got %v, want %s", what, err, want)
	}
	if c.IsClosed() {
		w.t.Errorf("%s: the session has ended", what)
		return
	}
	if open {
		if c.TxStatus() != 'E' {
			w.t.Errorf("%s: the transaction is %c", what, c.TxStatus())
		}
		if _, err := ask(c, "select 1"); code(err) != "25P02" {
			w.t.Errorf("%s: in the failed transaction %v", what, err)
		}
		if _, err := ask(c, "rollback"); err != nil {
			w.t.Errorf("%s: rollback: %v", what, err)
		}
	} else if c.TxStatus() != 'I' {
		w.t.Errorf("%s: the status is %c", what, c.TxStatus())
	}
	w.works(c, what)
}

// TestLost: a backend is terminated while a statement needs it. The client hears
// 08006 once, and its session goes on.
func TestLost(t *testing.T) {
	w := newWorld(t, "g_lost", nil)
	for _, p := range phases {
		for i, m := range modes {
			for _, open := range []bool{false, true} {
				what := fmt.Sprintf("%s, %s, block %t", p.name, m.name, open)
				if open && i == 1 || !open && i == 2 && !strings.HasPrefix(p.name, "finish") {
					continue // the others say it all
				}
				c := w.conn().PgConn()
				if _, err := ask(c, p.set); err != nil {
					t.Fatal(err)
				}
				if open {
					_, _ = ask(c, "begin")
				}
				shard, pid, release, done := p.stand(w, func() error { return m.run(c, p.sql) })
				d := w.direct(shard)
				if !value[bool](t, d, "select pg_terminate_backend($1)", pid) {
					t.Fatalf("%s: cannot terminate %d", what, pid)
				}
				_ = d.Close(context.Background())
				err := await(t, what, done)
				release()
				w.ended(c, what, err, "08006", open)
				_ = c.Close(context.Background())
			}
		}
	}
	w.quiet()
	w.free(0)
}

// TestLostRows: the client is in the middle of many rows, and slow, when a
// backend is lost.
func TestLostRows(t *testing.T) {
	w := newHeavyWorld(t, "g_rows", nil)
	for _, sql := range []string{
		"select k, pad from big", "select k, pad from big order by k",
		"select k, pad from big order by pad collate \"C\", k", // on PostgreSQL
		"select b.k, b.pad from big b join oth o on b.v % 300 + 1 = o.v",
	} {
		for _, open := range []bool{false, true} {
			what := fmt.Sprintf("%s, block %t", sql, open)
			c := w.conn().PgConn()
			if open {
				_, _ = ask(c, "begin")
			}
			rr := c.ExecParams(context.Background(), sql, nil, nil, nil, nil)
			if !rr.NextRow() {
				t.Fatalf("%s: no row", what)
			}
			w.endSender(what)
			n := 1
			for rr.NextRow() {
				n++
			}
			_, err := rr.Close()
			if err == nil || n >= bigRows {
				t.Errorf("%s: %d rows, %v", what, n, err)
			}
			w.ended(c, what, err, "08006", open)
			_ = c.Close(context.Background())
		}
	}
	w.quiet()
	w.free(0)
}

// endSender terminates a backend that has rows to send, and waits for weft to take them. Backends that clean up after a statement are at work as well:
// nobody misses them.
func (w *world) endSender(what string) {
	w.t.Helper()
	sends := "select pid from pg_stat_activity where " + busy + " and wait_event = 'ClientWrite' limit 1"
	var direct [shards]*pgx.Conn
	for i := range direct {
		direct[i] = w.direct(i)
		defer direct[i].Close(context.Background())
	}
	within(w.t, what+": a backend sends rows", func() bool {
		for _, d := range direct {
			var first, second int
			_ = d.QueryRow(context.Background(), sends).Scan(&first)
			time.Sleep(20 * time.Millisecond)
			_ = d.QueryRow(context.Background(), sends).Scan(&second)
			if first != 0 && first == second {
				must(w.t, d, "select pg_terminate_backend($1)", first)
				return true
			}
		}
		return false
	})
}

// TestDead: a server is gone at once. Whoever needs it is told, nobody gets the
// rows of the others alone, and it is found again.
func TestDead(t *testing.T) {
	w := newHeavyWorld(t, "g_dead", nil)
	victim := w.weft.Shards()[2]
	for _, how := range []string{"backend killed", "server killed"} {
		c := w.conn().PgConn()
		rr := c.ExecParams(context.Background(), "select k, pad from big order by k", nil, nil, nil, nil)
		if !rr.NextRow() {
			t.Fatal("no row")
		}
		sender := w.victim(2, "wait_event = 'ClientWrite'") // it has rows that nobody has got
		if how == "backend killed" {
			if err := syscall.Kill(sender, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		} else {
			victim.Kill()
		}
		n := 1
		for rr.NextRow() {
			n++
		}
		_, err := rr.Close()
		if code(err) != "08006" || c.IsClosed() {
			t.Errorf("%s: %d rows, %v, ended %t", how, n, err, c.IsClosed())
		}
		if how == "server killed" {
			for _, sql := range []string{"select count(*) from oth", "select k from oth", "select k from oth order by k", join, "select k from oth limit 1000"} {
				if got, err := ask(c, sql); !strings.HasPrefix(code(err), "08") {
					t.Errorf("%s gave %q %v while a shard is dead", sql, got, err)
				}
			}
			if _, err := ask(c, fmt.Sprintf("select v from oth where k = %d", w.keyOn(1, 0))); err != nil {
				t.Errorf("another shard: %v", err)
			}
			if err := victim.Restart(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		within(t, how+": it serves again", func() bool {
			_, err := ask(c, "select count(*) from oth")
			return err == nil
		})
		w.works(c, how)
	}
	w.quiet()
	w.free(0)
}
