package proxy

import (
	"bytes"

	"weft/pool"
	"weft/wire"
)

// How answers end: a statement is through, and the backend is ready.

// onComplete notes that a statement is through. It reports whether the client is
// told so as it stands.
func (s *Session) onComplete(c *pool.Conn, o *op, body []byte, visible bool) bool {
	if visible {
		s.block.tried(true)
		s.run.rows += rowsOf(body)
	}
	if visible && s.block.open && len(s.parked) > 0 {
		tag, _, _ := wire.CString(body)
		s.block.tag = string(tag)
	}
	if a := s.agreement; visible && a != nil && a.Committing() && s.block.tag == "COMMIT" && s.block.open && len(s.parked) > 0 {
		// The client is told when the others have followed: see conclude.
		a.tag = bytes.Clone(body)
		visible = false
	}
	if visible && s.done.watchesTags() {
		if e := s.onTag(body); e != nil {
			s.tell(e)
			visible = false
		}
	}
	if o.spread != nil {
		s.onSpread(o.spread)
		if e := o.spread.err; e != nil {
			visible, s.quietFailed = false, true
			if o.kind == opQuery {
				s.tell(e)
			}
		} else if o.spread.follows() {
			visible, o.spread.tag = false, bytes.Clone(body)
		}
	}
	if o.copies != nil {
		s.toClient.Grow()
		s.toClient.B = o.copies.end(s.toClient.B, rowsOf(body))
		visible = false
	}
	if o.kind == opExecute {
		if o.run.began != 0 {
			s.executed(c, o, rowsOf(body), false)
		}
		s.ops.pop()
	}
	return visible
}

// onReady ends one exchange. What the transaction has changed in the session
// is settled before the client hears that it is over.
func (s *Session) onReady(c *pool.Conn, o *op, status byte) error {
	if !o.ends() {
		return c.Lost(wire.ErrMalformed)
	}
	c.Status = status
	if c.Opening.Load() {
		c.Opening.Store(false)
	}
	if o.spread != nil && o.spread.err != nil && c.Status == wire.TxActive {
		// The client has been told; its transaction must know it too.
		_, _ = c.Exec(provoke)
	}
	if c.Reread {
		s.readAs(c)
	}
	if o.injected && !o.settles || o.quiet {
		s.ops.pop()
		return nil
	}
	if status == wire.TxFailed {
		if err := s.failAll(); err != nil {
			return err
		}
	}
	if s.interrupt.handed {
		s.endGather()
	}
	if o.settles {
		return s.onEnded(c)
	}
	if o.kind == opSync || o.kind == opQuery {
		s.skipping = false
	}
	s.unsynced, s.pushed, s.piped = false, false, false
	if status == wire.TxIdle {
		s.forgetPortals()
	}
	if s.loans != nil {
		s.returnLoans()
	}
	if err := s.afterBlock(c); err != nil {
		return err
	}
	s.ops.pop() // only now: until here the client is owed an answer
	if s.script.running {
		return nil
	}
	s.toClient.Grow()
	s.toClient.B = wire.AppendReadyForQuery(s.toClient.B, c.Status)
	return nil
}

// onEnded is onReady for a Sync of weft's own behind a COMMIT or ROLLBACK.
func (s *Session) onEnded(c *pool.Conn) error {
	if err := s.afterBlock(c); err != nil {
		return err
	}
	s.piped = s.piped && c.Status != wire.TxIdle
	s.settled = true
	s.ops.pop()
	return nil
}

// afterBlock settles what a transaction has changed, if it is over.
func (s *Session) afterBlock(c *pool.Conn) error {
	s.conclude(c)
	if c.Status == wire.TxIdle {
		// A backend that is lost from here on leaves the client in doubt: the
		// error comes in the place of an answer to its COMMIT.
		if s.done.any() || c.Listening {
			if err := s.settleAt(c); err != nil {
				return err
			}
		} else if s.done.failed {
			s.done = effects{} // an error is the transaction's, not the session's
		}
		s.letGoOf() // if settling has not
		if len(s.channels) > 0 {
			s.srv.hub(s.db).sync()
			s.deliver()
		}
	}
	s.settleBlock(c)
	s.committing = false
	return nil
}
