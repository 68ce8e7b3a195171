package target

import (
	"testing"
	"time"

	"weft/directory"
	"weft/primary"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{"primary": "primary", "Standby": "standby", "any": "any", "prefer-standby": "any", "auto": "auto", "": "", "replica": ""} {
		got, ok := Parse(text)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: %s, %v", text, got, ok)
		}
	}
}

// TestCourse plays sessions: each step is a statement, and where it runs.
func TestCourse(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	read := Statement{Kind: Reads, Plain: true, Begins: true}
	write := Statement{Kind: Writes, Begins: true}
	other := Statement{Begins: true}
	calls := Statement{Kind: Reads, Begins: true}
	in := func(s Statement, block int, change ...func(*Statement)) Statement {
		s.Block = at(block)
		for _, f := range change {
			f(&s)
		}
		return s
	}
	later := func(s *Statement) { s.Begins = false }
	readOnly := func(s *Statement) { s.ReadOnly = true }
	snapped := func(s *Statement) { s.Snapped = true }
	exact := func(s *Statement) { s.Exact, s.Rows = true, true }
	atomic := func(s *Statement) { s.Atomic = true }
	serial := func(s *Statement) { s.Serial = true }
	piped := read
	piped.Begins = false
	type step struct {
		t    Target
		s    Statement
		want Verdict
	}
	for name, steps := range map[string][]step{
		"primary":  {{Primary, read, AtPrimary}, {Primary, write, AtPrimary}},
		"standby":  {{Standby, read, AtStandby}, {Standby, write, DenyWrite}, {Standby, calls, AtStandby}, {Standby, other, AtPrimary}, {Standby, read, AtStandby}},
		"any":      {{Any, read, AtStandby}, {Any, write, DenyWrite}, {Any, read, AtStandby}},
		"auto":     {{Auto, read, AtStandby}, {Auto, write, AtPrimary}, {Auto, calls, AtPrimary}, {Auto, read, AtStandby}},
		"atomic":   {{Auto, in(read, 1, readOnly, atomic), AtPrimary}, {Any, in(read, 2, atomic), AtPrimary}, {Standby, in(read, 3, atomic), DenyAtomic}},
		"serial":   {{Auto, in(read, 1, readOnly, serial), AtPrimary}, {Any, in(read, 2, serial), AtPrimary}, {Standby, in(read, 3, serial), AtStandby}},
		"snapped":  {{Auto, in(read, 1, readOnly, snapped, exact), AtPrimary}, {Any, in(read, 2, snapped), AtPrimary}, {Standby, in(read, 3, snapped), DenySnapped}},
		"own snap": {{Standby, in(read, 1), AtStandby}, {Standby, in(read, 1, later, snapped), AtStandby}},
		"one view of the rows": {
			{Any, in(read, 1, exact), AtStandby},
			{Any, in(other, 1, later, exact), DenyMixed},
			{Any, in(other, 1, later), AtPrimary},
			{Any, in(read, 1, later, exact, snapped), AtStandby},
			{Auto, in(read, 2, readOnly, exact), AtPrimary},
		},
		"block": {
			{Auto, in(read, 1), AtPrimary},
			{Auto, in(write, 1, later), AtPrimary},
			{Auto, in(read, 1, later), AtPrimary},
			{Auto, in(read, 2, readOnly), AtStandby},
			{Auto, in(calls, 2, readOnly, later), AtPrimary},
			{Auto, in(read, 2, readOnly, later), AtStandby},
			{Auto, read, AtStandby},
		},
		"block of a standby": {{Standby, in(other, 1), AtPrimary}, {Standby, in(read, 1, later), AtStandby}, {Standby, in(write, 1, later), DenyWrite}},
		"set in the block":   {{Primary, in(read, 1), AtPrimary}, {Any, in(read, 1, later), AtPrimary}, {Any, in(read, 2), AtStandby}},
		"pipeline":           {{Auto, read, AtStandby}, {Auto, piped, AtStandby}, {Auto, Statement{Kind: Writes}, AtPrimary}, {Auto, piped, AtPrimary}, {Auto, read, AtStandby}},
	} {
		var c Course
		for i, s := range steps {
			if got := c.Decide(s.t, &s.s, at(100+i)); got != s.want {
				t.Errorf("%s, step %d: %d, expected %d", name, i, got, s.want)
			}
		}
	}
}

// TestWrote: what a session has written must be there when it reads afterwards.
func TestWrote(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	var c Course
	decide := func(now int, t Target, s Statement) { c.Decide(t, &s, at(now)) }
	read := Statement{Kind: Reads, Plain: true, Begins: true}
	if decide(1, Auto, read); !c.Wrote().IsZero() {
		t.Error("a session that reads has written")
	}
	decide(2, Auto, Statement{Kind: Writes, Begins: true})
	if decide(5, Auto, read); !c.Wrote().Equal(at(5)) {
		t.Errorf("a write was over at %s", c.Wrote())
	}
	if decide(7, Auto, read); !c.Wrote().Equal(at(5)) {
		t.Errorf("a read counts as a write: %s", c.Wrote())
	}
	decide(8, Auto, Statement{Begins: true})
	if decide(9, Auto, read); !c.Wrote().Equal(at(9)) {
		t.Errorf("a statement that may write was over at %s", c.Wrote())
	}
	c.Note()
	if decide(11, Auto, read); !c.Wrote().Equal(at(11)) {
		t.Errorf("a function was over at %s", c.Wrote())
	}
	decide(12, Auto, Statement{Kind: Reads, Plain: true, Block: at(12), Begins: true})
	decide(13, Auto, Statement{Kind: Writes, Block: at(12)})
	if decide(14, Auto, read); !c.Wrote().Equal(at(14)) {
		t.Errorf("a block was over at %s", c.Wrote())
	}
	c = Course{}
	c.Stay(time.Time{})
	if decide(20, Auto, read); !c.Wrote().Equal(at(20)) {
		t.Errorf("what was done with another target was over at %s", c.Wrote())
	}
}

func TestToken(t *testing.T) {
	const text = "shop-0:2:0/3000060,shop-1:1:0/51A8"
	token, err := ParseToken(text)
	if err != nil || token.String() != text || token.Of("shop-1").LSN != 0x51A8 || token.Of("other") != (Place{}) {
		t.Errorf("%v, %v", token, err)
	}
	for _, bad := range []string{"x", "a:b:0/1", "a:1:zero", "a:1:", ":1:0/1"} {
		if _, err := ParseToken(bad); err == nil {
			t.Errorf("%q is a token", bad)
		}
	}
	if token, err := ParseToken(""); err != nil || token != nil {
		t.Errorf("%v, %v", token, err)
	}
	now := primary.Generation{System: "7", Timeline: 2, Fork: 0x5000}
	if p := token.Of("shop-1"); !p.Lost(now) || token.Of("shop-0").Lost(now) || (Place{"a", 1, 0x5000}).Lost(now) || (Place{}).Lost(now) {
		t.Error("what was lost is judged wrongly")
	}
}

// TestBarrier: only what concerns schemas and places of rows counts.
func TestBarrier(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(1000, 0).Add(time.Duration(s) * time.Second) }
	var b Barrier
	snap := directory.New(16, "s", []directory.Shard{{Name: "s", Hosts: []string{"a:1"}, Weight: 1}})
	since := func(now, want int) {
		t.Helper()
		if got := b.Since(snap, at(now)); !got.Equal(at(want)) {
			t.Errorf("at %d: since %s", now, got.Sub(at(0)))
		}
	}
	change := func(f func(s *directory.Snapshot)) {
		next := snap.Clone()
		next.Version = snap.Version + 1
		f(next)
		snap = next
	}
	since(1, 1)
	since(2, 1)
	change(func(s *directory.Snapshot) { s.Shards[0].Hosts = []string{"a:1", "b:1"} })
	since(3, 1)
	older := snap
	change(func(s *directory.Snapshot) { s.Schemas = map[string]int64{"shop": 1} })
	since(4, 4)
	if got := b.Since(older, at(5)); !got.Equal(at(4)) {
		t.Errorf("a session with an older snapshot: %s", got)
	}
	change(func(s *directory.Snapshot) { s.Placement[3] = 1 })
	since(6, 6)
	change(func(s *directory.Snapshot) { s.Moves = []directory.Move{{ID: "m"}} })
	since(7, 7)
	since(8, 7)
}
