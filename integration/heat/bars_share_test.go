package heat

import (
	"fmt"
	"testing"
	"time"

	"weft/config"
	"weft/integration/heat/load"
)

// nap is a statement that keeps a connection busy for a while and no core.
const nap = "select pg_sleep(0.01) from acct where id = $1"

// keysOf returns so many keys of each of the two shards.
func (w *world) keysOf(n int) (first, second []int64) {
	w.Helper()
	c, home := w.conn(0, "postgres"), ""
	for id := int64(1); id <= keys && (len(first) < n || len(second) < n); id++ {
		port := w.rows(c, "select current_setting('port') as port from acct where id = $1", id)[0]["port"].(string)
		if home == "" {
			home = port
		}
		if port == home {
			first = append(first, id)
		} else {
			second = append(second, id)
		}
	}
	if len(first) < n || len(second) < n {
		w.Fatalf("%d and %d keys", len(first), len(second))
	}
	return first, second
}

// forKeys connects a client for each key.
func (w *world) forKeys(ids []int64, user, sql string) (out []load.Client) {
	w.Helper()
	for _, id := range ids {
		out = append(out, w.clientsOf(1, user, sql, one(id))...)
	}
	return out
}

// during measures loads for a while, after they have had time to settle.
func during(settle time.Duration, runs ...*load.Run) (out []load.Times) {
	time.Sleep(settle)
	for _, r := range runs {
		r.Reset()
	}
	time.Sleep(*bars)
	for _, r := range runs {
		out = append(out, r.Times())
	}
	return out
}

// Bar 7: a tenant that floods a shard with 64 clients does not take the shard from 63 tenants that use a third of it.
func TestBarIsolation(t *testing.T) {
	measured(t, "TestTurns")
	w := newWorld(t, "bar7", fewPlaces)
	hot, cool := w.keysOf(64)
	victims := w.started(load.Start(*seed, 265*time.Millisecond, w.forKeys(hot[1:64], "postgres", nap)...))
	others := w.started(load.Start(*seed, 50*time.Millisecond, w.forKeys(cool[:16], "postgres", nap)...))
	calm := during(2*time.Second, victims, others)
	flood := w.started(load.Start(*seed, 0, w.clientsOf(64, "postgres", nap, one(hot[0]))...))
	full := during(5*time.Second, victims, others, flood)
	if err := victims.Stop(); err != nil {
		t.Fatal(err)
	}
	alone := during(time.Second, flood)
	t.Logf("p50 and p99 in ms: victims %.1f %.1f, then %.1f %.1f; others %.1f %.1f, then %.1f %.1f; the flood %.1f %.1f",
		calm[0].Quantile(0.5), calm[0].Quantile(0.99), full[0].Quantile(0.5), full[0].Quantile(0.99),
		calm[1].Quantile(0.5), calm[1].Quantile(0.99), full[1].Quantile(0.5), full[1].Quantile(0.99), full[2].Quantile(0.5), full[2].Quantile(0.99))
	var b load.Bars
	b.AtMost("7 victims' p99, beside no flood", full[0].Quantile(0.99)/calm[0].Quantile(0.99), 1.5)
	b.AtLeast("7 what the flood waits, beside victims' p99", full[2].Quantile(0.5)/full[0].Quantile(0.99), 5)
	b.AtLeast("7 victims' throughput, beside no flood", full[0].Rate()/calm[0].Rate(), 0.95)
	b.AtLeast("7 throughput of the shard, beside the flood alone", (full[0].Rate()+full[2].Rate())/alone[0].Rate(), 0.9)
	b.AtMost("7 p99 on the other shard, beside no flood", full[1].Quantile(0.99)/calm[1].Quantile(0.99), 1.1)
	w.hold(&b)
}

// Bar 8: a shard whose connections are all taken does not slow down the other one.
func TestBarExhaustion(t *testing.T) {
	measured(t, "TestConvoy")
	w := newWorld(t, "bar8", fewPlaces)
	hot, cool := w.keysOf(32)
	healthy := w.started(load.Start(*seed, 20*time.Millisecond, w.forKeys(cool[:8], "postgres", nap)...))
	var b load.Bars
	compare := func(name string, flood func() *load.Run) {
		calm := during(2*time.Second, healthy)
		f := flood()
		full := during(5*time.Second, healthy)
		if err := f.Stop(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: p50 and p99 in ms %.1f %.1f, then %.1f %.1f", name, calm[0].Quantile(0.5), calm[0].Quantile(0.99), full[0].Quantile(0.5), full[0].Quantile(0.99))
		b.AtMost("8 p99 on the healthy shard, "+name, full[0].Quantile(0.99)/calm[0].Quantile(0.99), 1.2)
	}
	const sleep = "select pg_sleep(0.5) from acct where id = $1"
	by := func(user string) func() *load.Run {
		return func() *load.Run { return load.Start(*seed, 0, w.clientsOf(64, user, sleep, one(hot[0]))...) }
	}
	compare("connections taken by 64 clients", by("postgres"))
	compare("by a user", by("alice"))
	gathers := load.Start(*seed, 20*time.Millisecond, func() (out []load.Client) {
		for range 8 {
			out = append(out, w.clientsOf(1, "postgres", "select count(*), sum(n) from acct where id <> $1", load.Even(keys))...)
		}
		return out
	}()...)
	compare("with statements over both", by("postgres"))
	if err := gathers.Stop(); err != nil {
		t.Fatal(err)
	}
	w.hold(&b)
}

// Bar 16: ten tenants, one of which has nine clients in ten, get the same time of a shard.
func TestBarFairness(t *testing.T) {
	measured(t, "TestFairShares of pool")
	w := newWorld(t, "bar16", func(c *config.Config) { scarce(c); c.Pool.MaxPerShard, c.Pool.MaxPerUser = 2, 0 })
	hot, _ := w.keysOf(10)
	const sql = "select pg_sleep(0.02) from acct where id = $1"
	// Two clients always have a statement waiting: with one, its tenant would not want all of its share.
	runs := []*load.Run{w.started(load.Start(*seed, 0, w.clientsOf(162, "postgres", sql, one(hot[0]))...))}
	for _, id := range hot[1:10] {
		runs = append(runs, w.started(load.Start(*seed, 0, w.clientsOf(2, "postgres", sql, one(id))...)))
	}
	var rates []float64
	for _, x := range during(3*time.Second, runs...) {
		rates = append(rates, x.Rate())
	}
	t.Logf("statements in a second: %s", fmt.Sprintf("%.1f", rates))
	var b load.Bars
	b.AtLeast("16 Jain's index of the time that ten tenants get", load.Jain(rates), 0.95)
	w.hold(&b)
}
