package proxy

import (
	"errors"
	"os"

	"weft/wire"
)

// A session reads whole messages from its client, within the memory that all clients may hold.

// frame blocks until the next message has arrived whole and returns its body. The caller
// consumes the message.
func (p *pipe) frame() ([]byte, error) {
	_, length, _ := p.s.client.Header()
	cost := messageCost
	if p.s.route.hasTables {
		cost = parsedCost
	}
	if err := p.s.account.takeIn(length+1, cost); err != nil {
		return nil, err
	}
	_, body, err := p.s.client.Next(wire.LargeLimit)
	if err != nil {
		return nil, errEnd
	}
	return body, nil
}

// awaitClient waits until n bytes are in the client's buffer.
func (p *pipe) awaitClient(n int) error {
	for {
		err := p.s.client.Need(n)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return errEnd
		}
		if err := p.s.woken(); err != nil {
			return err
		}
	}
}

// skip discards n bytes from the client.
func (p *pipe) skip(n int) error {
	for n > 0 {
		if have := min(n, len(p.s.client.Buffered())); have > 0 {
			p.s.client.Consume(have)
			n -= have
			continue
		}
		if err := p.s.client.Fill(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return errEnd
			}
			if err := p.s.woken(); err != nil {
				return err
			}
		}
	}
	return nil
}
