package proxy

import (
	"testing"

	"weft/console"
	"weft/heat/verdict"
)

// Of several things that were found of one object, the worst is shown.
func TestFound(t *testing.T) {
	o := verdict.Object{Kind: verdict.Key, Database: "app", Group: 1, ID: 7}
	f := newFound([]verdict.Finding{
		{Object: o, Verdict: verdict.Warm, Reason: verdict.ManyWarm},
		{Object: o, Verdict: verdict.Hot, Reason: verdict.SingleKey},
		{Object: o, Verdict: verdict.Slow},
	})
	if got := f.of(o); got != (console.Finding{Verdict: "hot", Reason: "single_key"}) {
		t.Errorf("%+v", got)
	}
	if o.ID++; f.of(o) != (console.Finding{}) {
		t.Error("something was found of another key")
	}
}

func TestProcessorTimes(t *testing.T) {
	used, all := processorTimes("cpu  100 10 50 800 20 5 15 0 40 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
	if used != 180 || all != 1000 {
		t.Errorf("%g of %g are used", used, all)
	}
	for _, text := range []string{"", "intr 1 2 3", "cpu  a b c d e f", "cpu 1 2"} {
		if used, all := processorTimes(text); used != 0 || all != 0 {
			t.Errorf("%q: %g of %g", text, used, all)
		}
	}
}

// A brief has what the last moment was like, and no values unless they are asked for.
func TestBrief(t *testing.T) {
	w := newWarmth()
	put(w, "app", 3, 7, 7, 7, 8)
	w.watch.Load().Find("app", 1, 7).Tell("seven")
	put(w, "app", 3, 7, 7, 7, 8)
	b := w.brief(true, 8)
	if len(b.Now.Keys.Entries) != 2 || b.Now.Keys.Entries[0].Value != "seven" || b.Recent.Keys.Entries[0].Name.ID != 7 || b.Recent.Keys.Entries[0].Load.Calls() <= 0 {
		t.Errorf("%+v", b)
	}
	if b := w.brief(false, 8); b.Now.Keys.Entries[0].Known || b.Now.Keys.Entries[0].Value != "" {
		t.Errorf("%+v", b.Now.Keys.Entries[0])
	}
	w.number(8)
	w.number(16)
	if b := w.brief(true, 16); len(b.Recent.Keys.Entries) != 0 {
		t.Error("keys have the buckets of before")
	}
}
