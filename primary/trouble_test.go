package primary

import (
	"strings"
	"testing"
	"time"
)

// TestTroubles: each state of a shard and its servers has one line that says what is wrong, and one that says what to do.
func TestTroubles(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(kind Kind, timeline uint32, fork LSN, started int64) Sighting {
		return Sighting{Kind: kind, At: now, Generation: Generation{"7", timeline, fork}, Started: time.Unix(started, 0)}
	}
	down, hba := Sighting{Kind: Refused, At: now}, Sighting{Kind: Unable, At: now}
	foreign := at(Standby, 1, 0, 3)
	foreign.Generation.System = "8"
	type want struct{ wrong, next string }
	for name, c := range map[string]struct {
		a, b    Sighting
		fence   uint32
		ruling  Ruling
		states  string
		expects []want
	}{
		"all is well": {a: at(Primary, 2, 9, 1), b: at(Standby, 2, 0, 2), states: "primary standby"},
		"no server answers": {a: down, b: down, states: "silent silent", expects: []want{
			{wrong: "shard s has no primary, clients wait for one: a:1 refuses connections; b:1 refuses connections", next: "Start the servers of s"},
		}},
		"only a standby answers": {a: down, b: at(Standby, 2, 0, 2), states: "silent standby", expects: []want{{wrong: "no primary", next: "pg_ctl promote"}}},
		"weft may not log in": {a: hba, b: hba, states: "unknown unknown", expects: []want{
			{wrong: "does not let weft log in", next: "pg_hba.conf"},
		}},
		"an old primary is back": {a: at(Primary, 1, 0, 1), b: at(Primary, 2, 9, 2), states: "stale primary", expects: []want{
			{wrong: "a:1 of shard s is stale: it is a primary on timeline 1, which is over", next: "pg_rewind"},
		}},
		"only an old primary is there": {a: at(Primary, 1, 0, 1), b: down, states: "stale silent", expects: []want{
			{wrong: "shard s has no primary", next: "weft shard reset s --yes"}, {wrong: "a:1 of shard s is stale", next: "Stop it"},
		}},
		"two primaries": {a: at(Primary, 2, 8, 1), b: at(Primary, 2, 9, 2), states: "split split", expects: []want{
			{wrong: "shard s is split", next: "weft shard accept s HOST:PORT"},
		}},
		"one was accepted": {a: at(Primary, 2, 8, 1), b: at(Primary, 2, 9, 2), ruling: Ruling{1, 2, "b:1"}, states: "stale primary", expects: []want{
			{wrong: "a:1 of shard s is a primary that was decided against: b:1 was accepted", next: "save rows"},
		}},
		"a server of another system": {a: at(Primary, 2, 9, 1), b: foreign, states: "primary foreign", expects: []want{
			{wrong: "b:1 is foreign to shard s: its system identifier is 8, and that of the shard is 7", next: "weft apply"},
		}},
		"a standby is away":              {a: at(Primary, 2, 9, 1), b: down, states: "primary silent", expects: []want{{wrong: "b:1 of shard s refuses connections", next: "Start it"}}},
		"a standby stayed behind a fork": {a: at(Primary, 2, 9, 1), b: at(Standby, 1, 0, 2), states: "primary standby", expects: []want{{wrong: "standby on timeline 1, and the primary is on 2", next: "Let it follow a:1"}}},
		"fenced": {a: at(Primary, 2, 9, 1), b: at(Standby, 2, 0, 2), fence: 2, states: "stale standby", expects: []want{
			{wrong: "shard s has no primary", next: "weft fence --shard s --end"}, {wrong: "a:1 of shard s is stale", next: "Stop it"},
		}},
	} {
		var j Judge
		known := Generation{System: "7", Timeline: 2}
		j.Know(known, now)
		j.Heed(c.ruling, known, now)
		j.SetHosts([]string{"a:1", "b:1"}, now)
		j.Fence(c.fence, now)
		j.See("a:1", c.a, now)
		j.See("b:1", c.b, now)
		v := j.View(now)
		if states := v.Servers[0].State() + " " + v.Servers[1].State(); states != c.states {
			t.Errorf("%s: %s, expected %s", name, states, c.states)
		}
		got := v.Troubles("s")
		if len(got) != len(c.expects) {
			t.Errorf("%s: %q", name, got)
			continue
		}
		for i, w := range c.expects {
			if !strings.Contains(got[i].Wrong, w.wrong) || !strings.Contains(got[i].Next, w.next) || strings.Contains(got[i].Wrong+got[i].Next, "\n") {
				t.Errorf("%s: %q, expected %q", name, got[i], w)
			}
		}
	}
}
