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
	"weft/integration/pair"
)

// pairs makes a table pairs(k, v) whose rows are (k, k * 7), on both sides.
func pairs(t *testing.T, name string, rows int) (db string, p *pair.Pair) {
	t.Helper()
	db = database(t, name)
	p = newPair(t, db)
	p.Both(t, "schema", "create table pairs (k bigint primary key, v bigint not null, n bigint not null default 0)")
	p.Both(t, "schema", fmt.Sprintf("insert into pairs select k, k * 7 from generate_series(0, %d) k", rows-1))
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('pairs', 'k')"})
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
				want := pipeline(t, p.Plain.Conn, statements, sync, fails)
				got := pipeline(t, p.Weft.Conn, statements, sync, fails)
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
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
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
		peer := pair.Connect(t, harness.Weft(t), db, "postgres")
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(3, uint64(c)))
			for range rounds {
				k := rnd.IntN(rows)
				m := pair.Modes[rnd.IntN(len(pair.Modes))]
				set := []pair.Param{{Type: "int8", Text: ptr(fmt.Sprint(k))}}
				a := peer.Ask(pair.Simple, "select v from pairs where k = "+fmt.Sprint(k), nil, nil)
				if want := fmt.Sprintf("%d | ", k*7); a.Code != "" || len(a.Results[0].Rows) != 1 || a.Results[0].Rows[0] != want {
					t.Errorf("client %d, key %d: %s %v", c, k, a.Message, a.Results)
					return
				}
				end := "commit"
				if rnd.IntN(3) == 0 {
					end = "rollback"
				}
				for _, step := range []string{"begin", "update pairs set n = n + 1 where k = $1", "select k from pairs where k = $1", end} {
					how, with := m, set
					if step == "begin" || step == end {
						how, with = pair.Simple, nil
					}
					if a := peer.Ask(how, step, with, nil); a.Code != "" {
						t.Errorf("client %d, key %d: %s: %s %s", c, k, step, a.Code, a.Message)
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
		p.Plain.Must(t, fmt.Sprintf("update pairs set n = %d where k = %d", added[k], k))
	}
	if !*undeclared {
		pair.SameTables(t, db, nil)
	}
}
