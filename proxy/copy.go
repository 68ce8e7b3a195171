package proxy

import (
	"errors"
	"os"
	"time"

	"weft/pgerr"
	"weft/wire"
)

// copyIn passes the client's COPY data to the backend. A second goroutine listens to the backend
// meanwhile, because the backend may give up at any moment. While both run, this goroutine reads
// from the client and writes to the backend; the other has the opposite directions and
// everything else of the session.
func (cp *copier) copyIn() error {
	if err := cp.s.out.flushOrEnd(); err != nil {
		return err
	}
	c := cp.s.held.conn
	if cp.s.pipe.midFrame {
		// The client sends other messages where its COPY data should be.
		return pgerr.Fatal(pgerr.ProtocolViolation, "terminating connection because protocol synchronization was lost")
	}
	ahead := 0 // how many Syncs the client has sent behind the Execute
	if cp.s.pipe.ops.first().kind == opExecute {
		ahead = cp.s.pipe.ops.dropSyncs()
	}
	cp.s.client.Task().Leave()
	over := make(chan struct{})
	var heard error
	extended := cp.s.pipe.ops.first().kind == opExecute
	go func() {
		defer cp.s.wake()
		defer close(over)
		defer pgerr.Recovered(&heard)
		heard = cp.relayCopy()
	}()
	sendErr := cp.sendCopy(over)
	if extended {
		cp.s.pipe.noteCopy(copySent)
	}
	switch {
	case sendErr != nil || !extended:
	case ahead > 0:
		// The outcome of the COPY tells whether the backend answers these Syncs.
		_, sendErr = c.Write(wire.AppendEmpty(nil, wire.Flush))
	default:
		// The backend holds its answer back until the client sends a Sync.
		_ = c.Conn().SetReadDeadline(time.Unix(1, 0))
	}
	if errors.Is(sendErr, errEnd) {
		// The client is gone: the backend aborts the COPY when its connection is closed.
		_ = c.Conn().SetDeadline(time.Unix(1, 0))
	}
	<-over
	_ = cp.s.client.Conn().SetReadDeadline(time.Time{})
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
	if ahead > 0 && cp.s.pipe.isSkipping() {
		if err := cp.s.pipe.afterCopyError(c); err != nil {
			return err
		}
	}
	return cp.s.reach.checkKilled()
}

// relayCopy passes the backend's messages on until the COPY has succeeded or failed.
func (cp *copier) relayCopy() error {
	c := cp.s.held.conn
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil // the COPY is not decided yet
		}
		if err != nil {
			return c.Lost(err)
		}
		o := cp.s.pipe.ops.first()
		if err := cp.s.pipe.answer(c, o, typ, body); err != nil {
			return err
		}
		c.Consume(wire.HeaderLen + len(body))
		if typ == wire.ErrorResponse || typ == wire.CommandComplete {
			return cp.s.out.flushOrEnd()
		}
		if err := cp.s.out.flushOrEnd(); err != nil {
			return err
		}
	}
}

// sendCopy sends COPY messages until the client ends the data or the backend has decided.
func (cp *copier) sendCopy(over <-chan struct{}) error {
	ended := func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	rem := 0      // bytes of the current message still to pass or drop
	drop := false // the current message is dropped
	last := false // the current message ends the COPY
	for {
		if rem == 0 && (last || ended()) {
			return nil
		}
		b := cp.s.client.Buffered()
		switch {
		case rem > 0 && len(b) > 0:
			// Pass on even when the COPY has ended: the backend expects the rest of a message
			// that has begun.
			n := min(rem, len(b))
			if !drop {
				if _, err := cp.s.held.conn.Write(b[:n]); err != nil {
					return err
				}
			}
			cp.s.client.Consume(n)
			rem -= n
			continue
		case rem == 0 && len(b) >= wire.HeaderLen:
			typ, length, _ := cp.s.client.Header()
			limit := wire.FrontendLimit(typ)
			if limit == 0 || length < 4 || length > limit || typ == wire.Terminate {
				return errEnd
			}
			// Flush and Sync mean nothing to a backend that reads data. But a backend that has
			// given up meanwhile would answer a Sync, and the session does not expect an answer.
			drop = typ == wire.Flush || typ == wire.Sync
			// Any other message but data ends the COPY: the backend says how.
			last = typ != wire.CopyData && !drop
			if last && cp.s.srv.keeper.isHalted() {
				cp.s.awaitHalt()
			}
			rem = length + 1
			continue
		}
		if err := cp.s.client.Fill(); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				return errEnd
			}
			_ = cp.s.client.Conn().SetReadDeadline(time.Time{})
			if cp.s.reach.killed.Load() != nil {
				return errEnd
			}
		}
	}
}
