package proxy

import (
	"errors"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A command that goes to every shard is one transaction, and so is a text of several
// statements. Where one backend cannot run it as a whole, weft opens the transaction
// itself, runs the parts where they belong, and ends it.

// consumed stands for the length of a message that the client's buffer has let
// go of.
const consumed = -wire.HeaderLen

// inOwnBlock runs something in a transaction of weft's own, or in the client's
// if it has one. run tells the client what there is to tell but that weft is
// ready again. An error of run ends the session.
func (s *Session) inOwnBlock(run func() error) error {
	if s.quiet {
		return run() // in such a transaction already
	}
	own := !s.block.open
	if own {
		s.block.start("BEGIN")
	}
	s.quiet, s.quietFailed = true, false
	err := run()
	s.quiet = false
	if err != nil {
		return err
	}
	if own {
		if err := s.endOwn(); err != nil {
			return err
		}
	}
	s.tellReady()
	return nil
}

// endOwn ends a transaction that weft opened: it commits unless something in
// it has failed.
func (s *Session) endOwn() error {
	s.lostTx, s.failedHere, s.lostCause = false, false, nil // the client is in no block
	if !s.block.open || !s.ends() {
		s.block = block{}
		return nil
	}
	c := s.conn
	if err := s.sent(); err != nil {
		if errors.Is(err, errTold) {
			return nil
		}
		return err
	}
	s.block.tag = "COMMIT"
	if s.quietFailed || c.Status == wire.TxFailed {
		s.block.tag = "ROLLBACK"
	} else if err := s.agree(); err != nil {
		if errors.Is(err, errTold) {
			return nil
		}
		return s.disagree(err)
	}
	if err := s.execEnd(c, s.block.tag); err != nil {
		if errors.Is(err, pool.ErrLost) {
			if s.block.tag == "COMMIT" {
				s.drop()
				if err = s.lostCommit(err); err == nil {
					s.abandon()
					return nil
				}
			}
			s.forsake()
			s.lostTx = false
			return s.refuse(err)
		}
		s.block.tag, s.quietFailed = "ROLLBACK", true
		s.tell(pgerr.From(err))
	}
	s.committing = s.block.tag == "COMMIT"
	if err := s.afterBlock(c); err != nil {
		return s.failed(err)
	}
	return nil
}

// execEnd runs the COMMIT or ROLLBACK that ends a transaction of weft's own. What the backend
// says beside its tag is the client's: notices of deferred triggers, notifications.
func (s *Session) execEnd(c *pool.Conn, sql string) error {
	if _, err := c.Write(wire.AppendQuery(nil, sql)); err != nil {
		return c.Lost(err)
	}
	var failed error
	for c.UnnamedBy = 0; ; {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			return c.Lost(err)
		}
		switch typ {
		case wire.ErrorResponse:
			failed = pool.ServerError(body)
			c.StalePortal = true
		case wire.CommandComplete:
			if sql == "COMMIT" {
				s.tellDue() // notifications come after it
			}
		case wire.NoticeResponse:
			s.toClient.Grow()
			s.toClient.B = wire.AppendFrame(s.toClient.B, typ, body)
		case wire.NotificationResponse:
			s.onBackendNotification(c, body)
		case wire.ParameterStatus:
			if s.onParameterStatus(c, body) {
				s.toClient.Grow()
				s.toClient.B = wire.AppendFrame(s.toClient.B, typ, body)
			}
		case wire.ReadyForQuery:
			c.Opening.Store(false)
			c.Status = body[0]
		}
		c.Consume(wire.HeaderLen + len(body))
		if typ == wire.ReadyForQuery {
			return failed
		}
	}
}

// runPart runs one statement in the open block, or in the place of another: it is not in
// the client's buffer.
func (s *Session) runPart(text []byte) error {
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	f := s.read(r, text)
	if toAll(f) {
		return s.queryForAll(text, f, consumed)
	}
	return s.plannedQuery(r, text, f, consumed)
}
