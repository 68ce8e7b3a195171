package heat

import (
	"fmt"
	"testing"
)

// Paces are those of the heaviest statements of each shard, and two proxies call the same statement by the same number.
func TestPaces(t *testing.T) {
	brief := func(busy int64) Brief {
		now, recent := NewPicture(), NewRecent()
		for i := range 2 * mostPaces {
			for _, p := range []*Picture{now, recent} {
				p.Add(&Sample{Weight: 1, Busy: busy * int64(i+1), Database: "app", Shard: "a", Way: One, User: "u", Text: fmt.Sprint("select ", i)})
			}
		}
		recent.Add(&Sample{Weight: 1, Busy: 1e3, Database: "app", Shard: "b", Way: One, User: "u", Text: "select 1"})
		now.Decay(1)
		recent.Decay(1)
		b := NewBrief(now, recent, 8)
		b.Rooms, b.Proxies = map[string]Room{"a": {Lent: 1, Waiting: 2, Most: 3}}, 1
		return b
	}
	one := brief(1e6)
	if len(one.Paces["a"]) != mostPaces || len(one.Paces["b"]) != 1 {
		t.Fatalf("%d, %d", len(one.Paces["a"]), len(one.Paces["b"]))
	}
	if first := one.Paces["a"][0]; !near(first.Times.Quantile(0.5), 16e6, 2e6) || first.Calls <= 0 {
		t.Errorf("%v, %v", first.Times.Quantile(0.5), first.Calls)
	}
	both := MergeBriefs(one, brief(3e6))
	if p := both.Paces["a"]; len(p) != mostPaces || p[0].ID != one.Paces["a"][0].ID || !near(p[0].Calls, 2*one.Paces["a"][0].Calls, 1e-6) {
		t.Errorf("%d", len(p))
	}
	if both.Rooms["a"] != (Room{2, 4, 6}) || both.Proxies != 2 {
		t.Errorf("%+v, %d proxies", both.Rooms, both.Proxies)
	}
}
