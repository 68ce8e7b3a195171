package proxy

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"weft/parser"
	"weft/wire"
)

// Messages of the extended protocol are collected for the backend and sent with the Sync or
// Flush that asks for answers. Each message pushes an op for the answer it expects, so that
// answers to weft's own messages are told from answers to the client's.

// begin makes sure that extended messages have a backend to go to. ok is
// false when the client has been told why not and skips to Sync.
func (s *Session) begin() (ok bool, err error) {
	if s.pipe.kept.waits() {
		if err := s.prepared.settleParse(); err != nil || s.pipe.isSkipping() {
			return false, err
		}
	}
	if s.lost.is() {
		s.lost.failInLostTx()
		return false, nil
	}
	if err := s.held.acquire(); err != nil {
		return false, s.lost.refuseBoundRead(err)
	}
	s.pipe.unsent.Grow()
	s.pipe.awaitSync()
	return true, nil
}

// extended handles a message that is collected for the backend. The message is consumed from
// the client's buffer before the dialogue goes on, as a COPY reads from that buffer.
func (s *Session) extended(typ byte) error {
	body, err := s.pipe.frame()
	if err != nil {
		return err
	}
	s.pipe.holdFrame()
	switch typ {
	case wire.Parse:
		err = s.onParse(body)
	case wire.Describe:
		err = s.onDescribe(body)
	case wire.Execute:
		err = s.onExecute(body)
	case wire.Close:
		err = s.onClose(body)
	case wire.Bind: // a Bind that onBind could not decode
		err = s.malformed(typ, body, op{kind: opBind})
	case wire.Flush:
		if len(body) > 0 { // a Flush has no body: expect the backend's error
			err = s.malformed(typ, body, op{kind: opClose})
		}
	}
	s.pipe.leaveFrame()
	s.client.Consume(wire.HeaderLen + len(body))
	if err != nil {
		return err
	}
	if b := s.portals.takeCopy(); b != nil {
		err := s.copy.executeCopy(b)
		s.account.endRun()
		if err != nil {
			return err
		}
	}
	return s.drain()
}

// drain sends the collected messages if they fill a buffer, and asks for answers if too many
// are expected.
func (s *Session) drain() error {
	if s.pipe.ops.len() > maxOps {
		return s.flush()
	}
	if !s.pipe.unsent.Full() {
		return nil
	}
	return s.pushAll()
}

// maxOps bounds the answers a client may leave outstanding before weft asks
// for them by itself.
const maxOps = 4096

// pushAll sends all collected messages, and carries on with a COPY that one of them has begun.
func (s *Session) pushAll() error {
	if s.pipe.unsent.Len() == 0 {
		return nil
	}
	if err := s.route.mayGo(); err != nil {
		return s.pipe.failed(err)
	}
	out := s.pipe.takeUnsent()
	err := s.pipe.push(out.B)
	out.Reset()
	if err != nil {
		return s.pipe.failed(err)
	}
	if s.pipe.copy == copyWanted {
		s.pipe.noteCopy(copyTaken)
		if err := s.copy.copyIn(); err != nil {
			return s.pipe.failed(err)
		}
	}
	return nil
}

// onParse parses a statement on the backend at hand, or keeps the Parse until the backend is
// known.
func (s *Session) onParse(body []byte) error {
	p, err := wire.DecodeParse(body)
	if err != nil || !s.out.validName(p.Name) {
		// A malformed Parse replaces no statement.
		return s.malformed(wire.Parse, body, op{kind: opClose})
	}
	s.account.seeParent(p.SQL)
	s.route.relies.begin()
	s.route.touch.begin()
	if s.route.refresh() {
		return s.prepared.keepParse(body)
	}
	facts := s.facts(p.SQL)
	s.route.reliesOnNone(facts)
	s.account.bound.facts = facts
	if s.lost.is() {
		s.lost.parseInLostTx(p, body, facts)
		return nil
	}
	if callsWeft(facts) || s.route.rolesOfAll(facts) {
		s.pipe.noteCall()
		return s.prepared.keepParse(body)
	}
	if s.held.conn == nil {
		if err := s.route.outset.passHome(facts); err != nil {
			return s.lost.refuseParse(p.Name, err)
		}
	}
	return s.parseHere(p, body, facts, nil)
}

// parseHere parses a statement on the backend at hand. changed says how the text differs from
// the client's.
func (s *Session) parseHere(p wire.ParseBody, body []byte, facts *parser.Facts, changed *edited) error {
	shows, idle := readsOption(p.SQL, facts), !s.pipe.isUnsynced() && s.pipe.ops.empty()
	if ok, err := s.begin(); !ok {
		return err
	}
	if shows {
		if err := s.record.showOptions(idle); err != nil {
			return s.pipe.failed(err)
		}
	}
	if s.record.channels != nil && facts.Effects&parser.TxBegin != 0 {
		if err := s.record.listenInBlock(); err != nil {
			return s.pipe.failed(err)
		}
	}
	if len(p.Name) > 0 {
		return s.prepared.parseNamed(p, facts, changed)
	}
	prev := s.prepared.replaceUnnamed(body, facts)
	o := op{kind: opParse, prev: prev, unnamedBy: s.held.conn.UnnamedBy(), text: changed}
	s.held.conn.ParsedUnnamed(s.prepared.unnamedTag())
	if s.record.special(facts) {
		return s.record.parseSpecial(p, facts, o)
	}
	if oids := s.held.oidsHere(p.OIDs); bytes.Equal(oids, p.OIDs) {
		s.pipe.unsent.B = wire.AppendFrame(s.pipe.unsent.B, wire.Parse, body)
	} else {
		s.pipe.unsent.B = wire.AppendParse(s.pipe.unsent.B, "", string(p.SQL), oids)
	}
	s.pipe.ops.push(o)
	return nil
}

// onDescribe describes a statement or a portal.
func (s *Session) onDescribe(body []byte) error {
	kind, name, ok := wire.DescribeName(body)
	if !ok || (kind != 'S' && kind != 'P') {
		return s.malformed(wire.Describe, body, op{kind: opDescribePortal})
	}
	if s.portals.routing() {
		if done, err := s.portals.describeLocal(kind, name); done || err != nil {
			return err
		}
	}
	if s.lost.is() {
		s.lost.describeInLostTx(kind, name)
		return nil
	}
	if ok, err := s.begin(); !ok {
		return err
	}
	if kind == 'P' {
		s.pipe.unsent.B = wire.AppendFrame(s.pipe.unsent.B, wire.Describe, body)
		o := op{kind: opDescribePortal, fetches: s.portals.fetches[string(name)]}
		if len(name) == 0 && s.prepared.lastBound != nil && s.prepared.lastBound.server.Description.Load() == nil {
			o.client = s.prepared.lastBound
		}
		s.pipe.ops.push(o)
		return nil
	}
	_, server, client, err := s.portals.ensureBound(name)
	if changed := (resultChanged{}); errors.As(err, &changed) {
		s.out.Grow()
		s.out.B = wire.AppendFrame(s.out.B, wire.ParameterDescription, changed.params)
	}
	if err != nil || s.pipe.isSkipping() || s.held.conn == nil {
		return s.portals.refuseBind(err)
	}
	s.pipe.unsent.B = wire.AppendDescribe(s.pipe.unsent.B, 'S', server)
	s.pipe.ops.push(op{
		kind: opDescribeStatement, client: s.prepared.named[string(name)], server: server, name: client, hidden: s.prepared.hiddenParams(name),
		learns: s.prepared.described(name), version: s.prepared.unnamed.version, fetches: s.portals.fetchedBy(name),
	})
	return nil
}

// onExecute executes a portal and accounts for it.
func (s *Session) onExecute(body []byte) error {
	s.account.beginExecute(body)
	f := s.account.run.facts
	err := s.execute(body)
	s.implicit.noteExecuted(f)
	if s.portals.copyNext == nil {
		s.account.endRun()
	}
	return err
}

// execute is onExecute without the accounting.
func (s *Session) execute(body []byte) error {
	var control control
	if s.portals.routing() {
		name, _, _ := wire.CString(body)
		var changed bool
		if control, changed = s.portals.controls.take(s, name); changed {
			return s.portals.executeChanged(control, name)
		}
		if done, err := s.portals.executeRouted(body); done || err != nil {
			return err
		}
	}
	if s.lost.is() {
		name, _, _ := wire.CString(body)
		s.lost.executeInLostTx(name)
		return nil
	}
	if ok, err := s.begin(); !ok {
		return err
	}
	if s.held.conn.StalePortal() && len(body) > 0 && body[0] == 0 {
		s.lost.refuseMessage(transactionFailed()) // the backend could crash
		return nil
	}
	s.pipe.unsent.B = wire.AppendFrame(s.pipe.unsent.B, wire.Execute, body)
	o := op{kind: opExecute, run: s.account.deferRun()}
	name, _, _ := wire.CString(body)
	if s.held.translate != nil {
		o.rows = s.portals.rows[string(name)]
	}
	s.portals.stays.noteExecuted(name, &o.run)
	s.pipe.ops.push(o)
	if f := o.run.facts; endsTx(f) || f != nil && f.Effects&parser.DiscardAll != 0 {
		s.portals.forgetAll()
	}
	if control.ending {
		s.tx.noteChain(endsTx(control.facts) && control.facts.Effects&parser.TxBegin != 0)
		// The messages that follow may go to another backend, so weft must know how the
		// transaction ended.
		if s.syncFollows(len(body)) {
			return nil // the answer to the Sync tells how
		}
		return s.portals.endTransaction()
	}
	return nil
}

// syncFollows reports whether a Sync has arrived behind the message whose body
// of n bytes is being handled.
func (s *Session) syncFollows(n int) bool {
	b := s.client.Buffered()
	return len(b) >= 2*wire.HeaderLen+n && b[wire.HeaderLen+n] == wire.Sync
}

// onClose closes a portal on the backend, but a statement in the session only: other sessions
// may be using the statement on the backends.
func (s *Session) onClose(body []byte) error {
	kind, name, ok := wire.DescribeName(body)
	if !ok || (kind != 'S' && kind != 'P') {
		return s.malformed(wire.Close, body, op{kind: opClose})
	}
	if s.portals.routing() {
		if done, err := s.portals.closeLocal(kind, name); done || err != nil {
			return err
		}
	}
	if kind == 'P' && s.held.conn != nil {
		s.pipe.unsent.Grow()
		s.pipe.unsent.B = wire.AppendFrame(s.pipe.unsent.B, wire.Close, body)
		s.pipe.ops.push(op{kind: opClose})
		return nil
	}
	o := op{kind: opLocal, answer: wire.CloseComplete}
	if kind == 'S' && len(name) > 0 {
		if err := s.prepared.settleNames(); err != nil || s.pipe.isSkipping() {
			return err
		}
		if s.record.done.own[string(name)] {
			s.pipe.unsent.Grow()
			s.pipe.unsent.B = wire.AppendFrame(s.pipe.unsent.B, wire.Close, body)
			s.pipe.ops.push(op{kind: opClose, injected: true, name: string(name)})
		}
	}
	if kind == 'S' {
		if len(name) == 0 {
			prev := s.prepared.unnamed
			o.prev, s.prepared.unnamed.valid = &prev, false
		} else if st := s.prepared.named[string(name)]; st != nil {
			s.prepared.takeOut(st)
			o.client = st
		}
	}
	s.pipe.ops.push(o)
	return nil
}

// malformed passes on a malformed message: the backend reports what is wrong with it, and the
// transaction fails.
func (s *Session) malformed(typ byte, body []byte, o op) error {
	if ok, err := s.begin(); !ok {
		return err
	}
	s.pipe.unsent.B = wire.AppendFrame(s.pipe.unsent.B, typ, body)
	s.pipe.ops.push(o)
	return nil
}

// validName reports whether a backend would take the name for valid text. If not, the backend
// reports the error.
func (o *answers) validName(name []byte) bool {
	return utf8.Valid(name) || o.encoding != "UTF8"
}

// onSync ends a group of extended messages.
func (s *Session) onSync() error {
	body, err := s.pipe.frame()
	if err != nil {
		return err
	}
	return s.sync(body, wire.HeaderLen+len(body))
}

// sync is onSync for a Sync with this body, which should be empty. n is the number of its bytes
// that are in the client's buffer.
func (s *Session) sync(body []byte, n int) error {
	defer func() {
		s.implicit.noteSync()
		s.pipe.forgetParsed()
		s.account.showIdle()
		s.account.forgetParent()
	}()
	if s.pipe.isSkipping() {
		s.pipe.kept.take() // the Parse held back is skipped too
	}
	if s.pipe.kept.waits() {
		s.pipe.holdFrame()
		err := s.prepared.settleParse()
		s.pipe.leaveFrame()
		if err != nil {
			return err
		}
	}
	if s.implicit.isOpen() {
		s.client.Consume(n)
		return s.afterQuery(s.implicit.syncPipe())
	}
	if s.held.conn == nil && len(body) > 0 && !s.lost.is() {
		if err := s.held.acquire(); err != nil {
			s.client.Consume(n)
			return s.afterQuery(s.refused(err))
		}
	}
	if s.held.conn == nil || len(body) == 0 && s.unjoined() {
		s.client.Consume(n)
		s.emitLocal()
		s.pipe.resume()
		s.tx.endPortals()
		if s.account.tape != nil {
			s.account.endTape()
		}
		s.out.tellReady()
		return s.out.flushOrEnd()
	}
	if len(body) == 0 && s.pipe.unasked() {
		s.client.Consume(n)
		s.emitLocal()
		s.pipe.ops.push(op{kind: opSync})
		return s.afterQuery(s.pipe.failed(s.pipe.onReady(s.held.conn, s.pipe.ops.first(), s.held.conn.Status())))
	}
	s.pipe.unsent.Grow()
	s.pipe.unsent.B = wire.AppendFrame(s.pipe.unsent.B, wire.Sync, body)
	s.client.Consume(n)
	s.pipe.ops.push(op{kind: opSync, void: s.implicit.run == ranNothing})
	s.pipe.resume()
	return s.afterQuery(s.pipe.exchange())
}

// unasked reports whether weft itself has answered all messages since the last Sync, so that
// the backend at hand could add nothing but its transaction status. A lone Sync does not count:
// clients send it to check that the server is alive.
func (p *pipe) unasked() bool {
	return !p.isUnsynced() && !p.isAhead() && p.unsent.Len() == 0 && (p.s.implicit.hasEnded() || !p.ops.empty()) && p.ops.only(opLocal)
}

// unjoined reports whether the client is in a block that the backend at hand, which the session
// is tied to, has not joined yet: the backend would report that there is no block.
func (s *Session) unjoined() bool {
	return s.tx.isOpen() && s.held.conn.Status() == wire.TxIdle && !s.pipe.isUnsynced() && !s.pipe.isAhead() && s.pipe.unsent.Len() == 0 && s.pipe.ops.only(opLocal)
}

// onFlush asks for the answers so far.
func (s *Session) onFlush() error {
	if err := s.prepared.settleParse(); err != nil {
		return err
	}
	if err := s.extended(wire.Flush); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.out.flushOrEnd()
}

// flush gets the answers to everything sent so far.
func (s *Session) flush() error {
	if s.held.conn == nil {
		s.emitLocal()
		if s.out.Full() {
			return s.out.flushOrEnd()
		}
		return nil
	}
	s.pipe.unsent.Grow()
	s.pipe.unsent.B = wire.AppendEmpty(s.pipe.unsent.B, wire.Flush)
	s.pipe.noteCopy(copyTaken)
	if err := s.pushAll(); err != nil || s.held.conn == nil || s.pipe.copy == copyUnsynced {
		return err
	}
	return s.pipe.exchange()
}

// emitLocal sends the answers that weft gives itself. It is called when no backend owes answers
// that would come before them.
func (s *Session) emitLocal() {
	for !s.pipe.ops.empty() {
		s.pipe.answerLocal(s.pipe.ops.first())
		s.pipe.ops.pop()
	}
}
