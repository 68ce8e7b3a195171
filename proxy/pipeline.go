package proxy

import (
	"weft/parser"
	"weft/pgerr"
	"weft/wire"
)

// Extended messages up to a Sync are one transaction, with or without BEGIN. As
// long as one backend gets them all, it sees to that by itself. When they need
// another shard after something was written, or several at once, weft opens a
// block of its own: the transaction that the backend at hand is in becomes part of
// it, other shards join as they do in a client's block, and the Sync ends it. A
// commit that fails is reported in the place of the Sync, after the statements'
// tags, as PostgreSQL does with what it finds at the end.

// openPipe makes the messages since the last Sync a block, unless the client has
// one. What came before is answered.
func (s *Session) openPipe() error {
	if !s.block.open && s.piped && s.conn != nil {
		return s.widen()
	}
	if err := s.leavePipe(); err != nil || s.block.open {
		return err
	}
	s.block.start(plainBegin)
	s.implicit = true
	return nil
}

// leavePipe ends the messages so far, outside of a block, as if the client had sent
// a Sync: for those of which nothing needs to be undone should a later one fail.
func (s *Session) leavePipe() error {
	if !s.block.open && s.conn != nil && (s.unsynced || !s.ops.empty()) {
		return s.answered(s.endImplicit)
	}
	return s.answered(s.flush)
}

// answered waits for answers. It returns errTold if the client has been told that
// something failed.
func (s *Session) answered(wait func() error) error {
	held := s.conn != nil
	if err := wait(); err != nil {
		return err
	}
	if held && s.conn == nil || s.skipping {
		return errTold
	}
	return nil
}

// pipedHere reports whether the backend at hand is in a transaction that extended
// messages have written in, and that the next Sync or simple query would commit.
func (s *Session) pipedHere() bool {
	return s.piped && s.unsynced && !s.block.open && s.conn.Status == wire.TxIdle
}

// widen makes the transaction that the backend at hand is in, without a BEGIN, one
// that others can join.
func (s *Session) widen() error {
	s.toServer.Grow()
	s.unsynced = true
	if err := s.inject(plainBegin); err != nil {
		return err
	}
	if err := s.answered(s.flush); err != nil {
		return err
	}
	s.block.start(plainBegin)
	s.implicit = true
	s.conn.Status, s.block.writer, s.block.clock = wire.TxActive, s.conn, s.conn
	if err := s.learnOptions(); err != nil {
		return err
	}
	if s.isolation() != "" {
		return crossShardPipe() // the others' snapshots would be of a later time
	}
	return nil
}

// crossShardPipe refuses a pipeline that goes on to another shard after it has
// written without BEGIN.
func crossShardPipe() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "messages without a Sync between them cannot go on to another shard after a write, unless they are READ COMMITTED").
		WithHint("Send BEGIN and COMMIT, or a Sync after each statement.")
}

// endPipe ends the block at the client's Sync: it commits unless something in it
// has failed.
func (s *Session) endPipe() error {
	if s.conn != nil {
		if err := s.endImplicit(); err != nil {
			return err
		}
	}
	s.emitLocal()
	return s.concludePipe(s.skipping || s.lostTx)
}

// concludePipe commits or rolls back, and tells the client nothing but errors.
func (s *Session) concludePipe(failed bool) error {
	if failed {
		s.done.fail(s)
	}
	s.quietFailed = failed
	s.unsynced, s.pushed, s.piped = false, false, false
	err := s.endOwn()
	s.implicit, s.lostTx, s.skipping = false, false, false
	s.forgetPortals()
	if s.loans != nil {
		s.returnLoans()
	}
	return err
}

// syncPipe answers the Sync that ends such a block.
func (s *Session) syncPipe() error {
	if err := s.endPipe(); err != nil {
		return err
	}
	s.tellReady()
	return nil
}

// queryInPipe refuses a message that is none of the extended protocol before the
// Sync: it would be part of the block, and end it.
func (s *Session) queryInPipe() error {
	s.skipping = true
	if err := s.endPipe(); err != nil {
		return err
	}
	return s.refused(pgerr.New(pgerr.FeatureNotSupported, "a simple query cannot end a transaction of extended messages on several shards").
		WithHint("Send a Sync before it."))
}

// bindInPipe is routeBind for what a client says about transactions in a block that
// it has not begun.
func (s *Session) bindInPipe(portal []byte, f *parser.Facts, pl *planned) error {
	text := string(pl.text)
	switch {
	case opensBlock(f):
		b := block{}
		if b.start(beginText(pl.text)); !b.plain {
			return s.refuseBoundRead(pgerr.New(pgerr.FeatureNotSupported, "a transaction on several shards has begun already, by messages before this one without a Sync between").
				WithHint("Send BEGIN without options, or a Sync before it."))
		}
		return s.bindLocal(portal, &localPortal{text: text})
	case endsTx(f) && f.Effects&parser.TxBegin != 0:
		verb := "ROLLBACK"
		if commits(text) {
			verb = "COMMIT"
		}
		return s.refuseBoundRead(outsideBlock(verb + " AND CHAIN"))
	case endsTx(f):
		return s.bindLocal(portal, &localPortal{text: text, ends: f, piped: true})
	}
	what := "SAVEPOINT"
	switch w := words(text); {
	case len(w) > 0 && w[0] == "release":
		what = "RELEASE SAVEPOINT"
	case len(w) > 0 && w[0] == "rollback":
		what = "ROLLBACK TO SAVEPOINT"
	}
	return s.refuseBoundRead(outsideBlock(what))
}

// pipeOnly reports whether a statement is about the client's transaction, which
// weft's is not.
func pipeOnly(f *parser.Facts) bool {
	return opensBlock(f) || endsTx(f) || toAll(f) && f.Effects&parser.Savepoint != 0
}

func outsideBlock(what string) *pgerr.Error {
	return pgerr.New(noTransaction, "%s can only be used in transaction blocks", what)
}

// noTransaction is the SQLSTATE of what needs a block, and of the warning of what
// would end one.
const noTransaction = "25P01"

// executeEnd executes a COMMIT or ROLLBACK without a BEGIN: it ends what there is,
// and what follows is a transaction of its own.
func (s *Session) executeEnd(lp *localPortal) error {
	if s.conn != nil {
		if err := s.answered(s.endImplicit); err != nil {
			return s.refuseBoundRead(err)
		}
	}
	s.emitLocal()
	tag := "COMMIT"
	if !commits(lp.text) {
		tag = "ROLLBACK"
	}
	var frame []byte
	if s.implicit {
		warning := pgerr.New(noTransaction, "there is no transaction in progress")
		warning.Severity = pgerr.SeverityWarning
		frame = wire.AppendError(nil, warning)
	}
	if err := s.concludePipe(tag == "ROLLBACK"); err != nil {
		return err
	}
	if s.quietFailed && tag == "COMMIT" {
		s.skipping = true // it has been told
		return nil
	}
	s.quietFailed = false
	s.toClient.Grow()
	s.toClient.B = wire.AppendCommandComplete(append(s.toClient.B, frame...), tag)
	return nil
}
