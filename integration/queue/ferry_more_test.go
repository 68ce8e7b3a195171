package queue

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/config"
)

// Reads are shared and exact while the key changes shards.
func TestMoving(t *testing.T) {
	w := newWorld(t, "ferrymove", shares(config.CoalesceOn), shares(config.CoalesceOn))
	a := w.conn(0, "postgres")
	halt := w.reads(8)
	w.awaitFerries(a, "on")
	halt()
	b := w.conn(1, "postgres")
	bucket, moves := w.number(a, "select bucket::int8 from weft.hot_keys where key = '42' limit 1"), 0
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		defer over.Store(true)
		for ; moves < 6; moves++ {
			var to, job string
			err := b.QueryRow(context.Background(), "select name from weft.shards where name <> (select shard from weft.buckets where bucket = $1 limit 1) limit 1", bucket).Scan(&to)
			if err == nil {
				err = b.QueryRow(context.Background(), "select weft.move_buckets($1, $2)", strconv.FormatInt(bucket, 10), to).Scan(&job)
			}
			if err == nil {
				_, err = b.Exec(context.Background(), "select weft.wait_move($1)", job)
			}
			if err != nil {
				t.Errorf("move %d: %v", moves, err)
				return
			}
		}
	})
	w.stale(32, 5000, func() bool { return !over.Load() })
	wg.Wait()
	t.Logf("%d shared, %d moves", w.shared(a), moves)
}

// Columns that were added before a client has asked are in its answer.
func TestSchema(t *testing.T) {
	w := newWorld(t, "ferryddl", shares(config.CoalesceOn), shares(config.CoalesceOn))
	a, b := w.conn(0, "postgres"), w.conn(1, "postgres")
	halt := w.reads(8)
	w.awaitFerries(a, "on")
	halt()
	var columns atomic.Int64
	columns.Store(2)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range 24 {
		mode := []string{"exec", "simple_protocol"}[i%2]
		c := w.conn(0, "postgres", "default_query_exec_mode="+mode)
		wg.Go(func() {
			for ctx.Err() == nil && !w.Failed() {
				before := columns.Load()
				rows, _ := c.Query(context.Background(), "select * from acct where id = $1", 42)
				n := len(rows.FieldDescriptions())
				rows.Close()
				if rows.Err() != nil || int64(n) < before {
					t.Errorf("reader %d: %d columns after %d were acknowledged: %v", i, n, before, rows.Err())
				}
			}
		})
	}
	for i := range 6 {
		w.must(b, "alter table acct add column c"+strings.Repeat("x", i)+" int default 1")
		columns.Add(1)
		time.Sleep(200 * time.Millisecond)
	}
	stop()
	wg.Wait()
	t.Logf("%d shared", w.shared(a))
}
