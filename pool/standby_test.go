package pool

import (
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/primary"
)

// watchedShard returns a shard with the primary p and the standbys a, b and c, of which view says what is known.
func watchedShard(t *testing.T, view *primary.View) *Shard {
	t.Helper()
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	sh := p.Shard(&directory.Shard{
		Name: "s", Hosts: []string{"p:1", "a:1", "b:1", "c:1"}, System: "7",
		Servers: map[string]directory.Server{"a:1": {Zone: "east"}, "b:1": {Zone: "west", Weight: 2}, "c:1": {NoReads: true}},
	})
	sh.Watched(func() *primary.View { return view })
	return sh
}

// followers is a view of a shard whose standbys have replayed everything up to now.
func followers(now time.Time) *primary.View {
	g := primary.Generation{System: "7", Timeline: 2}
	v := &primary.View{State: primary.Steady, Primary: "p:1", Generation: g, Servers: []primary.Server{{Address: "p:1", Role: primary.Leads}}}
	for _, address := range []string{"a:1", "b:1", "c:1"} {
		v.Servers = append(v.Servers, primary.Server{Address: address, Role: primary.Follows, Fresh: now, Seen: primary.Sighting{Kind: primary.Standby, Generation: g, LSN: 100}})
	}
	return v
}

// TestStandby: a read gets a standby that is as up to date as it has to be.
func TestStandby(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, test := range []struct {
		name   string
		read   Read
		change func(v *primary.View, sh *Shard)
		want   string // the addresses of which one is returned, or why there is none
	}{
		{name: "all", want: "a:1 b:1"},
		{name: "of the zone", read: Read{Zone: "west"}, want: "b:1"},
		{name: "of no zone", read: Read{Zone: "north"}, want: "a:1 b:1"},
		{name: "not the one that failed", read: Read{Zone: "one"}, want: "b:1", change: func(_ *primary.View, sh *Shard) { sh.standbyAt("a:1").standby.eject.until = now.Add(1) }},
		{name: "time", read: Read{After: now}, want: "a:1", change: func(v *primary.View, _ *Shard) { v.Servers[2].Fresh = now.Add(-1) }},
		{name: "place", read: Read{LSN: 100}, want: "a:1", change: func(v *primary.View, _ *Shard) { v.Servers[2].Seen.LSN = 99 }},
		{name: "too early", read: Read{After: now.Add(1)}, want: "has replayed up to 0/64"},
		{name: "lag", read: Read{MaxLag: time.Second}, want: "b:1", change: func(v *primary.View, _ *Shard) { v.Servers[1].Fresh = now.Add(-2 * time.Second) }},
		{name: "bytes", read: Read{MaxBytes: 10}, want: "b:1", change: func(v *primary.View, _ *Shard) { v.Servers[1].LagBytes = 11 }},
		{name: "timeline", want: "b:1", change: func(v *primary.View, _ *Shard) { v.Servers[1].Seen.Generation.Timeline = 1 }},
		{name: "system", want: "b:1", change: func(v *primary.View, _ *Shard) { v.Servers[1].Seen.Generation.System = "8" }},
		{name: "timelines", want: "is on timeline 1, not 2", change: func(v *primary.View, _ *Shard) { v.Generation.Timeline = 2; old(v) }},
		{name: "away", want: "refuses connections", change: func(v *primary.View, _ *Shard) {
			for i := range v.Servers[1:] {
				v.Servers[i+1].Role, v.Servers[i+1].Seen.Kind = primary.Away, primary.Refused
			}
		}},
		{name: "none", want: "it has no standby", change: func(v *primary.View, _ *Shard) { v.Servers = v.Servers[:1] }},
	} {
		v := followers(now)
		sh := watchedShard(t, v)
		if test.change != nil {
			test.change(v, sh)
		}
		test.read.Now = now
		for range 20 {
			got := sh.Unfit(&test.read)
			if c := sh.Standby(&test.read); c != nil {
				got = c.Address()
			}
			if !strings.Contains(test.want, got) && !strings.Contains(got, test.want) {
				t.Errorf("%s: %q, expected %q", test.name, got, test.want)
			}
		}
	}
}

// old puts all standbys on an earlier timeline.
func old(v *primary.View) {
	for i := range v.Servers {
		v.Servers[i].Seen.Generation.Timeline = 1
	}
}

// TestSlack: a standby that was too far behind is fit again when it is within half the limit.
func TestSlack(t *testing.T) {
	now := time.Unix(1000, 0)
	v := followers(now)
	v.Servers = v.Servers[:2]
	sh := watchedShard(t, v)
	for _, step := range []struct {
		behind time.Duration
		fit    bool
	}{{8 * time.Second, true}, {11 * time.Second, false}, {8 * time.Second, false}, {5 * time.Second, true}, {8 * time.Second, true}} {
		v.Servers[1].Fresh = now.Add(-step.behind)
		if got := sh.Standby(&Read{Now: now, MaxLag: 10 * time.Second}) != nil; got != step.fit {
			t.Errorf("%s behind: fit %v", step.behind, got)
		}
	}
}

// TestLessWork: of two standbys the one with less work for its weight is read.
func TestLessWork(t *testing.T) {
	now := time.Unix(1000, 0)
	v := followers(now)
	sh := watchedShard(t, v)
	a, b := sh.standbyAt("a:1"), sh.standbyAt("b:1")
	a.total, b.total = 3, 6 // b has twice the weight, and less work therefore
	for range 20 {
		if got := sh.Standby(&Read{Now: now}); got != b {
			t.Fatalf("%s has more work", got.Address())
		}
	}
	a.total = 1
	for range 20 {
		if got := sh.Standby(&Read{Now: now}); got != a {
			t.Fatalf("%s has more work", got.Address())
		}
	}
	b.total = 2
	if got := sh.Standby(&Read{Now: now, Zone: "west"}); got != b {
		t.Error("a standby of another zone is read")
	}
	b.total = 60
	if got := sh.Standby(&Read{Now: now, Zone: "west"}); got != a {
		t.Error("a standby of the zone is read that has much more work")
	}
	if got := sh.Standby(&Read{Now: now, Not: a}); got != b {
		t.Error("a standby is read that has failed")
	}
}
