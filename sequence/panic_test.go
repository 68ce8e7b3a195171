package sequence

import (
	"context"
	"testing"

	"weft/pgerr"
)

// A panic in a draw is an error of those who wait for it, and the next draw is as any.
func TestPanicInDraw(t *testing.T) {
	c := newCounter()
	first := true
	c.fail = func(int) error {
		if first {
			first = false
			panic("in a draw")
		}
		return nil
	}
	a := New(c, Config{})
	t.Cleanup(a.Close)
	if _, err := a.Take(context.Background(), orders, 0, 1, nil); pgerr.PanicIn(err) == nil {
		t.Errorf("who waits is told %v", err)
	}
	if v, err := a.Take(context.Background(), orders, 0, 1, nil); err != nil || len(v) != 1 {
		t.Errorf("the next one gets %v, %v", v, err)
	}
	// A bug in serving those who wait.
	l := &line{name: orders}
	w := &waiter{n: 1, done: make(chan struct{})}
	l.join(w)
	l.abandon(pgerr.FromPanic("in serving", nil))
	if <-w.done; pgerr.PanicIn(w.err) == nil || l.first != nil {
		t.Errorf("who waits is told %v", w.err)
	}
}
