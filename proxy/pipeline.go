package proxy

import (
	"slices"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/wire"
)

// Extended messages up to a Sync are one transaction, with or without BEGIN. As long as one
// backend gets them all, that backend sees to it. When they need another shard after
// something was written, or several shards at once, weft opens an implicit block: the
// transaction of the backend at hand becomes part of it, other shards join as in a client's
// block, and the Sync ends it. A commit that fails is reported in the place of the Sync,
// after the statements' tags, as PostgreSQL reports errors at commit.

// openPipe makes a block of the messages since the last Sync, unless the client has one.
// The messages so far are answered.
func (im *implicit) openPipe() error {
	if !im.s.tx.isOpen() && im.isPiped() && im.s.held.conn != nil {
		return im.widen()
	}
	if err := im.leavePipe(); err != nil || im.s.tx.isOpen() {
		return err
	}
	im.s.tx.start(plainBegin)
	im.block = im.block.after(pipeOpens)
	return nil
}

// leavePipe ends the messages so far, outside of a block, as if the client had sent a Sync:
// for messages of which nothing needs to be undone if a later one fails.
func (im *implicit) leavePipe() error {
	if !im.s.tx.isOpen() && im.s.held.conn != nil && (im.s.pipe.isUnsynced() || !im.s.pipe.ops.empty()) {
		return im.awaitAnswers(im.s.held.endImplicit)
	}
	if im.s.tx.sets && im.s.held.conn != nil && im.s.pipe.isUnsynced() {
		// The answer to the Sync tells the new values of parameters.
		return im.awaitAnswers(im.s.held.endImplicit)
	}
	return im.awaitAnswers(im.s.flush)
}

// awaitAnswers waits for answers. It returns errTold if the client has been told of a
// failure.
func (im *implicit) awaitAnswers(wait func() error) error {
	held := im.s.held.conn != nil
	if err := wait(); err != nil {
		return err
	}
	if held && im.s.held.conn == nil || im.s.pipe.isSkipping() {
		return errTold
	}
	return nil
}

// pipedHere reports whether extended messages have written in the transaction of the
// backend at hand, or bound a portal in it that waits to be executed, so that the next Sync
// or simple query would commit that transaction.
func (im *implicit) pipedHere() bool {
	return (im.isPiped() || im.s.portals.stays.waits()) && im.s.pipe.isUnsynced() && !im.s.tx.isOpen() && im.s.held.conn.Status() == wire.TxIdle
}

// widen turns the transaction that the backend at hand is in, without a BEGIN, into a block
// that other shards can join.
func (im *implicit) widen() error {
	im.s.pipe.unsent.Grow()
	im.s.pipe.awaitSync()
	if err := im.s.pipe.inject(plainBegin); err != nil {
		return err
	}
	if err := im.awaitAnswers(im.s.flush); err != nil {
		return err
	}
	im.s.tx.startPiped(im.s.held.conn)
	im.block = im.block.after(pipeOpens)
	im.s.held.conn.Began()
	im.s.commit.mayHaveNotified()
	if err := im.s.record.learnOptions(); err != nil {
		return err
	}
	if im.s.tx.isolation() != "" {
		return crossShardPipe() // snapshots of the other shards would be later
	}
	return nil
}

// crossShardPipe refuses messages that go on to another shard after a write, without BEGIN.
func crossShardPipe() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "messages without a Sync between them cannot go on to another shard after a write, unless they are READ COMMITTED").
		WithHint("Send BEGIN and COMMIT, or a Sync after each statement.")
}

// endPipe ends the implicit block at the client's Sync: commits it unless something in it
// has failed.
func (im *implicit) endPipe() error {
	if im.s.held.conn != nil {
		if err := im.s.held.endImplicit(); err != nil {
			return err
		}
	}
	im.s.emitLocal()
	_, err := im.concludePipe(im.s.pipe.isSkipping() || im.s.lost.is())
	return err
}

// concludePipe commits or rolls back the implicit block, and tells the client nothing but
// errors. It reports whether the block, or its COMMIT, has failed.
func (im *implicit) concludePipe(failed bool) (bool, error) {
	if failed {
		im.s.record.done.fail(im.s)
	}
	im.s.pipe.synced()
	failed, err := im.s.tx.endOwn(failed)
	im.block = im.block.after(pipeCloses)
	im.s.pipe.resume()
	im.s.lost.end()
	im.s.portals.forgetAll()
	if im.s.drawn.loans != nil {
		im.s.drawn.returnLoans()
	}
	return failed, err
}

// syncPipe answers the Sync that ends an implicit block.
func (im *implicit) syncPipe() error {
	if err := im.endPipe(); err != nil {
		return err
	}
	im.s.out.tellReady()
	return nil
}

// queryInPipe runs a simple query of n bytes that follows messages without a Sync. The
// query is part of their transaction, and ends it.
func (im *implicit) queryInPipe(text []byte, n int) error {
	if err := im.s.record.readAnew(text); err != nil {
		im.s.client.Consume(wire.HeaderLen + n)
		return im.s.lost.refuseRead(err)
	}
	f := im.s.facts(text)
	im.s.account.nameRun(f, text)
	im.s.portals.closeUnnamed()
	text = slices.Clone(text)
	im.s.client.Consume(wire.HeaderLen + n)
	if !im.isOpen() {
		if err := im.widen(); err != nil {
			return im.s.lost.refuseRead(err)
		}
	}
	if f.Statements > 1 {
		return im.scriptInPipe(text)
	}
	switch chained := f.Effects&parser.TxBegin != 0; {
	case opensBlock(f):
		if err := joinable(text); err != nil {
			return im.failPipe(err)
		}
		im.claim()
		im.forgetWrites()
		im.s.copy.tellTag(beginTag(string(text)))
		im.s.out.tellReady()
		return nil
	case pledges(f):
		return im.failPipe(pledgeOutside())
	case endsTx(f) && !chained:
		err := im.executeEnd(&localPortal{text: string(text)})
		im.s.pipe.resume()
		if err == nil {
			im.s.out.tellReady()
		}
		return err
	case pipeOnly(f):
		return im.failPipe(outsideBlock(commandOf(string(text), chained)))
	}
	if err := im.needsBlock(text, f); err != nil {
		return im.failPipe(err)
	}
	failed, err := im.s.out.quietly(func() error { return im.s.tx.runPart(text) })
	if err != nil {
		return err
	}
	im.s.pipe.resume()
	if failed {
		im.s.pipe.skipToSync()
	}
	return im.syncPipe()
}

// scriptInPipe runs a text of several statements that follows messages without a Sync. The
// text begins in their block.
func (im *implicit) scriptInPipe(text []byte) error {
	if im.s.held.conn != nil {
		// Inside a block this Sync ends no transaction.
		if err := im.awaitAnswers(im.s.held.endImplicit); err != nil {
			return im.s.lost.refuseRead(err)
		}
	}
	im.s.emitLocal()
	im.block = im.block.after(pipeCloses)
	im.s.pipe.synced()
	im.s.portals.forgetAll()
	return im.s.script.runInBlock(text)
}

// failPipe ends the implicit block with an error.
func (im *implicit) failPipe(err error) error {
	im.s.pipe.skipToSync()
	if e := im.endPipe(); e != nil {
		return e
	}
	return im.s.refused(err)
}

// refuseInPipe refuses a message before the Sync that is not of the extended protocol.
func (im *implicit) refuseInPipe() error {
	return im.failPipe(pgerr.New(pgerr.FeatureNotSupported, "this message cannot end a transaction of extended messages on several shards").
		WithHint("Send a Sync before it."))
}

// joinable refuses a BEGIN with options in a transaction that has already begun.
func joinable(text []byte) error {
	b := block{}
	if b.start(beginText(text)); b.plain {
		return nil
	}
	return pgerr.New(pgerr.FeatureNotSupported, "a transaction on several shards has begun already, by messages before this one without a Sync between").
		WithHint("Send BEGIN without options, or a Sync before it.")
}

// bindInPipe is routeBind for commands about transactions in a block that the client has
// not begun.
func (im *implicit) bindInPipe(portal []byte, f *parser.Facts, pl *planned) error {
	text := string(pl.text)
	switch {
	case opensBlock(f):
		if err := joinable(pl.text); err != nil {
			return im.s.lost.refuseBoundRead(err)
		}
		return im.s.portals.bindLocal(portal, &localPortal{text: text})
	case pledges(f):
		return im.s.portals.bindLocal(portal, &localPortal{refusal: pledgeOutside()})
	case endsTx(f) && f.Effects&parser.TxBegin == 0:
		return im.s.portals.bindLocal(portal, &localPortal{text: text, ends: f, how: endsPiped})
	}
	return im.s.portals.bindLocal(portal, &localPortal{refusal: outsideBlock(commandOf(text, endsTx(f)))})
}

// commandOf is PostgreSQL's name for a command that needs a block. chained: the command is
// COMMIT AND CHAIN or ROLLBACK AND CHAIN.
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

// pipeOnly reports whether a statement is about the client's transaction: BEGIN, COMMIT,
// ROLLBACK, or a savepoint. An implicit block is not the client's.
func pipeOnly(f *parser.Facts) bool {
	return opensBlock(f) || endsTx(f) || toAll(f) && f.Effects&parser.Savepoint != 0
}

// needsBlock refuses a statement that needs a block of the client if only the implicit
// block is open.
func (im *implicit) needsBlock(text []byte, f *parser.Facts) error {
	if !im.isOpen() || f.Statements != 1 {
		return nil
	}
	if f.Effects&(parser.Cursors|parser.HoldCursor) == parser.Cursors {
		return outsideBlock("DECLARE CURSOR")
	}
	return im.s.every.mayLock(string(text))
}

func outsideBlock(what string) *pgerr.Error {
	return pgerr.New(noTransaction, "%s can only be used in transaction blocks", what)
}

// warnNeedsBlock warns of a SET that has no effect outside of a block, as PostgreSQL does.
// The backend does not warn: it takes the implicit block for the client's.
func (p *pipe) warnNeedsBlock(text string) {
	w := words(text)
	if !p.s.implicit.isOpen() || len(w) < 2 || w[0] != "set" || !slices.Contains([]string{"local", "transaction", "constraints"}, w[1]) {
		return
	}
	warning := outsideBlock("SET " + strings.ToUpper(w[1]))
	warning.Severity = pgerr.SeverityWarning
	p.ops.push(op{kind: opLocal, frame: wire.AppendError(nil, warning)})
}

// noTransaction is the SQLSTATE of a command that needs a block, and of the warning that
// there is no block to end.
const noTransaction = "25P01"

// executeEnd executes a COMMIT or ROLLBACK without a BEGIN: it ends the present
// transaction, and the messages that follow are another one.
func (im *implicit) executeEnd(lp *localPortal) error {
	if im.s.held.conn != nil {
		if err := im.awaitAnswers(im.s.held.endImplicit); err != nil {
			return im.s.lost.refuseBoundRead(err)
		}
	}
	im.s.emitLocal()
	tag := "COMMIT"
	if !commits(lp.text) {
		tag = "ROLLBACK"
	}
	var frame []byte
	if im.isOpen() {
		warning := pgerr.New(noTransaction, "there is no transaction in progress")
		warning.Severity = pgerr.SeverityWarning
		frame = wire.AppendError(nil, warning)
	}
	failed, err := im.concludePipe(tag == "ROLLBACK")
	if err != nil {
		return err
	}
	if failed && tag == "COMMIT" {
		im.s.pipe.skipToSync() // the client has been told of the failure
		return nil
	}
	im.s.out.Grow()
	im.s.out.B = wire.AppendCommandComplete(append(im.s.out.B, frame...), tag)
	return nil
}
