package limiter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"weft/heat"
	"weft/heat/limit"
	"weft/heat/verdict"
)

// bench is a Limiter with what it sees and does.
type bench struct {
	*Limiter
	mode   limit.Mode
	limits limit.Limits
	rooms  map[string]heat.Room
	set    map[string]int
}

func newBench() *bench {
	b := &bench{mode: limit.Auto, rooms: map[string]heat.Room{}, set: map[string]int{}}
	b.Limiter = New(Config{
		Mode: func() limit.Mode { return b.mode }, Known: func() limit.Limits { return b.limits },
		Rooms: func() map[string]heat.Room { return b.rooms }, Set: func(shard string, n int) { b.set[shard] = n },
	})
	return b
}

// A proxy takes its part of a limit, and none when the limit is open, unknown or not to be obeyed.
func TestSecond(t *testing.T) {
	b := newBench()
	low := limit.Limit{Most: 12, Fixed: 160, Demand: 40, Proxies: 2}
	b.limits = limit.Limits{"a": low, "b": {Most: 160, Fixed: 160, Proxies: 2}}
	b.rooms["a"] = heat.Room{Lent: 10, Waiting: 20, Most: 80}
	if b.Second(); len(b.set) != 1 || b.set["a"] != 7 { // 3 of 12, and 30 of 40 of the other half
		t.Errorf("%v", b.set)
	}
	for _, x := range []struct {
		what string
		do   func()
	}{
		{"open", func() { b.limits = limit.Limits{"a": {Most: 160, Fixed: 160}} }},
		{"observed", func() { b.mode = limit.Observe }},
		{"off", func() { b.mode = "" }},
		{"not heard of", func() { b.limits = nil }},
	} {
		b.mode, b.limits = limit.Auto, limit.Limits{"a": low}
		b.Second()
		x.do()
		if b.Second(); b.set["a"] != 0 {
			t.Errorf("%s: %v", x.what, b.set)
		}
	}
}

// Parts of all proxies are about the limit, and each has at least one backend.
func TestParts(t *testing.T) {
	for _, x := range []struct {
		most       float64
		own        []int
		least, sum int
	}{
		{12, []int{30, 10}, 4, 12}, {12, []int{40, 0}, 3, 12}, {3, []int{50, 0, 0}, 1, 4}, {10, []int{0, 0}, 5, 10},
	} {
		l := limit.Limit{Most: x.most, Proxies: len(x.own)}
		for _, n := range x.own {
			l.Demand += float64(n)
		}
		sum := 0
		for _, n := range x.own {
			part := Part(&l, heat.Room{Lent: n})
			if sum += part; part < x.least {
				t.Errorf("%v: %d", x, part)
			}
		}
		if sum > x.sum {
			t.Errorf("%v: all together %d", x, sum)
		}
	}
}

// Limits are found for the shards that proxies use.
func TestJudged(t *testing.T) {
	b := newBench()
	facts := &verdict.Facts{
		Brief:   heat.Brief{Rooms: map[string]heat.Room{"a": {Lent: 3, Most: 160}}, Proxies: 2},
		Servers: []verdict.Server{{Name: "a", Word: verdict.Word{Known: true, Cores: 4}}, {Name: "b"}},
	}
	got := b.Judged(nil, facts, 1)
	if l, ok := got["a"]; !ok || len(got) != 1 || !l.Open() || l.Fixed != 160 || l.Proxies != 2 || l.Demand != 3 {
		t.Errorf("%+v", got)
	}
	if b.mode = ""; b.Judged(got, facts, 1) != nil {
		t.Error("limits are found though they are off")
	}
}

// Run takes the part again and again until it is stopped.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench()
		b.limits = limit.Limits{"a": {Most: 12, Fixed: 80, Proxies: 1}}
		ctx, stop := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer stop()
		b.Run(ctx)
		if b.set["a"] != 12 {
			t.Errorf("%v", b.set)
		}
	})
}
