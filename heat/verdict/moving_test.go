package verdict

import (
	"math/rand/v2"
	"strings"
	"testing"

	"weft/heat"
)

// written replaces the keys of a second by these, which are written and in bucket 8.
func written(f *Facts, ids []int64) {
	f.Recent.Keys.Entries, f.Now.Keys.Entries = nil, nil
	for _, id := range ids {
		l := heat.Load{Write: heat.Class{Calls: 1, Busy: 1e6}}
		f.Recent.Keys.Entries = append(f.Recent.Keys.Entries, heat.Entry[heat.Name]{Name: heat.Name{Database: "app", Group: 1, ID: uint64(id)}, Count: l.Cost(), Load: l, Bucket: 8})
	}
}

// Keys that count up make their bucket and its shard hot with the reason moving. Keys all over the table do not, and neither do keys whose neighbours are
// elsewhere.
func TestMoving(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name   string
		key    func(second, i int) int64
		counts bool
		reason Reason
	}{
		{"up", func(s, i int) int64 { return int64(s*50 + i) }, true, Moving},
		{"down", func(s, i int) int64 { return int64(-s*50 - i) }, true, Moving},
		{"everywhere", func(int, int) int64 { return r.Int64N(1e6) }, true, ManyWarm},
		{"the same ones", func(_, i int) int64 { return int64(i) }, true, ManyWarm},
		{"hashed", func(s, i int) int64 { return int64(s*50 + i) }, false, ManyWarm},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := NewTracker(nil)
			var now map[string]Finding
			for second := range 75 {
				f := facts(2000, 0.4, 30e6)
				f.Counts = func(string, uint32) bool { return c.counts }
				var ids []int64
				for i := range 40 {
					ids = append(ids, c.key(second, i))
				}
				written(f, ids)
				now = run(k, f, 1)
			}
			for _, of := range []string{"bucket hot", "shard saturated"} {
				if got := now[of]; got.Reason != c.reason {
					t.Errorf("%s: %+v", of, got)
				}
			}
			if got := now["bucket hot"]; c.reason == Moving {
				if w := got.Words(names); !strings.Contains(w.Advice, "count up") || !strings.Contains(w.SQL, "'s0'") {
					t.Errorf("%+v", w)
				}
			}
		})
	}
}

// Statements that come in the same second of each minute are found after ten minutes, and those that come at any time are not.
func TestInStep(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name   string
		calls  func(second int) float64
		reason Reason
	}{
		{"once a minute", func(s int) float64 {
			if s%60 == 17 {
				return 3000
			}
			return 0
		}, InStep},
		{"with a base, a second late at times", func(s int) float64 {
			if s%60 == 17+(s/60)%2 {
				return 6000
			}
			return 200
		}, InStep},
		{"every ten seconds", func(s int) float64 {
			if s%10 == 3 {
				return 3000 + 100*r.Float64()
			}
			return 0
		}, InStep},
		{"steadily", func(int) float64 { return 2000 }, ManyWarm},
		{"at random", func(int) float64 {
			if r.IntN(60) == 0 {
				return 3000
			}
			return 0
		}, ManyWarm},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := NewTracker(nil)
			picture := heat.NewRecent()
			var now map[string]Finding
			for second := range 12*60 + 20 {
				if n := c.calls(second); n > 0 {
					picture.Add(&heat.Sample{Weight: n, Busy: 1e6, Database: "app", User: "u", Text: "select 1", Shard: "s0", Way: heat.One})
				}
				picture.Decay(1)
				f := facts(2000, 0, 30e6)
				f.Recent = picture.Report()
				f.At = int64(second)
				sh := f.Recent.Shards["s0"]
				sh.Waits.Add(30e6, 1e6)
				f.Recent.Shards["s0"] = sh
				f.Home = "s1"
				now = run(k, f, 1)
			}
			if got := now["shard saturated"]; got.Reason != c.reason {
				t.Errorf("%+v", got)
			}
			if got := k.rhythms[Object{Kind: Statement, Database: "app", Shard: "s0", User: "u", Text: "select 1"}].regular(); got != (c.reason == InStep) {
				t.Errorf("the statement: %v", got)
			}
		})
	}
	// What is not heard of any more is forgotten.
	k := NewTracker(nil)
	for second := range 60 * (beats + 3) {
		f := facts(0, 0, 0)
		f.At = int64(second)
		if second < 3 {
			f.Recent.Shards = map[string]heat.Shard{"s9": {Load: heat.Load{Read: heat.Class{Calls: 100}}}}
		} else {
			f.Recent.Shards = nil
		}
		k.Second(f, 1)
	}
	if len(k.rhythms) != 0 {
		t.Errorf("%d are remembered", len(k.rhythms))
	}
}
