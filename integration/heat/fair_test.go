package heat

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
)

// scarce lets a proxy have few connections to each shard.
func scarce(c *config.Config) {
	c.Pool.MaxPerShard, c.Pool.MaxPerUser = 4, 4
	c.Pool.OverloadWait = 0
}

// keysByShard returns keys of two shards.
func (w *world) keysByShard() [][]int64 {
	w.Helper()
	c := w.conn(0, "postgres")
	by := map[string][]int64{}
	for id := int64(1); id <= 60; id++ {
		port := w.rows(c, "select current_setting('port') as port from acct where id = $1", id)[0]["port"].(string)
		by[port] = append(by[port], id)
	}
	if len(by) != 2 {
		w.Fatalf("keys are on %d shards", len(by))
	}
	var out [][]int64
	for _, ids := range by {
		if len(ids) < 12 {
			w.Fatalf("a shard has %d keys of 60", len(ids))
		}
		out = append(out, ids)
	}
	return out
}

// clients run one statement again and again, and note how long each took.
type clients struct {
	mu    sync.Mutex
	took  []time.Duration
	wg    sync.WaitGroup
	ended chan struct{}
}

// run lets n clients of a user run a statement, with a pause after each.
func (w *world) run(n int, user string, pause time.Duration, sql string, args ...any) *clients {
	w.Helper()
	cs := &clients{ended: make(chan struct{})}
	for range n {
		c := w.conn(0, user)
		cs.wg.Go(func() {
			for {
				select {
				case <-cs.ended:
					return
				default:
				}
				began := time.Now()
				_, err := c.Exec(context.Background(), sql, args...)
				if err != nil {
					w.Errorf("%s: %v", sql, err)
					return
				}
				cs.mu.Lock()
				cs.took = append(cs.took, time.Since(began))
				cs.mu.Unlock()
				time.Sleep(pause)
			}
		})
	}
	w.Cleanup(cs.stop)
	return cs
}

// stop ends the clients. It may be called again.
func (cs *clients) stop() {
	cs.mu.Lock()
	select {
	case <-cs.ended:
	default:
		close(cs.ended)
	}
	cs.mu.Unlock()
	cs.wg.Wait()
}

// since returns how many statements have ended since reset, and their median time.
func (cs *clients) since() (n int, median time.Duration) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.took) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(cs.took))
	return len(s), s[len(s)/2]
}

func (cs *clients) reset() {
	cs.mu.Lock()
	cs.took = cs.took[:0]
	cs.mu.Unlock()
}

// enough waits until each group has run so many statements.
func (w *world) enough(n int, groups ...*clients) {
	w.Helper()
	for _, cs := range groups {
		w.await("statements", func() (any, bool) {
			got, _ := cs.since()
			return got, got >= n
		})
	}
}

// A key that 64 clients flood takes neither its shard nor the other one from the others.
func TestIsolation(t *testing.T) {
	w := newWorld(t, "isolation", scarce)
	by := w.keysByShard()
	const sql = "select pg_sleep(0.02) from acct where id = $1"
	var victims []*clients
	for _, id := range by[0][1:7] {
		victims = append(victims, w.run(1, "postgres", 80*time.Millisecond, sql, id))
	}
	others := w.run(2, "postgres", 20*time.Millisecond, sql, by[1][0])
	median := func() time.Duration {
		var all []time.Duration
		for _, v := range victims {
			_, m := v.since()
			all = append(all, m)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	w.enough(15, append(victims, others)...)
	calm := median()
	_, elsewhere := others.since()

	flood := w.run(64, "postgres", 0, sql, by[0][0])
	w.enough(200, flood)
	for _, cs := range append(victims, others, flood) {
		cs.reset()
	}
	w.enough(15, append(victims, others)...)
	w.enough(200, flood)
	hot := median()
	_, flooded := flood.since()
	_, beside := others.since()
	t.Logf("victims %v, then %v; the flood %v; other shard %v, then %v", calm, hot, flooded, elsewhere, beside)
	// In one line everybody would wait as long as the flood does: sixteen times as long as a statement takes.
	if hot > flooded/3 {
		t.Errorf("victims take %v, the flood %v", hot, flooded)
	}
	if beside > flooded/3 {
		t.Errorf("statements on the other shard take %v, the flood %v", beside, flooded)
	}
}

// A user who keeps all connections of a shard busy holds up statements over all shards, and these do
// not hold up statements on the other shard.
func TestConvoy(t *testing.T) {
	w := newWorld(t, "convoy", scarce)
	by := w.keysByShard()
	hog := w.run(16, "alice", 0, "select pg_sleep(0.25) from acct where id = $1", by[0][0])
	w.enough(16, hog)
	gathers := w.run(12, "postgres", 0, "select count(*), sum(n) from acct")
	writes := w.run(2, "postgres", 10*time.Millisecond, "update acct set n = n + 1 where id in ($1, $2)", by[0][1], by[1][1])
	single := w.run(3, "postgres", 10*time.Millisecond, "select n from acct where id = $1", by[1][0])
	w.enough(24, gathers)
	for _, cs := range []*clients{single, gathers} {
		cs.reset()
	}
	w.enough(100, single)
	w.enough(24, gathers)
	w.enough(4, writes)
	_, healthy := single.since()
	_, gathered := gathers.since()
	t.Logf("on the healthy shard %v, on all %v", healthy, gathered)
	if healthy > gathered/3 {
		t.Errorf("statements on the healthy shard take %v, those on all %v", healthy, gathered)
	}
}

// Five keys, one of which has nearly all clients, get the same time of a shard.
func TestFairness(t *testing.T) {
	w := newWorld(t, "fairness", func(c *config.Config) { scarce(c); c.Pool.MaxPerShard, c.Pool.MaxPerUser = 2, 2 })
	by := w.keysByShard()
	const sql = "select pg_sleep(0.02) from acct where id = $1"
	var groups []*clients
	groups = append(groups, w.run(60, "postgres", 0, sql, by[0][0]))
	for _, id := range by[0][1:5] {
		groups = append(groups, w.run(3, "postgres", 0, sql, id))
	}
	w.enough(20, groups...)
	// Two keys that share a slot have half each, until the slots change.
	w.await("a fair share for each", func() (any, bool) {
		for _, cs := range groups {
			cs.reset()
		}
		w.enough(40, groups[1:]...)
		sum, squares := 0.0, 0.0
		var counts []int
		for _, cs := range groups {
			n, _ := cs.since()
			counts = append(counts, n)
			sum += float64(n)
			squares += float64(n) * float64(n)
		}
		jain := sum * sum / (float64(len(groups)) * squares)
		t.Logf("Jain's index %.3f of %v", jain, counts)
		return counts, jain >= 0.95
	})
}

// A client of an overloaded shard is told to come back, and its session and prepared statements stay.
// A transaction that has begun is not refused.
func TestOverload(t *testing.T) {
	w := newWorld(t, "overload", func(c *config.Config) {
		scarce(c)
		c.Pool.MaxPerShard, c.Pool.MaxPerUser, c.Pool.OverloadWait = 2, 2, 400*time.Millisecond
	})
	by := w.keysByShard()
	const sql = "select pg_sleep(0.03) from acct where id = $1"
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	ended := make(chan struct{})
	defer close(ended)
	refused := make(chan *pgconn.PgError, 1)
	for range 60 {
		c := w.conn(0, "postgres")
		wg.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				_, err := c.Exec(ctx, sql, by[0][0])
				var pe *pgconn.PgError
				switch {
				case errors.As(err, &pe) && pe.Code == "53000":
					select {
					case refused <- pe:
					default:
					}
				case err != nil:
					t.Error(err)
					return
				}
			}
		})
	}
	select {
	case pe := <-refused:
		if pe.Severity != "ERROR" || !strings.Contains(pe.Detail, "retry_after_ms=") || !strings.Contains(pe.Hint, "Try again") {
			t.Errorf("%+v", pe)
		}
	case <-ctx.Done():
		t.Error("nobody is refused")
		return
	}
	// A transaction that holds a connection to the other shard gets one here.
	c := w.conn(0, "postgres")
	for i := range 5 {
		err := pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "update acct set n = n + 1 where id = $1", by[1][0]); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "update acct set n = n + 1 where id = $1", by[0][3])
			return err
		})
		if err != nil {
			t.Errorf("transaction %d: %v", i, err)
		}
	}
}

// The setting weft.priority is checked, shown and heeded.
func TestPriority(t *testing.T) {
	w := newWorld(t, "priority", scarce)
	c := w.conn(0, "postgres")
	if got := w.rows(c, "show weft.priority")[0]["weft.priority"]; got != "user" {
		t.Errorf("default %v", got)
	}
	var pe *pgconn.PgError
	if _, err := c.Exec(context.Background(), "set weft.priority = top"); !errors.As(err, &pe) || pe.Code != "22023" {
		t.Errorf("a wrong value: %v", err)
	}
	by := w.keysByShard()
	const sql = "select pg_sleep(0.02) from acct where id = $1"
	low := &clients{ended: make(chan struct{})}
	defer low.stop()
	for i := range 12 {
		c := w.conn(0, "postgres")
		w.must(c, "set weft.priority = low")
		low.wg.Go(func() {
			for {
				select {
				case <-low.ended:
					return
				default:
				}
				if _, err := c.Exec(context.Background(), sql, by[0][i%6]); err != nil {
					t.Error(err)
					return
				}
				low.mu.Lock()
				low.took = append(low.took, 0)
				low.mu.Unlock()
			}
		})
	}
	w.enough(50, low)
	normal := w.run(12, "postgres", 0, sql, by[0][7])
	w.enough(50, normal)
	low.reset()
	normal.reset()
	w.enough(200, normal)
	w.enough(1, low) // not starved
	n, _ := normal.since()
	l, _ := low.since()
	t.Logf("%d normal, %d low", n, l)
	if l > n/3 {
		t.Errorf("%d statements of low priority beside %d", l, n)
	}
}
