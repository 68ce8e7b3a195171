package proxy

import (
	"slices"
	"strings"

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
	if s.block.sets && s.conn != nil && s.unsynced {
		return s.answered(s.endImplicit) // whose answer tells what parameters are now
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
// messages have written in, or made a portal in that waits to be executed, and that the
// next Sync or simple query would commit.
func (s *Session) pipedHere() bool {
	return (s.piped || s.unexecuted) && s.unsynced && !s.block.open && s.conn.Status == wire.TxIdle
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
	replay, sets := s.block.replay, s.block.sets // what these messages have set
	s.block.start(plainBegin)
	s.block.replay, s.block.sets = replay, sets
	s.implicit = true
	s.conn.Status, s.block.writer, s.block.clock = wire.TxActive, s.conn, s.conn
	s.mayHaveNotified()
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

// queryInPipe runs a simple query of n bytes that follows messages without a Sync. It is
// part of their transaction, and ends it.
func (s *Session) queryInPipe(text []byte, n int) error {
	if err := s.readAnew(text); err != nil {
		s.client.Consume(wire.HeaderLen + n)
		return s.refuseRead(err)
	}
	f := s.facts(text)
	s.runs(f)
	s.portalLane = nil
	delete(s.local, "")
	text = slices.Clone(text)
	s.client.Consume(wire.HeaderLen + n)
	if !s.implicit {
		if err := s.widen(); err != nil {
			return s.refuseRead(err)
		}
	}
	if f.Statements > 1 {
		return s.scriptInPipe(text)
	}
	switch chained := f.Effects&parser.TxBegin != 0; {
	case opensBlock(f):
		if err := joinable(text); err != nil {
			return s.failPipe(err)
		}
		s.implicit, s.piped = false, false
		s.tellTag(beginTag(string(text)))
		s.tellReady()
		return nil
	case endsTx(f) && !chained:
		err := s.executeEnd(&localPortal{text: string(text)})
		s.skipping = false
		if err == nil {
			s.tellReady()
		}
		return err
	case pipeOnly(f):
		return s.failPipe(outsideBlock(commandOf(string(text), chained)))
	}
	if err := s.needsBlock(text, f); err != nil {
		return s.failPipe(err)
	}
	s.quiet, s.quietFailed = true, false
	err := s.runPart(text)
	s.quiet = false
	if err != nil {
		return err
	}
	s.skipping = s.quietFailed
	return s.syncPipe()
}

// scriptInPipe runs a text of several statements that follows such messages: their block
// is the one that it begins in.
func (s *Session) scriptInPipe(text []byte) error {
	if s.conn != nil {
		if err := s.answered(s.endImplicit); err != nil { // in a block it ends nothing
			return s.refuseRead(err)
		}
	}
	s.emitLocal()
	s.implicit, s.unsynced, s.pushed, s.piped = false, false, false, false
	s.forgetPortals()
	s.script.own = true
	return s.runScript(text)
}

// failPipe ends the block with an error.
func (s *Session) failPipe(err error) error {
	s.skipping = true
	if e := s.endPipe(); e != nil {
		return e
	}
	return s.refused(err)
}

// refuseInPipe refuses a message that is none of the extended protocol before the Sync.
func (s *Session) refuseInPipe() error {
	return s.failPipe(pgerr.New(pgerr.FeatureNotSupported, "this message cannot end a transaction of extended messages on several shards").
		WithHint("Send a Sync before it."))
}

// joinable refuses a BEGIN with options where the transaction has begun.
func joinable(text []byte) error {
	b := block{}
	if b.start(beginText(text)); b.plain {
		return nil
	}
	return pgerr.New(pgerr.FeatureNotSupported, "a transaction on several shards has begun already, by messages before this one without a Sync between").
		WithHint("Send BEGIN without options, or a Sync before it.")
}

// bindInPipe is routeBind for what a client says about transactions in a block that
// it has not begun.
func (s *Session) bindInPipe(portal []byte, f *parser.Facts, pl *planned) error {
	text := string(pl.text)
	switch {
	case opensBlock(f):
		if err := joinable(pl.text); err != nil {
			return s.refuseBoundRead(err)
		}
		return s.bindLocal(portal, &localPortal{text: text})
	case endsTx(f) && f.Effects&parser.TxBegin == 0:
		return s.bindLocal(portal, &localPortal{text: text, ends: f, piped: true})
	}
	return s.bindLocal(portal, &localPortal{refusal: outsideBlock(commandOf(text, endsTx(f)))})
}

// commandOf is what PostgreSQL calls a command about blocks that needs one. chained: it
// is a COMMIT or ROLLBACK AND CHAIN.
func commandOf(text string, chained bool) string {
	first := ""
	if w := words(text); len(w) > 0 {
		first = w[0]
	}
	switch {
	case chained && commits(text):
		return "COMMIT AND CHAIN"
	case chained:
		return "ROLLBACK AND CHAIN"
	case first == "release":
		return "RELEASE SAVEPOINT"
	case first == "rollback":
		return "ROLLBACK TO SAVEPOINT"
	}
	return "SAVEPOINT"
}

// pipeOnly reports whether a statement is about the client's transaction, which
// weft's is not.
func pipeOnly(f *parser.Facts) bool {
	return opensBlock(f) || endsTx(f) || toAll(f) && f.Effects&parser.Savepoint != 0
}

// needsBlock refuses what needs a block of the client's, where the one that is open is
// weft's own.
func (s *Session) needsBlock(text []byte, f *parser.Facts) error {
	if !s.implicit || f.Statements != 1 {
		return nil
	}
	if f.Effects&(parser.Cursors|parser.HoldCursor) == parser.Cursors {
		return outsideBlock("DECLARE CURSOR")
	}
	return s.mayLock(string(text))
}

func outsideBlock(what string) *pgerr.Error {
	return pgerr.New(noTransaction, "%s can only be used in transaction blocks", what)
}

// warnNeedsBlock warns of a command that is for nothing outside of a block, as a server
// would, for which the block of weft's own is the client's.
func (s *Session) warnNeedsBlock(text string) {
	w := words(text)
	if !s.implicit || len(w) < 2 || w[0] != "set" || !slices.Contains([]string{"local", "transaction", "constraints"}, w[1]) {
		return
	}
	warning := outsideBlock("SET " + strings.ToUpper(w[1]))
	warning.Severity = pgerr.SeverityWarning
	s.ops.push(op{kind: opLocal, frame: wire.AppendError(nil, warning)})
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
