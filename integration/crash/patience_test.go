package crash

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver/pgtest"
)

// late is how long after its time a statement may end that a shard does not: a second, and what a busy machine adds.
const late = time.Second + 1500*time.Millisecond

// TestPatience: statement_timeout, lock_timeout, cancel requests and clients that go end a statement on a shard that stands still:
// one that cannot be reached, one whose backend is stopped, one that is stopped as a whole. The session goes on.
func TestPatience(t *testing.T) {
	w := newNetwork(t, "c_patience", func(int) string { return "127.0.0.1" })
	shard := w.any.Shards()[1]
	backends := func(signal syscall.Signal) {
		c := w.direct(1)
		rows, err := c.Query(t.Context(), "select pid from pg_stat_activity where datname = $1 and pid <> pg_backend_pid() and backend_type = 'client backend' and query ~ 'id|count|from s|COPY|copy|update'", w.db)
		if err != nil {
			t.Fatal(err)
		}
		pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, signal)
		}
		_ = c.Close(t.Context())
	}
	for i, way := range []struct {
		name       string
		stop, goOn func()
	}{
		{"unreachable", w.cables[1].freeze, w.wholeAgain},
		{"backend stopped", func() { backends(syscall.SIGSTOP) }, func() { backends(syscall.SIGCONT) }},
		{"server stopped", shard.Pause, shard.Resume},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Cleanup(way.goOn)
			w.impatience(t, i, way.stop, way.goOn)
		})
	}
}

// impatience tries all kinds of statements while a shard stands still, in short one of three.
func (w *network) impatience(t *testing.T, part int, stop, goOn func()) {
	read, write := "select v from s where id = $1", "update s set v = 79 where id = $1"
	simple, extended := pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec
	for i, test := range []struct {
		name, sql string
		mode      pgx.QueryExecMode
		by        string // statement_timeout, local, login or cancel
		block     bool
		want      []string
	}{
		{"read", read, simple, "statement_timeout", false, []string{"57014"}},
		{"read", read, extended, "statement_timeout", false, []string{"57014"}},
		{"read", read, extended, "cancel", false, []string{"57014"}},
		{"read in a block", read, simple, "local", true, []string{"57014"}},
		{"read by login", read, extended, "login", false, []string{"57014"}},
		{"several shards", "select count(*), $1::bigint from s", simple, "statement_timeout", false, []string{"57014"}},
		{"several shards", "select count(*), $1::bigint from s", extended, "cancel", false, []string{"57014"}},
		{"write", write, simple, "statement_timeout", false, []string{"08007", "57014"}},
		{"write", write, extended, "cancel", false, []string{"08007", "57014"}},
		{"write in a block", write, extended, "statement_timeout", true, []string{"57014"}},
		{"write on several", "update s set v = 79 where $1::bigint > 0", simple, "statement_timeout", false, []string{"57014", "08007"}},
		{"COMMIT of one", "commit", simple, "statement_timeout", true, []string{"08007", "57014"}},
		{"COMMIT of several", "commit", simple, "cancel", true, []string{"08007", "57014"}},
		{"several shards in a block", "select count(*), $1::bigint from s a join s b on a.v = b.id", extended, "cancel", true, []string{"57014"}},
	} {
		if *rounds == 1 && i%3 != part {
			continue
		}
		name := test.name + " by " + test.by
		options := "dbname=" + w.db
		if test.by == "login" {
			options += " options='-c statement_timeout=500ms'"
		}
		c := w.weft[0].Connect(t, "postgres", options)
		must(t, c, read, test.mode, w.a) // there is a backend
		switch test.by {
		case "statement_timeout":
			must(t, c, "set statement_timeout = '500ms'")
		}
		if test.block {
			must(t, c, "begin")
		}
		if test.by == "local" {
			must(t, c, "set local statement_timeout = '500ms'")
		}
		if strings.HasPrefix(test.name, "COMMIT") {
			must(t, c, "update s set v = $1 where id = $2", 1000+i, w.a)
		}
		if test.name == "COMMIT of several" {
			must(t, c, "update s set v = $1 where id = $2", 1000+i, w.b)
		}
		args := []any{test.mode, w.a}
		if test.sql == "commit" {
			args = args[:1]
		}
		stop()
		began := time.Now()
		if test.by == "cancel" {
			time.AfterFunc(500*time.Millisecond, func() {
				ctx, end := context.WithTimeout(context.Background(), 10*time.Second)
				defer end()
				_ = c.PgConn().CancelRequest(ctx)
			})
		}
		got, err := exec(c, patience, test.sql, args...)
		took := time.Since(began)
		goOn()
		t.Logf("%s: %q after %s", name, got, took.Round(10*time.Millisecond))
		if !slices.Contains(test.want, got) || took < 400*time.Millisecond || pgtest.Late(t, took, 500*time.Millisecond+late) || c.IsClosed() {
			t.Errorf("%s: told %v after %s", name, err, took)
		}
		if got == "57014" && test.by != "cancel" && !strings.Contains(err.Error(), "due to statement timeout") || got == "57014" && test.by == "cancel" && !strings.Contains(err.Error(), "due to user request") {
			t.Errorf("%s: told %v", name, err)
		}
		if test.block && test.sql != "commit" {
			if got, err := exec(c, patience, "select 1"); got != "25P02" {
				t.Errorf("%s: and then %v", name, err)
			}
			must(t, c, "rollback")
		}
		within(t, 20*time.Second, name+": the shard serves again", func() bool {
			got, _ := exec(c, patience, write, w.a)
			return got == ""
		})
		_ = c.Close(t.Context())
	}
	w.lockTimeout(t, stop, goOn)
	w.goneWithout(t, stop, goOn)
	w.piped(t, stop, goOn)
	within(t, 12*time.Second, "no transaction is prepared", func() bool { return w.prepared() == 0 })
}

// piped: several statements at once, and COPY.
func (w *network) piped(t *testing.T, stop, goOn func()) {
	for _, name := range []string{"pipeline", "COPY"} {
		c := w.conn(0)
		must(t, c, "set statement_timeout = '500ms'")
		must(t, c, "select v from s where id = $1", w.a)
		stop()
		began := time.Now()
		ctx, end := context.WithTimeout(t.Context(), patience)
		var err error
		if name == "COPY" {
			_, err = c.PgConn().CopyFrom(ctx, strings.NewReader(fmt.Sprintf("%d\t1\n", -w.a)), "copy s from stdin")
		} else {
			var b pgx.Batch
			b.Queue("select v from s where id = $1", w.a)
			b.Queue("select v from s where id = $1", w.a)
			err = c.SendBatch(ctx, &b).Close()
		}
		end()
		took := time.Since(began)
		goOn()
		if got := code(err); got != "57014" && got != "08007" || pgtest.Late(t, took, 2*500*time.Millisecond+late) || c.IsClosed() {
			t.Errorf("%s: told %v after %s", name, err, took)
		}
		t.Logf("%s: %q after %s", name, code(err), took.Round(10*time.Millisecond))
		_ = c.Close(t.Context())
	}
}

// lockTimeout: a statement that waits for a lock, which nobody gives up for it.
func (w *network) lockTimeout(t *testing.T, stop, goOn func()) {
	holder, c := w.conn(0), w.conn(0)
	must(t, c, "set lock_timeout = '1s'")
	must(t, holder, "begin")
	must(t, holder, "update s set v = 1 where id = $1", w.a)
	must(t, c, "begin")
	began := time.Now()
	done := later(t, c, "update s set v = 2 where id = $1", pgx.QueryExecModeSimpleProtocol, w.a)
	time.Sleep(500 * time.Millisecond)
	stop()
	err := <-done
	took := time.Since(began)
	goOn()
	if got := code(err); got != "55P03" || pgtest.Late(t, took, time.Second+late) || c.IsClosed() {
		t.Errorf("lock_timeout: told %v after %s", err, took)
	}
	t.Logf("lock_timeout: %q after %s", code(err), took.Round(10*time.Millisecond))
	must(t, c, "rollback")
	_, _ = exec(holder, patience, "rollback")
}

// goneWithout: a client that is gone leaves nothing locked on other shards.
func (w *network) goneWithout(t *testing.T, stop, goOn func()) {
	c := w.conn(0)
	must(t, c, "begin")
	must(t, c, "update s set v = v where id = $1", w.b)
	must(t, c, "select v from s where id = $1", w.a)
	stop()
	done := later(t, c, "select v from s where id = $1", w.a)
	time.Sleep(200 * time.Millisecond)
	_ = c.PgConn().Conn().Close()
	<-done
	d := w.direct(2)
	must(t, d, "set lock_timeout = '2min'")
	began := time.Now()
	must(t, d, "select v from s where id = $1 for update", w.b)
	took := time.Since(began)
	goOn()
	if pgtest.Late(t, took, time.Second+late) {
		t.Errorf("what a client has left stays locked for %s", took)
	}
	t.Logf("a client that is gone: %s", took.Round(10*time.Millisecond))
	_ = d.Close(t.Context())
}

// TestGivenUp: a backend that weft has given up, because its shard could not be reached, is ended as soon as the shard can be
// reached again, although PostgreSQL does not notice that nobody waits for it: it waits for a lock.
func TestGivenUp(t *testing.T) {
	together(t)
	w := newNetwork(t, "c_given_up", func(int) string { return "127.0.0.1" })
	holder, c := w.direct(1), w.conn(0)
	must(t, holder, "begin")
	must(t, holder, "update s set v = v where id = $1", w.a)
	waits := func() int {
		return value[int](t, w.eye(1), "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like 'update s set v = 5%'")
	}
	done := later(t, c, "update s set v = 5 where id = $1", pgx.QueryExecModeSimpleProtocol, w.a)
	within(t, patience, "it waits for the lock", func() bool { return waits() == 1 })
	w.cables[1].freeze()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if err := c.PgConn().CancelRequest(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; code(err) != "57014" && code(err) != "08007" {
		t.Errorf("told %v", err)
	}
	if waits() != 1 {
		t.Error("the backend has ended although nothing could reach it: the test shows nothing")
	}
	w.wholeAgain()
	within(t, 15*time.Second, "the backend is ended", func() bool { return waits() == 0 })
	must(t, holder, "rollback")
	if v := value[int](t, c, "select v::int from s where id = $1", w.a); v == 5 {
		t.Error("what was given up is done")
	}
}
