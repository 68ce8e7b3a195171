package proxy

import (
	"encoding/binary"
	"errors"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// What a server would find wrong with a Parse or a Bind, weft must find if no server is
// asked: because the statement is about the client's block, or because several shards will
// be asked when it is executed.

// isCommand reports whether a statement about the client's block, or for all participants
// of the block, is a command that cannot have parameters.
func isCommand(f *parser.Facts, text []byte) bool {
	if !toAll(f) || f.Effects&parser.Savepoint != 0 {
		return ofBlock(f)
	}
	w := words(string(text))
	return len(w) > 0 && w[0] != "select"
}

// undetermined refuses a parameter that the text does not have and whose type the client
// leaves to the server. types are those of a Parse.
func undetermined(types []byte) error {
	for i, oid := range declaredTypes(types) {
		if oid == 0 || oid == oidUnknown {
			return pgerr.New(pgerr.IndeterminateDatatype, "could not determine data type of parameter $%d", i+1)
		}
	}
	return nil
}

const oidUnknown = 705

// declaredTypes are the types that a Parse declares.
func declaredTypes(types []byte) []uint32 {
	if len(types) < 2 {
		return nil
	}
	var oids []uint32
	for b := types[2:]; len(b) >= 4; b = b[4:] {
		oids = append(oids, binary.BigEndian.Uint32(b))
	}
	return oids
}

// describeTypes is the ParameterDescription of a statement whose only parameters are those
// that its Parse declares.
func describeTypes(types []byte) []byte {
	b, at := wire.Begin(nil, wire.ParameterDescription)
	if len(types) < 2 {
		types = []byte{0, 0}
	}
	return wire.End(append(b, types...), at)
}

// miscounted refuses a Bind with more or fewer values than its statement has parameters.
// tail is the part of the Bind after the names.
func miscounted(tail, name []byte, params int) error {
	values, _, ok := wire.SplitBind(tail)
	if !ok {
		return wire.ErrMalformed
	}
	given := int(binary.BigEndian.Uint16(values))
	n := int(binary.BigEndian.Uint16(values[2+2*given:]))
	if given > 1 && given != n {
		return pgerr.New(pgerr.ProtocolViolation, "bind message has %d parameter formats but %d parameters", given, n)
	}
	if n != params {
		return pgerr.New(pgerr.ProtocolViolation, "bind message supplies %d parameters, but prepared statement \"%s\" requires %d", n, name, params)
	}
	return nil
}

// bindRefused makes a portal of a command that will be refused when it is executed.
func (ps *portals) bindRefused(portal, name []byte, pl *planned, tail []byte, why error) error {
	if err := miscounted(tail, name, len(declaredTypes(pl.oids))); err != nil {
		return ps.s.lost.refuseBoundRead(err)
	}
	return ps.bindLocal(portal, &localPortal{refusal: why})
}

// countsMatch reports whether a Bind has as many values as its statement has parameters,
// and the transaction has not failed; if not, the server says so.
func (ps *portals) countsMatch(name, tail []byte) bool {
	_, st := ps.s.prepared.parsed(name)
	if st == nil || st.plan == nil || ps.s.held.conn.Status() == wire.TxFailed {
		return false
	}
	values, _, ok := wire.SplitBind(tail)
	if !ok {
		return false
	}
	formats := int(binary.BigEndian.Uint16(values))
	return int(binary.BigEndian.Uint16(values[2+2*formats:])) == max(len(st.plan.Params), len(declaredTypes(st.oids)))
}

// fits refuses a Bind that does not fit its statement.
func (ps *portals) fits(x *gathering, name, tail []byte) error {
	if x.explain != nil {
		return nil
	}
	if err := ps.s.tx.takeSnapshots(); err != nil { // a server takes its snapshot to bind
		return err
	}
	if err := ps.s.gather.learnBound(x); err != nil {
		return err
	}
	if err := miscounted(tail, name, len(x.d.Params)); err != nil {
		return err
	}
	if err := ps.isBound([]byte(x.portal.name), nil); err != nil {
		return err
	}
	wrong := x.req.misformatted(x.d.Columns)
	if len(x.d.Params) > 0 && wrong != nil || (len(x.d.Params) > 0 || x.write == nil) && !ps.isUsed(x.portal.name) {
		if err := ps.tryBind(x); err != nil {
			return err
		}
	}
	if err := x.keepsPromise(); err != nil {
		return err
	}
	return wrong
}

// isUsed reports whether the Bind that is being handled is followed by an Execute of its portal, which
// will have a shard read its values: if the shard cannot read them, unbound takes the
// answer to the Bind back.
func (ps *portals) isUsed(portal string) bool {
	b := ps.s.client.Buffered()
	for len(b) >= wire.HeaderLen {
		length := int(binary.BigEndian.Uint32(b[1:])) + 1
		if len(b) <= length {
			return false
		}
		if b = b[length:]; b[0] != wire.Describe {
			if b[0] != wire.Execute {
				return false
			}
			name, _, ok := wire.CString(b[min(wire.HeaderLen, len(b)):])
			return ok && string(name) == portal
		}
	}
	return false
}

// tryBind has the home shard read the values, and check whether the role may run the query.
func (ps *portals) tryBind(x *gathering) error {
	if err := ps.s.held.useLane(ps.s.lane); err != nil {
		return err
	}
	if err := ps.s.tx.quiesce(); err != nil {
		return err
	}
	if x.write != nil {
		if err := ps.s.held.lockFirst(x); err != nil {
			return err
		}
	}
	c := ps.s.held.conn
	c.UnnamedGone()
	out := wire.AppendParse(nil, "", string(x.req.text), appendOIDs(nil, x.d.Params))
	out, at := wire.Begin(out, wire.Bind)
	out = append(append(append(out, 0, 0), x.req.values...), 0, 0)
	out = wire.AppendClose(wire.End(out, at), 'P', "")
	if _, err := c.Write(wire.AppendEmpty(out, wire.Sync)); err != nil {
		return ps.s.gather.loseAtHand(c.Lost(err))
	}
	var failed error
	err := c.UntilReady(func(typ byte, body []byte) {
		if typ == wire.ErrorResponse {
			failed = pool.ServerError(body)
		}
	})
	if err != nil {
		return ps.s.gather.loseAtHand(err)
	}
	return x.portal.named(failed)
}

// unbound looks at an error that ends the execution of a portal. If a shard could not read
// a value of the Bind, or the role may not run the query, a server would have answered the
// Bind with that error: so the answer to the Bind is taken back, if the client has not been
// sent it yet.
func (ps *portals) unbound(err error) error {
	x := ps.executing
	var e *pgerr.Error
	if x == nil || !errors.As(err, &e) || !strings.HasPrefix(e.Where, unreadValue) && !x.isDenied(e) {
		return err
	}
	if ps.mayUnbind() {
		ps.s.out.B = ps.s.out.B[:len(ps.s.out.B)-len(x.portal.said)]
	}
	return x.portal.named(err)
}

// isDenied reports whether an error says that the role may not run the query. An error from
// inside a function has a context and does not count.
func (x *gathering) isDenied(e *pgerr.Error) bool {
	return x.write == nil && x.explain == nil && e.Code == pgerr.InsufficientPrivilege && e.Where == ""
}

// mayUnbind reports whether the answers about the portal that is being executed have not
// been sent to the client yet.
func (ps *portals) mayUnbind() bool {
	x := ps.executing
	return x != nil && x.portal.saidLast(ps.s.out.B)
}
