package proxy

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// In the extended protocol a gathered query is a portal that only weft knows until it is
// executed. If the client wants its rows in portions, the remainder becomes a portal of the home
// shard, under the client's name.

// bindGather makes the portal of a gathered query. tail is what the Bind carries beyond the
// names, and supplied are the values that weft has drawn for the portal.
func (ga *gatherer) bindGather(portal, name []byte, f *parser.Facts, pl *planned, tail []byte, supplied [][]byte) error {
	if pl.plan.Copy() != nil {
		if err := miscounted(tail, name, len(declaredTypes(pl.oids))); err != nil {
			return ga.s.lost.refuseBoundRead(err)
		}
		return ga.s.copy.bindCopy(portal, f, pl)
	}
	values, formats, ok := wire.SplitBind(tail)
	if !ok {
		return ga.s.lost.refuseBoundRead(wire.ErrMalformed)
	}
	x := newGathering(pl.plan, boundRequest(pl, f, values, formats))
	x.far = ga.s.held.away.far
	if x.plan.Generate != nil {
		x.progress.supplied = slices.Clone(supplied)
	}
	x.portal = gatherPortal{name: string(portal), statement: pl, promised: pl.told}
	for _, st := range ga.s.prepared.named {
		if d := st.server.Description.Load(); &st.planned == pl && d != nil {
			x.portal.promised = *d
		}
	}
	if x.plan.Explain != nil {
		if err := x.explained(); err != nil {
			return ga.s.lost.refuseBoundRead(err)
		}
	}
	if err := ga.s.portals.fits(x, name, tail); err != nil {
		return ga.s.lost.refuseBoundRead(err)
	}
	if x.plan.Locks && x.write == nil && x.explain == nil && ga.s.tx.isReadOnly() {
		if what := lockingName(x.req.text); what != "" {
			return ga.s.lost.refuseBoundRead(pgerr.New(barredCode, "cannot execute %s in a read-only transaction", what))
		}
	}
	if pl.types == nil && x.d != nil {
		pl.types = appendOIDs(nil, x.d.Params)
	}
	return ga.s.portals.bindLocal(portal, &localPortal{gather: x})
}

// keepsPromise refuses an execution whose result has other columns than the client has been
// told: the schema has changed since. A COPY finds its columns.
func (x *gathering) keepsPromise() error {
	if x.out != nil {
		return x.out.check(x.d.Columns)
	}
	if x.portal.statement == nil || x.explain != nil {
		return nil
	}
	shape := []byte{}
	if x.d.Columns != nil {
		shape = wire.ResultShape(x.describeResult(nil)[wire.HeaderLen:])
	}
	return x.portal.keepPromise(shape)
}

// describeGathered answers a Describe of a gathered portal.
func (ga *gatherer) describeGathered(x *gathering) error {
	if err := ga.learnBound(x); err != nil {
		return ga.s.lost.refuseBoundRead(err)
	}
	ga.s.pipe.ops.push(op{kind: opLocal, frame: x.describeResult(nil), bound: x})
	return nil
}

// learnBound makes sure that the types of the parameters and the columns of the result are
// known.
func (ga *gatherer) learnBound(x *gathering) error {
	var err error
	if x.write != nil && x.explain != nil {
		err = ga.s.gather.explain.describeExplained(x)
	} else if x.write != nil {
		err = ga.s.write.describeWrite(x)
	} else {
		x.g = x.plan.Gather()
		err = ga.describeGather(x)
	}
	return ga.loseAtHand(err)
}

// executeGather executes a gathered portal. body is that of the Execute message.
func (ga *gatherer) executeGather(x *gathering, body []byte) error {
	name, rest, ok := wire.CString(body)
	if !ok || len(rest) != 4 {
		return ga.s.lost.refuseBoundRead(wire.ErrMalformed)
	}
	if ga.s.held.conn != nil && ga.s.held.conn.Status() == wire.TxFailed {
		ga.s.pipe.unsent.Grow()
		ga.s.lost.refuseMessage(transactionFailed())
		return nil
	}
	if x.portal.over {
		return ga.executeOver(x, int(int32(binary.BigEndian.Uint32(rest))))
	}
	if x.portal.name != "" {
		ga.s.portals.forgetUnnamed() // shards are asked under the empty name
	}
	x.portal.said = ga.s.pipe.ops.takeOf(x)
	ga.s.portals.beginExecution(x)
	defer ga.s.portals.endExecution()
	// Earlier messages are answered before the rows.
	if x.write != nil || ga.s.implicit.isPiped() || x.plan.Locks && x.explain == nil { // locks are held until the Sync
		x.repeat.alone = !ga.s.tx.isOpen() && !ga.s.implicit.isPiped() // no other message is in the transaction so far
		if err := ga.s.implicit.openPipe(); err != nil {
			return ga.s.lost.refuseBoundRead(err)
		}
	} else if ga.s.held.conn != nil && ga.s.implicit.pipedHere() {
		if err := ga.s.flush(); err != nil || ga.s.pipe.isSkipping() {
			return err
		}
	} else if err := ga.s.implicit.leavePipe(); err != nil {
		return ga.s.lost.refuseBoundRead(err)
	}
	ga.s.out.Grow()
	ga.s.out.B = append(ga.s.out.B, x.portal.said...)
	if err := ga.s.implicit.needsBlock(x.req.text, x.req.facts); err != nil { // a block may be open just for its Bind
		return ga.s.lost.refuseBoundRead(err)
	}
	x.began = time.Now()
	ga.s.account.runsAs(tally.Gather)
	if x.write != nil && x.explain == nil {
		ga.s.account.run.kind = tally.Write
	}
	ga.s.reach.beginGather()
	defer func() {
		if !ga.s.reach.interrupt.handed {
			ga.s.reach.endGather()
		}
	}()
	limit := int(int32(binary.BigEndian.Uint32(rest)))
	if x.explain != nil {
		return ga.s.gather.explain.executeExplain(x, limit)
	}
	if x.write != nil {
		return ga.s.write.executeWrite(x, limit)
	}
	limited := limit > 0
	err := ga.prepareBound(x, limited)
	if err == nil && x.native != nil {
		if err = ga.runNative(x, false); err == nil {
			x.portal.over = true
			return nil
		}
	} else if err == nil {
		if err = ga.collect(x); err == nil {
			return ga.executeCollected(x, name, body)
		}
	}
	return ga.boundFailed(err)
}

// executeOver executes a portal that has already been executed to its end: it sends the next
// rows that have not been sent yet, or no rows.
func (ga *gatherer) executeOver(x *gathering, limit int) error {
	if x.portal.untold != nil {
		frame, err := x.portal.appendPortion(nil, limit, x.tag)
		if err != nil {
			return ga.s.lost.refuseBoundRead(err)
		}
		ga.s.pipe.ops.push(op{kind: opLocal, frame: frame})
		return nil
	}
	if x.write != nil && x.explain == nil && x.d.Columns == nil {
		return ga.s.lost.refuseBoundRead(cannotRun([]byte(x.portal.name)))
	}
	ga.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, emptyTag(x.tag))})
	return nil
}

// boundFailed is gatherFailed for a portal.
func (ga *gatherer) boundFailed(err error) error {
	err = ga.s.portals.unbound(ga.s.reach.asInterrupted(ga.loseAtHand(err)))
	if !errors.Is(err, pool.ErrLost) && !errors.Is(err, errEnd) && !errors.Is(err, errTold) && ga.s.legs.atFailed() {
		ga.s.emitLocal()
		ga.s.pipe.skipToSync()
		return ga.s.out.refuse(err)
	}
	return ga.s.lost.refuseBoundRead(err)
}

// prepareBound is prepareGather for a portal. limited: the client wants the rows in portions,
// which come from PostgreSQL.
func (ga *gatherer) prepareBound(x *gathering, limited bool) error {
	if err := ga.s.record.mayRead(x.req.text, x.req.read); err != nil {
		return err
	}
	r := ga.s.srv.memory.routers.Get().(*router)
	defer ga.s.srv.memory.routers.Put(r)
	x.portal.limited = limited
	for {
		if !x.req.bindInto(&r.args, ga.s.record.scanOptions()) {
			return wire.ErrMalformed
		}
		x.g = x.plan.Gather()
		err := ga.prepareGather(r, x)
		if !errors.Is(err, errMoved) {
			return err
		}
		ga.s.route.read(r, x.req.text)
		if x.plan, err = ga.s.route.plan(r, x.req.text, x.req.oids); err != nil {
			return err
		}
		if x.plan, err = ga.gatheredPlan(r, x.plan, x.req.text, x.req.oids); err != nil {
			return err
		}
		if x.plan.Gather() == nil {
			return errGather
		}
	}
}
