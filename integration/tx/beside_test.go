package tx

import (
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var besideFor = flag.Duration("beside", time.Second, "how long TestManyBeside reads beside commits")

// TestManyBeside: atomic readers see all of a transaction or nothing beside as many commits as the machine can do, of
// rows that are seldom the same, and how long they take.
func TestManyBeside(t *testing.T) {
	w := newWorld(t, "manybeside", 2)
	home := w.conn(0)
	const rows = 20000
	must(t, home, "create table many (id bigint primary key, n int not null)")
	must(t, home, "select weft.shard_table('many', 'id')")
	must(t, home, "insert into many select i, 0 from generate_series(1, $1::int) i", rows)
	c := w.conn(0)
	must(t, c, "set weft.read = 'atomic'")
	writers := make([]*pgx.Conn, 16)
	for i := range writers {
		writers[i] = w.conn(i % 2)
	}
	end := time.Now().Add(*besideFor)
	var done atomic.Int64
	var wg sync.WaitGroup
	for _, c := range writers {
		wg.Go(func() {
			for time.Now().Before(end) {
				a, b := 1+rand.IntN(rows/2), 1+rows/2+rand.IntN(rows/2)
				if err := exec(c, "update many set n = n + case id when $1 then 1 else -1 end where id in ($1, $2)", a, b); err != nil {
					t.Errorf("%v", err)
					return
				}
				done.Add(1)
			}
		})
	}
	took := timed(t, c, "select sum(n) from many", 0, end)
	wg.Wait()
	slices.Sort(took)
	t.Logf("%d readings beside %.0f commits a second: p50 %s, p99 %s", len(took), float64(done.Load())/besideFor.Seconds(),
		took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond))
	w.quiet()
}

// timed asks for a sum until the end, three times at least, and returns how long each answer took.
func timed(t *testing.T, c *pgx.Conn, sql string, want int64, end time.Time) (took []time.Duration) {
	t.Helper()
	for len(took) < 3 || time.Now().Before(end) {
		began := time.Now()
		if sum := value[int64](t, c, sql); sum != want {
			t.Errorf("%s: %d, want %d", sql, sum, want)
		}
		took = append(took, time.Since(began))
		time.Sleep(10 * time.Millisecond) // readers pause, so that writers get their turn
	}
	return took
}
