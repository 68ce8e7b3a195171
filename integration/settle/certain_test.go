package settle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// told is what clients were told of their writes, by tag.
type told struct {
	mu      sync.Mutex
	is      map[int64]bool // whether the write is there
	errs    map[string]int
	unclear []string
}

// note notes how a client's transaction ended that wrote rows with a tag.
func (o *told) note(way string, tag int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var e *pgconn.PgError
	switch {
	case err == nil:
		o.is[tag] = true
	case !errors.As(err, &e) || e.Code == "08007" || strings.Contains(e.Detail, "may or may not"):
		o.unclear = append(o.unclear, fmt.Sprintf("%s: %v", way, err))
	default:
		o.is[tag] = false
		o.errs[way+": "+e.Code+" "+e.Message]++
	}
}

func (o *told) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.is)
}

// ways are the ways in which clients write two rows of one shard with a tag, in one transaction.
var ways = map[string]func(ctx context.Context, c *pgx.Conn, k int, tag int64) error{
	"simple": func(ctx context.Context, c *pgx.Conn, k int, tag int64) error {
		_, err := c.PgConn().Exec(ctx, fmt.Sprintf("insert into c values (%d, %d), (%[1]d, %[2]d)", k, tag)).ReadAll()
		return err
	},
	"text of several": func(ctx context.Context, c *pgx.Conn, k int, tag int64) error {
		_, err := c.PgConn().Exec(ctx, fmt.Sprintf("insert into c values (%d, %d); insert into c values (%[1]d, %[2]d)", k, tag)).ReadAll()
		return err
	},
	"extended": func(ctx context.Context, c *pgx.Conn, k int, tag int64) error {
		return c.PgConn().ExecParams(ctx, "insert into c values ($1, $2), ($1, $2)", [][]byte{fmt.Append(nil, k), fmt.Append(nil, tag)}, nil, nil, nil).Read().Err
	},
	"prepared": func(ctx context.Context, c *pgx.Conn, k int, tag int64) error {
		_, err := c.Exec(ctx, "insert into c values ($1, $2), ($1, $2)", pgx.QueryExecModeCacheStatement, k, tag)
		return err
	},
	"pipeline": func(ctx context.Context, c *pgx.Conn, k int, tag int64) error {
		b := &pgconn.Batch{}
		for range 2 {
			b.ExecParams("insert into c values ($1, $2)", [][]byte{fmt.Append(nil, k), fmt.Append(nil, tag)}, nil, nil, nil)
		}
		_, err := c.PgConn().ExecBatch(ctx, b).ReadAll()
		return err
	},
	"block": func(ctx context.Context, c *pgx.Conn, k int, tag int64) error {
		for _, sql := range []string{"begin", fmt.Sprintf("insert into c values (%d, %d)", k, tag), fmt.Sprintf("insert into c values (%d, %d)", k, tag), "commit"} {
			if _, err := c.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
				if c.PgConn().TxStatus() != 'I' {
					_, _ = c.PgConn().Exec(ctx, "rollback").ReadAll()
				}
				return err
			}
		}
		return nil
	},
}

// TestCertain: primaries with synchronous standbys die under clients that want certainty. Each client is told how its transactions ended, and it is so.
func TestCertain(t *testing.T) {
	w := newWorld(t)
	c := w.connect(0)
	w.must(c, "create table c (k int, tag bigint)")
	w.must(c, "select weft.shard_table('c', 'k')")
	for i := range w.primaries {
		w.caughtUp(i)
		w.synchronous(i)
	}
	o := &told{is: map[int64]bool{}, errs: map[string]int{}}
	ctx, stop := context.WithCancel(w.within())
	var wg sync.WaitGroup
	n := 0
	for way, write := range ways {
		for shard, k := range w.keys {
			n++
			conn, tag := w.connect(n%2), int64(n)*1_000_000
			w.must(conn, "set weft.commit = 'certain'")
			wg.Go(func() {
				for end := tag + 999_999; ctx.Err() == nil && tag < end; {
					tag++
					err := write(w.within(), conn, k, tag)
					o.note(fmt.Sprintf("%s on shop-%d", way, shard), tag, err)
					if conn.IsClosed() {
						return
					}
				}
			})
		}
	}
	more := func(n int) {
		t.Helper()
		before := o.count()
		w.await("writes", func() bool { return o.count() >= before+n })
	}
	more(60)
	for _, shard := range []int{follower, decider} {
		w.primaries[shard].Kill()
		time.Sleep(200 * time.Millisecond)
		w.promote(shard)
		more(60)
	}
	stop()
	wg.Wait()
	w.await("nothing is in doubt", func() bool { return w.left(w.standbys[decider])+w.left(w.standbys[follower]) == 0 })
	there := map[int64]int{}
	for _, s := range w.standbys {
		rows, err := w.direct(s).Query(w.within(), "select tag, count(*) from c group by tag")
		if err != nil {
			t.Fatal(err)
		}
		var tag int64
		var count int
		if _, err := pgx.ForEachRow(rows, []any{&tag, &count}, func() error { there[tag] += count; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	yes := 0
	for tag, is := range o.is {
		switch {
		case is && there[tag] != 2:
			t.Errorf("a client was told that %d is written, and there are %d rows of it", tag, there[tag])
		case !is && there[tag] != 0:
			t.Errorf("a client was told that %d is not written, and there are %d rows of it", tag, there[tag])
		}
		if is {
			yes++
		}
	}
	for _, u := range o.unclear {
		t.Errorf("not certain: %s", u)
	}
	t.Logf("%d transactions were written, %d not: %v", yes, len(o.is)-yes, o.errs)
}
