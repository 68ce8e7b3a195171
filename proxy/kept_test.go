package proxy

import (
	"testing"

	"weft/pool"
)

// TestKeptParse: every event in every state.
func TestKeptParse(t *testing.T) {
	lane := &pool.Lane{}
	events := []struct {
		name string
		do   func(*keptParse)
		to   [4]keptState // from noParse, parseKept, parsePlaced, parsePlacedFree
	}{
		{"keep", func(k *keptParse) { k.keep([]byte("x")) }, [4]keptState{parseKept, parseKept, parseKept, parseKept}},
		{"keepAgain", (*keptParse).keepAgain, [4]keptState{parseKept, parseKept, parseKept, parseKept}},
		{"take", (*keptParse).take, [4]keptState{}},
		{"place", func(k *keptParse) { k.place(lane, false) }, [4]keptState{parsePlaced, parsePlaced, parsePlaced, parsePlaced}},
		{"place free", func(k *keptParse) { k.place(lane, true) }, [4]keptState{parsePlacedFree, parsePlacedFree, parsePlacedFree, parsePlacedFree}},
		{"bind", func(k *keptParse) { k.bind() }, [4]keptState{noParse, parseKept, noParse, noParse}},
	}
	for _, e := range events {
		for from, to := range e.to {
			k := keptParse{state: keptState(from)}
			if from := keptState(from); from == parsePlaced || from == parsePlacedFree {
				k.lane = lane
			}
			e.do(&k)
			placed := to == parsePlaced || to == parsePlacedFree
			if k.state != to || k.waits() != (to == parseKept) || (k.lane != nil) != placed {
				t.Errorf("%s in state %d: %d with lane %p, want %d", e.name, from, k.state, k.lane, to)
			}
		}
	}
}

// TestKeptParseTranscript: a Bind takes the shard of its Parse once, and the body outlives the
// sending.
func TestKeptParseTranscript(t *testing.T) {
	lane := &pool.Lane{}
	var k keptParse
	k.keep([]byte("parse"))
	if l, _ := k.bind(); l != nil || !k.waits() {
		t.Error("the Bind has taken a shard before the Parse has one")
	}
	k.take()
	if k.waits() || string(k.body) != "parse" {
		t.Errorf("sent: waits %t, body %q", k.waits(), k.body)
	}
	k.place(lane, true)
	if l, free := k.bind(); l != lane || !free {
		t.Errorf("the Bind got %p, free %t", l, free)
	}
	if l, free := k.bind(); l != nil || free {
		t.Errorf("the next Bind got %p, free %t", l, free)
	}
}
