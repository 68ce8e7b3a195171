package heat

import (
	"fmt"
	"testing"
	"time"

	"weft/config"
	"weft/integration/heat/load"
)

// slowed is what a shard did before, while and after it was four times as slow.
type slowed struct{ before, slow, after load.Times }

// slowDown lets 40 clients work on a shard that is four times as slow for a while, with a limit for each shard.
func (w *world) slowDown(id int64) (out slowed) {
	w.Helper()
	c := w.conn(0, "postgres")
	few := load.Start(*seed, 20*time.Millisecond, w.clientsOf(2, "postgres", grind, one(id))...)
	time.Sleep(10 * time.Second) // what statements take is learnt
	if err := few.Stop(); err != nil {
		w.Fatal(err)
	}
	run := w.started(load.Start(*seed, 0, w.clientsOf(40, "postgres", grind, one(id))...))
	phase := func(settle time.Duration) load.Times { return during(settle, run)[0] }
	out.before = phase(20 * time.Second)
	w.must(c, "update pace set n = 4 * n")
	out.slow = phase(0)
	w.must(c, "update pace set n = n / 4")
	out.after = phase(30*time.Second - min(*bars, 20*time.Second))
	if err := run.Stop(); err != nil {
		w.Fatal(err)
	}
	return out
}

// Bar 15: a limit that is found does as well as the best of those that could have been configured, while a shard is slow and after.
func TestBarLimit(t *testing.T) {
	measured(t, "TestLimit")
	measure := func(name string, most int, mode string) slowed {
		w := newWorld(t, "bar15"+name, func(c *config.Config) { roomy(mode)(c); c.Pool.MaxPerShard = most })
		w.paced(2000)
		got := w.slowDown(w.keysByShard()[0][0])
		t.Logf("%s: %.1f statements in a second, slow %.1f with p99 %.0f ms, afterwards %.1f", name, got.before.Rate(), got.slow.Rate(), got.slow.Quantile(0.99), got.after.Rate())
		return got
	}
	var best slowed
	for _, n := range []int{2, 4, 8, 16, 40} {
		if got := measure(fmt.Sprint("fixed", n), n, config.ThrottleOff); got.slow.Rate() > best.slow.Rate() {
			best = got
		}
	}
	auto := measure("auto", 40, config.ThrottleAuto)
	var b load.Bars
	b.AtLeast("15 work of a shard that is slow, beside the best fixed limit", auto.slow.Rate()/best.slow.Rate(), 0.8)
	b.AtMost("15 p99, beside the best fixed limit", auto.slow.Quantile(0.99)/best.slow.Quantile(0.99), 2)
	b.AtLeast("15 work half a minute later, beside before", auto.after.Rate()/auto.before.Rate(), 0.9)
	(&world{T: t}).hold(&b)
}
