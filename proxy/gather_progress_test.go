package proxy

import (
	"errors"
	"testing"
)

// TestProgressSteps: a statement can be planned again until a step has written.
func TestProgressSteps(t *testing.T) {
	for _, c := range []struct {
		verbs []string
		begun bool
	}{
		{nil, false},
		{[]string{"SELECT", "SELECT"}, false},
		{[]string{"SELECT", "UPDATE"}, true},
		{[]string{"DELETE", "SELECT"}, true},
	} {
		var p progress
		p.beginSteps(len(c.verbs))
		for _, verb := range c.verbs {
			p.endStep(verb)
		}
		if p.begun != c.begun {
			t.Errorf("after %v something has been written: %t", c.verbs, p.begun)
		}
	}
}

// TestProgressGaveNone: a write leaves out a shard only if a locking step has found nothing
// there.
func TestProgressGaveNone(t *testing.T) {
	var p progress
	if p.gaveNone(0, 1) {
		t.Error("a write without steps leaves out a shard")
	}
	p.beginSteps(2)
	p.gave[1] = []bool{true, false}
	for _, c := range []struct {
		step, shard int
		want        bool
	}{
		{0, 0, false}, // goes along with no step
		{0, 1, false},
		{1, 0, false}, // goes along with a step that locks nothing
		{1, 1, false},
		{2, 0, false},
		{2, 1, true},
	} {
		if got := p.gaveNone(c.step, c.shard); got != c.want {
			t.Errorf("step %d, shard %d: %t", c.step, c.shard, got)
		}
	}
}

// TestProgressRestart: another attempt draws its own values and claims its own entries.
func TestProgressRestart(t *testing.T) {
	p := progress{supplied: [][]byte{{1}}, claims: make([]lookupClaim, 1), met: make([]lookupClaim, 1), astray: true, begun: true}
	p.beginSteps(1)
	p.restart()
	if p.supplied != nil || p.claims != nil || p.met != nil || p.astray || p.returned != nil || p.begun {
		t.Errorf("of the last attempt is left %+v", p)
	}
}

// TestRepeatPossible: a client must not see two attempts at one statement.
func TestRepeatPossible(t *testing.T) {
	for i := range 8 {
		r := repeat{alone: i&1 > 0, passed: i&2 > 0, told: i&4 > 0, stray: errors.New("x")}
		if got, want := r.possible(), i == 1; got != want {
			t.Errorf("%+v: %t", r, got)
		}
	}
}
