package tx

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
)

var outnumberedFor = flag.Duration("outnumbered", 1500*time.Millisecond, "how long TestOutnumbered counts transactions with each number of clients")

// TestOutnumbered: transactions of several shards, ten times as many as the pools have connections, get as much
// done as few do, and none fails: whoever holds a connection of one shard and needs another's is not kept from it
// by those who come later, nor by those who wait for it.
func TestOutnumbered(t *testing.T) {
	const perShard = 4
	for _, test := range []struct {
		name      string
		configure func(*config.Config)
	}{
		{"shard", func(c *config.Config) { c.Pool.MaxPerShard, c.Pool.MaxPerUser = perShard, perShard }},
		{"user", func(c *config.Config) { c.Pool.MaxPerUser = perShard }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, "outnumbered_"+test.name, 1, test.configure)
			home := w.conn(0)
			must(t, home, "create table wide (id bigint primary key, n int not null)")
			must(t, home, "select weft.shard_table('wide', 'id')")
			must(t, home, "insert into wide select i, 0 from generate_series(1, 20000) i")
			for try := 1; ; try++ { // others may keep the machine busy just then
				few, many := w.throughput(perShard), w.throughput(10*perShard)
				t.Logf("%.0f transactions a second with %d clients, %.0f with %d: %.2f", few, perShard, many, 10*perShard, many/few)
				if many >= few/2 {
					break
				}
				if try == 3 {
					t.Errorf("%.0f transactions a second with %d clients, %.0f with %d", few, perShard, many, 10*perShard)
					break
				}
			}
			w.nothingUsed()
			w.quiet()
		})
	}
}

// throughput is how many transactions a second so many clients get done.
func (w *world) throughput(clients int) float64 {
	w.t.Helper()
	conns := make([]*pgx.Conn, clients)
	for i := range conns {
		conns[i] = w.conn(0)
	}
	ctx, stop := context.WithTimeout(w.t.Context(), patience+*outnumberedFor)
	defer stop()
	var done atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for i, c := range conns {
		wg.Go(func() {
			for n := 0; time.Since(began) < *outnumberedFor; n++ {
				if err := wide(ctx, c, i+n); err != nil {
					w.t.Errorf("%d clients: %v", clients, err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	for _, c := range conns {
		_ = c.Close(ctx)
	}
	return float64(done.Load()) / took.Seconds()
}

// wide is a transaction of two or three shards, most likely, or a statement over all of them.
func wide(ctx context.Context, c *pgx.Conn, n int) error {
	if n%10 == 0 {
		_, err := c.Exec(ctx, "select count(*), sum(n) from wide where id < 100")
		return err
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	for range 2 + n%2 {
		if _, err := tx.Exec(ctx, "update wide set n = n + 1 where id = $1", 1+rand.IntN(20000)); err != nil {
			_ = tx.Rollback(ctx)
			return fmt.Errorf("update: %w", err)
		}
	}
	return tx.Commit(ctx)
}
