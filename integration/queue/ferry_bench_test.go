package queue

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/heat/load"
)

// rate lets clients run a read for so long, and returns how many were answered per second. part is the time that is measured.
func (w *world) rate(clients []*pgx.Conn, warm, part time.Duration, sql string, halfway func()) float64 {
	w.Helper()
	var done atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Exec(context.Background(), sql, 42); err != nil {
					w.Errorf("client %d: %v", i, err)
					return
				}
				done.Add(1)
			}
		})
	}
	time.Sleep(warm)
	before, began := done.Load(), time.Now()
	if halfway != nil {
		halfway()
	}
	time.Sleep(part)
	n, took := done.Load()-before, time.Since(began)
	if halfway != nil {
		halfway()
	}
	stop()
	wg.Wait()
	return float64(n) / took.Seconds()
}

// Bar 13: 64 clients that send one read. One proxy shares executions, the other one does not; they take turns.
func TestShareBench(t *testing.T) {
	if *bench == 0 {
		t.Skip("compares times, which other work on the machine changes; make bench-heat runs it. TestNotStale is the short form.")
	}
	w := newWorld(t, "sharebench", shares(config.CoalesceOn), shares(config.ThrottleOff))
	a := w.conn(0, "postgres")
	w.must(a, "create table item (id bigint, i int, price numeric)")
	w.must(a, "select weft.shard_table('item', 'id', colocate_with => 'acct')")
	w.must(a, "insert into item select 42, i, i / 7.0 from generate_series(1, 5000) i")
	w.must(a, "create index on item (id)")
	direct := w.direct(42)
	served := func() int64 {
		return w.number(a, "select coalesce(sum(served), 0)::int8 from weft.queues where kind = 'ferry'")
	}
	var b load.Bars
	for _, read := range []struct {
		name, sql string
		gain      float64
	}{
		{"a read of 5,000 rows", "select count(*), sum(price), max(i) from item where id = $1", 2},
		{"a read of one row", "select n, id from acct where id = $1", 0.95},
	} {
		one := 1 / w.rate([]*pgx.Conn{direct}, time.Second, *bench/4, read.sql, nil)
		var clients [2][]*pgx.Conn
		for i := range 128 {
			clients[i%2] = append(clients[i%2], w.conn(i%2, "postgres"))
		}
		var gains, executed []float64
		for range 3 {
			var on, off float64
			var at []int64
			var began, took time.Duration
			start := time.Now()
			on = w.rate(clients[0], 5*time.Second, *bench, read.sql, func() {
				at = append(at, served())
				began, took = took, time.Since(start)
			})
			off = w.rate(clients[1], 5*time.Second, *bench, read.sql, nil)
			per := float64(at[1]-at[0]) / (took - began).Seconds()
			t.Logf("%s, %.2f ms by one client of the shard: %.0f answers per second by %.0f executions; %.0f answers without sharing: %.2f", read.name, 1000*one, on, per, off, on/off)
			gains, executed = append(gains, on/off), append(executed, per)
		}
		slices.Sort(gains)
		slices.Sort(executed)
		b.AtLeast("13 "+read.name+" by 64 clients, beside no sharing, median of 3", gains[1], read.gain)
		b.AtMost("13 executions of "+read.name+" per second, beside 4 at a time", executed[1], 4/one)
		for _, c := range append(clients[0], clients[1]...) {
			_ = c.Close(t.Context())
		}
	}
	if t.Logf("\n%s", &b); b.Missed() > 0 {
		t.Error("a bar is missed")
	}
}
