package proxy

import (
	"errors"
	"os"

	"weft/wire"
)

// A session reads whole messages of its client, within what all clients may hold.

// frame blocks until the next message is whole and returns its body. The
// caller discards it.
func (s *Session) frame() ([]byte, error) {
	_, length, _ := s.client.Header()
	cost := messageCost
	if s.hasTables {
		cost = parsedCost
	}
	if err := s.takeIn(length+1, cost); err != nil {
		return nil, err
	}
	_, body, err := s.client.Next(wire.LargeLimit)
	if err != nil {
		return nil, errEnd
	}
	return body, nil
}

// awaitClient waits until n bytes are in the client's buffer.
func (s *Session) awaitClient(n int) error {
	for {
		err := s.client.Need(n)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return errEnd
		}
		if err := s.woken(); err != nil {
			return err
		}
	}
}

// skip discards n bytes of the client's.
func (s *Session) skip(n int) error {
	for n > 0 {
		if have := min(n, len(s.client.Buffered())); have > 0 {
			s.client.Consume(have)
			n -= have
			continue
		}
		if err := s.client.Fill(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return errEnd
			}
			if err := s.woken(); err != nil {
				return err
			}
		}
	}
	return nil
}
