package crash

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver/pgtest"
	"weft/reshard/carrier"
)

// fenced is a world with table f (id, v) and two proxies: the first moves rows, the second does not hear of it.
type fenced struct {
	*world
	snapShards []string
}

func newFenced(t *testing.T, db string) *fenced {
	t.Helper()
	w := &fenced{world: newWorld(t, db, nil)}
	w.proxy(nil)
	must(t, w.conn(0), "create table f (id bigint primary key, v text)")
	must(t, w.conn(0), "select weft.shard_table('f', 'id')")
	for _, s := range w.snapshot().Shards {
		w.snapShards = append(w.snapShards, s.Name)
	}
	return w
}

// move begins to take all buckets of one shard to another, and returns the job.
func (w *fenced) move(from, to int) string {
	w.t.Helper()
	snap := w.snapshot()
	var buckets []string
	for b, at := range snap.PlacementOf(w.db, "") {
		if int(at) == from {
			buckets = append(buckets, fmt.Sprint(b))
		}
	}
	return value[string](w.t, w.conn(0), "select weft.move_buckets($1, $2)", strings.Join(buckets, ","), w.snapShards[to])
}

// count is how many rows with an id a shard has.
func (w *fenced) count(shard int, id int64) int {
	w.t.Helper()
	return value[int](w.t, w.eye(shard), "select count(*)::int from f where id = $1", id)
}

// settle waits for a job, and fails unless every row is where it should be.
func (w *fenced) settle(job string) {
	w.t.Helper()
	c := w.conn(0)
	must(w.t, c, "select weft.wait_move($1)", job)
	w.placed(c)
}

func (w *fenced) placed(c *pgx.Conn) {
	w.t.Helper()
	rows, _ := c.Query(context.Background(), "select * from weft.verify_placement()")
	found, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range found {
		if f["misplaced"] != "0" {
			w.t.Errorf("%v", f)
		}
	}
}

// refused reports whether an answer is one of those that a client of a fenced proxy gets.
func refused(code string) bool {
	return code == "57P01" || code == "57P03" || code == "08006" || code == "40001"
}

// TestFencePaused: a proxy stands still with a transaction that has written, with a statement that its backend has not
// read yet, and in the middle of a load. Its lease ends, rows move, it wakes up: nothing of it is where the rows were.
func TestFencePaused(t *testing.T) {
	together(t)
	w := newFenced(t, "c_fence_paused")
	const from, to = 1, 2
	a, b := w.keyOn(from, 0), w.keyOn(from, 1)

	open := w.conn(1)
	must(t, open, "begin")
	must(t, open, "insert into f values ($1, 'open')", a)

	// A backend that does not read: what is sent to it stays in its socket.
	deaf := w.conn(1)
	must(t, deaf, "begin")
	must(t, deaf, "select v from f where id = $1", b)
	pid := value[int](t, w.eye(from), "select max(pid) from pg_stat_activity where datname = $1 and state = 'idle in transaction' and query like 'select v from f%'", w.db)
	if pid == 0 {
		t.Fatal("there is no backend")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if !resumed {
			resumed = true
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	defer resume()
	told := later(t, deaf, "insert into f values ($1, 'deaf')", b)

	// Others come and go.
	var next atomic.Int64
	var acknowledged sync.Map
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for range 4 {
		c := w.conn(1)
		wg.Go(func() {
			for ctx.Err() == nil {
				id := next.Add(1) + 1_000_000
				if _, err := c.Exec(ctx, "insert into f values ($1, 'load')", id); err != nil {
					return
				}
				acknowledged.Store(id, true)
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	w.weft[1].Signal(t, syscall.SIGSTOP)
	awake := false
	t.Cleanup(func() {
		if !awake {
			w.weft[1].Signal(t, syscall.SIGCONT)
		}
	})

	job := w.move(from, to)
	within(t, patience, "the fence waits for a backend that does not end", func() bool {
		return value[int](t, w.eye(from), "select revision::int from weft_gate.fence") > 0
	})
	time.Sleep(time.Second)
	if moved := w.snapshot().PlacementOf(w.db, ""); !contains(moved, from) {
		t.Error("rows have moved although a backend of the paused proxy has not ended")
	}
	resume()
	w.settle(job)
	w.weft[1].Signal(t, syscall.SIGCONT)
	awake = true
	if err := <-told; !refused(code(err)) {
		t.Errorf("the client whose statement was in the socket is told %v", err)
	}
	if got, err := exec(open, patience, "commit"); !refused(got) {
		t.Errorf("the client with an open transaction is told %v", err)
	}
	time.Sleep(500 * time.Millisecond)
	stop()
	wg.Wait()
	c := w.conn(1)
	within(t, patience, "the proxy serves again", func() bool {
		got, _ := exec(c, 10*time.Second, "insert into f values ($1, 'again') on conflict do nothing", a)
		return got == ""
	})
	w.placed(w.conn(0))
	for shard := range w.snapShards {
		if n, want := w.count(shard, a), map[int]int{to: 1}[shard]; n != want {
			t.Errorf("shard %d has the row %d times", shard, n)
		}
	}
	if n := w.count(from, b) + w.count(to, b); n != 0 {
		t.Errorf("a row that was never committed is there %d times", n)
	}
	lost := 0
	acknowledged.Range(func(id, _ any) bool {
		if value[int](t, c, "select count(*)::int from f where id = $1", id) != 1 {
			lost++
		}
		return true
	})
	if lost > 0 {
		t.Errorf("%d acknowledged rows are lost", lost)
	}
}

func contains(placement []uint16, shard int) bool {
	for _, at := range placement {
		if int(at) == shard {
			return true
		}
	}
	return false
}

// TestFenceCutOff: a proxy that has lost etcd, and nothing else, is kept out of the shards whose rows move, says so, and
// serves the others. When it has etcd again, it serves all.
func TestFenceCutOff(t *testing.T) {
	together(t)
	w := newFenced(t, "c_fence_cut")
	const from, to, beside = 1, 2, 3
	a, b, away := w.keyOn(from, 0), w.keyOn(from, 1), w.keyOn(beside, 0)
	c := w.conn(1)
	must(t, c, "insert into f values ($1, 'before')", a)
	w.wire[1].sever()
	defer w.wire[1].reconnect()
	// As long as nobody moves rows it serves on, also after its lease has ended.
	within(t, patience, "the lease ends", func() bool {
		live, err := w.store.Live(t.Context())
		return err == nil && len(live.Proxies) == 1
	})
	must(t, c, "insert into f values ($1, 'cut off')", b)
	w.settle(w.move(from, to))

	for i := range 5 {
		got, err := exec(c, 10*time.Second, "insert into f values ($1, 'stale')", w.keyOn(from, 2+i))
		if !refused(got) || i > 0 && got != "57P03" {
			t.Errorf("a write to rows that have moved is told %v", err)
		}
		if got, err := exec(c, 10*time.Second, "select v from f where id = $1", a); got != "57P03" {
			t.Errorf("a read of rows that have moved is told %v", err)
		}
	}
	if _, err := c.Exec(t.Context(), "select v from f where id = $1", a); err == nil || !strings.Contains(err.Error(), "keeps this proxy out") {
		t.Errorf("told %v", err)
	}
	must(t, c, "insert into f values ($1, 'beside')", away)

	w.wire[1].reconnect()
	within(t, patience, "the proxy serves again", func() bool {
		got, _ := exec(c, 10*time.Second, "update f set v = 'after' where id = $1", a)
		return got == ""
	})
	if n := value[int](t, c, "select count(*)::int from f"); n != 3 {
		t.Errorf("%d rows of 3", n)
	}
	if v := value[string](t, w.eye(to), "select v from f where id = $1", a); v != "after" {
		t.Errorf("the row is %q", v)
	}
	w.placed(w.conn(0))
}

// TestHeldWithoutEtcd: a proxy loses etcd while a round holds writes of some buckets. Their writers are told so when the
// round should have been over, and nobody else notices anything. When the proxy has etcd again, it serves all.
func TestHeldWithoutEtcd(t *testing.T) {
	together(t)
	w := newFenced(t, "c_held")
	const from, to, beside = 1, 2, 3
	a, away := w.keyOn(from, 0), w.keyOn(beside, 0)
	c, other := w.conn(1), w.conn(1)
	must(t, c, "insert into f values ($1, 'before'), ($2, 'before')", a, away)
	w.weft[0].StopAt(t, "move-writes-clear", false)
	job := w.move(from, to)
	within(t, patience, "writes are held", w.weft[0].Stopped)
	w.wire[1].sever()
	defer w.wire[1].reconnect()
	began := time.Now()
	for i := range 3 {
		got, err := exec(c, patience, "update f set v = 'held' where id = $1", a)
		if got != "57P03" || !strings.Contains(err.Error(), "not known yet whether they have arrived") {
			t.Errorf("a held write is told %v", err)
		}
		took := time.Since(began)
		if limit := carrier.DefaultMaxPause + 2*time.Second; i == 0 && took < time.Second || pgtest.Late(t, took, limit+500*time.Millisecond) {
			t.Errorf("it was held for %s", took)
		}
		began = time.Now()
		if v := value[string](t, c, "select v from f where id = $1", a); v != "before" {
			t.Errorf("read %q", v)
		}
		must(t, other, "update f set v = 'beside' where id = $1", away)
		if n := value[int](t, other, "select count(*)::int from f"); n != 2 {
			t.Errorf("%d rows of 2", n)
		}
		if took := time.Since(began); pgtest.Late(t, took, time.Second) {
			t.Errorf("others were held for %s", took)
		}
	}
	w.weft[0].GoOn()
	w.wire[1].reconnect()
	within(t, patience, "the proxy serves again", func() bool {
		got, _ := exec(c, 10*time.Second, "update f set v = 'after' where id = $1", a)
		return got == ""
	})
	w.settle(job)
	if v := value[string](t, w.eye(to), "select v from f where id = $1", a); v != "after" {
		t.Errorf("the row is %q", v)
	}
}
