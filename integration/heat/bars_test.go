package heat

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/heat/load"
)

// The tests of this file and the next ones hold figures against bars: ratios within one run. They need a machine that does nothing
// else, and minutes. Each has a short form that needs neither.
var (
	bars = flag.Duration("bars", 0, "how long each measurement of make bench-heat takes; 0: none is made")
	rest = flag.Duration("quiet", 0, "how long TestBarFalseAlarms looks at each load; 0: four measurements")
	seed = flag.Uint64("seed", 16, "which keys clients of make bench-heat choose")
)

// measured skips a test that measures, unless it is wanted.
func measured(t *testing.T, short string) {
	t.Helper()
	if *bars == 0 {
		t.Skipf("takes minutes on an idle machine; make bench-heat runs it. %s is the short form.", short)
	}
	t.Logf("seed %d, %v for each measurement", *seed, *bars)
}

// hold prints bars, and fails if one is missed.
func (w *world) hold(b *load.Bars) {
	w.Helper()
	w.Logf("\n%s", b)
	if b.Missed() > 0 {
		w.Errorf("%d bars are missed", b.Missed())
	}
}

// clientsOf connects clients to all proxies in turn, which run a statement about keys.
func (w *world) clientsOf(n int, user, sql string, keys load.Keys) (out []load.Client) {
	w.Helper()
	for i := range n {
		c := w.conn(i%len(w.proxies), user)
		out = append(out, func(ctx context.Context, r *rand.Rand) error {
			_, err := c.Exec(ctx, sql, keys.Next(r))
			return err
		})
	}
	return out
}

// started is a load that ends with the test, which fails if a client does.
func (w *world) started(r *load.Run) *load.Run {
	w.Helper()
	w.Cleanup(func() {
		if err := r.Stop(); err != nil {
			w.Error(err)
		}
	})
	return r
}

// one is a single key.
type one int64

func (k one) Next(*rand.Rand) int64 { return int64(k) }

const readOne = "select n from acct where id = $1"

// Bar 1: a key with a fifth of the load is found within seconds wherever it moves, through either proxy, and forgotten when it has left.
func TestBarDetection(t *testing.T) {
	measured(t, "TestHotKey")
	w := newWorld(t, "detection", plain, plain)
	keys := &load.Hot{Rest: load.NewZipf(100_000, 0), Share: 0.2}
	w.started(load.Start(*seed, 3*time.Millisecond, w.clientsOf(12, "postgres", readOne, keys)...))
	looks := []*pgx.Conn{w.conn(0, "postgres"), w.conn(1, "postgres")}
	w.await("some work", func() (any, bool) {
		rows := w.rows(looks[0], "select sum(reads_s) as n from weft.load")
		return rows, rows[0]["n"] != nil && rows[0]["n"].(float64) > 500
	})
	found := func(c *pgx.Conn, key int64) bool {
		return len(w.rows(c, "select from weft.hot_keys where key = $1 and verdict is not null", fmt.Sprint(key))) > 0
	}
	var appear, leave []float64
	moves := max(3, int(*bars/(2*time.Second)))
	for i := range moves {
		key := int64(1_000_000 + i)
		keys.Move(key)
		began := time.Now()
		w.await("the key", func() (any, bool) { return key, found(looks[i%2], key) })
		appear = append(appear, time.Since(began).Seconds())
		time.Sleep(2 * time.Second)
		keys.Move(0)
		began = time.Now()
		w.await("no key", func() (any, bool) { return key, !found(looks[(i+1)%2], key) })
		leave = append(leave, time.Since(began).Seconds())
	}
	slices.Sort(appear)
	slices.Sort(leave)
	var b load.Bars
	b.AtMost(fmt.Sprintf("1 seconds until a key is found, median of %d moves", moves), appear[len(appear)/2], 1)
	b.AtMost("1 the same, p99", appear[(len(appear)*99)/100], 3)
	b.AtMost("1 seconds until it is forgotten, longest", leave[len(leave)-1], 20)
	w.hold(&b)
}

// Bar 2: shares of keys are estimated well, and so are their times.
func TestBarShares(t *testing.T) {
	measured(t, "TestHotKey")
	w := newWorld(t, "shares", plain, plain)
	zipf := load.NewZipf(100_000, 1.2)
	w.started(load.Start(*seed, 2*time.Millisecond, w.clientsOf(16, "postgres", readOne, zipf)...))
	// One of twenty statements on a key apart takes four times as long.
	slow := w.conn(0, "postgres")
	w.started(load.Start(*seed, 0, func(ctx context.Context, r *rand.Rand) error {
		s := 0.02
		if r.IntN(20) == 0 {
			s = 0.08
		}
		_, err := slow.Exec(ctx, "select pg_sleep($1::float8) from acct where id = 1999", s)
		return err
	}))
	time.Sleep(max(30*time.Second, *bars)) // what is said of now is of the last half minute
	rows := w.rows(w.conn(1, "postgres"), "select key, reads_s, p99_ms from weft.hot_keys where database = current_database() order by reads_s desc")
	all := w.rows(w.conn(0, "postgres"), "select sum(reads_s) as n from weft.heat where database = current_database()")[0]["n"].(float64)
	worst, hits, p99 := 0.0, 0, 0.0
	for i, r := range rows {
		key := int64(number(r["key"]))
		if key == 1999 {
			p99 = r["p99_ms"].(float64)
			all -= r["reads_s"].(float64)
			continue
		}
		if i < 20 && key <= 20 {
			hits++
		}
	}
	for _, r := range rows {
		if key := int64(number(r["key"])); key >= 1 && key <= 100_000 && key != 1999 {
			if truth := zipf.Share(key); truth >= 0.02 {
				worst = max(worst, math.Abs(r["reads_s"].(float64)/all/truth-1))
			}
		}
	}
	var b load.Bars
	b.AtMost("2 error of the share of keys with 2 % or more", worst, 0.15)
	b.AtLeast("2 the twenty first keys of Zipf 1.2 that are listed first", float64(hits)/20, 0.95)
	b.AtMost("2 p99 of a key beside its true 80 ms", math.Abs(p99/80-1), 0.25)
	w.hold(&b)
}

// Bar 3: one long statement in a second is found among thousands of short ones.
func TestBarFewAndHeavy(t *testing.T) {
	measured(t, "TestFewAndHeavy")
	w := newWorld(t, "few", plain, plain)
	light := w.started(load.Start(*seed, 0, w.clientsOf(8, "postgres", readOne, load.Even(keys))...))
	time.Sleep(5 * time.Second)
	heavy, c := w.conn(1, "alice"), w.conn(0, "postgres")
	w.started(load.Start(*seed, 500*time.Millisecond, func(ctx context.Context, _ *rand.Rand) error {
		_, err := heavy.Exec(ctx, "select pg_sleep(0.5) from acct where id = 1999")
		return err
	}))
	took := w.await("the heavy key", func() (any, bool) {
		rows := w.rows(c, "select key from weft.hot_keys order by busy_ms_s desc limit 3")
		return rows, slices.ContainsFunc(rows, func(r map[string]any) bool { return r["key"] == "1999" })
	})
	t.Logf("%.0f short statements in a second", light.Times().Rate())
	var b load.Bars
	b.AtMost("3 seconds until the key is among the first three", took.Seconds(), 5)
	w.hold(&b)
}

// Bar 4: a load without hot keys on shards with room is not called hot.
func TestBarFalseAlarms(t *testing.T) {
	measured(t, "TestNoFalseAlarms of heat/verdict")
	lasts := *rest
	if lasts == 0 {
		lasts = 4 * *bars
	}
	w := newWorld(t, "quiet", plain, plain)
	c := w.conn(0, "postgres")
	var b load.Bars
	for name, k := range map[string]load.Keys{"uniform": load.Even(100_000), "Zipf 0.99": load.NewZipf(100_000, 0.99)} {
		run := w.started(load.Start(*seed, 20*time.Millisecond, w.clientsOf(8, "postgres", readOne, k)...))
		hot, throttles, skew := 0, 0, 0
		for began := time.Now(); time.Since(began) < lasts; time.Sleep(time.Second) {
			hot += len(w.rows(c, "select from weft.hot_keys where verdict = 'hot'")) + len(w.rows(c, "select from weft.load where verdict = 'hot'"))
			throttles += len(w.rows(c, "select from weft.throttles"))
			skew += len(w.rows(c, "select from weft.skew where warned"))
		}
		if err := run.Stop(); err != nil {
			t.Fatal(err)
		}
		b.AtMost(fmt.Sprintf("4 hot keys and shards, %s for %v", name, lasts), float64(hot), 0)
		b.AtMost("4 throttles", float64(throttles), 0)
		b.AtMost("4 warnings of skew", float64(skew), 0)
	}
	w.hold(&b)
}

// fewPlaces lets a proxy have eight connections to each shard, and clients wait for as long as it takes.
func fewPlaces(c *config.Config) {
	scarce(c)
	c.Pool.MaxPerShard, c.Pool.MaxPerUser = 8, 0
}
