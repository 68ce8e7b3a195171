package primary

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestAtomicReadsRepeated: queries with weft.read = 'atomic' that come while a shard dies, freezes, or ends the connections on which weft holds
// writers back are asked again. The client notices a pause, and sees all of a transaction or nothing.
func TestAtomicReadsRepeated(t *testing.T) {
	w := newWorld(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	read := [2]atomic.Int64{}
	for i := range 8 {
		mode := []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement}[i/2%2]
		c := w.connect(i % 2)
		w.must(c, "set weft.read = 'atomic'")
		wg.Go(func() {
			for ctx.Err() == nil {
				var sum int
				if err := c.QueryRow(w.within(), "select sum(v)::int from t", mode).Scan(&sum); err != nil || sum != 0 {
					t.Errorf("%v: %d, %+v", mode, sum, err)
					return
				}
				read[i%2].Add(1)
			}
		})
	}
	writing, enough := context.WithCancel(ctx)
	defer enough()
	var writers sync.WaitGroup
	move := fmt.Sprintf("update t set v = v + case k when %d then 1 else -1 end where k in (%[1]d, %d)", w.here, w.there)
	for i := range 2 {
		c := w.connect(i)
		writers.Go(func() {
			for writing.Err() == nil {
				_, _ = c.Exec(w.within(), move) // some fail
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	goesOn := func() {
		t.Helper()
		before := [2]int64{read[0].Load(), read[1].Load()}
		w.await("atomic reads", func() bool { return t.Failed() || read[0].Load() > before[0]+20 && read[1].Load() > before[1]+20 })
	}
	for range 5 {
		goesOn()
		w.ask(w.a.Server, "select count(pg_terminate_backend(pid))::int from pg_stat_activity where query ~ 'weft_gate' and pid <> pg_backend_pid()")
	}
	goesOn()
	w.a.Pause()
	time.Sleep(3 * time.Second)
	w.a.Resume()
	goesOn()
	enough()
	writers.Wait()
	w.await("the standby", func() bool {
		return w.ask(w.a.Server, "select count(*)::int from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()") == 1
	})
	w.a.Kill()
	time.Sleep(time.Second)
	if err := w.b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	goesOn()
}
