package proxy

import (
	"fmt"
	"reflect"
	"syscall"
	"testing"

	"weft/heat"
	"weft/parser"
	"weft/pool"
	"weft/tally"
)

// warmSession returns a session all of whose statements are sampled.
func warmSession() (*Session, *warmth) {
	w := newWarmth()
	w.gather(0, Heat{Samples: 100_000})
	return newSession(&Server{counts: counts{heat: w}}, nil, nil, "u", "app"), w
}

// taken returns what was sampled since the last call.
func taken(w *warmth) (out []heat.Sample) {
	w.sampler.Drain(0.25, 100_000, func(s *heat.Sample) { out = append(out, *s) })
	return out
}

func keys(ids ...uint64) []heat.Key {
	var out []heat.Key
	for _, id := range ids {
		out = append(out, heat.Key{Group: 1, Bucket: int32(id), ID: id})
	}
	return out
}

// A sample has what was noted of its statement.
func TestSampled(t *testing.T) {
	s, w := warmSession()
	a, sh := &s.account, &pool.Shard{Name: "shard-1"}
	a.warm.begin()
	a.noteUsed(keys(7, 8, 9), true)
	a.warmed(&run{kind: tally.Shard, rows: 3, bytes: 500, queued: 4e6, usage: a.warm.usage, failed: true}, sh, 5e6)
	a.shards = append(a.shards, "shard-0", "shard-2")
	a.warmed(&run{kind: tally.Gather, facts: &parser.Facts{Norm: "select all"}}, nil, 1e6)
	a.warmed(&run{kind: tally.Shard, facts: &parser.Facts{Effects: parser.Writes}, queued: 9e6}, sh, 1e6)
	a.noteEnding(true)
	a.warmed(&run{kind: tally.Commit, usage: a.warm.usage}, sh, 1e6)
	a.warmed(&run{kind: tally.Local}, nil, 1e6)
	got := taken(w)
	for i := range got {
		if got[i].Weight < 1 || got[i].Weight > 1.01 {
			t.Errorf("weight %v", got[i].Weight)
		}
		if got[i].User != "u" {
			t.Errorf("of user %q", got[i].User)
		}
		got[i].Weight, got[i].User = 0, ""
	}
	want := []heat.Sample{
		{Busy: 1e6, Waited: 4e6, Bytes: 500, Rows: 3, Database: "app", Shard: "shard-1", Way: heat.One, Write: true, Failed: true, KeyCount: 3, Keys: [heat.MaxKeys]heat.Key(append(keys(7, 8, 9), heat.Key{}))},
		{Busy: 1e6, Database: "app", Text: "select all", Shards: []string{"shard-0", "shard-2"}, Way: heat.Scatter},
		{Waited: 9e6, Database: "app", Shard: "shard-1", Way: heat.One, Write: true},
		{Busy: 1e6, Database: "app", Shard: "shard-1", Way: heat.Commit, Write: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Portals keep what was noted when they were bound, however many there are and in which order they
// are executed.
func TestPortalsKeepUsage(t *testing.T) {
	s, w := warmSession()
	a := &s.account
	execute := func(portal string) []heat.Key {
		a.beginExecute(append([]byte(portal), 0, 0, 0, 0, 0))
		r := a.deferRun()
		a.warmed(&r, nil, 1e6)
		a.run = run{}
		got := taken(w)[0]
		return got.Keys[:got.KeyCount]
	}
	bind := func(portal string, ids ...uint64) {
		a.beginBind()
		a.noteBound([]byte(portal), &parser.Facts{})
		a.noteUsed(keys(ids...), false)
	}
	bind("p1", 1, 2)
	bind("p2", 3)
	bind("", 4)
	for portal, want := range map[string][]heat.Key{"p1": keys(1, 2), "p2": keys(3), "": keys(4), "unknown": {}} {
		if got := execute(portal); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %v, want %v", portal, got, want)
		}
	}
	bind("p3", 5, 6)
	for i := range uint64(20) {
		bind("", 10+i, 11+i)
	}
	if got := execute("p3"); fmt.Sprint(got) != fmt.Sprint(keys(5)) {
		t.Errorf("long ago: %v", got)
	}
	if got := execute(""); fmt.Sprint(got) != fmt.Sprint(keys(29, 30)) {
		t.Errorf("the last one: %v", got)
	}
	// A Parse that is routed before its Bind is noted counts for the portal.
	a.beginBind()
	a.noteUsed(keys(40), false)
	a.noteBound([]byte("p4"), &parser.Facts{})
	if got := execute("p4"); fmt.Sprint(got) != fmt.Sprint(keys(40)) {
		t.Errorf("routed first: %v", got)
	}
}

func TestNotePassed(t *testing.T) {
	s, _ := warmSession()
	o := op{run: run{began: 1}}
	s.account.notePassed(&o, 10)
	s.account.notePassed(&op{}, 5)
	if o.run.bytes != 10 || s.account.run.bytes != 5 {
		t.Errorf("%d, %d", o.run.bytes, s.account.run.bytes)
	}
}

// noted is what heat does for each statement.
func noted(a *account, r *run, sh *pool.Shard, used []heat.Key) {
	a.warm.begin()
	a.noteUsed(used, false)
	r.usage = a.warm.usage
	a.warmed(r, sh, 80_000)
}

func TestWarmingAllocatesNothing(t *testing.T) {
	s, w := warmSession()
	r, sh := run{kind: tally.Shard, bytes: 100}, &pool.Shard{Name: "s"}
	one, several := keys(7), keys(7, 8, 9)
	noted(&s.account, &r, sh, several)
	if n := testing.AllocsPerRun(300, func() {
		noted(&s.account, &r, sh, one)
		noted(&s.account, &r, sh, several)
	}); n != 0 {
		t.Errorf("%v allocations for each statement", n)
	}
	if len(taken(w)) < 500 {
		t.Error("nothing was sampled")
	}
}

// BenchmarkRecord is what heat adds to a statement, at 30,000 statements a second. On a machine that
// is busy with other things the processor's time counts, not the clock's.
func BenchmarkRecord(b *testing.B) {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	for _, samples := range []float64{0, 2000} {
		b.Run(fmt.Sprint(samples, " a second"), func(b *testing.B) {
			s, w := warmSession()
			r, sh, keys := run{kind: tally.Shard, bytes: 100}, &pool.Shard{Name: "s"}, keys(7)
			b.ReportAllocs()
			began := used()
			for i := 0; b.Loop(); i++ {
				if i%7_500 == 0 {
					w.sampler.Drain(0.25, samples, func(*heat.Sample) {})
				}
				noted(&s.account, &r, sh, keys)
			}
			b.ReportMetric(float64(used()-began)/float64(b.N), "cpu-ns/op")
		})
	}
}
