package crash

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
			_, err := d.Exec(t.Context(), "begin; lock table weft.gate in share mode nowait; rollback")
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
