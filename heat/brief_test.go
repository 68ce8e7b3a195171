package heat

import (
	"encoding/json"
	"testing"
)

// A brief has the heaviest of a report and the median of all its buckets, and two add up.
func TestBrief(t *testing.T) {
	p, recent := NewPicture(), NewRecent()
	add := func(key, bucket int, busy int64) {
		for _, x := range []*Picture{p, recent} {
			x.Add(&Sample{
				Weight: 1, Busy: busy, Database: "app", Shard: "a", Way: One, User: "u", Text: "select",
				Keys: [MaxKeys]Key{{Group: 1, Bucket: int32(bucket), ID: uint64(key)}}, KeyCount: 1,
			})
		}
	}
	for i := range 100 {
		add(i, i, 1e6)
	}
	for range 50 {
		add(200, 7, 1e6)
	}
	p.Decay(1)
	recent.Decay(1)
	b := NewBrief(p, recent, 128)
	if len(b.Now.Keys.Entries) != briefKeys || len(b.Now.Databases["app"].Buckets) != briefBuckets || len(b.Recent.Databases["app"].Buckets) != 0 {
		t.Errorf("%d keys, %d buckets", len(b.Now.Keys.Entries), len(b.Now.Databases["app"].Buckets))
	}
	if b.Now.Keys.Entries[0].Name.ID != 200 || b.Recent.Keys.Entries[0].Name.ID != 200 || b.Now.Databases["app"].Buckets[7].Calls() < 40 {
		t.Errorf("%+v", b.Now.Keys.Entries[0].Name)
	}
	one := Cost(1e6, 0) // each of the buckets but one
	if m := b.Medians["app"]; !near(m, one, one/10) {
		t.Errorf("the median is %v", m)
	}
	text, err := json.Marshal(b)
	if err != nil || len(text) > 64<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	var other Brief
	if err := json.Unmarshal(text, &other); err != nil {
		t.Fatal(err)
	}
	other.Waiting = map[string]int{"a": 3}
	both := MergeBriefs(b, other)
	if m := both.Medians["app"]; !near(m, 2*one, one/5) || both.Waiting["a"] != 3 || !near(both.Now.Shards["a"].Load.Calls(), 2*b.Now.Shards["a"].Load.Calls(), 1e-6) {
		t.Errorf("%v, %v", m, both.Waiting)
	}
	if m := NewBrief(p, recent, 1024).Medians["app"]; m != 0 {
		t.Errorf("most buckets have nothing, and the median is %v", m)
	}
}

// A picture of the last moment knows a new heavy key within a second, and forgets it in a few.
func TestRecent(t *testing.T) {
	p := NewRecent()
	share := func(id uint64) float64 {
		r := p.Report()
		for _, e := range r.Keys.Entries {
			if e.Name.ID == id {
				return (e.Count - e.Error) / r.Shards["a"].Load.Cost()
			}
		}
		return 0
	}
	second := func(hot bool) {
		for range 4 {
			for i := range 100 {
				id := uint64(1000 + i)
				if hot && i%2 == 0 {
					id = 1
				}
				p.Add(&Sample{Weight: 1, Busy: 1e6, Database: "app", Shard: "a", Way: One, Keys: [MaxKeys]Key{{Group: 1, ID: id}}, KeyCount: 1})
			}
			p.Decay(0.25)
		}
	}
	for range 20 {
		second(false)
	}
	second(true)
	if s := share(1); s < 0.2 || s > 0.5 {
		t.Errorf("after a second the key has %v", s)
	}
	if n := p.Report().Shards["a"].Load.Calls(); !near(n, 400, 40) {
		t.Errorf("%v statements a second", n)
	}
	for range 5 {
		second(false)
	}
	if s := share(1); s > 0.02 {
		t.Errorf("after five seconds the key still has %v", s)
	}
}
