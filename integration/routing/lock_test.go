package routing

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestQueue lets workers take rows of a queue on all shards, in order: each row is
// taken once, and none is left.
func TestQueue(t *testing.T) {
	db, p := pairs(t, "queue", 120)
	for _, how := range []string{"for update skip locked", "for update"} {
		p.Both(t, "reset", "update pairs set n = 0")
		ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
		var wg sync.WaitGroup
		for range 5 {
			conn := harness.Weft(t).Connect(t, "postgres", "dbname="+db)
			wg.Go(func() {
				for n := 1; n > 0 && !t.Failed(); {
					var err error
					if n, err = takeSome(ctx, conn, how); err != nil {
						t.Errorf("%s: %v", how, err)
					}
				}
			})
		}
		wg.Wait()
		stop()
		if got := p.Weft.Must(t, "select count(*), sum(n) from pairs where n = 1").Results[0].Rows; fmt.Sprint(got) != "[120 | 120 | ]" {
			t.Errorf("%s: %v", how, got)
		}
	}
}

// takeSome takes the first rows that nobody has taken. It returns how many.
func takeSome(ctx context.Context, conn *pgx.Conn, how string) (int, error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx) // after Commit it does nothing
	rows, err := tx.Query(ctx, "select k from pairs where n = 0 order by v desc limit 3 "+how)
	if err != nil {
		return 0, err
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return 0, err
	}
	for _, k := range keys {
		if _, err := tx.Exec(ctx, "update pairs set n = n + 1 where k = $1", k); err != nil {
			return 0, err
		}
	}
	if len(keys) == 0 {
		// Others may have the last ones, and give them back.
		var left int
		return left, tx.QueryRow(ctx, "select count(*) from pairs where n = 0").Scan(&left)
	}
	return len(keys), tx.Commit(ctx)
}

// TestQueueInOneStatement lets workers take jobs, each as one statement: every job is
// done once.
func TestQueueInOneStatement(t *testing.T) {
	db, p := pairs(t, "queue1", 160)
	const pick = "select k from pairs where n = 0 order by v limit 2 for update skip locked"
	for _, take := range []string{
		"update pairs set n = n + 1 where k = (select k from pairs where n = 0 order by v limit 1 for update skip locked) returning k",
		"update pairs set n = n + 1 where k in (" + pick + ") returning k",
		"with p as (" + pick + ") update pairs set n = n + 1 from p where p.k = pairs.k returning pairs.k",
		// v is no key: all shards are asked for it.
		"update pairs set n = n + 1 where v in (select v from pairs where n = 0 order by k limit 2 for update skip locked) returning k",
		"delete from pairs using (" + pick + ") q where q.k = pairs.k returning pairs.k",
	} {
		p.Both(t, "reset", "update pairs set n = 0")
		ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
		var wg sync.WaitGroup
		var mu sync.Mutex
		times := map[int64]int{}
		for range 5 {
			conn := harness.Weft(t).Connect(t, "postgres", "dbname="+db)
			wg.Go(func() {
				for !t.Failed() {
					keys, err := drain(ctx, conn, take)
					if err != nil {
						t.Errorf("%s: %v", take, err)
						return
					}
					mu.Lock()
					for _, k := range keys {
						times[k]++
					}
					over := len(times) == 160
					mu.Unlock()
					if over {
						return
					}
				}
			})
		}
		wg.Wait()
		stop()
		for k, n := range times {
			if n != 1 {
				t.Errorf("%s: job %d was done %d times", take, k, n)
			}
		}
	}
}

// drain runs a statement that returns keys.
func drain(ctx context.Context, conn *pgx.Conn, sql string) ([]int64, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// TestLockAfterWait waits for a row that is gone then: the next one is locked.
func TestLockAfterWait(t *testing.T) {
	db, _ := pairs(t, "lockwait", 20)
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	a := harness.Weft(t).Connect(t, "postgres", "dbname="+db)
	b := harness.Weft(t).Connect(t, "postgres", "dbname="+db)
	must := func(sql string) {
		t.Helper()
		if _, err := a.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	must("begin")
	must("delete from pairs where k = 0")
	must("update pairs set v = 1000 where k = 2")
	done := make(chan string)
	go func() {
		rows, err := b.Query(ctx, "select k from pairs order by v limit 3 for update")
		if err != nil {
			done <- err.Error()
			return
		}
		keys, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		done <- fmt.Sprint(keys, err)
	}()
	select {
	case got := <-done:
		t.Fatalf("did not wait: %s", got)
	case <-time.After(300 * time.Millisecond):
	}
	must("commit")
	if got := <-done; got != "[1 3 4] <nil>" {
		t.Errorf("locked %s", got)
	}
}
