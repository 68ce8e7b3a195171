package verdict

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weft/heat"
)

// facts returns a second in which all figures are of a steady load: calls statements a second on s0, of
// which share are of key 1 in bucket 8.
func facts(calls, share float64, wait int64) *Facts {
	load := func(n float64) heat.Load {
		return heat.Load{Read: heat.Class{Calls: n, Busy: n * 1e6, Rows: n, Bytes: 100 * n}}
	}
	report := func() heat.Report {
		r := heat.Report{Shards: map[string]heat.Shard{}, Databases: map[string]heat.Database{}}
		for i, name := range []string{"s0", "s1"} {
			sh := heat.Shard{Load: load(calls)}
			if i == 0 {
				sh.Waits.Add(wait, calls)
			}
			r.Shards[name] = sh
		}
		e := heat.Entry[heat.Name]{Name: heat.Name{Database: "app", Group: 1, ID: 1}, Count: load(calls * share).Cost(), Load: load(calls * share), Bucket: 8, Value: "seven", Known: true}
		r.Keys.Entries = []heat.Entry[heat.Name]{e}
		r.Databases["app"] = heat.Database{Load: load(2 * calls), Buckets: map[int32]heat.Load{8: load(calls * share)}}
		return r
	}
	return &Facts{
		Brief: heat.Brief{Now: report(), Recent: report()}, Home: "s0", Place: func(string, int32) string { return "s0" },
		Servers: []Server{{Name: "s0", Weight: 1}, {Name: "s1", Weight: 1}},
	}
}

// run judges seconds, and returns the last findings by kind and verdict.
func run(t *Tracker, f *Facts, seconds int) map[string]Finding {
	out := map[string]Finding{}
	var now []Finding
	for range seconds {
		now = t.Second(f, 1)
	}
	for _, f := range now {
		out[string(f.Kind)+" "+string(f.Verdict)] = f
	}
	return out
}

func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     *Facts
		found string
	}{
		{"quiet", facts(50, 0.9, 0), ""},
		{"a bucket that is less than a key", facts(2000, 0.09, 0), "bucket warm"},
		{"little", facts(2000, 0.04, 0), ""},
		{"a warm key", facts(2000, 0.11, 0), "bucket warm, key warm"},
		{"a hot key", facts(2000, 0.11, 25e6), "bucket hot, bucket warm, key hot, key warm, shard saturated"},
		{"a shard that waits", facts(2000, 0.01, 25e6), "shard saturated"},
		{"a shard that waits less", facts(2000, 0.01, 15e6), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			found := run(NewTracker(nil), c.f, 3)
			for _, k := range Kinds {
				for _, v := range []Verdict{Hot, Saturated, Slow, Warm} {
					if name := string(k) + " " + string(v); found[name].Kind != "" {
						got = append(got, name)
					}
				}
			}
			want := strings.Split(c.found, ", ")
			if c.found == "" {
				want = nil
			}
			if len(got) != len(want) {
				t.Fatalf("found %v", got)
			}
			for _, w := range want {
				if found[w].Kind == "" {
					t.Errorf("found %v", got)
				}
			}
		})
	}
}

// A queue that is not served shows though no statement has come to its end, and a queue that is served
// fast is none.
func TestQueue(t *testing.T) {
	f := facts(10, 0, 0)
	f.Waiting = map[string]int{"s0": 40}
	if got := run(NewTracker(nil), f, 3); got["shard saturated"].Shard != "s0" || got["shard saturated"].Wait < 1000 {
		t.Errorf("%+v", got)
	}
	f = facts(5000, 0, 0)
	f.Waiting = map[string]int{"s0": 40}
	if got := run(NewTracker(nil), f, 3); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// Backends that want more cores than there are saturate a shard, if it is known how many there are.
func TestCores(t *testing.T) {
	f := facts(2000, 0, 0)
	f.Servers[1].Word = Word{Known: true, CPU: 9, Cores: 4}
	f.Servers[0].Word = Word{Known: true, CPU: 9}
	if got := run(NewTracker(nil), f, 3); got["shard saturated"].Shard != "s1" || len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// Two of three seconds begin a finding, fifteen quiet ones end it, and half of the threshold keeps it.
func TestHysteresis(t *testing.T) {
	loud, half, quiet := facts(2000, 0.3, 0), facts(2000, 0.06, 0), facts(2000, 0.01, 0)
	k := NewTracker(nil)
	if len(run(k, loud, 1)) != 0 || len(run(k, quiet, 1)) != 0 || len(run(k, quiet, 1)) != 0 || len(run(k, loud, 1)) != 0 {
		t.Error("one second of three has begun something")
	}
	if run(k, loud, 1)["key warm"].Kind != Key {
		t.Error("two seconds have not")
	}
	if got := run(k, half, 100)["key warm"]; got.Age < 99 {
		t.Errorf("half of the threshold has ended it: %+v", got)
	}
	if len(run(k, quiet, 14)) == 0 {
		t.Error("14 seconds have ended it")
	}
	if len(run(k, quiet, 1)) != 0 || len(k.tracks) != 0 {
		t.Errorf("15 seconds have not: %v", k.tracks)
	}
	// A process that stood still has seen no quiet: one step counts for two seconds at most.
	run(k, loud, 3)
	if now := k.Second(quiet, 3600); len(now) == 0 {
		t.Error("an hour without a look has ended it")
	}
	if now := k.Second(quiet, -3600); len(now) == 0 {
		t.Error("a clock that went back has ended it")
	}
}

func TestReasons(t *testing.T) {
	locked := Word{Known: true, CPU: 3, Lock: 3, Cores: 8}
	writes := func(f *Facts) {
		for _, r := range []*heat.Report{&f.Now, &f.Recent} {
			e := &r.Keys.Entries[0]
			e.Load = heat.Load{Write: e.Load.Read}
		}
	}
	statement := func(f *Facts, share, wide float64, rows float64) {
		for _, r := range []*heat.Report{&f.Now, &f.Recent} {
			sh := r.Shards["s0"]
			l := sh.Load.Times(share)
			l.Read.Rows = rows * l.Read.Calls
			r.Statements.Entries = append(r.Statements.Entries, heat.Entry[heat.Statement]{
				Name: heat.Statement{Database: "app", User: "u", Text: "select x", Shard: "s0"}, Count: l.Cost(), Wide: wide * l.Cost(), Load: l,
			})
		}
	}
	for _, c := range []struct {
		name   string
		change func(f *Facts)
		of     string
		reason Reason
		class  Class
		sql    string
	}{
		{"reads of a key", func(*Facts) {}, "key hot", SingleKey, Read, "weft.hot_statements"},
		{"a key's bucket", func(*Facts) {}, "bucket hot", SingleKey, Read, ""},
		{"a key's shard", func(*Facts) {}, "shard saturated", SingleKey, Read, ""},
		{"a hot row", func(f *Facts) { writes(f); f.Servers[0].Word = locked }, "key hot", HotRow, Write, ""},
		{"reads beside locks", func(f *Facts) { f.Servers[0].Word = locked }, "key hot", SingleKey, Read, ""},
		{"many keys of a bucket", func(f *Facts) {
			for _, r := range []*heat.Report{&f.Now, &f.Recent} {
				r.Keys.Entries = nil
			}
			sh := f.Recent.Shards["s1"]
			sh.Load = sh.Load.Times(0.1)
			f.Recent.Shards["s1"] = sh
		}, "bucket hot", ManyWarm, Read, "SELECT weft.move_buckets('8', 's1')"},
		{"many keys, no room", func(f *Facts) { f.Now.Keys.Entries, f.Recent.Keys.Entries = nil, nil }, "shard saturated", ManyWarm, Read, "weft.load"},
		{"tables of the home shard", func(f *Facts) {
			sh := f.Recent.Shards["s0"]
			sh.Loose = sh.Load.Times(0.6)
			f.Recent.Shards["s0"] = sh
		}, "shard saturated", Home, Read, "weft.hot_statements WHERE shard = 's0'"},
		{"tables without a key elsewhere", func(f *Facts) {
			sh := f.Recent.Shards["s0"]
			sh.Loose = sh.Load.Times(0.6)
			f.Recent.Shards["s0"], f.Home = sh, "s1"
		}, "shard saturated", SingleKey, Read, ""},
		{"a statement that asks all shards", func(f *Facts) { statement(f, 0.5, 1, 1) }, "statement hot", Scatter, Read, "weft.statements WHERE id = 8"},
		{"the shard of a statement that asks all", func(f *Facts) { statement(f, 0.5, 1, 1) }, "shard saturated", Scatter, Read, "weft.statements WHERE id = 8"},
		{"a statement that returns much", func(f *Facts) { statement(f, 0.5, 0, 1e6) }, "statement hot", Scan, Read, "weft.statements WHERE id = 8"},
		{"a statement that is called often", func(f *Facts) { statement(f, 0.5, 0, 1) }, "statement hot", "", Read, "weft.statements WHERE id = 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := facts(2000, 0.4, 30e6)
			c.change(f)
			got, ok := run(NewTracker(nil), f, 3)[c.of]
			if !ok || got.Reason != c.reason || got.Class != c.class {
				t.Fatalf("%+v", got)
			}
			w := got.Words(names)
			if !strings.Contains(w.SQL, c.sql) || w.Advice == "" || w.Message == "" || w.Object == "" || w.Severity != Warning {
				t.Errorf("%+v", w)
			}
		})
	}
}

var names = Names{
	Key:       func(f *Finding) string { return f.Value },
	Value:     func(f *Finding) (string, bool) { return f.Value, f.Known },
	Tables:    func(string, uint32) []string { return []string{"public.acct", "public.entry"} },
	Isolates:  func(string, uint32) bool { return true },
	Statement: func(text string) int64 { return int64(len(text)) },
}

// A key that has been warm for an hour is a tenant that deserves a shard with room; its value is quoted.
func TestBigTenant(t *testing.T) {
	f := facts(2000, 0.4, 30e6)
	for _, r := range []*heat.Report{&f.Now, &f.Recent} {
		r.Keys.Entries[0].Value = `o'x\`
		sh := r.Shards["s1"]
		sh.Load = sh.Load.Times(0.1)
		r.Shards["s1"] = sh
	}
	k := NewTracker(nil)
	if got := run(k, f, 3000)["key hot"]; got.Reason != SingleKey {
		t.Errorf("%+v", got)
	}
	got := run(k, f, 700)["key hot"]
	if w := got.Words(names); got.Reason != BigTenant || w.SQL != `SELECT weft.isolate('public.acct',  E'o''x\\', 's1')` {
		t.Errorf("%+v, %+v", got, w)
	}
	got.Known = false
	if w := got.Words(names); w.SQL != "" {
		t.Errorf("%+v", w)
	}
}

// Two keys of one bucket have warnings with names of their own, which tell nothing of the keys.
func TestWarningID(t *testing.T) {
	f := facts(2000, 0.3, 30e6)
	for _, r := range []*heat.Report{&f.Now, &f.Recent} {
		e := r.Keys.Entries[0]
		e.Name.ID = 2
		r.Keys.Entries = append(r.Keys.Entries, e)
	}
	k := NewTracker(nil)
	ids := map[string]bool{}
	seen := func() {
		clear(ids)
		now := k.Second(f, 1)
		for _, f := range now {
			if f.Verdict == Hot && f.Kind == Key {
				ids[f.WarningID()] = true
			}
		}
	}
	seen()
	seen()
	if len(ids) != 2 {
		t.Errorf("%v", ids)
	}
	one := Finding{Object: Object{Kind: Key, Database: "app", Group: 1, ID: 5}, Verdict: Hot, In: 3}
	other := one
	other.ID, other.Value = 6, "secret"
	if one.WarningID() != other.WarningID() || !ids[Finding{Object: Object{Kind: Key, Database: "app", Group: 1}, Verdict: Hot, In: 8}.id()] {
		t.Errorf("%s, %s, %v", one.WarningID(), other.WarningID(), ids)
	}
	shard := Finding{Object: Object{Kind: Shard, Shard: "a"}, Verdict: Hot, In: -1}
	later := shard
	later.Verdict = Saturated
	if shard.WarningID() != later.WarningID() {
		t.Error("a saturated shard that becomes hot has another id")
	}
}

// An incident is warned of once.
func TestWarnings(t *testing.T) {
	key := Finding{Object: Object{Kind: Key, Database: "app", Group: 1, ID: 5}, Verdict: Hot, Reason: SingleKey, In: 3}
	bucket := Finding{Object: Object{Kind: Bucket, Database: "app", Bucket: 3}, Verdict: Hot, Reason: SingleKey, In: -1}
	other := Finding{Object: Object{Kind: Bucket, Database: "app", Bucket: 4}, Verdict: Hot, Reason: SingleKey, In: -1}
	full := Finding{Object: Object{Kind: Shard, Shard: "a"}, Verdict: Saturated, In: -1}
	hot, warm := full, full
	hot.Verdict, warm.Verdict = Hot, Warm
	if got := Warnings([]Finding{key, bucket, other, full, hot, warm}); len(got) != 3 || got[0] != key || got[1] != other || got[2] != hot {
		t.Errorf("%+v", got)
	}
	begun, ended := Changes([]Finding{full, key}, []Finding{full, hot, other})
	if len(begun) != 1 || begun[0] != other || len(ended) != 1 || ended[0] != key {
		t.Errorf("%+v, %+v", begun, ended)
	}
}

func (f Finding) id() string { return f.WarningID() }

// Values that are not to be kept any more are forgotten.
func TestHidden(t *testing.T) {
	f := facts(2000, 0.3, 30e6)
	k := NewTracker(nil)
	if got := run(k, f, 3)["key hot"]; got.Value != "seven" {
		t.Errorf("%+v", got)
	}
	for _, r := range []*heat.Report{&f.Now, &f.Recent} {
		r.Keys.Entries[0].Known, r.Keys.Entries[0].Value = false, ""
	}
	if got := run(k, f, 1)["key hot"]; got.Value != "seven" {
		t.Errorf("a value that one second does not tell is lost: %+v", got)
	}
	f.Hidden = true
	if got := run(k, f, 1)["key hot"]; got.Known || got.Value != "" {
		t.Errorf("%+v", got)
	}
}

// Findings are the same after they were told to another process.
func TestTold(t *testing.T) {
	now := NewTracker([]Finding{{Object: Object{Kind: Key, Database: "app", Group: 3, ID: 1<<63 + 1}, Verdict: Hot, Reason: SingleKey, In: 4, Value: "\x00<b>", Known: true, Share: 0.5}}).Second(facts(1, 0, 0), 1)
	text, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	var back []Finding
	if err := json.Unmarshal(text, &back); err != nil || len(back) != 1 || back[0] != now[0] {
		t.Errorf("%v: %+v", err, back)
	}
}

func TestWord(t *testing.T) {
	w := Word{}.Then(Word{Known: true, CPU: 4, Cores: 2}, 1)
	if w.CPU != 4 {
		t.Errorf("%+v", w)
	}
	w = w.Then(Word{Known: true}, wordHalfLife)
	if w.CPU != 2 || w.Cores != 2 || w.Active() != 2 {
		t.Errorf("%+v", w)
	}
	if w = w.Then(Word{}, 1); w.Known {
		t.Errorf("%+v", w)
	}
}

// TestWordRates: rates come from what two words have counted, and are not known where a server has begun anew.
func TestWordRates(t *testing.T) {
	word := func(wal, used, time float64) Word { return Word{Known: true, Counters: Counters{wal, used, time}} }
	w := Word{}.Then(word(1000, 50, 400), 1)
	if w.WAL != nil || w.Machine != nil {
		t.Errorf("rates of one word: %+v", w)
	}
	if w = w.Then(word(3000, 150, 600), 2); w.WAL == nil || *w.WAL != 1000 || w.Machine == nil || *w.Machine != 0.5 {
		t.Errorf("%+v", w)
	}
	if w = w.Then(word(3000, 150, 1000), wordHalfLife); *w.WAL != 500 || *w.Machine != 0.25 {
		t.Errorf("%+v", w)
	}
	if w = w.Then(word(0, 0, 0), 1); w.WAL != nil || w.Machine != nil {
		t.Errorf("rates of a server that says nothing: %+v", w)
	}
	if w = w.Then(word(5000, 1, 1), 1); w.WAL != nil {
		t.Errorf("a rate since nothing was known: %+v", w)
	}
	if w = w.Then(word(4000, 0.5, 0.7), 1); w.WAL != nil || w.Machine != nil {
		t.Errorf("a server that has begun anew has rates: %+v", w)
	}
}

// A user with most of a shard that others use is warm, and hot if the shard is saturated. A user who is alone is in the way of no other.
func TestUsers(t *testing.T) {
	of := func(wait int64, shares map[string]float64) *Facts {
		f := facts(2000, 0, wait)
		for _, r := range []*heat.Report{&f.Now, &f.Recent} {
			for user, share := range shares {
				for i := range 4 {
					l := r.Shards["s0"].Load.Times(share / 4)
					r.Statements.Entries = append(r.Statements.Entries, heat.Entry[heat.Statement]{
						Name: heat.Statement{Database: "app", User: user, Text: fmt.Sprint("select ", i), Shard: "s0"}, Count: l.Cost(), Load: l,
					})
				}
			}
		}
		return f
	}
	two := map[string]float64{"report": 0.6, "web": 0.4}
	if got := run(NewTracker(nil), of(0, two), 3); got["user warm"].User != "report" || got["user hot"].Kind != "" {
		t.Errorf("%+v", got)
	}
	got := run(NewTracker(nil), of(30e6, two), 3)["user hot"]
	if w := got.Words(names); got.User != "report" || w.Object != "user report" || !strings.Contains(w.Message, "60 % of the read work on s0") || w.SQL != "SELECT weft.throttle(username => 'report', share => '0.5', duration => '10min')" {
		t.Errorf("%+v, %+v", got, w)
	}
	for name, shares := range map[string]map[string]float64{"alone": {"web": 1}, "even": {"a": 0.45, "b": 0.45}} {
		if got := run(NewTracker(nil), of(30e6, shares), 3); got["user hot"].Kind != "" || got["user warm"].Kind != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
