package proxy

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"unicode/utf8"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
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
	if s.routed() {
		return s.keepParse(body)
	}
	facts := s.facts(p.SQL)
	if s.lostTx {
		s.parseInLostTx(p, body, facts)
		return nil
	}
	if callsWeft(facts) {
		s.calls = true
		return s.keepParse(body)
	}
	return s.parseHere(p, body, facts, nil)
}

// parseHere parses on the backend at hand. changed says how the text differs
// from the client's.
func (s *Session) parseHere(p wire.ParseBody, body []byte, facts *parser.Facts, changed *edited) error {
	if ok, err := s.begin(); !ok {
		return err
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

// onBind binds a statement under the name the backend knows it by. A large
// Bind passes in pieces.
func (s *Session) onBind(length int) error {
	routed := s.routing()
	whole := routed || length+1 <= largeBind
	need := length + 1
	if !whole {
		need = largeBind / 2 // the names are at the front
	}
	for {
		err := s.client.Need(need)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return errEnd
		}
		if err := s.woken(); err != nil {
			return err
		}
	}
	body := s.client.Buffered()[wire.HeaderLen:need]
	portal, name, rest, ok := wire.BindNames(body)
	if !ok && whole {
		return s.extended(wire.Bind)
	}
	if !ok {
		return pgerr.Fatal(pgerr.ProtocolViolation, "names in the bind message are too long")
	}
	if s.lostTx && !s.hasPending {
		s.bindInLostTx(name)
		return s.skip(length + 1)
	}
	if routed {
		s.midFrame = true
		done, err := s.routeBind(portal, name, &rest)
		s.midFrame = false
		if done || err != nil || s.skipping {
			s.client.Consume(need)
			if err != nil {
				return err
			}
			return s.drain()
		}
	}
	if ok, err := s.begin(); !ok {
		if err != nil {
			return err
		}
		return s.skip(length + 1)
	}
	if routed {
		s.notePortal(portal, s.conn.Lane())
	}
	s.midFrame = true
	facts, server, client, err := s.bound(name)
	s.midFrame = false
	if err != nil || s.skipping || s.conn == nil {
		s.client.Consume(need)
		if err := s.notBound(err); err != nil {
			return err
		}
		return s.skip(length + 1 - need)
	}
	var changed *edited
	if facts != nil && s.special(facts) {
		ok, err := s.bindSpecial(s.textOf(name), facts)
		if !ok {
			s.client.Consume(need)
			if err != nil {
				if err := s.failed(err); err != nil {
					return err
				}
			}
			return s.skip(length + 1 - need)
		}
		s.done.note(s, facts)
		s.makeRoomFor(s.commandsOf(name))
		switch {
		case s.done.own[string(name)]:
			server = string(name)
		case (facts.Effects&parser.SessionID != 0 || s.readsDrawn(facts)) && s.conn.Status != wire.TxFailed:
			if original, oids := s.originalOf(name); original != "" {
				server, changed = s.rebindIdentity(original, oids, rest)
			}
		}
	}
	tail := length + 1 - need
	var at int
	s.toServer.B, at = wire.Begin(s.toServer.B, wire.Bind)
	s.toServer.B = append(append(s.toServer.B, portal...), 0)
	s.toServer.B = wire.AppendCString(s.toServer.B, server)
	s.toServer.B = append(s.toServer.B, rest...)
	wire.EndLong(s.toServer.B, at, tail)
	o := op{kind: opBind, text: changed, server: server, name: client}
	if len(portal) == 0 {
		o.stalePortal, s.conn.StalePortal = s.conn.StalePortal, false
		s.lastBound = nil
		if len(name) > 0 {
			s.lastBound = s.statements[string(name)]
		}
	}
	s.ops.push(o)
	if s.translate != nil {
		if _, st := s.parsed(name); st != nil {
			s.describeBound(portal, st, rest)
		}
	}
	s.client.Consume(need)
	if whole {
		return s.drain()
	}
	if err := s.pushAll(); err != nil {
		return err
	}
	return s.stream(tail)
}

// largeBind is the size from which a Bind is not collected but passed through.
const largeBind = 64 << 10

// stream passes the next n bytes of the client to the backend as they come.
func (s *Session) stream(n int) error {
	for n > 0 {
		b := s.client.Buffered()
		if len(b) == 0 {
			if err := s.client.Fill(); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					return errEnd // a half-sent message: the backend is closed with the session
				}
				if err := s.woken(); err != nil {
					return err
				}
			}
			continue
		}
		b = b[:min(n, len(b))]
		n -= len(b)
		if s.conn == nil { // lost meanwhile: the client has been told
			s.client.Consume(len(b))
			continue
		}
		if err := s.push(b); err != nil {
			if err := s.failed(err); err != nil {
				return err
			}
		}
		s.client.Consume(len(b))
	}
	return nil
}

// bound returns the facts of the statement with this name and the names the
// backend and the client know it by, after making sure that it does. A name nobody prepared
// goes to the backend as it is: its error is the answer.
func (s *Session) bound(name []byte) (f *parser.Facts, server, client string, err error) {
	if err := s.settleNames(); err != nil || s.conn == nil || s.skipping {
		return nil, "", "", err
	}
	if len(name) == 0 {
		if !s.unnamed.valid {
			if s.conn.UnnamedBy != 0 {
				// Somebody else's is there under the empty name.
				s.toServer.B = wire.AppendClose(s.toServer.B, 'S', "")
				s.ops.push(op{kind: opClose, injected: true, unnamedBy: s.conn.UnnamedBy})
				s.conn.UnnamedBy = 0
			}
			return nil, "", "", nil
		}
		if err := s.renewUnnamed(); err != nil || s.skipping || s.conn == nil {
			return nil, "", "", err
		}
		if s.conn.UnnamedBy != s.unnamedTag() {
			if err := s.reparseUnnamed(); err != nil {
				return nil, "", "", err
			}
		}
		return s.unnamed.facts, "", "", nil
	}
	st := s.statements[string(name)]
	if st == nil {
		if slices.Contains(s.done.stray, string(name)) {
			s.closeStray(string(name))
		}
		return nil, string(name), string(name), nil
	}
	if err := s.renewNamed(st); err != nil || s.skipping || s.conn == nil {
		return nil, "", "", err
	}
	if s.done.own[st.name] {
		return st.facts, st.name, st.name, nil
	}
	if err := s.ensurePrepared(st.server, s.inject); err != nil {
		return nil, "", "", err
	}
	return st.facts, st.server.Name, st.name, nil
}

// notBound ends a message whose statement could not be had: the client is told
// why, unless it has been already.
func (s *Session) notBound(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pool.ErrLost), errors.Is(err, errEnd), s.conn == nil:
		return s.failed(err)
	}
	s.refuseMessage(err)
	return nil
}

// textOf returns the text of a statement that bound has found.
func (s *Session) textOf(name []byte) string {
	if len(name) > 0 {
		return s.statements[string(name)].server.SQL
	}
	p, _ := wire.DecodeParse(s.unnamed.body)
	return string(p.SQL)
}

// commandsOf returns what a statement does to prepared statements.
func (s *Session) commandsOf(name []byte) []sqlPrepared {
	if len(name) == 0 {
		return s.unnamed.commands
	}
	return s.statements[string(name)].commands
}

// originalOf returns the client's own text and parameter types where the
// backend was given another text.
func (s *Session) originalOf(name []byte) (text, oids string) {
	if len(name) > 0 {
		st := s.statements[string(name)]
		return st.original, st.server.OIDs
	}
	p, _ := wire.DecodeParse(s.unnamed.body)
	return s.unnamed.original, string(p.OIDs)
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
	if s.routing() {
		if done, err := s.executeRouted(body); done || err != nil {
			return err
		}
	}
	if s.lostTx {
		s.executeInLostTx()
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
	o := op{kind: opExecute}
	if s.translate != nil {
		o.rows = s.portalRows
	}
	s.ops.push(o)
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
	body, err := s.frame()
	if err != nil {
		return err
	}
	if s.hasPending {
		s.midFrame = true
		err := s.settleParse()
		s.midFrame = false
		if err != nil {
			return err
		}
	}
	if s.conn == nil && len(body) > 0 && !s.lostTx {
		if err := s.acquire(); err != nil {
			s.client.Consume(wire.HeaderLen + len(body))
			return s.afterQuery(s.refused(err))
		}
	}
	if s.conn == nil {
		s.client.Consume(wire.HeaderLen + len(body))
		s.emitLocal()
		s.skipping = false
		s.tellReady()
		return s.flushOrEnd()
	}
	s.toServer.Grow()
	s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Sync, body)
	s.client.Consume(wire.HeaderLen + len(body))
	s.ops.push(op{kind: opSync})
	s.skipping = false
	return s.afterQuery(s.exchange())
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
