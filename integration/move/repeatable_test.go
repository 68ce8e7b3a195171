package move

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/config"
	"weft/integration/harness"
	"weft/proxy"
	"weft/twopc"
)

// TestSnapshotsInTheMaking: a round waits for a block that is taking its snapshots. Shards that
// take theirs after the round would show its rows a second time.
func TestSnapshotsInTheMaking(t *testing.T) {
	w := newWorld(t, "move_making", 1)
	reached, resume := make(chan bool), make(chan bool)
	var armed atomic.Bool
	w.proxies = append(w.proxies, harness.StartWeftWith(t, func(*config.Config) {}, func(p twopc.Point) {
		if p == proxy.SnapshotsNoted && armed.CompareAndSwap(true, false) {
			reached <- true
			<-resume
		}
	}))
	goOn := sync.OnceFunc(func() { close(resume) })
	t.Cleanup(goOn)
	c, slow := w.conn(0), w.conn(1)
	job := value[string](w, c, "select weft.move_buckets('0-63', $1, until => 1, pause_target => '20ms')", names(t)[2])
	w.until(c, "select state = 'paused' from weft.moves where job = $1", job)
	w.must(slow, "begin isolation level repeatable read")
	armed.Store(true)
	done := make(chan error, 1)
	go func() {
		for id := range 20 {
			var n int
			err := slow.QueryRow(context.Background(), "select count(*) from acct where id = $1", 1+id).Scan(&n)
			if err == nil && n != 1 {
				err = fmt.Errorf("account %d is there %d times", 1+id, n)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	<-reached
	w.must(c, "select weft.set_move($1, until => 100, pause_target => '400ms', duty => 100)", job)
	w.must(c, "select weft.resume_moves($1)", job)
	w.until(c, "select state = 'done' or blocked_by is not null from weft.moves where job = $1", job)
	goOn()
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.must(c, "select weft.wait_move($1)", job)
	if n := value[int](w, slow, "select count(*) from acct"); n != accounts {
		t.Errorf("%d accounts after the move", n)
	}
	w.must(slow, "commit")
	w.settled(c)
}

// TestEarlySnapshots: a block has begun before rows move and takes its snapshots after it. What it
// sees is exact, or the block has to be run again.
func TestEarlySnapshots(t *testing.T) {
	w := newWorld(t, "move_early", 2)
	c := w.conn(0)
	const rr, serial = "repeatable read", "serializable"
	for to, tc := range []struct {
		level, before string
		unnoted       bool // the job begins after the block
	}{
		{level: rr},
		{level: rr, before: "set local work_mem = '2MB'"},
		{level: rr, before: "show work_mem"},
		{level: rr, before: "set local weft.read = 'atomic'"},
		{level: rr, before: "prepare early as select count(*) from acct"},
		{level: rr, before: "set local weft.scatter = on", unnoted: true},
		{level: rr, before: "select 1", unnoted: true},
		{level: serial},
		{level: serial, before: "select 1"},
		{level: serial, before: "set local weft.serializable = 'per_shard'"},
	} {
		slow, job, noting := w.conn(1), "", !tc.unnoted
		if noting {
			job = value[string](w, c, "select weft.move_buckets('0-63', $1, until => 1, pause_target => '10ms')", names(t)[to%shards])
			w.until(c, "select state in ('paused', 'done') from weft.moves where job = $1", job)
		}
		w.must(slow, "begin isolation level "+tc.level)
		if tc.before != "" {
			w.must(slow, tc.before)
		}
		if noting && value[bool](w, c, "select state = 'paused' from weft.moves where job = $1", job) {
			w.must(c, "select weft.set_move($1, until => 100, pause_target => '400ms', duty => 100)", job)
			w.must(c, "select weft.resume_moves($1)", job)
		} else if !noting {
			job = value[string](w, c, "select weft.move_buckets('0-63', $1)", names(t)[to%shards])
		}
		w.until(c, "select state = 'done' or blocked_by is not null from weft.moves where job = $1", job)
		what := fmt.Sprintf("%+v", tc)
		w.exact(what, func() (int, error) {
			var n int
			err := slow.QueryRow(t.Context(), "select count(*) from acct").Scan(&n)
			return n, err
		}, accounts)
		w.exact(what, func() (int, error) {
			var n int
			err := slow.QueryRow(t.Context(), "select count(*) from acct where id = 7").Scan(&n)
			return n, err
		}, 1)
		w.must(slow, "rollback")
		w.must(c, "select weft.wait_move($1)", job)
		_ = slow.Close(t.Context())
	}
	w.settled(c)
}

// TestEarlyBind: the first statement of a block is bound before rows move, and executed after. A server takes the snapshot when it binds.
func TestEarlyBind(t *testing.T) {
	w := newWorld(t, "move_bound", 2)
	c := w.conn(0)
	for to := range 4 {
		slow := w.conn(1)
		if _, err := slow.PgConn().Prepare(t.Context(), "n", "select count(*) from acct", nil); err != nil {
			t.Fatal(err)
		}
		job := value[string](w, c, "select weft.move_buckets('0-63', $1, until => 1, pause_target => '10ms')", names(t)[to%shards])
		w.until(c, "select state in ('paused', 'done') from weft.moves where job = $1", job)
		if to%2 == 1 {
			w.must(c, fmt.Sprintf("alter table acct add column c%d int", to)) // the statement is planned anew
		}
		w.must(slow, "begin isolation level repeatable read")
		f := slow.PgConn().Frontend()
		f.SendBind(&pgproto3.Bind{PreparedStatement: "n"})
		f.SendDescribe(&pgproto3.Describe{ObjectType: 'P'})
		f.Send(&pgproto3.Flush{})
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		for described := false; !described; {
			m, err := f.Receive()
			if err != nil {
				t.Fatal(err)
			}
			_, described = m.(*pgproto3.RowDescription)
		}
		if value[bool](w, c, "select state = 'paused' from weft.moves where job = $1", job) {
			w.must(c, "select weft.set_move($1, until => 100, pause_target => '400ms', duty => 100)", job)
			w.must(c, "select weft.resume_moves($1)", job)
		}
		w.until(c, "select state = 'done' or blocked_by is not null from weft.moves where job = $1", job)
		f.SendExecute(&pgproto3.Execute{})
		f.SendSync(&pgproto3.Sync{})
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		w.exact(fmt.Sprint("move ", to), func() (n int, failed error) {
			for {
				switch m, err := f.Receive(); m := m.(type) {
				case *pgproto3.DataRow:
					n, failed = strconv.Atoi(string(m.Values[0]))
				case *pgproto3.ErrorResponse:
					failed = pgconn.ErrorResponseToPgError(m)
				case *pgproto3.ReadyForQuery:
					return n, failed
				case nil:
					t.Fatal(err)
				}
			}
		}, accounts)
		_ = slow.Close(t.Context())
		w.must(c, "select weft.wait_move($1)", job)
	}
	w.settled(c)
}

// exact fails unless a count is as wanted, or the block must be run again.
func (w *world) exact(what string, count func() (int, error), want int) {
	w.Helper()
	n, err := count()
	var e *pgconn.PgError
	switch {
	case err == nil && n != want:
		w.Errorf("%s: %d, want %d", what, n, want)
	case err == nil:
	case !errors.As(err, &e) || e.Code != "40001" && e.Code != "25P02" && e.Code != "0A000":
		w.Errorf("%s: %v", what, err)
	}
}

// TestExportedSnapshot: a snapshot that was exported before rows moved does not show them where
// they no longer are.
func TestExportedSnapshot(t *testing.T) {
	w := newWorld(t, "move_exported", 2)
	c, giver, taker := w.conn(0), w.conn(0), w.conn(1)
	job := value[string](w, c, "select weft.move_buckets('0-63', $1, until => 1, pause_target => '10ms')", names(t)[2])
	w.until(c, "select state = 'paused' from weft.moves where job = $1", job)
	w.must(giver, "begin isolation level repeatable read")
	id := ""
	if err := giver.QueryRow(t.Context(), "select pg_export_snapshot()", pgx.QueryExecModeSimpleProtocol).Scan(&id); err != nil {
		t.Fatal(err)
	}
	get := func() (int, error) {
		w.must(taker, "begin isolation level repeatable read")
		defer w.must(taker, "rollback")
		if _, err := taker.Exec(t.Context(), "set transaction snapshot '"+id+"'"); err != nil {
			return 0, err
		}
		var n int
		err := taker.QueryRow(t.Context(), "select count(*) from acct").Scan(&n)
		return n, err
	}
	if n, err := get(); n != accounts {
		t.Errorf("before the move: %d, %v", n, err)
	}
	w.must(c, "select weft.set_move($1, until => 100, pause_target => '400ms', duty => 100)", job)
	w.must(c, "select weft.resume_moves($1)", job)
	w.must(c, "select weft.wait_move($1)", job)
	var e *pgconn.PgError
	if n, err := get(); !errors.As(err, &e) || e.Code != "40001" {
		t.Errorf("after the move: %d, %v", n, err)
	}
	if n := value[int](w, giver, "select count(*) from acct"); n != accounts {
		t.Errorf("the giver sees %d", n)
	}
	w.must(giver, "commit")
	w.settled(c)
}
