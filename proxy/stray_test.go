package proxy

import (
	"testing"

	"weft/pgerr"
)

// TestHoldsBackNothing: a statement that has succeeded is not held back, although a cancel request has
// come right at its end.
func TestHoldsBackNothing(t *testing.T) {
	s := newSession(&Server{}, nil, nil, "u", "d")
	s.reach.interrupt.cause = errCancelled()
	s.reach.interrupt.stop.Store(true)
	x := &gathering{repeat: repeat{alone: true}}
	if s.route.holdsBack(x, nil) {
		t.Error("a success is held back")
	}
	if err := s.reach.asInterrupted(nil); err != nil {
		t.Error(err)
	}
	if err := s.reach.asInterrupted(pgerr.New(pgerr.QueryCanceled, "of a shard")); err != s.reach.interrupt.cause {
		t.Error(err)
	}
}
