package proxy

import (
	"errors"
	"os"

	"weft/parser"
	"weft/pgerr"
	"weft/wire"
)

// Messages of the extended protocol are collected for the backend and sent
// with the Sync or Flush that asks for answers. Each pushes the answer it
// expects, so that answers weft asked for itself are told from the client's.

// begin makes sure that extended messages have a backend to go to. ok is
// false when the client has been told why not and skips to Sync.
func (s *Session) begin() (ok bool, err error) {
	if s.lostTx {
		s.tell(errLostTx())
		s.skipping = true
		return false, nil
	}
	if err := s.acquire(); err != nil {
		s.skipping = true
		return false, s.refuse(err)
	}
	s.toServer.Grow()
	return true, nil
}

// drain sends what has been collected once it is more than a little.
func (s *Session) drain() error {
	if !s.toServer.Full() {
		return nil
	}
	return s.pushAll()
}

func (s *Session) pushAll() error {
	if s.toServer.Len() == 0 {
		return nil
	}
	err := s.push(s.toServer.B)
	s.toServer.Reset()
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

func (s *Session) onParse() error {
	body, err := s.frame()
	if err != nil {
		return err
	}
	defer s.client.Consume(wire.HeaderLen + len(body))
	p, err := wire.DecodeParse(body)
	if err != nil {
		return pgerr.Fatal(pgerr.ProtocolViolation, "invalid message format")
	}
	facts := s.facts(p.SQL)
	if s.lostTx && facts.Effects&parser.TxEnd != 0 && facts.Statements == 1 {
		return s.parseInLostTx(string(p.Name), facts)
	}
	if ok, err := s.begin(); !ok {
		return err
	}
	if len(p.Name) > 0 {
		return s.parseNamed(p, facts)
	}
	s.unnamed.body = append(s.unnamed.body[:0], body...)
	s.unnamed.facts = facts
	s.unnamed.valid = true
	s.unnamed.version++
	s.conn.UnnamedBy = s.unnamedTag()
	if s.special(facts) {
		return s.parseSpecial(p, facts)
	}
	s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Parse, body)
	s.ops.push(op{kind: opParse})
	return s.drain()
}

// onBind binds a statement under the name the backend knows it by. A large
// Bind passes in pieces.
func (s *Session) onBind(length int) error {
	whole := length+1 <= largeBind
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
	if !ok {
		return pgerr.Fatal(pgerr.ProtocolViolation, "invalid message format")
	}
	if s.lostTx && s.unnamed.facts == endOfTx {
		s.client.Consume(need)
		s.ops.push(op{kind: opLocal, answer: wire.BindComplete})
		return s.skip(length + 1 - need)
	}
	if ok, err := s.begin(); !ok {
		if err != nil {
			return err
		}
		return s.skip(length + 1)
	}
	facts, server, err := s.bound(name)
	if err != nil {
		s.client.Consume(need)
		if ferr := s.failed(err); ferr != nil {
			return ferr
		}
		return s.skip(length + 1 - need)
	}
	if facts != nil {
		s.done.note(s, facts)
	}
	tail := length + 1 - need
	var at int
	s.toServer.B, at = wire.Begin(s.toServer.B, wire.Bind)
	s.toServer.B = append(append(s.toServer.B, portal...), 0)
	s.toServer.B = wire.AppendCString(s.toServer.B, server)
	s.toServer.B = append(s.toServer.B, rest...)
	wire.EndLong(s.toServer.B, at, tail)
	s.ops.push(op{kind: opBind})
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

// bound returns the facts of the statement with this name and the name the
// backend knows it by, after making sure that it does. A name nobody prepared
// goes to the backend as it is: its error is the answer.
func (s *Session) bound(name []byte) (*parser.Facts, string, error) {
	if len(name) == 0 {
		if !s.unnamed.valid {
			if s.conn.UnnamedBy != 0 {
				// Somebody else's is there under the empty name.
				s.toServer.B = wire.AppendClose(s.toServer.B, 'S', "")
				s.ops.push(op{kind: opClose, injected: true})
				s.conn.UnnamedBy = 0
			}
			return nil, "", nil
		}
		if s.conn.UnnamedBy != s.unnamedTag() {
			if err := s.reparseUnnamed(); err != nil {
				return nil, "", err
			}
		}
		return s.unnamed.facts, "", nil
	}
	st := s.statements[string(name)]
	if st == nil {
		return nil, string(name), nil
	}
	if err := s.ensurePrepared(st.server); err != nil {
		return nil, "", err
	}
	return st.facts, st.server.Name, nil
}

func (s *Session) onDescribe() error {
	body, err := s.frame()
	if err != nil {
		return err
	}
	defer s.client.Consume(wire.HeaderLen + len(body))
	kind, name, ok := wire.DescribeName(body)
	if !ok || (kind != 'S' && kind != 'P') {
		return s.invalidSubtype("DESCRIBE", body)
	}
	if s.lostTx && s.unnamed.facts == endOfTx {
		if kind == 'S' {
			s.ops.push(op{kind: opLocal, answer: wire.ParameterDescription})
		}
		s.ops.push(op{kind: opLocal, answer: wire.NoData})
		return nil
	}
	if ok, err := s.begin(); !ok {
		return err
	}
	if kind == 'P' {
		s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Describe, body)
		s.ops.push(op{kind: opDescribePortal})
		return s.drain()
	}
	_, server, err := s.bound(name)
	if err != nil {
		return s.failed(err)
	}
	s.toServer.B = wire.AppendDescribe(s.toServer.B, 'S', server)
	s.ops.push(op{kind: opDescribeStatement, client: s.statements[string(name)]})
	return s.drain()
}

func (s *Session) onExecute() error {
	body, err := s.frame()
	if err != nil {
		return err
	}
	defer s.client.Consume(wire.HeaderLen + len(body))
	if s.lostTx && s.unnamed.facts == endOfTx {
		s.lostTx = false
		s.unnamed.facts, s.unnamed.valid = nil, false
		if err := s.emitLocal(); err != nil {
			return err
		}
		s.toClient.Grow()
		s.toClient.B = wire.AppendCommandComplete(s.toClient.B, "ROLLBACK")
		return nil
	}
	if ok, err := s.begin(); !ok {
		return err
	}
	s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Execute, body)
	s.ops.push(op{kind: opExecute})
	return s.drain()
}

// onClose closes a portal on the backend, a statement in the session only: on
// the backends others may be using it.
func (s *Session) onClose() error {
	body, err := s.frame()
	if err != nil {
		return err
	}
	defer s.client.Consume(wire.HeaderLen + len(body))
	kind, name, ok := wire.DescribeName(body)
	if !ok || (kind != 'S' && kind != 'P') {
		return s.invalidSubtype("CLOSE", body)
	}
	if kind == 'P' && s.conn != nil {
		s.toServer.Grow()
		s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Close, body)
		s.ops.push(op{kind: opClose})
		return s.drain()
	}
	if kind == 'S' {
		if len(name) == 0 {
			s.unnamed.valid = false
		} else if st := s.statements[string(name)]; st != nil {
			s.forgetStatement(st)
		}
	}
	s.ops.push(op{kind: opLocal, answer: wire.CloseComplete})
	return nil
}

func (s *Session) invalidSubtype(what string, body []byte) error {
	var sub byte
	if len(body) > 0 {
		sub = body[0]
	}
	if sub == 'S' || sub == 'P' {
		return pgerr.Fatal(pgerr.ProtocolViolation, "invalid message format")
	}
	// PostgreSQL reports this as an ordinary error and skips to Sync; letting
	// it say so keeps its transaction state right.
	if ok, err := s.begin(); !ok {
		return err
	}
	typ := byte(wire.Describe)
	kind := opDescribePortal
	if what == "CLOSE" {
		typ, kind = wire.Close, opClose
	}
	s.toServer.B = wire.AppendFrame(s.toServer.B, typ, body)
	s.ops.push(op{kind: kind})
	return s.drain()
}

// onSync ends a group of extended messages.
func (s *Session) onSync() error {
	s.client.Consume(wire.HeaderLen)
	if s.conn == nil {
		if err := s.emitLocal(); err != nil {
			return err
		}
		s.skipping = false
		s.tellReady()
		return s.flushOrEnd()
	}
	s.toServer.Grow()
	s.toServer.B = wire.AppendEmpty(s.toServer.B, wire.Sync)
	s.ops.push(op{kind: opSync})
	s.skipping = false
	return s.afterQuery(s.exchange())
}

// onFlush asks for the answers so far.
func (s *Session) onFlush() error {
	s.client.Consume(wire.HeaderLen)
	if s.conn == nil {
		if err := s.emitLocal(); err != nil {
			return err
		}
		return s.flushOrEnd()
	}
	s.toServer.Grow()
	s.toServer.B = wire.AppendEmpty(s.toServer.B, wire.Flush)
	if err := s.pushAll(); err != nil || s.conn == nil {
		return err
	}
	if err := s.exchange(); err != nil {
		return err
	}
	return s.flushOrEnd()
}

// emitLocal sends the answers weft gives by itself; there is no backend whose
// answers could stand before them.
func (s *Session) emitLocal() error {
	for !s.ops.empty() {
		o := s.ops.first()
		s.toClient.Grow()
		switch o.answer {
		case wire.ParameterDescription:
			s.toClient.B = append(s.toClient.B, wire.ParameterDescription, 0, 0, 0, 6, 0, 0)
		default:
			s.toClient.B = wire.AppendEmpty(s.toClient.B, o.answer)
		}
		s.ops.pop()
	}
	return nil
}

// endOfTx is what the unnamed statement is while a lost transaction is being
// ended through the extended protocol.
var endOfTx = &parser.Facts{Effects: parser.TxEnd, Statements: 1}

// parseInLostTx accepts the statement that ends a transaction whose backend is
// gone.
func (s *Session) parseInLostTx(name string, facts *parser.Facts) error {
	if name != "" {
		s.tell(errLostTx())
		s.skipping = true
		return nil
	}
	s.unnamed.facts, s.unnamed.valid = endOfTx, true
	s.ops.push(op{kind: opLocal, answer: wire.ParseComplete})
	return nil
}
