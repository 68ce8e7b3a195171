package proxy

import (
	"errors"
	"os"
	"slices"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// onBind binds a statement under the name that the backend knows it by. A large Bind passes in
// pieces, unless its values decide which shard it goes to.
func (ps *portals) onBind(length int) error {
	routed := ps.routing()
	if !routed {
		ps.s.route.relies.on(nil)
	}
	whole := routed || length+1 <= largeBind
	need := length + 1
	if !whole {
		need = largeBind / 2 // the names are at the front
	}
	if err := ps.s.account.takeIn(need, messageCost); err != nil {
		return err
	}
	ps.s.account.beginBind()
	body := ps.s.client.Buffered()[wire.HeaderLen:need]
	portal, name, rest, ok := wire.BindNames(body)
	if !ok && whole {
		return ps.s.extended(wire.Bind)
	}
	if !ok {
		return pgerr.Fatal(pgerr.ProtocolViolation, "names in the bind message are too long")
	}
	if ps.s.lost.is() && !ps.s.pipe.kept.waits() {
		if !whole {
			rest = nil
		}
		ps.s.lost.bindInLostTx(name, rest)
		return ps.s.pipe.skip(length + 1)
	}
	if !routed {
		f, _ := ps.s.prepared.parsed(name)
		if err := ps.s.route.outset.passHome(f); err != nil {
			if err := ps.s.lost.refuseBoundRead(err); err != nil {
				return err
			}
			return ps.s.pipe.skip(length + 1)
		}
	}
	ps.s.route.outset.afresh()
	var old *shadow
	if routed {
		old = shadowOf(ps, portal)
		done, err := bindRouted(ps, portal, name, &rest, old)
		if done || err != nil || ps.s.pipe.isSkipping() {
			ps.s.client.Consume(need)
			if err != nil {
				return err
			}
			return ps.s.drain()
		}
	}
	if ok, err := ps.s.begin(); !ok {
		if err != nil {
			return err
		}
		return ps.s.pipe.skip(length + 1)
	}
	if routed && len(portal) > 0 && ps.countsMatch(name, rest) {
		if err := ps.isBound(portal, ps.s.held.conn.Lane()); err != nil {
			ps.s.client.Consume(need)
			err = ps.s.lost.refuseBoundRead(err)
			if old != nil {
				old.restore(ps)
			}
			return err
		}
	}
	if routed || len(portal) == 0 {
		delete(ps.local, string(portal))
		ps.notePortal(portal, ps.s.held.conn.Lane())
	}
	tail := length + 1 - need
	sent, err := ps.sendBind(portal, name, rest, tail)
	ps.stays.noteWaiting(portal)
	if routed {
		ps.controls.keep(ps.s, portal)
	}
	switch {
	case old != nil && sent:
		ps.s.pipe.ops.shadowLast(old)
	case old != nil:
		old.restore(ps)
	}
	ps.s.client.Consume(need)
	switch {
	case err != nil:
		return err
	case !sent:
		return ps.s.pipe.skip(tail)
	case whole:
		return ps.s.drain()
	}
	if err := ps.s.pushAll(); err != nil {
		return err
	}
	return ps.stream(tail)
}

// bindRouted is routeBind, and keeps what is known of the portal afterwards: of old, if the Bind is skipped.
func bindRouted(ps *portals, portal, name []byte, rest *[]byte, old *shadow) (done bool, err error) {
	ps.s.pipe.holdFrame()
	done, err = ps.routeBind(portal, name, rest)
	ps.s.pipe.leaveFrame()
	switch {
	case old != nil && ps.s.pipe.isSkipping():
		old.restore(ps)
	case done:
		ps.controls.keep(ps.s, portal)
	}
	return done, err
}

// sendBind adds a Bind to what goes to the backend, except the last tail bytes of its values. It
// returns false if nothing was added: the client has been told why.
func (ps *portals) sendBind(portal, name, rest []byte, tail int) (sent bool, err error) {
	ps.s.pipe.holdFrame()
	facts, server, client, err := ps.ensureBound(name)
	ps.s.pipe.leaveFrame()
	if err != nil || ps.s.pipe.isSkipping() || ps.s.held.conn == nil {
		return false, ps.refuseBind(err)
	}
	if !ps.s.route.hasTables { // otherwise routeBind has already noted the portal
		ps.s.account.noteBound(portal, facts)
		if ps.s.account.records() {
			ps.s.account.tapeBind(facts, []byte(ps.s.prepared.textOf(name)), rest)
		}
	}
	var changed *edited
	if facts != nil && ps.s.record.special(facts) {
		shown := ps.s.record.done.shown
		ok, err := ps.s.record.bindSpecial(ps.s.prepared.textOf(name), facts)
		if err != nil {
			return false, ps.s.pipe.failed(err)
		}
		if !ok {
			return false, nil
		}
		if ps.s.record.done.shown != shown && facts.Effects&sqlNames != 0 {
			// The names in the statement's text now mean something else.
			ps.s.pipe.holdFrame()
			facts, server, client, err = ps.ensureBound(name)
			ps.s.pipe.leaveFrame()
			if err != nil || ps.s.pipe.isSkipping() || ps.s.held.conn == nil {
				return false, ps.refuseBind(err)
			}
		}
		ps.s.record.done.note(ps.s, facts)
		ps.s.prepared.makeRoomFor(ps.s.prepared.commandsOf(name))
		switch {
		case ps.s.record.done.own[string(name)]:
			server = string(name)
		case (facts.Effects&parser.SessionID != 0 || ps.s.route.readsDrawn(facts)) && ps.s.held.conn.Status() != wire.TxFailed:
			if original, oids := ps.s.prepared.originalOf(name); original != "" {
				server, changed = ps.s.drawn.rebindIdentity(original, oids, rest)
			}
		}
	}
	var at int
	ps.s.pipe.unsent.B, at = wire.Begin(ps.s.pipe.unsent.B, wire.Bind)
	ps.s.pipe.unsent.B = append(append(ps.s.pipe.unsent.B, portal...), 0)
	ps.s.pipe.unsent.B = wire.AppendCString(ps.s.pipe.unsent.B, server)
	ps.s.pipe.unsent.B = append(ps.s.pipe.unsent.B, rest...)
	wire.EndLong(ps.s.pipe.unsent.B, at, tail)
	o := op{kind: opBind, text: changed, server: server, name: client}
	if len(portal) == 0 {
		o.stalePortal = ps.s.held.conn.BoundUnnamed()
		ps.s.prepared.noteBound(name)
	}
	ps.s.pipe.ops.push(o)
	if ps.s.held.translate != nil {
		if _, st := ps.s.prepared.parsed(name); st != nil {
			ps.describeBound(portal, st, rest)
		}
	}
	return true, nil
}

// largeBind is the size from which a Bind is not collected but passed through.
const largeBind = 64 << 10

// stream passes the client's next n bytes to the backend as they come.
func (ps *portals) stream(n int) error {
	for n > 0 {
		b := ps.s.client.Buffered()
		if len(b) == 0 {
			if err := ps.s.client.Fill(); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					return errEnd // a half-sent message: the backend is closed with the session
				}
				if err := ps.s.woken(); err != nil {
					return err
				}
			}
			continue
		}
		b = b[:min(n, len(b))]
		n -= len(b)
		if ps.s.held.conn == nil { // the backend was lost meanwhile: the client has been told
			ps.s.client.Consume(len(b))
			continue
		}
		if err := ps.s.pipe.push(b); err != nil {
			if err := ps.s.pipe.failed(err); err != nil {
				return err
			}
		}
		ps.s.client.Consume(len(b))
	}
	return nil
}

// ensureBound makes sure that the backend knows the statement with this name. It returns the
// facts of the statement and the names by which the backend and the client know it. A name that
// was never prepared goes to the backend unchanged: the backend's error is the answer.
func (ps *portals) ensureBound(name []byte) (f *parser.Facts, server, client string, err error) {
	if err := ps.s.prepared.settleNames(); err != nil || ps.s.held.conn == nil || ps.s.pipe.isSkipping() {
		return nil, "", "", err
	}
	if len(name) == 0 {
		if !ps.s.prepared.unnamed.valid {
			// Another session or weft itself may have left a statement under the empty name.
			ps.s.pipe.unsent.B = wire.AppendClose(ps.s.pipe.unsent.B, 'S', "")
			ps.s.pipe.ops.push(op{kind: opClose, injected: true, unnamedBy: ps.s.held.conn.UnnamedBy()})
			ps.s.held.conn.UnnamedGone()
			return nil, "", "", nil
		}
		if err := ps.s.prepared.renewUnnamed(); err != nil || ps.s.pipe.isSkipping() || ps.s.held.conn == nil {
			return nil, "", "", err
		}
		if ps.s.held.conn.UnnamedBy() != ps.s.prepared.unnamedTag() {
			if err := ps.s.prepared.reparseUnnamed(); err != nil {
				return nil, "", "", err
			}
		}
		return ps.s.prepared.unnamed.facts, "", "", nil
	}
	st := ps.s.prepared.named[string(name)]
	if st == nil {
		if slices.Contains(ps.s.record.done.stray, string(name)) {
			ps.s.pipe.closeStray(string(name))
		}
		return nil, string(name), string(name), nil
	}
	if err := ps.s.prepared.renewNamed(st); err != nil || ps.s.pipe.isSkipping() || ps.s.held.conn == nil {
		return nil, "", "", err
	}
	if ps.s.record.done.own[st.name] {
		return st.facts, st.name, st.name, nil
	}
	if st.planned.filled && !ps.s.route.hasTables {
		st.unfill(&ps.s.prepared)
	}
	if err := ps.s.prepared.ensurePrepared(st.server, ps.s.pipe.inject); err != nil {
		return nil, "", "", err
	}
	return st.facts, st.server.Name, st.name, nil
}

// refuseBind ends a Bind whose statement could not be prepared: the client is told why, unless
// it has been told already.
func (ps *portals) refuseBind(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pool.ErrLost), errors.Is(err, errEnd), ps.s.held.conn == nil:
		return ps.s.pipe.failed(err)
	}
	ps.s.lost.refuseMessage(err)
	return nil
}

// textOf returns the text of a statement that ensureBound has found.
func (ps *prepared) textOf(name []byte) string {
	if len(name) > 0 {
		return ps.named[string(name)].server.SQL
	}
	p, _ := wire.DecodeParse(ps.unnamed.body)
	return string(p.SQL)
}

// commandsOf returns what a statement does to prepared statements.
func (ps *prepared) commandsOf(name []byte) []sqlPrepared {
	if len(name) == 0 {
		return ps.unnamed.commands
	}
	return ps.named[string(name)].commands
}

// originalOf returns the client's original text, "" if the backend was given that text
// unchanged, and the parameter types.
func (ps *prepared) originalOf(name []byte) (text, oids string) {
	if len(name) > 0 {
		st := ps.named[string(name)]
		return st.original, st.server.OIDs
	}
	p, _ := wire.DecodeParse(ps.unnamed.body)
	return ps.unnamed.original, string(p.OIDs)
}
