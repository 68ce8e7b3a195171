package harness

import (
	"context"
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
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

// Move carries random buckets of a database to random shards until the test is over.
func Move(tb testing.TB, target *Target, database string) {
	tb.Helper()
	c := target.Connect(tb, "postgres", "dbname="+database)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	jobs := 0
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := moveSome(ctx, tb, c); err != nil && ctx.Err() == nil {
				tb.Errorf("a move of buckets: %v", err)
				return
			}
			jobs++
		}
	})
	tb.Cleanup(func() {
		// Not in the middle of a job: what comes after the test may look at the shards.
		stop()
		wg.Wait()
		done, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		c := target.Connect(tb, "postgres", "dbname="+database)
		for _, m := range Snapshot(tb).Moves {
			if m.Database == database {
				_, _ = c.Exec(done, "select weft.wait_move($1)", m.ID)
			}
		}
		tb.Logf("%d moves of buckets meanwhile", jobs)
	})
}

// moveSome makes one job.
func moveSome(ctx context.Context, tb testing.TB, c *pgx.Conn) error {
	snap := Snapshot(tb)
	var list []string
	for b := range snap.Placement {
		if rand.IntN(6) == 0 {
			list = append(list, strconv.Itoa(b))
		}
	}
	if len(list) == 0 {
		return nil
	}
	var job string
	to := snap.Shards[rand.IntN(len(snap.Shards))].Name
	if err := c.QueryRow(ctx, "select weft.move_buckets($1, $2)", strings.Join(list, ","), to).Scan(&job); err != nil {
		return err
	}
	_, err := c.Exec(ctx, "select weft.wait_move($1)", job)
	return err
}
