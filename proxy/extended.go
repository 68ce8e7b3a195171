package proxy

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"weft/parser"
	"weft/wire"
)

// Messages of the extended protocol are collected for the backend and sent
// with the Sync or Flush that asks for answers. Each pushes the answer it
// expects, so that answers weft asked for itself are told from the client's.

// begin makes sure that extended messages have a backend to go to. ok is
// false when the client has been told why not and skips to Sync.
func (s *Session) begin() (ok bool, err error) {
	if s.hasPending {
		if err := s.settleParse(); err != nil || s.skipping {
			return false, err
		}
	}
	if s.lostTx {
		s.failInLostTx()
		return false, nil
	}
	if err := s.acquire(); err != nil {
		return false, s.refuseBoundRead(err)
	}
	s.toServer.Grow()
	s.unsynced = true
	return true, nil
}

// extended handles a message that is collected. Only when the client's buffer
// has let go of it may the dialogue go on: a COPY would read from there.
func (s *Session) extended(typ byte) error {
	body, err := s.frame()
	if err != nil {
		return err
	}
	s.midFrame = true
	switch typ {
	case wire.Parse:
		err = s.onParse(body)
	case wire.Describe:
		err = s.onDescribe(body)
	case wire.Execute:
		err = s.onExecute(body)
	case wire.Close:
		err = s.onClose(body)
	case wire.Bind: // one that onBind could make no sense of
		err = s.malformed(typ, body, op{kind: opBind})
	case wire.Flush:
		if len(body) > 0 { // not a Flush after all: expect the error that says so
			err = s.malformed(typ, body, op{kind: opClose})
		}
	}
	s.midFrame = false
	s.client.Consume(wire.HeaderLen + len(body))
	if err != nil {
		return err
	}
	if b := s.copyNext; b != nil {
		s.copyNext = nil
		err := s.executeCopy(b)
		s.endRun()
		if err != nil {
			return err
		}
	}
	return s.drain()
}

// drain sends what has been collected once it is more than a little.
func (s *Session) drain() error {
	if s.ops.len() > maxOps {
		return s.flush()
	}
	if !s.toServer.Full() {
		return nil
	}
	return s.pushAll()
}

// maxOps bounds the answers a client may leave outstanding before weft asks
// for them by itself.
const maxOps = 4096

func (s *Session) pushAll() error {
	if s.toServer.Len() == 0 {
		return nil
	}
	if err := s.mayGo(); err != nil {
		return s.failed(err)
	}
	out := s.toServer
	s.toServer = wire.Out{} // the relay must not send it a second time
	err := s.push(out.B)
	out.Reset()
	if err != nil {
		return s.failed(err)
	}
	if s.copying {
		s.copying = false
		if err := s.copyIn(); err != nil {
			return s.failed(err)
		}
	}
	return nil
}

func (s *Session) onParse(body []byte) error {
	p, err := wire.DecodeParse(body)
	if err != nil || !s.validName(p.Name) {
		return s.malformed(wire.Parse, body, op{kind: opClose}) // it replaces no statement
	}
	s.seeParent(p.SQL)
	s.relies.begin()
	if s.routed() {
		return s.keepParse(body)
	}
	facts := s.facts(p.SQL)
	s.reliesOnNone(facts)
	s.bound1.facts = facts
	if s.lostTx {
		s.parseInLostTx(p, body, facts)
		return nil
	}
	if callsWeft(facts) || s.rolesOfAll(facts) {
		s.calls = true
		return s.keepParse(body)
	}
	return s.parseHere(p, body, facts, nil)
}

// parseHere parses on the backend at hand. changed says how the text differs
// from the client's.
func (s *Session) parseHere(p wire.ParseBody, body []byte, facts *parser.Facts, changed *edited) error {
	shows, idle := readsOption(p.SQL, facts), !s.unsynced && s.ops.empty()
	if ok, err := s.begin(); !ok {
		return err
	}
	if shows {
		if err := s.showOptions(idle); err != nil {
			return s.failed(err)
		}
	}
	if s.channels != nil && facts.Effects&parser.TxBegin != 0 {
		if err := s.listenInBlock(); err != nil {
			return s.failed(err)
		}
	}
	if len(p.Name) > 0 {
		return s.parseNamed(p, facts, changed)
	}
	prev := s.replaceUnnamed(body, facts)
	o := op{kind: opParse, prev: prev, unnamedBy: s.conn.UnnamedBy, text: changed}
	s.conn.UnnamedBy = s.unnamedTag()
	if s.special(facts) {
		return s.parseSpecial(p, facts, o)
	}
	if oids := s.oidsHere(p.OIDs); bytes.Equal(oids, p.OIDs) {
		s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Parse, body)
	} else {
		s.toServer.B = wire.AppendParse(s.toServer.B, "", string(p.SQL), oids)
	}
	s.ops.push(o)
	return nil
}

func (s *Session) onDescribe(body []byte) error {
	kind, name, ok := wire.DescribeName(body)
	if !ok || (kind != 'S' && kind != 'P') {
		return s.malformed(wire.Describe, body, op{kind: opDescribePortal})
	}
	if s.routing() {
		if done, err := s.describeLocal(kind, name); done || err != nil {
			return err
		}
	}
	if s.lostTx {
		s.describeInLostTx(kind, name)
		return nil
	}
	if ok, err := s.begin(); !ok {
		return err
	}
	if kind == 'P' {
		s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Describe, body)
		o := op{kind: opDescribePortal}
		if len(name) == 0 && s.lastBound != nil && s.lastBound.server.Description.Load() == nil {
			o.client = s.lastBound
		}
		s.ops.push(o)
		return nil
	}
	_, server, client, err := s.bound(name)
	if changed := (resultChanged{}); errors.As(err, &changed) {
		s.toClient.Grow()
		s.toClient.B = wire.AppendFrame(s.toClient.B, wire.ParameterDescription, changed.params)
	}
	if err != nil || s.skipping || s.conn == nil {
		return s.notBound(err)
	}
	s.toServer.B = wire.AppendDescribe(s.toServer.B, 'S', server)
	s.ops.push(op{
		kind: opDescribeStatement, client: s.statements[string(name)], server: server, name: client, hidden: s.hiddenParams(name),
		learns: s.described(name), version: s.unnamed.version,
	})
	return nil
}

func (s *Session) onExecute(body []byte) error {
	s.beginExecute(body)
	f := s.run.facts
	err := s.execute(body)
	s.begun = !endsTx(f) && (s.begun || f == nil || !pipeOnly(f))
	if s.copyNext == nil {
		s.endRun()
	}
	return err
}

// execute is onExecute without the counting.
func (s *Session) execute(body []byte) error {
	if s.routing() {
		if done, err := s.executeRouted(body); done || err != nil {
			return err
		}
	}
	if s.lostTx {
		name, _, _ := wire.CString(body)
		s.executeInLostTx(name)
		return nil
	}
	if ok, err := s.begin(); !ok {
		return err
	}
	if s.conn.StalePortal && s.conn.Status == wire.TxFailed && len(body) > 0 && body[0] == 0 {
		s.refuseMessage(transactionFailed()) // the backend could crash
		return nil
	}
	s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Execute, body)
	o := op{kind: opExecute, run: s.deferRun()}
	if s.translate != nil {
		o.rows = s.portalRows
	}
	s.ops.push(o)
	s.unexecuted = false
	if endsTx(o.run.facts) {
		s.forgetPortals()
	}
	if s.ending {
		// What follows may go elsewhere, so it must be known how this ended.
		s.ending = false
		if s.syncFollows(len(body)) {
			return nil // whose answer tells
		}
		return s.endTransaction()
	}
	return nil
}

// syncFollows reports whether a Sync has arrived behind the message whose body
// of n bytes is being handled.
func (s *Session) syncFollows(n int) bool {
	b := s.client.Buffered()
	return len(b) >= 2*wire.HeaderLen+n && b[wire.HeaderLen+n] == wire.Sync
}

// onClose closes a portal on the backend, a statement in the session only: on
// the backends others may be using it.
func (s *Session) onClose(body []byte) error {
	kind, name, ok := wire.DescribeName(body)
	if !ok || (kind != 'S' && kind != 'P') {
		return s.malformed(wire.Close, body, op{kind: opClose})
	}
	if s.routing() {
		if done, err := s.closeLocal(kind, name); done || err != nil {
			return err
		}
	}
	if kind == 'P' && s.conn != nil {
		s.toServer.Grow()
		s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Close, body)
		s.ops.push(op{kind: opClose})
		return nil
	}
	o := op{kind: opLocal, answer: wire.CloseComplete}
	if kind == 'S' && len(name) > 0 {
		if err := s.settleNames(); err != nil || s.skipping {
			return err
		}
		if s.done.own[string(name)] {
			s.toServer.Grow()
			s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Close, body)
			s.ops.push(op{kind: opClose, injected: true, name: string(name)})
		}
	}
	if kind == 'S' {
		if len(name) == 0 {
			prev := s.unnamed
			o.prev, s.unnamed.valid = &prev, false
		} else if st := s.statements[string(name)]; st != nil {
			s.takeOut(st)
			o.client = st
		}
	}
	s.ops.push(o)
	return nil
}

// malformed passes on a message that is not what it should be: the backend
// says what is wrong with it, and its transaction fails as it should.
func (s *Session) malformed(typ byte, body []byte, o op) error {
	if ok, err := s.begin(); !ok {
		return err
	}
	s.toServer.B = wire.AppendFrame(s.toServer.B, typ, body)
	s.ops.push(o)
	return nil
}

// validName reports whether a backend would take the name for valid text; if
// not it shall say so itself.
func (s *Session) validName(name []byte) bool {
	return utf8.Valid(name) || s.reported["client_encoding"] != "UTF8"
}

// onSync ends a group of extended messages.
func (s *Session) onSync() error {
	defer func() {
		s.begun = false
		clear(s.parsedNow)
		s.parsedNow = s.parsedNow[:0]
		s.settled = false
		s.showIdle()
		s.parent = ""
	}()
	body, err := s.frame()
	if err != nil {
		return err
	}
	if s.skipping {
		s.hasPending = false // it is skipped too
	}
	if s.hasPending {
		s.midFrame = true
		err := s.settleParse()
		s.midFrame = false
		if err != nil {
			return err
		}
	}
	if s.implicit {
		s.client.Consume(wire.HeaderLen + len(body))
		return s.afterQuery(s.syncPipe())
	}
	if s.conn == nil && len(body) > 0 && !s.lostTx {
		if err := s.acquire(); err != nil {
			s.client.Consume(wire.HeaderLen + len(body))
			return s.afterQuery(s.refused(err))
		}
	}
	if s.conn == nil || len(body) == 0 && s.unjoined() {
		s.client.Consume(wire.HeaderLen + len(body))
		s.emitLocal()
		s.skipping = false
		s.endPortals()
		s.tellReady()
		return s.flushOrEnd()
	}
	if len(body) == 0 && s.unasked() {
		s.client.Consume(wire.HeaderLen)
		s.emitLocal()
		s.ops.push(op{kind: opSync})
		return s.afterQuery(s.failed(s.onReady(s.conn, s.ops.first(), s.conn.Status)))
	}
	s.toServer.Grow()
	s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Sync, body)
	s.client.Consume(wire.HeaderLen + len(body))
	s.ops.push(op{kind: opSync})
	s.skipping = false
	return s.afterQuery(s.exchange())
}

// unasked reports whether weft has answered all messages since the last Sync by itself:
// the backend at hand would have nothing to say but what state it is in. A Sync that
// stands alone does not count, as clients send one to see who is there.
func (s *Session) unasked() bool {
	return !s.unsynced && !s.pushed && s.toServer.Len() == 0 && (s.settled || !s.ops.empty()) && s.ops.only(opLocal)
}

// unjoined reports whether the client is in a block that the backend at hand, which the
// session is tied to, is not in yet: it would say that there is none.
func (s *Session) unjoined() bool {
	return s.block.open && s.conn.Status == wire.TxIdle && !s.unsynced && !s.pushed && s.toServer.Len() == 0 && s.ops.only(opLocal)
}

// onFlush asks for the answers so far.
func (s *Session) onFlush() error {
	if err := s.settleParse(); err != nil {
		return err
	}
	if err := s.extended(wire.Flush); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.flushOrEnd()
}

// flush gets the answers to everything sent so far.
func (s *Session) flush() error {
	if s.conn == nil {
		s.emitLocal()
		if s.toClient.Full() {
			return s.flushOrEnd()
		}
		return nil
	}
	s.toServer.Grow()
	s.toServer.B = wire.AppendEmpty(s.toServer.B, wire.Flush)
	s.copied = false
	if err := s.pushAll(); err != nil || s.conn == nil || s.copied {
		return err
	}
	return s.exchange()
}

// emitLocal sends the answers weft gives by itself; there is no backend whose
// answers could stand before them.
func (s *Session) emitLocal() {
	for !s.ops.empty() {
		s.answerLocal(s.ops.first())
		s.ops.pop()
	}
}
