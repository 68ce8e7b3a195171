package heat

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
)

// run gives a picture a load for so many seconds: 100 reads per second of 1 ms, a fifth of them of
// key 7.
func run(p *Picture, seconds int) {
	for i := range seconds * 100 {
		id := uint64(i)
		if i%5 == 0 {
			id = 7
		}
		p.Add(&Sample{
			Weight: 1, Busy: 1e6, Rows: 2, Bytes: 300, Database: "app", User: "u", Text: "read", Shard: fmt.Sprint("shard-", id%2), Way: One,
			Keys: [MaxKeys]Key{{Group: 1, Bucket: int32(id % 64), ID: id}}, KeyCount: 1,
		})
		if i%25 == 24 {
			p.Decay(0.25)
		}
	}
}

// Rates are right from the first second on, and shares are those of the load.
func TestPicture(t *testing.T) {
	for _, seconds := range []int{1, 5, 60} {
		p := NewPicture()
		run(p, seconds)
		r := p.Report()
		d := r.Databases["app"]
		if c := d.Load.Read; !near(c.Calls, 100, 3) || !near(c.Busy, 1e8, 3e6) || !near(c.Rows, 200, 6) || !near(c.Bytes, 30_000, 900) || d.Load.Write != (Class{}) {
			t.Errorf("after %d s: %+v", seconds, d.Load)
		}
		hot := r.Keys.Entries[0]
		if hot.Name != (Name{"app", 1, 7}) || !near((hot.Count-hot.Error/2)/d.Load.Cost(), 0.2, 0.01) || !near(hot.Load.Read.Calls, 20, 1) || hot.Bucket != 7 {
			t.Errorf("after %d s: %+v", seconds, hot)
		}
		if q := hot.Times.Quantile(0.5); !near(q, 1e6, 250_000) {
			t.Errorf("median %v", q)
		}
		if top := r.Statements.Entries[0]; len(r.Statements.Entries) != 2 || top.Name != (Statement{"app", "u", "read", "shard-1"}) || !near(top.Load.Read.Calls, 60, 3) {
			t.Errorf("after %d s: %+v", seconds, top)
		}
		if got := d.Buckets[7].Cost() / d.Load.Cost(); !near(got, 0.2+0.8/64, 0.02) {
			t.Errorf("after %d s: bucket 7 has %v", seconds, got)
		}
		if got := r.Shards["shard-1"].Load.Cost() / d.Load.Cost(); !near(got, 0.6, 0.02) {
			t.Errorf("after %d s: shard-1 has %v", seconds, got)
		}
	}
}

// Reads and writes, failures and ways are told apart; keys of one statement share its cost.
func TestPictureClasses(t *testing.T) {
	p := NewPicture()
	p.Add(&Sample{Weight: 2, Busy: 10, Database: "app", Shard: "a", Write: true, Failed: true, Way: One, KeyCount: 2, Keys: [MaxKeys]Key{{1, 3, 9}, {1, 4, 8}}})
	p.Add(&Sample{Weight: 1, Busy: 30, Waited: 5e6, Database: "app", Text: "all", Shards: []string{"a", "b"}, Way: Scatter})
	p.Add(&Sample{Weight: 1, Database: "app", Way: TwoPhase})
	p.Add(&Sample{Weight: 1e-6, Database: "app", Way: One, KeyCount: 1, Keys: [MaxKeys]Key{{Bucket: 60}}})
	p.Decay(1)
	r := p.Report()
	d := r.Databases["app"]
	f := d.Load.Write.Calls / 2
	if got := d.Load; !near(got.Read.Calls, 2*f, 1e-5) || !near(got.Write.Failed, 2*f, 1e-9) || !near(got.Busy(), 50*f, 1e-6) || !near(got.Calls(), 4*f, 1e-5) {
		t.Errorf("%+v", got)
	}
	if a, b := r.Shards["a"], r.Shards["b"]; !near(a.Load.Read.Busy, 30*f, 1e-6) || !near(a.Load.Write.Calls, 2*f, 1e-9) || !near(b.Load.Busy(), 30*f, 1e-6) || b.Waits.Quantile(0.5) < 4e6 {
		t.Errorf("%+v, %+v", a.Load, b.Load)
	}
	if got := r.Keys.Entries; len(got) != 2 || !near(got[0].Load.Write.Calls, f, 1e-9) || !near(d.Buckets[4].Write.Busy, 10*f, 1e-6) || d.Buckets[60] != (Load{}) && d.Buckets[60].Calls() <= 0 {
		t.Errorf("%+v", got)
	}
	if got := r.Statements.Entries; len(got) != 2 || got[0].Name.Text != "all" || got[0].Name.Shard == got[1].Name.Shard || !near(got[0].Load.Read.Busy, 30*f, 1e-6) {
		t.Errorf("%+v", got)
	}
	if !near(d.Share(Scatter), 0.25, 1e-5) || !near(d.Share(Scatter, TwoPhase), 0.5, 1e-5) || d.TwoPhase() != 1 || (Database{}).Share(One) != 0 || (Database{}).TwoPhase() != 0 {
		t.Errorf("%+v", d.Ways)
	}
}

// Nothing is left of a load some minutes after it has ended, and a picture without a past has no
// rates.
func TestPictureForgets(t *testing.T) {
	p := NewPicture()
	if r := p.Report(); len(r.Databases) != 0 || r.Keys.Bound != 0 {
		t.Errorf("%+v", r)
	}
	run(p, 2)
	for range 600 {
		p.Decay(1)
	}
	r := p.Report()
	if len(r.Databases) != 0 || len(r.Shards) != 0 || len(r.Keys.Entries) != 0 || len(r.Statements.Entries) != 0 {
		t.Errorf("%+v", r)
	}
}

// Memory is bounded, whatever comes.
func TestPictureBounds(t *testing.T) {
	p := NewPicture()
	for i := range 5000 {
		p.Add(&Sample{Weight: 1, Busy: 1, Database: fmt.Sprint("d", i%200), Text: fmt.Sprint("t", i), Shard: "s", Way: One, KeyCount: 1, Keys: [MaxKeys]Key{{1, int32(1<<29 - i), uint64(i)}}})
	}
	p.Add(&Sample{Weight: 1, Database: "d1", KeyCount: 1, Keys: [MaxKeys]Key{{1, -4, 5}}})
	p.Decay(1)
	r := p.Report()
	if len(r.Databases) != maxDatabases || len(r.Keys.Entries) != maxListed || len(r.Databases["d1"].Buckets) != 0 || len(p.keys.heap) != maxEntries || len(p.statements.heap) != maxStatements || len(r.Statements.Entries) != maxListedStatements {
		t.Errorf("%d databases, %d keys", len(r.Databases), len(r.Keys.Entries))
	}
}

// The reports of two proxies, one of them sent as JSON, add up.
func TestMerge(t *testing.T) {
	p, q := NewPicture(), NewPicture()
	run(p, 5)
	run(q, 40)
	text, err := json.Marshal(q.Report())
	if err != nil {
		t.Fatal(err)
	}
	var sent Report
	if err := json.Unmarshal(text, &sent); err != nil {
		t.Fatal(err)
	}
	if want := q.Report(); !reflect.DeepEqual(sent.Databases, want.Databases) || !reflect.DeepEqual(sent.Shards, want.Shards) || sent.Keys.Entries[0].Count != want.Keys.Entries[0].Count {
		t.Error("the report is not what was sent")
	}
	r := Merge(p.Report(), sent)
	d, hot := r.Databases["app"], r.Keys.Entries[0]
	if !near(d.Load.Calls(), 200, 6) || !near(hot.Load.Calls(), 40, 2) || hot.Name.ID != 7 || !near(d.Buckets[7].Calls(), 42, 3) || r.Age != 40 {
		t.Errorf("%v calls, key %+v", d.Load.Calls(), hot)
	}
	if s := r.Shards["shard-0"]; !near(s.Load.Calls()+r.Shards["shard-1"].Load.Calls(), 200, 6) || !near(s.Times.Quantile(0.5), 1e6, 250_000) {
		t.Errorf("%+v", s)
	}
	if e := r.Statements.Entries; len(e) != 2 || !near(e[0].Load.Calls(), 120, 6) || e[0].Error != 0 {
		t.Errorf("%+v", e)
	}
	if !near(d.Ways[One], 200, 6) || d.Samples < 1000 {
		t.Errorf("%+v", d.Ways)
	}
}

// Only warm keys are asked for, and what is told of them is shown.
func TestWatch(t *testing.T) {
	p := NewPicture()
	run(p, 10)
	names := p.Warm(0.1, 8)
	if len(names) != 1 || names[0].ID != 7 {
		t.Fatalf("%+v", names)
	}
	w := NewWatch(names)
	if w.Find("app", 1, 8) != nil || w.Find("app", 2, 7) != nil || w.Find("other", 1, 7) != nil {
		t.Error("found a key that is not wanted")
	}
	w.Find("app", 1, 7).Tell("seven")
	if w.Find("app", 1, 7) != nil {
		t.Error("a value that is known is wanted")
	}
	w.Found(p.Learn)
	p.Learn(Name{"app", 1, 1 << 60}, "unknown")
	if e := p.Report().Keys.Entries[0]; !e.Known || e.Value != "seven" || len(p.Warm(0.1, 8)) != 0 {
		t.Errorf("%+v", e)
	}
	p.Forget()
	if e := p.Report().Keys.Entries[0]; e.Known || e.Value != "" {
		t.Errorf("%+v", e)
	}
	if NewWatch(nil) != nil {
		t.Error("a watch for nothing")
	}
	(*Watch)(nil).Found(func(Name, string) { t.Error("found nothing") })
	if math.Abs(p.perSecond()) == 0 {
		t.Error("no rate")
	}
}

// Work of one shard that no bucket has is told apart, and adds up over proxies.
func TestLoose(t *testing.T) {
	p := NewPicture()
	key := [MaxKeys]Key{{Group: 1, Bucket: 3, ID: 4}}
	for range 10 {
		p.Add(&Sample{Weight: 1, Busy: 1e6, Database: "app", Shard: "a", Way: One})
		p.Add(&Sample{Weight: 1, Busy: 5e6, Database: "app", Shard: "a", Way: One, Keys: key, KeyCount: 1})
		p.Add(&Sample{Weight: 1, Busy: 5e6, Database: "app", Shard: "a", Way: Commit})
		p.Add(&Sample{Weight: 1, Busy: 5e6, Database: "app", Shards: []string{"a", "b"}, Way: Scatter})
	}
	p.Decay(1)
	r := Merge(p.Report(), p.Report())
	if a, b := r.Shards["a"], r.Shards["b"]; !near(a.Loose.Busy(), 20e6, 1e6) || !near(a.Load.Calls(), 80, 4) || b.Loose != (Load{}) {
		t.Errorf("%+v, %+v", a.Loose, b.Loose)
	}
}

// One statement that is as much work as all others makes the work of buckets less known.
func TestEffective(t *testing.T) {
	p := NewPicture()
	add := func(busy int64, n int) {
		for i := range n {
			p.Add(&Sample{Weight: 1, Busy: busy, Database: "app", Shard: "a", Way: One, Keys: [MaxKeys]Key{{Group: 1, Bucket: int32(i % 8), ID: uint64(i)}}, KeyCount: 1})
		}
	}
	add(1e6, 1000)
	p.Decay(1)
	if n := p.Report().Databases["app"].Effective(); !near(n, 1000, 1) {
		t.Errorf("%v equal samples", n)
	}
	if n := Merge(p.Report(), p.Report()).Databases["app"].Effective(); !near(n, 2000, 1) {
		t.Errorf("%v equal samples of two proxies", n)
	}
	add(1e9, 1)
	if n := p.Report().Databases["app"].Effective(); n < 3 || n > 5 {
		t.Errorf("%v with a heavy one", n)
	}
	if n := (Database{}).Effective(); n != 0 {
		t.Errorf("%v of nothing", n)
	}
}
