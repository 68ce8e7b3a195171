package pool

import (
	"testing"
	"time"
)

// fails notes n failures, and reports whether one of them has ejected the standby.
func fails(e *ejection, now time.Time, n int) (ejected bool) {
	for range n {
		ejected = e.failed(now) || ejected
	}
	return ejected
}

func TestEjection(t *testing.T) {
	now := time.Unix(1000, 0)
	var e ejection
	if fails(&e, now, 2) || e.is(now) || e.trust(now) != 1 {
		t.Error("two failures eject a standby")
	}
	if !e.failed(now) || !e.is(now) || e.is(now.Add(ejectFirst)) {
		t.Error("three failures do not eject a standby for a second")
	}
	if e.failed(now) {
		t.Error("a standby that is left alone is ejected again")
	}
	now = now.Add(ejectFirst)
	if !e.failed(now) || !e.is(now.Add(ejectFirst)) || e.is(now.Add(2*ejectFirst)) {
		t.Error("the second pause is not twice as long")
	}
	for range 20 {
		now = e.until
		e.failed(now)
	}
	if e.until.Sub(now) != ejectMost {
		t.Errorf("the pause is %s", e.until.Sub(now))
	}
	now = e.until.Add(trustAfter / 2)
	e.answered()
	if e.is(now) || e.trust(now) != 0.5 || e.trust(now.Add(trustAfter)) != 1 {
		t.Errorf("a standby that is back is trusted by %v", e.trust(now))
	}
	if fails(&e, now, 2) || !e.failed(now) || e.until.Sub(now) != ejectFirst {
		t.Error("a standby that was back is not ejected as at first")
	}
}

// TestEjectByHand: a standby that an operator has ejected stays so until it is admitted, and is then trusted like any other.
func TestEjectByHand(t *testing.T) {
	now := time.Unix(1000, 0)
	var e ejection
	e.byHand = true
	e.answered()
	if !e.is(now) || !e.is(now.Add(time.Hour)) || fails(&e, now, 3) {
		t.Error("a standby that was ejected by hand is used, or ejected again")
	}
	e.admit()
	if e.is(now) || e.trust(now) != 1 {
		t.Error("a standby that was admitted is not used")
	}
	fails(&e, now, 3)
	if e.admit(); e.is(now) {
		t.Error("the pause of a standby that was admitted goes on")
	}
}
