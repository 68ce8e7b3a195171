package crash

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver/pgtest"
	"weft/twopc"
)

// TestHung: a proxy that stands still in the middle of a commit leaves nothing prepared and no gate held: its shard
// ends the deciding transaction, and another proxy what has been prepared. When it wakes up, it does not commit by
// half.
func TestHung(t *testing.T) {
	together(t)
	b := newBank(t, "c_hung")
	r := newRand(*seed + 5)
	for n, point := range []twopc.Point{twopc.AfterDecide, twopc.DuringPrepare, twopc.AfterPrepare, twopc.AfterCommit} {
		c := b.conn(0)
		shards := b.transfer(c, r, n+1, 3)
		p := b.weft[0]
		p.StopAt(t, string(point), false)
		done := later(t, c, "commit", pgx.QueryExecModeSimpleProtocol)
		within(t, patience, "stops", p.Stopped)
		p.Signal(t, syscall.SIGSTOP)
		began := time.Now()
		free := func(shard int) bool {
			d := b.eye(shard)
			_, err := d.Exec(t.Context(), "begin; lock table weft_gate.gate in share mode nowait; rollback")
			if err != nil {
				must(t, d, "rollback")
			}
			return err == nil
		}
		within(t, 12*time.Second, fmt.Sprintf("%s: nothing is prepared", point), func() bool { return b.prepared() == 0 })
		for _, shard := range shards {
			within(t, 12*time.Second, fmt.Sprintf("%s: the gate of shard %d is free", point, shard), func() bool { return free(shard) })
		}
		t.Logf("%s: free after %s", point, time.Since(began).Round(10*time.Millisecond))
		p.Signal(t, syscall.SIGCONT)
		p.GoOn()
		err := <-done
		parts, sum := b.applied(n + 1)
		if parts != 0 && parts != len(shards) || sum != b.total || (err == nil) != (parts == len(shards)) && code(err) != "08007" {
			t.Errorf("%s: told %v, %d of %d parts, sum %d of %d", point, err, parts, len(shards), sum, b.total)
		}
		_ = c.Close(t.Context())
	}
}

// TestHungIdle: a proxy that stands still leaves no row locked by transactions that its clients have open. What an idle
// client of another proxy has locked stays so. When the proxy wakes up, its clients hear that their transactions are gone, and it
// goes on.
func TestHungIdle(t *testing.T) {
	together(t)
	w := newWorld(t, "c_hung_idle", nil)
	w.shop()
	p := w.proxy(nil)
	a, b, other := w.keyOn(1, 0), w.keyOn(2, 0), w.keyOn(1, 1)
	c, live := w.conn(1), w.conn(0)
	must(t, live, "begin")
	must(t, live, "update s set v = 3 where id = $1", other)
	must(t, c, "begin")
	must(t, c, "update s set v = 1 where id = $1", a)
	must(t, c, "update s set v = 1 where id = $1", b)
	// One more, whose transaction is younger than the last question to its proxy.
	time.Sleep(2 * time.Second)
	young := w.conn(1)
	must(t, young, "begin")
	third := w.keyOn(3, 0)
	must(t, young, "update s set v = 1 where id = $1", third)
	p.Signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { p.Signal(t, syscall.SIGCONT) })
	began := time.Now()
	for shard, key := range map[int]int64{1: a, 2: b, 3: third} {
		d := w.direct(shard)
		must(t, d, "set lock_timeout = '2min'")
		must(t, d, "select v from s where id = $1 for update", key)
		if took := time.Since(began); pgtest.Late(t, took, 5*time.Second+2*time.Second) { // and what a busy machine adds
			t.Errorf("the row on shard %d is locked for %s", shard, took)
		} else {
			t.Logf("the row on shard %d is free after %s", shard, took.Round(10*time.Millisecond))
		}
		_ = d.Close(t.Context())
	}
	p.Signal(t, syscall.SIGCONT)
	if got, err := exec(c, patience, "update s set v = 2 where id = $1", a); got != "57P01" && got != "08006" {
		t.Errorf("a client of the proxy that has woken up is told %v", err)
	}
	fresh := w.conn(1)
	within(t, 10*time.Second, "the proxy serves again", func() bool {
		got, _ := exec(fresh, patience, "update s set v = 5 where id = $1", a)
		return got == ""
	})
	must(t, live, "commit")
	if v := value[int](t, fresh, "select v::int from s where id = $1", other); v != 3 {
		t.Errorf("what an idle client of another proxy had written is lost: %d", v)
	}
}
