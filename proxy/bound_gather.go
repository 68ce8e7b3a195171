package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"

	"weft/executor"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// In the extended protocol a gathered query is a portal of weft's own until it is
// executed. If the client wants its rows in portions, the remainder becomes a
// portal of the home shard's, under the client's name.

// bindGather makes the portal. tail is what the Bind carries beyond the names,
// and supplied what weft has drawn for it.
func (s *Session) bindGather(portal, name []byte, f *parser.Facts, pl *planned, tail []byte, supplied [][]byte) error {
	if pl.plan.Copy != nil {
		if err := miscounted(tail, name, len(declaredTypes(pl.oids))); err != nil {
			return s.refuseBoundRead(err)
		}
		return s.bindCopy(portal, f, pl)
	}
	values, formats, ok := splitBind(tail)
	if !ok {
		return s.refuseBoundRead(wire.ErrMalformed)
	}
	x := &gathering{
		plan: pl.plan, g: pl.plan.Gather, write: pl.plan.Write, facts: f,
		text: slices.Clone(pl.text), literals: slices.Clone(pl.literals), oids: slices.Clone(pl.oids), read: pl.read,
		values: slices.Clone(values), formats: slices.Clone(formats), portal: string(portal),
	}
	if x.plan.Generate != nil {
		x.supplied = slices.Clone(supplied)
	}
	x.statement, x.promised = pl, pl.told
	for _, st := range s.statements {
		if d := st.server.Description.Load(); &st.planned == pl && d != nil {
			x.promised = *d
		}
	}
	if x.plan.Explain != nil {
		if err := x.explained(); err != nil {
			return s.refuseBoundRead(err)
		}
	}
	if err := s.fits(x, name, tail); err != nil {
		return s.refuseBoundRead(err)
	}
	if x.plan.Locks && x.write == nil && x.explain == nil && s.isReadOnly() {
		if what := lockingName(x.text); what != "" {
			return s.refuseBoundRead(pgerr.New(barredCode, "cannot execute %s in a read-only transaction", what))
		}
	}
	if pl.types == nil && x.d != nil {
		pl.types = appendOIDs(nil, x.d.Params)
	}
	return s.bindLocal(portal, &localPortal{gather: x})
}

// splitBind cuts what follows the names in a Bind into the parameters and the
// formats of the result.
func splitBind(tail []byte) (values, formats []byte, ok bool) {
	if len(tail) < 2 {
		return nil, nil, false
	}
	at := 2 + 2*int(binary.BigEndian.Uint16(tail))
	if len(tail) < at+2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(tail[at:]))
	at += 2
	for range n {
		if len(tail) < at+4 {
			return nil, nil, false
		}
		size := int(int32(binary.BigEndian.Uint32(tail[at:])))
		at += 4 + max(size, 0)
	}
	if len(tail) < at+2 || len(tail) != at+2+2*int(binary.BigEndian.Uint16(tail[at:])) {
		return nil, nil, false
	}
	return tail[:at], tail[at:], true
}

// keepsPromise refuses an execution whose result is another than the client has
// been told that the statement has: the schema has changed since.
func (x *gathering) keepsPromise() error {
	if x.statement == nil || x.explain != nil {
		return nil
	}
	shape := []byte{}
	if x.d.Columns != nil {
		shape = wire.ResultShape(x.describeResult(nil)[wire.HeaderLen:])
	}
	if x.promised != nil && !bytes.Equal(x.promised, shape) {
		return resultHasChanged()
	}
	x.statement.told = shape
	return nil
}

// describeGathered answers a Describe of the portal.
func (s *Session) describeGathered(x *gathering) error {
	if err := s.learnBound(x); err != nil {
		return s.refuseBoundRead(err)
	}
	s.ops.push(op{kind: opLocal, frame: x.describeResult(nil), bound: x})
	return nil
}

// learnBound makes sure that the types of the parameters and the columns of the result are
// known.
func (s *Session) learnBound(x *gathering) error {
	var err error
	if x.write != nil && x.explain != nil {
		err = s.describeExplained(x)
	} else if x.write != nil {
		err = s.describeWrite(x)
	} else {
		x.g = x.plan.Gather
		err = s.describeGather(x)
	}
	return s.loseAtHand(err)
}

// executeGather executes the portal. body is the Execute's.
func (s *Session) executeGather(x *gathering, body []byte) error {
	name, rest, ok := wire.CString(body)
	if !ok || len(rest) != 4 {
		return s.refuseBoundRead(wire.ErrMalformed)
	}
	if s.conn != nil && s.conn.Status == wire.TxFailed {
		s.toServer.Grow()
		s.refuseMessage(transactionFailed())
		return nil
	}
	if x.over {
		return s.executeOver(x, int(int32(binary.BigEndian.Uint32(rest))))
	}
	if x.portal != "" {
		s.portalLane = nil // shards are asked under the empty name
	}
	s.executing, x.said = x, s.ops.takeOf(x)
	defer func() { s.executing = nil }()
	// What came before is answered before rows are.
	if x.write != nil || s.piped || x.plan.Locks && x.explain == nil { // locks are held until the Sync
		x.alone = !s.block.open && !s.piped // so far
		if err := s.openPipe(); err != nil {
			return s.refuseBoundRead(err)
		}
	} else if s.conn != nil && s.pipedHere() {
		if err := s.flush(); err != nil || s.skipping {
			return err
		}
	} else if err := s.leavePipe(); err != nil {
		return s.refuseBoundRead(err)
	}
	s.toClient.Grow()
	s.toClient.B = append(s.toClient.B, x.said...)
	x.began = time.Now()
	s.runsAs(tally.Gather)
	if x.write != nil && x.explain == nil {
		s.run.kind = tally.Write
	}
	s.beginGather()
	defer func() {
		if !s.interrupt.handed {
			s.endGather()
		}
	}()
	limit := int(int32(binary.BigEndian.Uint32(rest)))
	if x.explain != nil {
		return s.executeExplain(x, limit)
	}
	if x.write != nil {
		return s.executeWrite(x, limit)
	}
	limited := limit > 0
	err := s.prepareBound(x, limited)
	if err == nil && x.native != nil {
		if err = s.runNative(x, false); err == nil {
			x.over = true
			return nil
		}
	} else if err == nil {
		if err = s.collect(x); err == nil {
			return s.executeCollected(x, name, body)
		}
	}
	return s.boundFailed(err)
}

// executeOver executes a portal that has been executed to its end, if not all of what it
// returns has been told.
func (s *Session) executeOver(x *gathering, limit int) error {
	if x.untold != nil {
		frame, err := x.appendPortion(nil, limit)
		if err != nil {
			return s.refuseBoundRead(err)
		}
		s.ops.push(op{kind: opLocal, frame: frame})
		return nil
	}
	if x.write != nil && x.explain == nil && x.d.Columns == nil {
		return s.refuseBoundRead(cannotRun([]byte(x.portal)))
	}
	tag := selected(0)
	if verb, _, ok := strings.Cut(x.tag, " "); ok {
		tag = verb + " 0"
		if verb == "INSERT" {
			tag = "INSERT 0 0"
		}
	}
	s.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, tag)})
	return nil
}

// boundFailed is gatherFailed for a portal.
func (s *Session) boundFailed(err error) error {
	err = s.unbound(s.asInterrupted(s.loseAtHand(err)))
	if !errors.Is(err, pool.ErrLost) && !errors.Is(err, errEnd) && !errors.Is(err, errTold) && s.atFailed() {
		s.emitLocal()
		s.skipping = true
		return s.refuse(err)
	}
	return s.refuseBoundRead(err)
}

// prepareBound is prepareGather for a portal. Rows in portions come from
// PostgreSQL.
func (s *Session) prepareBound(x *gathering, limited bool) error {
	if err := s.mayRead(x.text, x.read); err != nil {
		return err
	}
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	x.limited = limited
	for {
		params, ok := executor.DecodeParams(x.values)
		if !ok {
			return wire.ErrMalformed
		}
		r.args.Text, r.args.Literals, r.args.Options, r.args.Params = x.text, x.literals, s.scanOptions(), params
		x.g = x.plan.Gather
		err := s.prepareGather(r, x)
		if !errors.Is(err, errMoved) {
			return err
		}
		s.read(r, x.text)
		if x.plan, err = s.plan(r, x.text, x.oids); err != nil {
			return err
		}
		if x.plan, err = s.gatheredPlan(r, x.plan, x.text, x.oids); err != nil {
			return err
		}
		if x.plan.Gather == nil {
			return errGather
		}
	}
}
