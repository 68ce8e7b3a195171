package throttle

import "sync"

// slots are places for so many transactions at a time. Those who find none wait in the order in which
// they came.
type slots struct {
	mu    sync.Mutex
	limit int
	used  int
	queue []*Slot
}

// Slot is a place, or the wait for one.
type Slot struct {
	of      *slots
	granted chan struct{}
	left    bool
}

// enter asks for a place.
func (s *slots) enter() *Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &Slot{of: s, granted: make(chan struct{})}
	s.queue = append(s.queue, x)
	s.serve()
	return x
}

// serve gives places to those who wait. mu is held.
func (s *slots) serve() {
	for len(s.queue) > 0 && s.used < s.limit {
		x := s.queue[0]
		s.queue = s.queue[1:]
		if x.left {
			continue
		}
		s.used++
		close(x.granted)
	}
}

func (s *slots) resize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
	s.serve()
}

// Granted is closed when the place is there.
func (x *Slot) Granted() <-chan struct{} { return x.granted }

// Has reports whether the place is there.
func (x *Slot) Has() bool {
	select {
	case <-x.granted:
		return true
	default:
		return false
	}
}

// Leave gives the place back, or ends the wait for it.
func (x *Slot) Leave() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	if x.left {
		return
	}
	x.left = true
	if x.Has() {
		x.of.used--
	}
	x.of.serve()
}
