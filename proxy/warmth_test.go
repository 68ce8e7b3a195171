package proxy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"weft/console"
	"weft/directory"
	"weft/heat"
	"weft/heat/verdict"
)

// put samples statements: ten reads of 1 ms per second and key, on shard-1.
func put(w *warmth, database string, seconds int, ids ...uint64) {
	for range seconds {
		for _, id := range ids {
			w.sampler.Put(0, &heat.Sample{
				Weight: 10, Busy: 1e6, Bytes: 20, Database: database, User: "u", Text: "select $1", Shard: "shard-1", Way: heat.One,
				KeyCount: 1, Keys: [heat.MaxKeys]heat.Key{{Group: 1, Bucket: int32(id % 8), ID: id}},
			})
		}
		w.gather(1, Heat{Samples: 2000})
	}
}

// The values of warm keys are asked for and shown, unless they are not to be kept.
func TestWarmth(t *testing.T) {
	w := newWarmth()
	if w.gather(0, Heat{}); w.sampler.Rate() != 0 {
		t.Error("samples are taken though none are wanted")
	}
	put(w, "app", 5, 7, 8)
	watch := w.watch.Load()
	if watch == nil || watch.Find("app", 1, 7) == nil || watch.Find("app", 1, 9) != nil {
		t.Fatalf("%+v", watch)
	}
	watch.Find("app", 1, 7).Tell("seven")
	watch.Find("app", 1, 8).Tell("eight")
	put(w, "app", 1, 7, 8)
	if w.watch.Load() != nil {
		t.Error("values that are known are asked for again")
	}
	r := w.report(heat.AllParts, true)
	if e := r.Keys.Entries; len(e) != 2 || !e[0].Known || e[0].Value == "" || math.Abs(e[0].Load.Calls()-10) > 0.5 {
		t.Errorf("%+v", e)
	}
	if e := w.report(heat.AllParts, false).Keys.Entries; e[0].Value != "" || e[0].Known {
		t.Errorf("%+v", e)
	}
	totals, _, missed := w.since()
	if l := totals["shard-1"]; l.Read.Calls != 120 || l.Read.Busy != 120e6 || l.Write.Calls != 0 || missed != 0 {
		t.Errorf("%+v", totals)
	}
	w.gather(1, Heat{Samples: 2000, Hashed: true})
	if e := w.report(heat.AllParts, true).Keys.Entries; e[0].Known || e[0].Value != "" || w.watch.Load() != nil {
		t.Errorf("values are kept: %+v", e)
	}
	a, b := heat.Name{Database: "app", Group: 1, ID: 7}, heat.Name{Database: "app", Group: 1, ID: 8}
	if w.nameOf(a) == w.nameOf(b) || w.nameOf(a) == newWarmth().nameOf(a) || len(w.nameOf(a)) != 17 {
		t.Errorf("names %s, %s", w.nameOf(a), w.nameOf(b))
	}
	if w.gather(1, Heat{}); w.sampler.Rate() != 0 {
		t.Error("samples are taken after they were switched off")
	}
}

func TestHeatView(t *testing.T) {
	w := newWarmth()
	put(w, "app", 3, 7, 7, 7, 8)
	snap := directory.New(8, "shard-0", []directory.Shard{{Name: "shard-0", Weight: 1}, {Name: "shard-1", Weight: 3}})
	for i := range snap.Placement {
		snap.Placement[i] = uint16(i % 2)
	}
	table := directory.Table{Database: "app", Schema: "public", Name: "orders", Kind: directory.Sharded, Columns: []directory.Column{{Name: "k", Type: 20}}, Vindex: directory.Vindex{Kind: "hash"}}
	snap.Tables = []directory.Table{table}
	now := time.Now()
	v := heatView{report: w.report(heat.AllParts, true), snap: snap, now: now}
	for i := range v.report.Keys.Entries {
		v.report.Keys.Entries[i].Name.Group = table.Colocation()
	}
	k := v.keys()
	if len(k) != 2 || fmt.Sprint(k[0].Tables) != "[public.orders]" || k[0].Bucket != 7 || k[0].Shard != "shard-1" || math.Abs(k[0].Share-0.75) > 1e-6 || math.Abs(k[0].OfShard-0.75) > 1e-6 ||
		k[0].Error != 0 || math.Abs(k[0].Reads-30) > 2 || math.Abs(k[0].Busy-30) > 2 || k[0].Median < 0.9 || k[0].NinetyNinth > 1.3 || !k[0].Since.Before(now) {
		t.Errorf("%+v", k)
	}
	if s := v.statements(); len(s) != 1 || s[0].Text != "select $1" || s[0].User != "u" || s[0].Shard != "shard-1" || s[0].ID != statementID("select $1") || math.Abs(s[0].OfShard-1) > 1e-6 || math.Abs(s[0].Reads-40) > 3 {
		t.Errorf("%+v", s)
	}
	b := v.buckets()
	if len(b) != 2 || b[0].Number != 7 || b[1].Number != 0 || math.Abs(b[0].Share-0.75) > 1e-6 || math.Abs(b[0].OverMean-6) > 1e-6 || math.Abs(b[0].TopKey-1) > 1e-6 || b[1].Shard != "shard-0" {
		t.Errorf("%+v", b)
	}
	s := v.shards()
	if len(s) != 2 || s[0].Share != 0 || s[1].Share != 1 || math.Abs(s[1].OverMean-4.0/3) > 1e-9 {
		t.Errorf("%+v", s)
	}
	x := v.skews()
	if len(x) != 3 || x[0].Class != "read" || x[0].TopBucket != 7 || math.Abs(x[0].TopShare-0.75) > 1e-6 || x[0].Buckets != 8 || x[1].TopBucket != -1 || x[1].Evenness != 1 || math.Abs(x[2].TopKey-0.75) > 1e-6 {
		t.Errorf("%+v", x)
	}
	v.name = w.nameOf
	if k := v.keys(); len(k[0].Key) != 17 || k[0].Key[0] != '#' {
		t.Errorf("%+v", k[0])
	}
	// Buckets that the cluster does not have, and no work at all.
	v.report.Keys.Entries[0].Bucket = 99
	if k := v.keys(); k[0].Shard != "" || k[0].OfShard != 0 {
		t.Errorf("%+v", k[0])
	}
	empty := heatView{report: newWarmth().report(heat.AllParts, true), snap: snap}
	if len(empty.keys()) != 0 || len(empty.buckets()) != 0 || len(empty.skews()) != 0 || len(empty.shards()) != 2 || empty.shards()[1].OverMean != 0 {
		t.Errorf("%+v", empty.shards())
	}
}

// A key that has just become warm is shown so before there is a verdict.
func TestWarmingView(t *testing.T) {
	snap := directory.New(8, "shard-0", []directory.Shard{{Name: "shard-0", Weight: 1}, {Name: "shard-1", Weight: 1}})
	for i := range snap.Placement {
		snap.Placement[i] = 1
	}
	var both heat.Report
	for range 2 { // proxies, which have half of the statements each
		w := newWarmth()
		put(w, "app", 30, 1, 2, 3, 4)
		put(w, "app", 1, append(slices.Repeat([]uint64{7}, 30), 1, 2, 3, 4)...)
		text, err := json.Marshal(w.report(partsOf[console.HeatKeys], true))
		if err != nil {
			t.Fatal(err)
		}
		var r heat.Report
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		both = heat.Merge(both, r)
	}
	v := heatView{report: both, snap: snap, now: time.Now()}
	for _, k := range v.keys() {
		if (k.Verdict == "warm") != (k.Bucket == 7) || k.Reason != "" {
			t.Errorf("%+v", k)
		}
	}
	o := verdict.Object{Kind: verdict.Key, Database: "app", Group: 1, ID: 7}
	v.found = newFound([]verdict.Finding{{Object: o, Verdict: verdict.Hot, Reason: verdict.SingleKey}})
	for _, k := range v.keys() {
		if k.Bucket == 7 && (k.Verdict != "hot" || k.Reason != "single_key") {
			t.Errorf("%+v", k)
		}
	}
}
