package proxy

import (
	"slices"
	"testing"
	"time"

	"weft/parser"
	"weft/pool"
	"weft/wire"
)

// TestPins: a lost backend takes the reasons with it that it was kept for, and no other.
func TestPins(t *testing.T) {
	s := newSession(nil, nil, nil, "", "")
	rc := &s.record
	rc.pins.tie(pinSessionMode)
	rc.pins.tie(pinSeed)
	rc.pins.tie(pinTemp)
	if rc.pins.tieAsFound(pinAdvisory); rc.pins != pinSessionMode|pinSeed|pinAdvisory {
		t.Errorf("found %b: pins are %b", pinAdvisory, rc.pins)
	}
	if rc.pins.untie(); rc.pins != pinSessionMode {
		t.Errorf("after the loss pins are %b", rc.pins)
	}
}

// TestGreet: a record begins with what the client said and what it is told.
func TestGreet(t *testing.T) {
	for _, tc := range []struct {
		name, application, strings, encoding string
		old, odd                             bool
	}{
		{"plain", "", "on", "UTF8", false, false},
		{"named", "psql", "on", "UTF8", false, false},
		{"old strings", "", "off", "UTF8", true, false},
		{"odd encoding", "", "on", "SJIS", false, true},
	} {
		rc := &newSession(nil, nil, nil, "", "").record
		rc.greet(tc.application, map[string]string{"standard_conforming_strings": tc.strings, "client_encoding": tc.encoding})
		name, _ := rc.settings.Get("application_name")
		if name != tc.application || rc.oldStrings != tc.old || rc.oddEncoding != tc.odd || rc.pins&pinEncoding != 0 != tc.odd {
			t.Errorf("%s: name %q, old %v, odd %v, pins %b", tc.name, name, rc.oldStrings, rc.oddEncoding, rc.pins)
		}
	}
}

// TestTakeEffects: the effects of a transaction are taken once.
func TestTakeEffects(t *testing.T) {
	rc := &newSession(nil, nil, nil, "", "").record
	rc.done.add(parser.DDL)
	if d := rc.done.take(); d.bits != parser.DDL || rc.done.any() {
		t.Errorf("taken %b, left %b", d.bits, rc.done.bits)
	}
	rc.done.add(parser.DDL)
	if rc.done.forget(); rc.done.any() {
		t.Errorf("left %b", rc.done.bits)
	}
}

// TestLimitIdle: a wait for the client is bounded from its beginning to its end.
func TestLimitIdle(t *testing.T) {
	rc := &newSession(nil, nil, nil, "", "").record
	if at := rc.limitIdle(time.Hour); at != rc.idleUntil || time.Until(at) < 59*time.Minute {
		t.Errorf("the wait ends at %v", at)
	}
	if rc.endIdle(); !rc.idleUntil.IsZero() {
		t.Error("the wait is still bounded")
	}
}

// TestFresh: values drawn with a Parse serve one Bind, and only a Bind of as many values.
func TestFresh(t *testing.T) {
	d := &newSession(nil, nil, nil, "", "").drawn
	drawn := [][]byte{[]byte("1"), []byte("2")}
	d.keepFresh(drawn)
	drawn[0] = []byte("overwritten")
	if got, ok := d.takeFresh(nil, 1); ok || got != nil {
		t.Errorf("a Bind of one value got %q", got)
	}
	got, ok := d.takeFresh(nil, 2)
	if !ok || !slices.EqualFunc(got, []string{"1", "2"}, func(b []byte, s string) bool { return string(b) == s }) {
		t.Errorf("the Bind got %q, %v", got, ok)
	}
	if _, ok := d.takeFresh(nil, 2); ok {
		t.Error("a second Bind got the same values")
	}
	d.keepFresh(drawn)
	if d.dropFresh(); len(d.fresh) != 0 {
		t.Errorf("%d values are left", len(d.fresh))
	}
}

// TestScriptUnread: a text that cannot be read ends the block that would have been its own, and
// leaves nothing to the next text.
func TestScriptUnread(t *testing.T) {
	s := newSession(&Server{metrics: &metrics{}}, nil, nil, "", "")
	s.tx.start(plainBegin)
	if err := s.script.runInBlock([]byte("select 1; select (")); err != nil {
		t.Fatal(err)
	}
	if s.script.state != noScript || s.tx.isOpen() || s.lost.is() {
		t.Errorf("script %d, open %t, lost %t", s.script.state, s.tx.isOpen(), s.lost.is())
	}
	if b := s.out.B; len(b) < 6 || b[0] != wire.ErrorResponse || b[len(b)-1] != wire.TxIdle {
		t.Errorf("the client is told %q", b)
	}
}

// TestPreparedBytes: a statement that is taken out and put back counts once.
func TestPreparedBytes(t *testing.T) {
	ps := &newSession(nil, nil, nil, "", "").prepared
	st := &statement{name: "a", server: &pool.Statement{SQL: "SELECT 1"}}
	ps.putBack(st)
	for range 2 {
		if ps.takeOut(st); ps.named["a"] != nil || ps.bytes != 0 {
			t.Errorf("taken out: %v, %d bytes", ps.named["a"], ps.bytes)
		}
	}
	if ps.putBack(st); ps.named["a"] != st || ps.bytes != len(st.server.SQL) {
		t.Errorf("put back: %v, %d bytes", ps.named["a"], ps.bytes)
	}
	if ps.noteBound([]byte("a")); ps.lastBound != st {
		t.Error("the unnamed portal is made from another statement")
	}
	if ps.noteBound(nil); ps.lastBound != nil {
		t.Error("the unnamed portal is not made from the unnamed statement")
	}
}

// TestForgetPortals: of a transaction's portals the cursors WITH HOLD stay.
func TestForgetPortals(t *testing.T) {
	ps := &newSession(nil, nil, nil, "", "").portals
	ps.local = map[string]*localPortal{"": {}, "a": {}}
	ps.gathered = map[string]gatheredCursor{"b": {}, "held": {hold: true}}
	ps.lane, ps.stays.unexecuted = new(pool.Lane), true
	if ps.closeUnnamed(); ps.lane != nil || len(ps.local) != 1 {
		t.Errorf("after a simple query %d local portals are left", len(ps.local))
	}
	if ps.forgetAll(); ps.stays.unexecuted || len(ps.local) != 0 || len(ps.gathered) != 1 {
		t.Errorf("after the transaction %d local and %d gathered portals are left", len(ps.local), len(ps.gathered))
	}
	for _, name := range [][]byte{nil, []byte("p")} {
		ps.controls.begin()
		ps.controls.note([]byte("commit"), &parser.Facts{Effects: parser.TxEnd})
		ps.controls.ends()
		ps.controls.keep(ps.s, name)
		first, changed := ps.controls.take(ps.s, name)
		again, _ := ps.controls.take(ps.s, name)
		if !first.ending || !first.commits || changed || again.ending {
			t.Errorf("portal %q ends its block never, or twice, or was bound in another state: %t", name, changed)
		}
	}
	ps.copyNext = new(boundCopy)
	if ps.takeCopy() == nil || ps.takeCopy() != nil {
		t.Error("a COPY is executed never, or twice")
	}
}
