package proxy

import (
	"errors"
	"os"
	"time"

	"weft/pgerr"
	"weft/wire"
)

// copyIn passes the client's COPY data to the backend. Beside it a second
// goroutine listens to the backend, which may give up at any moment; while
// both run, this one owns reading from the client and writing to the backend,
// the other the opposite directions and everything else of the session.
func (s *Session) copyIn() error {
	if err := s.flushOrEnd(); err != nil {
		return err
	}
	c := s.conn
	if s.midFrame {
		// The client goes on with other messages where its data should be.
		return pgerr.Fatal(pgerr.ProtocolViolation, "terminating connection because protocol synchronization was lost")
	}
	ahead := 0 // Syncs behind the Execute
	if s.ops.first().kind == opExecute {
		ahead = s.ops.dropSyncs()
	}
	over := make(chan struct{})
	var heard error
	extended := s.ops.first().kind == opExecute
	go func() {
		defer s.wake()
		defer close(over)
		defer pgerr.Recovered(&heard)
		heard = s.relayCopy()
	}()
	sendErr := s.sendCopy(over)
	s.copied = extended
	switch {
	case sendErr != nil || !extended:
	case ahead > 0:
		// What comes of the COPY says what has come of them.
		_, sendErr = c.Write(wire.AppendEmpty(nil, wire.Flush))
	default:
		// The backend keeps its answer until the client sends a Sync.
		_ = c.Conn().SetReadDeadline(time.Unix(1, 0))
	}
	if errors.Is(sendErr, errEnd) {
		// The client is gone: closing the backend makes it abort the COPY.
		_ = c.Conn().SetDeadline(time.Unix(1, 0))
	}
	<-over
	_ = s.client.Conn().SetReadDeadline(time.Time{})
	_ = c.Conn().SetReadDeadline(time.Time{})
	if errors.Is(sendErr, errEnd) {
		return errEnd
	}
	if heard != nil {
		return heard
	}
	if sendErr != nil {
		return c.Lost(sendErr)
	}
	if ahead > 0 && s.skipping {
		if err := s.afterCopyError(c); err != nil {
			return err
		}
	}
	return s.checkKilled()
}

// relayCopy passes the backend's messages on until the COPY is decided.
func (s *Session) relayCopy() error {
	c := s.conn
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil // not decided yet
		}
		if err != nil {
			return c.Lost(err)
		}
		o := s.ops.first()
		if err := s.answer(c, o, typ, body); err != nil {
			return err
		}
		c.Consume(wire.HeaderLen + len(body))
		if typ == wire.ErrorResponse || typ == wire.CommandComplete {
			return s.flushOrEnd()
		}
		if err := s.flushOrEnd(); err != nil {
			return err
		}
	}
}

// sendCopy sends COPY messages until the client ends them or the backend has
// decided.
func (s *Session) sendCopy(over <-chan struct{}) error {
	ended := func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	rem := 0      // bytes of the current message still to pass
	drop := false // or to drop
	last := false // it is the one that ends the COPY
	for {
		if rem == 0 && (last || ended()) {
			return nil
		}
		b := s.client.Buffered()
		switch {
		case rem > 0 && len(b) > 0:
			// Also when the COPY has ended: the backend counts on the rest of
			// a message that has begun.
			n := min(rem, len(b))
			if !drop {
				if _, err := s.conn.Write(b[:n]); err != nil {
					return err
				}
			}
			s.client.Consume(n)
			rem -= n
			continue
		case rem == 0 && len(b) >= wire.HeaderLen:
			typ, length, _ := s.client.Header()
			limit := wire.FrontendLimit(typ)
			if limit == 0 || length < 4 || length > limit || typ == wire.Terminate {
				return errEnd
			}
			// Flush and Sync mean nothing to a backend that reads data. One that has
			// given up meanwhile would answer a Sync, and nobody would expect it.
			drop = typ == wire.Flush || typ == wire.Sync
			// Anything else but data ends the COPY: the backend says how.
			last = typ != wire.CopyData && !drop
			rem = length + 1
			continue
		}
		if err := s.client.Fill(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return errEnd
			}
			_ = s.client.Conn().SetReadDeadline(time.Time{})
			if s.killed.Load() != nil {
				return errEnd
			}
		}
	}
}
