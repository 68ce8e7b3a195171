package proxy

import (
	"errors"

	"weft/loop"
)

// startLoops starts the loops in which sessions run. Where the system has none, sessions are goroutines.
func (r *register) startLoops(n int) (err error) {
	if n == 0 {
		return nil
	}
	if r.loops, err = loop.NewSet(n); errors.Is(err, errors.ErrUnsupported) {
		r.loops, err = nil, nil
	}
	return err
}

// runInLoop runs a session as a task of the loop that watches its client.
func (r *register) runInLoop(sess *Session, c *loop.Conn) {
	s, rests := r.s, false
	run := s.guarded("session", func() { rests = s.run(sess) })
	s.crew.enter()
	c.Go(func(*loop.Task) *loop.Conn {
		rests = false
		if run(); rests {
			return c
		}
		s.crew.leave()
		return nil
	})
}
