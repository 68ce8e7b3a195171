package lossy

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLostWindow: after a failover to a standby that was cut off, what was lost lies in the window that weft.failovers tells.
func TestLostWindow(t *testing.T) {
	w := newWorld(t)
	c := w.connect(0)
	w.must(c, "create table log (k int, n bigint, primary key (k, n))")
	w.must(c, "select weft.shard_table('log', 'k')")
	var mu sync.Mutex
	acknowledged := map[int]time.Time{}
	written := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	writer, ctx, done := w.connect(1), w.within(), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			if _, err := writer.Exec(ctx, fmt.Sprintf("insert into log values (%d, %d)", w.keys[1], n)); err != nil {
				return
			}
			mu.Lock()
			acknowledged[n] = time.Now()
			mu.Unlock()
		}
	}()
	more := func(n int) {
		t.Helper()
		before := written()
		w.await("writes", func() bool { return written() >= before+n })
	}
	more(20)
	time.Sleep(300 * time.Millisecond) // probes see it
	w.cut(1)
	time.Sleep(time.Second)
	more(20)
	w.failOver(1)
	w.generation(1, 2)
	const row = "select from_address, to_address, lossy, lost_bytes, kept_until, at, (select count(*) from weft.failovers) from weft.failovers where shard = 'shop-1'"
	var from, to string
	var lossy bool
	var lost, count int64
	var kept, at time.Time
	w.await("the failover in weft.failovers", func() bool {
		return c.QueryRow(w.within(), row).Scan(&from, &to, &lossy, &lost, &kept, &at, &count) == nil
	})
	if from != w.shards[1].a.Addr() || to != w.shards[1].b.Addr() || !lossy || lost <= 0 || count != 1 {
		t.Errorf("from %s to %s, lossy %v, lost %d bytes, %d failovers", from, to, lossy, lost, count)
	}
	<-done
	there := map[int64]bool{}
	for _, n := range value[[]int64](w, w.shards[1].b, "select array_agg(n) from log") {
		there[n] = true
	}
	missing := 0
	for n, when := range acknowledged {
		if !there[int64(n)] {
			if missing++; when.Before(kept) || when.After(at) {
				t.Errorf("row %d was acknowledged at %s and is gone, outside of %s to %s", n, when, kept, at)
			}
		}
	}
	if missing == 0 {
		t.Error("nothing was lost: the test proves nothing")
	}
	t.Logf("%d of %d acknowledged rows are gone, %d bytes, window %s", missing, len(acknowledged), lost, at.Sub(kept))
	w.await("the metric", func() bool {
		return strings.Contains(w.metrics(0), `weft_failovers_total{lossy="yes",shard="shop-1"} 1`) && strings.Contains(w.metrics(1), `weft_failovers_total{lossy="yes",shard="shop-1"} 1`)
	})
}
