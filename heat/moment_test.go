package heat

import (
	"math"
	"testing"
)

// The work of a key is that of its own time, also if it has just come, and that of shards is told beside it. Two proxies that have half of
// the statements each tell the same together.
func TestMoment(t *testing.T) {
	one := func(p *Picture, id uint64, calls int) {
		for range calls {
			p.Add(&Sample{Weight: 1, Busy: 1e6, Database: "app", Shard: "a", Way: One, KeyCount: 1, Keys: [MaxKeys]Key{{Group: 1, Bucket: 3, ID: id}}})
		}
	}
	proxies := []*Picture{NewRecent(), NewRecent()}
	pass := func(quarters, old, fresh int) {
		for range quarters {
			for _, p := range proxies {
				one(p, 1, old)
				one(p, 2, fresh)
				p.Decay(0.25)
			}
		}
	}
	seen := func() (old, fresh, shard float64) {
		r := Merge(Report{Moment: proxies[0].Moment()}, Report{Moment: proxies[1].Moment()})
		for _, e := range r.Moment.Keys.Entries {
			if e.Name.ID == 1 {
				old = e.Load.Calls()
			} else {
				fresh = e.Load.Calls()
			}
		}
		return old, fresh, r.Moment.Shards["a"] / Cost(1e6, 0)
	}
	near := func(got, want float64) bool { return math.Abs(got/want-1) < 0.15 }
	pass(40, 50, 0)
	if old, fresh, shard := seen(); !near(old, 400) || fresh != 0 || !near(shard, 400) {
		t.Errorf("%v, %v of %v", old, fresh, shard)
	}
	pass(1, 50, 25)
	if _, fresh, _ := seen(); !near(fresh, 100) { // as if there had been none for a quarter of a second before
		t.Errorf("%v after a quarter of a second", fresh)
	}
	pass(1, 50, 25)
	if old, fresh, _ := seen(); !near(old, 400) || !near(fresh, 200) {
		t.Errorf("%v, %v after half a second", old, fresh)
	}
	pass(20, 50, 25)
	if old, fresh, shard := seen(); !near(old, 400) || !near(fresh, 200) || !near(shard, 600) {
		t.Errorf("%v, %v of %v after seconds", old, fresh, shard)
	}
}
