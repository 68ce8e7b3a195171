package harness

import (
	"context"
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var moving = flag.Bool("moving", false, "carry buckets from shard to shard all the time while tests compare weft with PostgreSQL")

// KeepMoving carries random buckets of a database to random shards until the test is over, if the
// tests were started with -moving. Whatever a test compares must be the same then.
func KeepMoving(tb testing.TB, target *Target, database string) {
	tb.Helper()
	if *moving {
		Move(tb, target, database)
	}
}

// still is held while a job of Move runs.
var still sync.Mutex

// Still keeps Move from beginning another job until release is called: for tests that look at one
// shard after the other.
func Still() (release func()) {
	still.Lock()
	return still.Unlock
}

// Move carries random buckets of a database to random shards until the test is over.
func Move(tb testing.TB, target *Target, database string) {
	tb.Helper()
	c := target.Connect(tb, "postgres", "dbname="+database)
	var wg sync.WaitGroup
	var over atomic.Bool
	jobs := 0
	wg.Go(func() {
		for !over.Load() {
			if err := moveSome(c); err != nil {
				tb.Errorf("a move of buckets: %v", err)
				return
			}
			jobs++
			time.Sleep(10 * time.Millisecond) // others may want it still
		}
	})
	tb.Cleanup(func() {
		over.Store(true)
		wg.Wait()
		tb.Logf("%d moves of buckets meanwhile", jobs)
	})
}

// moveSome makes one job.
func moveSome(c *pgx.Conn) error {
	still.Lock()
	defer still.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	rows, _ := c.Query(ctx, "select name from weft.shards order by 1")
	shards, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var list []string
	for b := range 64 {
		if rand.IntN(6) == 0 {
			list = append(list, strconv.Itoa(b))
		}
	}
	if len(list) == 0 {
		return nil
	}
	var job string
	if err := c.QueryRow(ctx, "select weft.move_buckets($1, $2)", strings.Join(list, ","), shards[rand.IntN(len(shards))]).Scan(&job); err != nil {
		return err
	}
	_, err = c.Exec(ctx, "select weft.wait_move($1)", job)
	return err
}
