package heat

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// levels makes TestRebalanceByLoad check how much work shards have, too. A machine that stands still
// while one shard has a statement gives that shard work which no plan foresees.
var levels = flag.Bool("levels", false, "check the shares of work before and after a rebalance by load")

// ask is rows for a call that may fail because too little is known, or because a proxy stood still or
// is slow to answer.
func (w *world) ask(c *pgx.Conn, sql string) ([]map[string]any, error) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	rows, _ := c.Query(ctx, sql)
	out, err := pgx.CollectRows(rows, pgx.RowToMap)
	var e *pgconn.PgError
	if err != nil && (!errors.As(err, &e) || c.IsClosed() || (e.Code != "55000" || e.Hint == "") && e.Code != "57P03") {
		w.Fatalf("%s: %v", sql, err)
	}
	return out, err
}

// answer asks until there is an answer.
func (w *world) answer(c *pgx.Conn, sql string) (rows []map[string]any) {
	w.Helper()
	w.eventually(func() (err error) {
		rows, err = w.ask(c, sql)
		return err
	})
	return rows
}

// places returns the shard of each bucket.
func (w *world) places() []string {
	w.Helper()
	snap := harness.Snapshot(w.T)
	var out []string
	for _, at := range snap.PlacementOf(w.db, "") {
		out = append(out, snap.Shards[at].Name)
	}
	return out
}

// updates counts what clients have changed. maybe are updates of which it is not known: a machine
// that stands still for seconds makes proxies refuse them.
type updates struct{ done, maybe atomic.Int64 }

// account reads or changes an account, and counts changes. One of five statements reads the account
// hot: writers would wait for each other there, which is work without end on a slow machine. Most of a
// statement's work is a sleep, which is as long on a slow machine.
func (u *updates) account(hot int64) func(ctx context.Context, c *pgx.Conn, r *rand.Rand, l *crew) error {
	return func(ctx context.Context, c *pgx.Conn, r *rand.Rand, _ *crew) error {
		id, read := 1+r.Int64N(keys), r.IntN(2) == 0
		if r.IntN(5) == 0 {
			id, read = hot, true
		}
		if read {
			_, err := c.Exec(ctx, "select n, pg_sleep(0.02) from acct where id = $1", id)
			return stoodStill(c, err, nil)
		}
		tag, err := c.Exec(ctx, "update acct set n = n + 1 where id = $1 returning pg_sleep(0.02)", id)
		if err == nil {
			u.done.Add(tag.RowsAffected())
			return nil
		}
		return stoodStill(c, err, &u.maybe)
	}
}

// stoodStill lets an error go, and counts it, that comes from a proxy that stood still.
func stoodStill(c *pgx.Conn, err error, count *atomic.Int64) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != "57P03" || c.IsClosed() {
		return err
	}
	if count != nil {
		count.Add(1)
	}
	return nil
}

// A shard with most of the work gives some of it away, as a dry run says before: what has moved does
// not go back, and every row is there once. With -levels the work evens out, too, and the bucket of the
// hottest key stays.
func TestRebalanceByLoad(t *testing.T) {
	w := newWorld(t, "byload", plain, plain)
	c := w.conn(0, "postgres")
	w.eventually(func() error {
		if _, err := w.ask(c, "select weft.rebalance('load')"); err == nil || !strings.Contains(err.Error(), "too little is known") {
			return fmt.Errorf("without any work: %w", err)
		}
		return nil
	})
	w.wait(c, w.answer(c, "select weft.move_buckets('0-55', 'shard-1')"))
	const hot = 42
	u := &updates{}
	l := w.start(u.account(hot))
	began := time.Now()
	plan := w.skewed()
	t.Logf("plan after %v and %d statements: %v", time.Since(began), l.done.Load(), plan)
	place := w.bucketOf(c, hot)
	before := w.places()
	w.wait(c, w.begin())
	after := w.places()
	moved := 0
	for b := range before {
		if before[b] != after[b] {
			moved++
			if after[b] != "shard-0" || *levels && b == place {
				t.Errorf("bucket %d has gone from %s to %s; the hot key is in bucket %d", b, before[b], after[b], place)
			}
		}
	}
	t.Logf("%d buckets have moved", moved)
	if *levels {
		w.even()
	}
	// Whatever the work looks like now, what has moved stays.
	if rows, err := w.ask(w.conn(1, "postgres"), "select weft.rebalance('load', threshold => 0.01)"); err == nil && len(rows) > 0 {
		w.wait(c, rows)
	}
	for b, at := range w.places() {
		if before[b] != after[b] && at != after[b] {
			t.Errorf("bucket %d went to %s, and is on %s again", b, after[b], at)
		}
	}
	l.halt()
	w.whole(c, u)
}

// whole checks that every account is there once, with all updates, and on its shard.
func (w *world) whole(c *pgx.Conn, u *updates) {
	w.Helper()
	sum := w.answer(c, "select count(*) as count, sum(n)::bigint as sum from acct")[0]
	if n, done, maybe := sum["sum"].(int64), u.done.Load(), u.maybe.Load(); sum["count"] != int64(keys) || n < done || n > done+maybe {
		w.Errorf("%v, want %d rows, and %d or up to %d more", sum, keys, done, maybe)
	}
	for _, f := range w.answer(c, "select * from weft.verify_placement()") {
		if f["misplaced"] != "0" {
			w.Errorf("%v", f)
		}
	}
}

// wait waits for the job that a call has started.
func (w *world) wait(c *pgx.Conn, rows []map[string]any) {
	w.Helper()
	if len(rows) != 1 {
		w.Fatalf("no job: %v", rows)
	}
	for _, job := range rows[0] {
		w.answer(c, fmt.Sprintf("select weft.wait_move('%s')", job))
	}
}

// bucketOf waits until a key is known to be hot, and returns its bucket.
func (w *world) bucketOf(c *pgx.Conn, key int) (bucket int) {
	w.Helper()
	w.await("the hot key", func() (any, bool) {
		rows := w.answer(c, fmt.Sprintf("select bucket from weft.hot_keys where key = '%d'", key))
		if len(rows) == 1 {
			bucket = int(rows[0]["bucket"].(int64))
		}
		return rows, len(rows) == 1
	})
	return bucket
}

// skewed waits until a plan by load takes work off shard-1, and returns it.
func (w *world) skewed() (plan map[string]any) {
	w.Helper()
	c := w.conn(1, "postgres")
	w.eventually(func() error {
		rows, err := w.ask(c, "select * from weft.rebalance('load', dry_run => true)")
		if err != nil {
			return err
		}
		if len(rows) != 1 || rows[0]["from_shard"] != "shard-1" || rows[0]["to_shard"] != "shard-0" || !strings.Contains(rows[0]["reason"].(string), "times its share of the work") {
			return fmt.Errorf("plan %v", rows)
		}
		level := func(column string) float64 {
			x, err := strconv.ParseFloat(rows[0][column].(string), 64)
			if err != nil {
				w.Fatalf("%v", rows)
			}
			return x
		}
		from, to := level("from_before"), level("to_before")
		if level("from_after") >= from || level("to_after") <= to {
			w.Errorf("plan %v", rows)
		}
		if *levels && (from < 1.25 || level("from_after") > 1.15 || to > 0.75 || level("to_after") < 0.85) {
			return fmt.Errorf("plan %v", rows)
		}
		plan = rows[0]
		return nil
	})
	return plan
}

// begin starts a job by load.
func (w *world) begin() (rows []map[string]any) {
	w.Helper()
	c := w.conn(0, "postgres")
	w.eventually(func() (err error) {
		rows, err = w.ask(c, "select weft.rebalance('load')")
		if err == nil && len(rows) == 0 {
			err = errors.New("there is nothing to move")
		}
		return err
	})
	return rows
}

// even waits until the shards have about the same work.
func (w *world) even() {
	w.Helper()
	c := w.conn(1, "postgres")
	w.eventually(func() error {
		rows := w.answer(c, "select shard, over_mean, busy_ms_s from weft.load")
		for _, r := range rows {
			if r["over_mean"].(float64) > 1.3 {
				return fmt.Errorf("%v", rows)
			}
		}
		w.Logf("load: %v", rows)
		return nil
	})
}
