package growth

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
)

var (
	tables  = flag.Int("tables", 0, "how many sharded tables TestWide has")
	proxies = flag.Int("proxies", 1, "how many proxies TestWide has")
)

// TestWide: buckets move while many sharded tables have rows in each of them and many proxies must let go of
// a bucket before its rows go. The figures are printed; the test fails if a row is lost or twice.
func TestWide(t *testing.T) {
	if *tables == 0 {
		t.Skip("takes minutes; make bench-wide runs it")
	}
	const wide, keys = "wide", 2000
	name := func(i int) string { return fmt.Sprintf("t%03d", i) }
	list := make([]*harness.Program, *proxies)
	for i := range list { // one after the other: each takes free ports
		list[i] = harness.StartProgram(t, func(c *config.Config) { c.Pool.MaxPerShard = 4 })
	}
	list[0].CreateDatabase(t, wide)
	c := list[0].Connect(t, "postgres", "dbname="+wide)
	must(t, c, fmt.Sprintf("select weft.grow_buckets(%d)", 256))
	for i := range *tables {
		must(t, c, fmt.Sprintf("create table %s (k bigint primary key, v bigint not null default 0, body text)", name(i)))
		must(t, c, fmt.Sprintf("select weft.shard_table('%s', 'k')", name(i)))
		must(t, c, fmt.Sprintf("insert into %s select k, 0, repeat('x', 100) from generate_series(1, %d) k", name(i), keys))
	}
	var writes atomic.Int64
	var end atomic.Bool
	var work sync.WaitGroup
	for _, p := range list {
		conn := p.Connect(t, "postgres", "dbname="+wide)
		work.Go(func() {
			for !end.Load() {
				tag, err := conn.Exec(context.Background(), fmt.Sprintf("update %s set v = v + 1 where k = $1", name(rand.IntN(*tables))), rand.IntN(keys)+1)
				if err != nil || tag.RowsAffected() != 1 {
					t.Errorf("update: %v %v", tag, err)
					return
				}
				writes.Add(1)
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	defer func() { end.Store(true); work.Wait() }()
	for _, way := range [][2]string{{"shard-0", "shard-1"}, {"shard-1", "shard-0"}} {
		var job string
		if err := c.QueryRow(t.Context(), "select weft.move_buckets($1, $2)", bucketsOn(t, way[0], 32), way[1]).Scan(&job); err != nil {
			t.Fatal(err)
		}
		must(t, c, "select weft.wait_move($1)", job)
	}
	end.Store(true)
	work.Wait()
	rows, sum := int64(0), int64(0)
	for i := range *tables {
		n, s := ints(t, c, "select count(*), sum(v) from "+name(i))
		rows, sum = rows+n, sum+s
	}
	if rows != int64(*tables*keys) || sum != writes.Load() {
		t.Errorf("%d rows, want %d; sum %d, want %d", rows, *tables*keys, sum, writes.Load())
	}
	for _, r := range maps(t, c, "select rows, bytes, rounds, given_up, pause_p50_ms, pause_p99_ms, pause_max_ms, read_pause_p99_ms, extract(epoch from ended - started)::float8 as seconds from weft.moves where rows > 0") {
		t.Logf("%d tables, %d proxies: %v", *tables, *proxies, r)
	}
}

// bucketsOn names n buckets that are on a shard.
func bucketsOn(t *testing.T, shard string, n int) string {
	t.Helper()
	snap := harness.Snapshot(t)
	text := ""
	for b, s := range snap.Placement {
		if snap.Shards[s].Name == shard && n > 0 {
			if n--; text != "" {
				text += ","
			}
			text += fmt.Sprint(b)
		}
	}
	return text
}
