package rebalance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// bench makes a case: buckets of the same size on shards of the same weight, loads by shard.
func bench(loads ...[]float64) Case {
	c := Case{}
	for i, list := range loads {
		c.Shards = append(c.Shards, Shard{Name: fmt.Sprint("s", i), Weight: 1})
		for _, load := range list {
			c.Costs = append(c.Costs, Cost{Bytes: 100, Load: load, Key: 0.1})
			c.Now, c.Pins = append(c.Now, i), append(c.Pins, Unpinned)
		}
	}
	return c
}

func (c Case) hot(shards ...int) Case {
	for _, i := range shards {
		c.Saturated = append(c.Saturated, Saturated{Shard: i})
	}
	return c
}

// with changes a case.
func (c Case) with(f func(c *Case)) Case {
	f(&c)
	return c
}

// tell writes steps in one line.
func tell(steps []Step) string {
	var out []string
	for _, s := range steps {
		text := fmt.Sprintf("%s %v from %d", s.Action, s.Buckets, s.From)
		if s.To >= 0 {
			text += fmt.Sprintf(" to %d: %.2f > %.2f, %.2f > %.2f", s.To, s.Before[s.From], s.After[s.From], s.Before[s.To], s.After[s.To])
		}
		if s.Key >= 0 {
			text += fmt.Sprintf(", key %d", s.Key)
		}
		if s.Cause != "" {
			text += ", " + string(s.Cause)
		}
		if s.Along {
			text += ", neighbours leave"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestRelieve(t *testing.T) {
	ten := slices.Repeat([]float64{10}, 10)
	for name, x := range map[string]struct {
		c    Case
		want string
	}{
		"nothing is saturated": {bench(ten, ten), ""},
		"light buckets leave": {
			bench([]float64{10, 10, 10, 10, 40}, []float64{20}).hot(0),
			"move [0 1 2] from 0 to 1: 1.60 > 1.00, 0.40 > 1.00",
		},
		"a hot bucket of many keys leaves if light ones are not enough": {
			bench([]float64{30, 35, 35}, []float64{10}).hot(0),
			"move [1] from 0 to 1: 1.82 > 1.18, 0.18 > 0.82",
		},
		"the shard with most room takes": {
			bench(slices.Repeat([]float64{10}, 12), []float64{50}, []float64{30}).hot(0),
			"move [0 1 2 3] from 0 to 2: 1.80 > 1.20, 0.45 > 1.05",
		},
		"a saturated shard takes nothing": {
			bench(ten, []float64{20}, []float64{40}).hot(0, 1),
			"move [0 1 2] from 0 to 2: 1.88 > 1.31, 0.75 > 1.31; leave [] from 1, full",
		},
		"all shards are saturated": {bench(ten, ten).hot(0, 1), "leave [] from 0, full; leave [] from 1, full"},
		"a closed shard takes nothing": {
			bench(ten, []float64{10}).hot(0).with(func(c *Case) { c.Shards[1].Closed = true }),
			"leave [] from 0, full",
		},
		"equal shards": {bench(ten, ten).hot(0), "leave [] from 0, full"},
		"one key has the shard, and is alone": {
			bench([]float64{100}, []float64{10}).hot(0).with(func(c *Case) {
				c.Costs[0].Key, c.Keys = 0.9, []HotKey{{Bucket: 0, Load: 90}}
			}),
			"leave [0] from 0, key 0, one key",
		},
		"one key has the shard, and its neighbours leave": {
			bench([]float64{100, 10, 10, 10}, []float64{10}).hot(0).with(func(c *Case) {
				c.Costs[0].Key, c.Keys = 0.9, []HotKey{{Bucket: 0, Load: 90}}
			}),
			"move [1 2 3] from 0 to 1: 1.86 > 1.43, 0.14 > 0.57; leave [0] from 0, key 0, one key, neighbours leave",
		},
		"a tenant gets a shard with room": {
			bench([]float64{100, 10, 10}, []float64{10}).hot(0).with(func(c *Case) {
				c.Costs[0].Key, c.Keys = 0.9, []HotKey{{Bucket: 0, Load: 90, Tenant: true}}
			}),
			"isolate [0] from 0 to 1: 1.85 > 0.46, 0.15 > 1.54, key 0",
		},
		"a tenant that no shard has room for": {
			bench([]float64{100, 10}, []float64{30}).hot(0).with(func(c *Case) {
				c.Costs[0].Key, c.Keys = 0.9, []HotKey{{Bucket: 0, Load: 90, Tenant: true}}
			}),
			"move [1] from 0 to 1: 1.57 > 1.43, 0.43 > 0.57; leave [0] from 0, key 0, one key, neighbours leave",
		},
		"a bucket that is too much for any shard is split": {
			bench([]float64{90, 0.5}, []float64{10}).hot(0),
			"split [0] from 0, not divided",
		},
		"what was moved of late stays": {
			bench(ten, []float64{10}).hot(0).with(func(c *Case) {
				for b := range 10 {
					c.Costs[b].Rests = true
				}
			}),
			"leave [] from 0, resting",
		},
		"what is pinned stays": {
			bench(ten, []float64{10}).hot(0).with(func(c *Case) {
				for b := range 10 {
					c.Pins[b] = 0
				}
			}),
			"leave [] from 0, pinned",
		},
		"work of no bucket": {
			bench(ten, []float64{10}).with(func(c *Case) { c.Saturated = []Saturated{{Shard: 0, Beside: true}} }),
			"leave [] from 0, beside",
		},
		"work of no bucket, as loads say": {
			bench([]float64{1}, []float64{10}).hot(0).with(func(c *Case) { c.Shards[0].Load = 100 }),
			"leave [] from 0, beside",
		},
		"too few samples to be sure": {
			bench(ten, slices.Repeat([]float64{8}, 10)).hot(0).with(func(c *Case) { c.Options.Samples = 100 }),
			"leave [] from 0, full",
		},
	} {
		if got := tell(Relieve(x.c)); got != x.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, x.want)
		}
	}
}

// No step takes a bucket that is hot because of one key, whatever the loads are, and no step makes the
// taking shard fuller than the one that gives.
func TestRelieveNeverMovesOneKey(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		c := Case{}
		for i := range 2 + r.IntN(4) {
			c.Shards = append(c.Shards, Shard{Weight: 1 + r.IntN(3)})
			for range 1 + r.IntN(20) {
				c.Costs = append(c.Costs, Cost{Bytes: r.Float64() * 100, Load: r.ExpFloat64() * 10, Key: r.Float64()})
				c.Now, c.Pins = append(c.Now, i), append(c.Pins, Unpinned)
			}
			if r.IntN(2) == 0 {
				c = c.hot(i)
			}
		}
		p := newPlanner(c.Costs, c.Shards, c.Now, c.Pins, Options{Strategy: Load})
		from := map[int]bool{}
		for _, s := range Relieve(c) {
			if s.Action != MoveBuckets {
				continue
			}
			if from[s.From] || s.After[s.To] > s.After[s.From]+1e-9 || s.After[s.From] >= s.Before[s.From] {
				t.Fatalf("%+v", s)
			}
			from[s.From] = true
			for _, b := range s.Buckets {
				if p.lone(b) {
					t.Fatalf("bucket %d: %+v, %+v", b, c.Costs[b], s)
				}
			}
		}
	}
}

// Over twenty minutes in which loads change all the time and shards become saturated by turns, no bucket goes to
// and fro: one that has moved stays for ten minutes, and seldom moves again.
func TestRelieveDoesNotSwing(t *testing.T) {
	const buckets, shards, quiet = 256, 4, 10
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := Case{Costs: make([]Cost, buckets), Shards: make([]Shard, shards), Now: make([]int, buckets), Pins: slices.Repeat([]int{Unpinned}, buckets)}
		base, last, visits := make([]float64, buckets), map[int]int{}, map[int][]int{}
		for b := range base {
			base[b] = r.ExpFloat64()
			c.Now[b] = b % shards
			if b%shards == 0 {
				base[b] *= 2 // the first shard begins with most of the work
			}
		}
		for i := range c.Shards {
			c.Shards[i].Weight = 1
		}
		jobs, late := 0, 0
		for minute := range 20 {
			sums, all := make([]float64, shards), 0.0
			for b := range base {
				base[b] *= 0.9 + 0.2*r.Float64()                                                                 // what changes
				c.Costs[b] = Cost{Bytes: 1, Load: base[b] * (0.8 + 0.4*r.Float64()), Key: 0.2 + 0.2*r.Float64()} // what is seen of it
				at, moved := last[b]
				c.Costs[b].Rests = moved && minute-at < quiet
				sums[c.Now[b]] += c.Costs[b].Load
				all += c.Costs[b].Load
			}
			c.Saturated = nil
			for i := range sums {
				if sums[i] > 1.15*all/shards {
					c = c.hot(i)
				}
			}
			for _, s := range Relieve(c) {
				if s.Action != MoveBuckets {
					continue
				}
				jobs++
				if minute >= 10 {
					late++
				}
				for _, b := range s.Buckets {
					if at, moved := last[b]; moved && minute-at < quiet {
						t.Fatalf("seed %d: bucket %d moves in minute %d and %d", seed, b, at, minute)
					}
					visits[b] = append(visits[b], s.From)
					last[b], c.Now[b] = minute, s.To
				}
				break // one job a minute
			}
		}
		for b, list := range visits {
			if len(list) > 2 {
				t.Errorf("seed %d: bucket %d was on %v, and is on %d", seed, b, list, c.Now[b])
			}
		}
		if jobs == 0 || jobs > 8 || late > 3 {
			t.Errorf("seed %d: %d jobs, %d of them in the last ten minutes", seed, jobs, late)
		}
	}
}
