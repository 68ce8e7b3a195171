package proxy

import (
	"slices"
	"testing"

	"weft/pool"
)

// holding is a session with a backend at hand and others parked.
func holding(hand *pool.Conn, parked ...*pool.Conn) *Session {
	s := newSession(nil, nil, nil, "", "")
	for _, c := range parked {
		s.held.parkBorrowed(c)
	}
	if hand != nil {
		s.held.hold(hand)
	}
	return s
}

// TestSwitchTo: a backend is at hand or parked, never both, and cancel requests reach the one at hand.
func TestSwitchTo(t *testing.T) {
	a, b, c := new(pool.Conn), new(pool.Conn), new(pool.Conn)
	s := holding(a, b, c)
	s.held.switchTo(0)
	if s.held.conn != b || !slices.Equal(s.held.parked, []*pool.Conn{c, a}) || s.reach.current != b {
		t.Errorf("after a switch: at hand %p, parked %v, cancelled %p", s.held.conn, s.held.parked, s.reach.current)
	}
	if got := s.held.detach(); got != b || s.held.conn != nil || s.reach.current != nil {
		t.Errorf("detached %p; at hand %p, cancelled %p", got, s.held.conn, s.reach.current)
	}
	s.held.switchTo(1)
	if s.held.conn != a || !slices.Equal(s.held.parked, []*pool.Conn{c}) {
		t.Errorf("after a switch from none: at hand %p, parked %v", s.held.conn, s.held.parked)
	}
}

// TestSiftParked: the order stays, and the memory holds on to no backend that is gone.
func TestSiftParked(t *testing.T) {
	a, b, c := new(pool.Conn), new(pool.Conn), new(pool.Conn)
	s := holding(nil, a, b, c)
	all := s.held.parked
	s.held.siftParked(func(p *pool.Conn) bool { return p != b })
	if !slices.Equal(s.held.parked, []*pool.Conn{a, c}) || all[2] != nil {
		t.Errorf("parked %v, behind them %p", s.held.parked, all[2])
	}
}

// TestTakeSoiled: a soiled backend is closed once.
func TestTakeSoiled(t *testing.T) {
	a, b := new(pool.Conn), new(pool.Conn)
	s := holding(a)
	s.held.soil(b)
	if s.held.takeSoiled(a) || !s.held.takeSoiled(b) || s.held.takeSoiled(b) {
		t.Error("the soiled backend is taken by another, or twice")
	}
}

// TestShield: while weft asks a backend, cancel requests reach none; afterwards they reach the one
// that they reached before.
func TestShield(t *testing.T) {
	a, b := new(pool.Conn), new(pool.Conn)
	s := holding(a)
	before := s.reach.shield(b)
	if before != a || s.reach.current != nil || s.reach.settling != b {
		t.Errorf("shielded: before %p, cancelled %p, settling %p", before, s.reach.current, s.reach.settling)
	}
	s.reach.unshield(before)
	if s.reach.current != a || s.reach.settling != nil {
		t.Errorf("unshielded: cancelled %p, settling %p", s.reach.current, s.reach.settling)
	}
}

// TestTakeLegs: legs belong to the statement or to the caller that closes them.
func TestTakeLegs(t *testing.T) {
	a := new(pool.Conn)
	s := holding(nil)
	s.reach.addLeg(a)
	if got := s.reach.takeLegs(); len(got) != 1 || got[0] != a || len(s.reach.legs) != 0 {
		t.Errorf("taken %v, left %v", got, s.reach.legs)
	}
	s.reach.addLeg(a)
	if s.reach.forgetLegs(); len(s.reach.takeLegs()) != 0 {
		t.Error("a leg is left")
	}
}
