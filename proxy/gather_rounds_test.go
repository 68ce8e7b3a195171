package proxy

import (
	"fmt"
	"testing"
)

// TestRounds: postponed pieces leave the first round, and no piece is lost.
func TestRounds(t *testing.T) {
	var o rounds
	o.begin(3)
	for _, v := range [][2]int{{0, 0}, {0, 1}, {0, 2}, {2, 1}} {
		o.visit(v[0], v[1])
	}
	if o.visited() != 2 || o.again(0) {
		t.Fatalf("%d shards are visited, shard 0 again: %t", o.visited(), o.again(0))
	}
	before := fmt.Sprint(o.all())
	o.postpone(func(piece int) bool { return piece == 1 })
	if got := fmt.Sprint(o.first, o.later); got != "[[0 2] [] []] [[1] [] [1]]" {
		t.Errorf("the rounds are %s", got)
	}
	if got := fmt.Sprint(o.all()); got != before {
		t.Errorf("both rounds have %s, the only one had %s", got, before)
	}
	if o.visited() != 1 || !o.again(0) || o.again(1) || !o.again(2) {
		t.Errorf("%d shards are visited first, then %t %t %t", o.visited(), o.again(0), o.again(1), o.again(2))
	}
	o.all()[0][0] = 9
	if o.first[0][0] != 0 {
		t.Error("a change of the answer changes the first round")
	}
}

// TestRoundsBegin: another run visits its own shards, and an EXPLAIN after it still has the keys
// that the run has sent.
func TestRoundsBegin(t *testing.T) {
	var o rounds
	o.begin(2)
	o.visit(1, 0)
	o.noteKeys(0, keySet{[]byte("k"), 1016})
	o.begin(2)
	if o.visited() != 0 {
		t.Error("a new run visits shards of the last")
	}
	if keys := o.sent[0]; string(keys.value) != "k" || keys.typ != 1016 {
		t.Errorf("the keys have become %v", keys)
	}
}
