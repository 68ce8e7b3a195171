package harness

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
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
	rows, _ = c.Query(ctx, "select bucket::int from weft.buckets order by 1")
	buckets, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return err
	}
	to := shards[rand.IntN(len(shards))]
	if len(buckets) < 80 && rand.IntN(3) == 0 {
		if done, err := isolateSome(ctx, c, to); done || err != nil {
			return err
		}
	}
	var list []string
	for _, b := range buckets {
		if rand.IntN(6) == 0 {
			list = append(list, strconv.Itoa(b))
		}
	}
	if len(list) == 0 {
		return nil
	}
	var job string
	if err := c.QueryRow(ctx, "select weft.move_buckets($1, $2)", strings.Join(list, ","), to).Scan(&job); err != nil {
		return err
	}
	_, err = c.Exec(ctx, "select weft.wait_move($1)", job)
	return err
}

// isolateSome takes the rows of some key to a shard, in a bucket of their own. It reports false if
// it found no key that can be isolated and is not.
func isolateSome(ctx context.Context, c *pgx.Conn, to string) (bool, error) {
	rows, _ := c.Query(ctx, "select quote_ident(schema) || '.' || quote_ident(name), quote_ident(columns[1]) from weft.tables where database = current_database() and kind = 'sharded' and vindex = 'hash'")
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Name, Key string }])
	if err != nil || len(tables) == 0 {
		return false, err
	}
	t := tables[rand.IntN(len(tables))]
	rows, _ = c.Query(ctx, "select "+t.Key+"::text from "+t.Name+" where "+t.Key+" is not null limit 50")
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(keys) == 0 {
		return false, nil // dropped, or empty
	}
	rows, _ = c.Query(ctx, "select weft.isolate($1, $2, $3)", t.Name, keys[rand.IntN(len(keys))], to)
	jobs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	var e *pgconn.PgError
	if errors.As(err, &e) && (e.Code == "55006" || e.Code == "42P01" || e.Code == "42809" || e.Code == "0A000") {
		return false, nil // isolated there already, dropped or declared anew meanwhile, or a date in another style
	}
	if err != nil || len(jobs) == 0 {
		return err == nil, err
	}
	_, err = c.Exec(ctx, "select weft.wait_move($1)", jobs[0])
	return true, err
}
