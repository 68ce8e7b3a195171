package loop

import (
	"net"
	"os"
	"sync"
	"time"
)

// side is one direction of a Conn: what waits for it, and what is known of it.
type side struct {
	mu sync.Mutex
	// ready: an attempt may succeed. An event sets it, and await takes it back before the attempt, so that an event during the
	// attempt is not lost.
	ready bool
	// ended: the peer has hung up or the socket has failed. Then ready stays.
	ended bool
	// expired: the deadline has passed. closed: the Conn is closed.
	expired, closed bool

	task *Task // waits in its loop
	// waits: a goroutine waits, for wake to deliver.
	waits    bool
	wake     chan struct{}
	timer    *time.Timer
	deadline uint64 // counts the deadlines that were set
}

// state returns the error that ends a wait, or whether an attempt may succeed. mu is held.
func (s *side) state() (ready bool, err error) {
	switch {
	case s.closed:
		return false, net.ErrClosed
	case s.expired:
		return false, os.ErrDeadlineExceeded
	}
	return s.ready, nil
}

// check returns the error that ends any attempt.
func (s *side) check() error {
	s.mu.Lock()
	_, err := s.state()
	s.mu.Unlock()
	return err
}

// await waits until an attempt may succeed, which must follow. t is the task that calls, nil for a goroutine.
func (s *side) await(t *Task) error {
	for {
		s.mu.Lock()
		ready, err := s.state()
		switch {
		case err != nil:
			s.mu.Unlock()
			return err
		case ready:
			s.ready = s.ended
			s.mu.Unlock()
			return nil
		case t != nil && !t.out.Load():
			s.mu.Unlock()
			t.pause(s)
			continue
		}
		if s.wake == nil {
			s.wake = make(chan struct{}, 1)
		}
		s.waits = true
		s.mu.Unlock()
		<-s.wake
	}
}

// take reports whether an attempt may succeed, which must follow then.
func (s *side) take() (ready bool, err error) {
	s.mu.Lock()
	if ready, err = s.state(); ready {
		s.ready = s.ended
	}
	s.mu.Unlock()
	return ready, err
}

// arm makes t the task that is resumed when s changes. It returns false if s need not be waited for.
func (s *side) arm(t *Task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ready, err := s.state(); ready || err != nil {
		return false
	}
	s.task = t
	return true
}

// more notes that another attempt may succeed.
func (s *side) more() {
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
}

// signal notes an event and returns the task that waits for it, if one does. A goroutine that waits is woken.
func (s *side) signal(ended bool) *Task {
	s.mu.Lock()
	s.ready = true
	s.ended = s.ended || ended
	t := s.release()
	s.mu.Unlock()
	return t
}

// release takes the waiters away. It wakes a goroutine, and returns a task. mu is held.
func (s *side) release() *Task {
	if s.waits {
		s.waits = false
		s.wake <- struct{}{}
	}
	t := s.task
	s.task = nil
	return t
}

// change calls f with mu held, and wakes what waits: f has changed how a wait ends.
func (s *side) change(f func()) {
	s.mu.Lock()
	f()
	t := s.release()
	s.mu.Unlock()
	if t != nil {
		t.loop.post(t)
	}
}

// limit sets the deadline.
func (s *side) limit(at time.Time) {
	wait := time.Until(at)
	s.mu.Lock()
	s.deadline++
	this := s.deadline
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if at.IsZero() || wait > 0 {
		s.expired = false
		if !at.IsZero() {
			s.timer = time.AfterFunc(wait, func() {
				s.change(func() { s.expired = s.expired || s.deadline == this })
			})
		}
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.change(func() { s.expired = s.expired || s.deadline == this })
}
