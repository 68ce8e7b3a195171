package proxy

import (
	"errors"
	"os"
	"slices"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// onBind binds a statement under the name the backend knows it by. A large
// Bind passes in pieces, unless its values say where it goes.
func (s *Session) onBind(length int) error {
	routed := s.routing()
	if !routed {
		s.relies.on(nil)
	}
	whole := routed || length+1 <= largeBind
	need := length + 1
	if !whole {
		need = largeBind / 2 // the names are at the front
	}
	if err := s.takeIn(need, messageCost); err != nil {
		return err
	}
	s.bound1.at = tally.Now()
	body := s.client.Buffered()[wire.HeaderLen:need]
	portal, name, rest, ok := wire.BindNames(body)
	if !ok && whole {
		return s.extended(wire.Bind)
	}
	if !ok {
		return pgerr.Fatal(pgerr.ProtocolViolation, "names in the bind message are too long")
	}
	if s.lostTx && !s.hasPending {
		if !whole {
			rest = nil
		}
		s.bindInLostTx(name, rest)
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
	if routed && len(portal) > 0 && s.counted(name, rest) {
		if err := s.isBound(portal, s.conn.Lane()); err != nil {
			s.client.Consume(need)
			return s.refuseBoundRead(err)
		}
	}
	if routed || len(portal) == 0 {
		delete(s.local, string(portal))
		s.notePortal(portal, s.conn.Lane())
	}
	tail := length + 1 - need
	sent, err := s.sendBind(portal, name, rest, tail)
	s.unexecuted = true
	s.client.Consume(need)
	switch {
	case err != nil:
		return err
	case !sent:
		return s.skip(tail)
	case whole:
		return s.drain()
	}
	if err := s.pushAll(); err != nil {
		return err
	}
	return s.stream(tail)
}

// sendBind adds a Bind to what goes to the backend, but for the last tail bytes
// of its values. It reports false if the client has been told why not.
func (s *Session) sendBind(portal, name, rest []byte, tail int) (sent bool, err error) {
	s.midFrame = true
	facts, server, client, err := s.bound(name)
	s.midFrame = false
	if err != nil || s.skipping || s.conn == nil {
		return false, s.notBound(err)
	}
	if !s.hasTables { // else routeBind has
		s.noteBound(portal, facts)
	}
	var changed *edited
	if facts != nil && s.special(facts) {
		shown := s.done.shown
		ok, err := s.bindSpecial(s.textOf(name), facts)
		if err != nil {
			return false, s.failed(err)
		}
		if !ok {
			return false, nil
		}
		if s.done.shown != shown && facts.Effects&sqlNames != 0 {
			// The names in its text have come to mean something else.
			s.midFrame = true
			facts, server, client, err = s.bound(name)
			s.midFrame = false
			if err != nil || s.skipping || s.conn == nil {
				return false, s.notBound(err)
			}
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
	return true, nil
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
			// Somebody else's, or weft's, may be there under the empty name.
			s.toServer.B = wire.AppendClose(s.toServer.B, 'S', "")
			s.ops.push(op{kind: opClose, injected: true, unnamedBy: s.conn.UnnamedBy})
			s.conn.UnnamedBy = 0
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
