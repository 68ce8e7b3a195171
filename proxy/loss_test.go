package proxy

import (
	"testing"

	"weft/pgerr"
)

// TestLoss: every event in every state.
func TestLoss(t *testing.T) {
	events := []struct {
		name string
		do   func(*loss)
		to   map[lossState]lossState
	}{
		{"fail", (*loss).fail, map[lossState]lossState{intact: failedHere, failedHere: failedHere, backendGone: failedHere}},
		{"lose", func(l *loss) { l.lose(nil) }, map[lossState]lossState{intact: backendGone, failedHere: failedHere, backendGone: backendGone}},
		{"end", func(l *loss) { l.end() }, map[lossState]lossState{intact: intact, failedHere: intact, backendGone: intact}},
		{"takeCause", func(l *loss) { l.takeCause() }, map[lossState]lossState{intact: intact, failedHere: failedHere, backendGone: backendGone}},
	}
	for _, e := range events {
		for from, to := range e.to {
			l := loss{state: from}
			e.do(&l)
			if l.state != to || l.is() != (to != intact) {
				t.Errorf("%s in state %d: %d, want %d", e.name, from, l.state, to)
			}
		}
	}
}

// TestLossCause: the client hears the cause once, at the latest when it ends the
// transaction.
func TestLossCause(t *testing.T) {
	cause := pgerr.New(pgerr.ConnectionFailure, "gone")
	var l loss
	l.lose(cause)
	l.lose(nil) // another backend of the same transaction
	if l.takeCause() != cause || l.takeCause() != nil || l.end() != nil {
		t.Error("the cause was not heard once")
	}
	l.lose(cause)
	if l.end() != cause || l.is() || l.end() != nil {
		t.Error("the end did not tell the cause")
	}
}
