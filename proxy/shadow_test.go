package proxy

import (
	"testing"

	"weft/parser"
	"weft/plan"
	"weft/pool"
)

// TestUndone: a ROLLBACK TO takes back what has come into being behind its savepoint.
func TestUndone(t *testing.T) {
	for _, c := range []struct {
		replay []string
		n      int
		want   bool
	}{
		{[]string{"savepoint a"}, 1, false},
		{[]string{"savepoint a", "rollback to a"}, 1, true},
		{[]string{"savepoint a", "rollback to a"}, 0, false},
		{[]string{"savepoint a", "rollback to a"}, 2, false},
		{[]string{"savepoint a", "savepoint b", "rollback to b"}, 1, false},
		{[]string{"savepoint a", "savepoint b", "rollback to savepoint b"}, 2, true},
		{[]string{"savepoint a", "savepoint b", "release b", "rollback to a"}, 2, true},
		{[]string{"savepoint a", "savepoint a", "release a", "rollback to a"}, 1, true},
		{[]string{"savepoint a", "set x = 1", "savepoint a", "rollback to a"}, 2, false},
		{[]string{"savepoint a", "rollback to a", "rollback to a"}, 2, true},
	} {
		if b := (&block{replay: c.replay}); b.undone(c.n) != c.want {
			t.Errorf("%q: what was there behind %d commands: undone is %v", c.replay, c.n, !c.want)
		}
	}
}

// TestShadow: a portal is as it was when the Bind under its name has been refused.
func TestShadow(t *testing.T) {
	s := newSession(nil, nil, nil, "", "")
	ps, p, lane := &s.portals, []byte("p"), &pool.Lane{}
	ps.notePortal(p, lane)
	if shadowOf(ps, p) != nil {
		t.Error("a shadow without a savepoint: no portal outlives a refused Bind")
	}
	s.tx.replay = []string{"savepoint a"}
	facts := &parser.Facts{}
	s.account.portals = map[string]*namedPortal{"p": {facts: facts}}
	ps.wide.noteForAll(p, "savepoint s", facts)
	ps.noteGathered("p", gatheredCursor{known: &plan.Description{}})
	old := shadowOf(ps, p)
	if old == nil {
		t.Fatal("no shadow")
	}
	s.account.portals["p"] = &namedPortal{}
	ps.controls.named = map[string]control{"p": {ending: true}}
	ps.wide.noteEverywhere(p, &spread{})
	ps.notePortal(p, &pool.Lane{})
	old.restore(ps)
	_, gathered := ps.gathered["p"]
	all, ok := ps.wide.takeForAll(p)
	if ps.lanes["p"] != lane || s.account.portals["p"].facts != facts || ps.controls.named["p"].ending || ps.wide.everywhere["p"] != nil || !gathered || !ok || all.text != "savepoint s" {
		t.Errorf("the portal is not as it was: %+v", ps)
	}
	if s.tx.replay = append(s.tx.replay, "rollback to a"); ps.stays.isGone(p) {
		t.Error("a ROLLBACK TO takes away a portal that was bound before the savepoint")
	}
}

// TestWaits: a portal waits until it is executed to its end.
func TestWaits(t *testing.T) {
	var ps stays
	all, some := &run{facts: &parser.Facts{Reads: true}}, &run{facts: &parser.Facts{Reads: true}, limit: 1}
	ps.noteWaiting(nil)
	ps.noteWaiting([]byte("p"))
	ps.noteExecuted(nil, all)
	if !ps.waits() {
		t.Error("p does not wait")
	}
	if ps.noteExecuted([]byte("p"), some); !ps.waits() {
		t.Error("p does not wait for the rest of its rows")
	}
	if ps.noteExecuted([]byte("p"), all); ps.waits() {
		t.Error("p still waits")
	}
}
