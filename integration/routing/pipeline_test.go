package routing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// pairs makes a table pairs(k, v) whose rows are (k, k * 7), on both sides.
func pairs(t *testing.T, name string, rows int) (db string, p *pair) {
	t.Helper()
	db = database(t, name)
	p = newPair(t, db)
	p.both(t, "schema", "create table pairs (k bigint primary key, v bigint not null, n bigint not null default 0)")
	p.both(t, "schema", fmt.Sprintf("insert into pairs select k, k * 7 from generate_series(0, %d) k", rows-1))
	declare(t, p, statement{sql: "select weft.shard_table('pairs', 'k')"})
	return db, p
}

// TestPipeline sends statements of several shards before it reads an answer:
// each in a transaction of its own, then with an error among them, then all in
// one, which may be refused.
func TestPipeline(t *testing.T) {
	_, p := pairs(t, "pipeline", 50)
	const statements = 40
	for _, sync := range []int{1, 3, statements} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("sync=%d,fails=%v", sync, fails), func(t *testing.T) {
				want := pipeline(t, p.plain.conn, statements, sync, fails)
				got := pipeline(t, p.weft.conn, statements, sync, fails)
				for i := range want {
					if got[i] != want[i] && (sync == 1 || got[i] != "0A000") {
						if sync > 1 && got[i] == "" && i%sync > 0 {
							continue // skipped after a refusal
						}
						t.Errorf("statement %d: PostgreSQL %q, weft %q", i, want[i], got[i])
					}
				}
			})
		}
	}
}

// pipeline returns what each statement said: its value, its SQLSTATE, or
// nothing if it was skipped.
func pipeline(t *testing.T, conn *pgconn.PgConn, n, sync int, fails bool) []string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	said := make([]string, n)
	pl := conn.StartPipeline(ctx)
	for i := range n {
		k := fmt.Sprint(i)
		sql := "select v from pairs where k = $1"
		if fails && i%7 == 4 {
			sql = "select v / (k - k) from pairs where k = $1"
		}
		pl.SendQueryParams(sql, [][]byte{[]byte(k)}, []uint32{20}, nil, nil)
		if i%sync == sync-1 || i == n-1 {
			if err := pl.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := 0; i < n; {
		res, err := pl.GetResults()
		var pe *pgconn.PgError
		switch {
		case errors.As(err, &pe):
			said[i] = pe.Code
			i = (i/sync + 1) * sync // the rest up to Sync is skipped
		case err != nil:
			t.Fatal(err)
		default:
			if r, ok := res.(*pgconn.ResultReader); ok {
				for r.NextRow() {
					said[i] = string(r.Values()[0])
				}
				if _, err := r.Close(); err != nil {
					if !errors.As(err, &pe) {
						t.Fatal(err)
					}
					said[i] = pe.Code
					i = (i/sync + 1) * sync
					continue
				}
				i++
			}
		}
	}
	if err := pl.Close(); err != nil {
		t.Fatal(err)
	}
	return said
}

// TestMixup: many clients at once, each asking for keys of all shards; nobody
// gets the answer of another, and no increment is lost or done twice.
func TestMixup(t *testing.T) {
	const clients, rounds, rows = 16, 150, 40
	db, p := pairs(t, "mixup", rows)
	var mu sync.Mutex
	added := map[int]int{}
	var wg sync.WaitGroup
	for c := range clients {
		peer := connect(t, harness.Weft(t), db, "postgres")
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(c)))
			for range rounds {
				k := rnd.IntN(rows)
				m := modes[rnd.IntN(len(modes))]
				set := []param{{"int8", ptr(fmt.Sprint(k))}}
				a := peer.ask(simple, "select v from pairs where k = "+fmt.Sprint(k), nil, nil)
				if want := fmt.Sprintf("%d | ", k*7); a.code != "" || len(a.results[0].rows) != 1 || a.results[0].rows[0] != want {
					t.Errorf("client %d, key %d: %s %v", c, k, a.message, a.results)
					return
				}
				end := "commit"
				if rnd.IntN(3) == 0 {
					end = "rollback"
				}
				for _, step := range []string{"begin", "update pairs set n = n + 1 where k = $1", "select k from pairs where k = $1", end} {
					how, with := m, set
					if step == "begin" || step == end {
						how, with = simple, nil
					}
					if a := peer.ask(how, step, with, nil); a.code != "" {
						t.Errorf("client %d, key %d: %s: %s %s", c, k, step, a.code, a.message)
						return
					}
				}
				if end == "commit" {
					mu.Lock()
					added[k]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for k := range rows {
		p.plain.must(t, fmt.Sprintf("update pairs set n = %d where k = %d", added[k], k))
	}
	if !*undeclared {
		sameTables(t, db, nil)
	}
}
