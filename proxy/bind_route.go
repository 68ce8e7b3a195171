package proxy

import (
	"errors"

	"weft/executor"
	"weft/parser"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// chooseBind is choose with the values of a Bind. bind is the part of the Bind after the names;
// nil for a Parse that no Bind follows.
func (ps *portals) chooseBind(r *router, pl *plan.Plan, text []byte, f *parser.Facts, bind []byte) (choice, error) {
	how := asBind
	if bind == nil {
		how = asParse
	} else if pl.Route == plan.Keyed {
		params, ok := executor.DecodeParams(bind)
		if r.args.Params = params; !ok || params.Len() != len(pl.Params) {
			how = asMisfit
		}
	} else if params, ok := executor.DecodeParams(bind); ok {
		r.args.Params = params // for the outset: a gathered statement decodes them when it is executed
	}
	return ps.s.route.outset.choose(r, pl, text, f, how)
}

// routeBind finds the backend for a Bind and makes it the one at hand. done says that there
// is nothing to send: weft executes the portal itself, or the client has been told why it
// cannot be bound. tail is the part of the Bind after the names.
func (ps *portals) routeBind(portal, name []byte, tail *[]byte) (done bool, err error) {
	ps.s.pipe.kept.bind()
	ps.controls.begin()
	if len(portal) == 0 {
		delete(ps.local, "")
		ps.wide.forget(nil)
	}
	if ps.s.pipe.kept.waits() {
		p, err := wire.DecodeParse(ps.s.pipe.kept.body)
		if err == nil && string(p.Name) == string(name) {
			err = ps.s.prepared.parseFor(*tail)
		} else if err == nil {
			err = ps.s.prepared.settleParse()
		}
		if err != nil || ps.s.pipe.isSkipping() {
			return true, err
		}
		if ps.s.lost.is() {
			ps.s.lost.bindInLostTx(name, *tail)
			return true, nil
		}
	}
	f, pl := ps.s.prepared.unnamed.facts, &ps.s.prepared.unnamed.planned
	if len(name) > 0 {
		if err := ps.s.prepared.settleNames(); err != nil || ps.s.pipe.isSkipping() {
			return true, err
		}
		st := ps.s.prepared.named[string(name)]
		if st == nil {
			err := ps.useOrRefuse(ps.s.route.atHand())
			return ps.s.pipe.isSkipping(), err
		}
		f, pl = st.facts, &st.planned
		pl.knowText(&ps.s.prepared, st)
		if t := st.server.Types.Load(); pl.types == nil && t != nil {
			pl.types = wire.FewerParameters([]byte(*t), ps.s.prepared.hiddenParams(name))
		}
		if st.server.ViaSQL && (ps.s.held.conn == nil || ps.s.held.conn.Status() != wire.TxFailed) {
			switch _, yes, err := ps.s.prepared.scattered(st); {
			case err != nil:
				return true, ps.s.lost.refuseBoundRead(err)
			case yes:
				return true, ps.s.lost.refuseBoundRead(notExecutable(st))
			}
		}
	} else if !ps.s.prepared.unnamed.valid {
		err := ps.useOrRefuse(ps.s.route.atHand())
		return ps.s.pipe.isSkipping(), err
	} else {
		pl.knowText(&ps.s.prepared, nil)
	}
	ps.s.account.noteBound(portal, f)
	if ps.s.account.records() {
		ps.s.account.tapeBind(f, pl.text, *tail)
	}
	if endsTx(f) || opensBlock(f) {
		ps.controls.note(pl.text, f)
	}
	if in := ps.s.situation(); in == inFailed {
		ps.bindInFailed(portal, decide(in, pl.text, f), f, pl)
		return false, nil
	}
	if err := ps.s.prepared.stillExecutes(pl); err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	if err := ps.s.record.mayRead(pl.text, pl.read); err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	if err := ps.s.prepared.mayExecuteHere(f); err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	if isCommand(f, pl.text) {
		if err := miscounted(*tail, name, len(declaredTypes(pl.oids))); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
	}
	switch decide(ps.s.situation(), pl.text, f) {
	case controlOwn:
		return true, ps.s.implicit.bindInPipe(portal, f, pl)
	case openBlock:
		return ps.bindBegin(portal, f, pl)
	case endBlock:
		return ps.bindEnd(portal, f, pl)
	case endNothing: // there is no block, and the backend at hand says so
		// Messages without a Sync are a transaction, which this ends: what they have set is over,
		// or is the session's.
		if ps.s.implicit.isPiped() && ps.s.held.conn != nil {
			ps.controls.ends()
		}
		return ps.s.pipe.isSkipping(), ps.useOrRefuse(ps.s.route.atHand())
	case runOnAll:
		if err := ps.bindForAll(portal, pl, f, *tail); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
		return false, nil
	}
	if fulfils(f) {
		return true, ps.bindLocal(portal, &localPortal{text: string(pl.text), fulfils: true})
	}
	return ps.routePlanned(portal, name, f, pl, tail)
}

// bindEnd is routeBind for a statement that ends the block.
func (ps *portals) bindEnd(portal []byte, f *parser.Facts, pl *planned) (done bool, err error) {
	ps.s.account.noteEnding(ps.s.tx.writer != nil)
	err = ps.s.commit.mayChain(f)
	if err == nil && pledges(f) {
		return true, ps.bindLocal(portal, &localPortal{text: string(pl.text), ends: f, how: endsAgreed})
	}
	if err == nil && ps.s.commit.ends() && commits(string(pl.text)) && (ps.s.tx.decides() || f.Effects&parser.TxBegin == 0) {
		return true, ps.bindLocal(portal, &localPortal{text: string(pl.text), ends: f, how: endsAgreed})
	}
	if err == nil {
		err = ps.s.tx.beforeEnds()
	}
	if err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	if !ps.s.tx.chooseEnder() {
		return true, ps.bindLocal(portal, &localPortal{text: string(pl.text), ends: f, how: endsUnjoined})
	}
	ps.controls.ends()
	return false, nil
}

// bindBegin is routeBind for a statement that opens a block. Messages before it without a
// Sync between are a transaction already: if they have written or set something, that
// transaction becomes the block. No other shard can join it if one of its portals waits to
// be executed, or if the BEGIN names modes.
func (ps *portals) bindBegin(portal []byte, f *parser.Facts, pl *planned) (done bool, err error) {
	if ps.s.held.conn != nil {
		if (ps.s.implicit.isPiped() || ps.stays.waits()) && (ps.s.pipe.isUnsynced() || !ps.s.pipe.ops.empty()) {
			if ps.stays.waits() || joinable(pl.text) != nil {
				ps.controls.ends()
				return false, nil
			}
			if err := ps.s.implicit.widen(); err != nil {
				return true, ps.s.lost.refuseBoundRead(err)
			}
			return true, ps.s.implicit.bindInPipe(portal, f, pl)
		}
		// Park even a backend that the session is tied to: asked by a Sync whether it is in
		// a block, that backend would say no.
		if err := ps.s.held.park(); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
	}
	text := beginText(pl.text)
	lp := localBegin
	if text != plainBegin {
		lp = &localPortal{text: text}
	}
	return true, ps.bindLocal(portal, lp)
}

// bindInFailed is routeBind in a failed transaction, which takes only a statement that ends
// it, or a ROLLBACK TO, which is for all participants.
func (ps *portals) bindInFailed(portal []byte, a act, f *parser.Facts, pl *planned) {
	switch a {
	case endFailed:
		ps.controls.ends()
	case backTo:
		ps.wide.noteForAll(portal, string(pl.text), f)
		ps.controls.ends()
	}
}

// chooseAnew is choose for a Bind of a statement that was parsed before. The statement is
// planned again if the environment has changed since.
func (ps *portals) chooseAnew(r *router, f *parser.Facts, pl *planned, tail []byte) (choice, error) {
	if pl.plan != nil && pl.plan.Route == plan.Call {
		return choice{do: callFunction}, nil // whatever the environment
	}
	env, err := ps.s.route.environment()
	if err != nil {
		return choice{}, err
	}
	r.args.Generated = r.args.Generated[:0]
	if pl.plan == nil || pl.env == 0 || pl.env != env.ID || pl.plan.Waits {
		ps.s.route.read(r, pl.text)
		if pl.types != nil {
			pl.oids = pl.types // parameters keep their types even if the schema has changed
		}
		if pl.plan, err = ps.s.route.plan(r, pl.text, pl.oids); err != nil {
			return choice{}, err
		}
		pl.env = ps.s.route.envID()
	}
	ps.s.route.relies.on(pl.plan)
	r.args.Text, r.args.Literals, r.args.Options = pl.text, pl.literals, ps.s.record.scanOptions()
	r.arrival = arrival{types: pl.oids}
	return ps.chooseBind(r, pl.plan, pl.text, f, tail)
}

// routePlanned is the part of routeBind for statements that are planned.
func (ps *portals) routePlanned(portal, name []byte, f *parser.Facts, pl *planned, tail *[]byte) (done bool, err error) {
	if err := ps.s.implicit.needsBlock(pl.text, f); err != nil {
		return true, ps.bindRefused(portal, name, pl, *tail, err)
	}
	lane, free := ps.s.pipe.kept.bind()
	if ps.s.route.outset.ridden != nil {
		return true, ps.s.route.outset.bindRidden(portal, lane) // the Parse has led to the answer
	}
	r := ps.s.srv.memory.routers.Get().(*router)
	defer ps.s.srv.memory.routers.Put(r)
	d := choice{runOnShard, lane}
	if lane == nil {
		d, err = ps.chooseAnew(r, f, pl, *tail)
	} else if free {
		d.do = runFree
	}
	if err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	switch d.do {
	case refusePlan:
		return true, ps.s.lost.refuseBoundRead(pl.plan.Refusal)
	case callFunction:
		return true, ps.s.util.bindCall(portal, pl.plan, *tail)
	case runProgram:
		return true, ps.s.util.programs.bind(portal, pl, *tail)
	case gatherShards:
		ps.s.route.read(r, pl.text)
		if pl.plan, err = ps.s.gather.gatheredPlan(r, pl.plan, pl.text, pl.oids); err != nil {
			pl.plan = nil
			return true, ps.s.lost.refuseBoundRead(err)
		}
		if pl.plan.Locked() != nil {
			return true, ps.s.util.programs.bind(portal, pl, *tail)
		}
		return true, ps.s.gather.bindGather(portal, name, f, pl, *tail, r.args.Generated)
	case takeAnswer:
		return true, ps.s.route.outset.bindRidden(portal, d.lane)
	case runEverywhere:
		if err := ps.s.every.mayLock(string(pl.text)); err != nil {
			return true, ps.bindRefused(portal, name, pl, *tail, err)
		}
		err = ps.s.every.beforeEvery(pl)
	default:
		err = ps.s.commit.openFor(pl.plan, f)
	}
	if err == nil {
		err = ps.s.route.makeReady(d, pl.plan, pl.text, f, asBind)
	}
	if errors.Is(err, errMoved) {
		pl.plan = nil
		return ps.routePlanned(portal, name, f, pl, tail)
	}
	if isTakenName(err) {
		return true, ps.bindLocal(portal, &localPortal{refusal: err}) // PostgreSQL says so when the portal is executed
	}
	if err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	ps.noteFetch(portal, pl.text)
	if ps.s.held.translate != nil {
		*tail = ps.s.held.bindHere(pl, *tail)
	}
	if (pl.plan.Generate != nil) != pl.filled && len(name) > 0 {
		if err := ps.s.prepared.named[string(name)].fit(&ps.s.prepared, r); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
	}
	if pl.plan.Generate != nil {
		if *tail, err = executor.AppendBind(nil, *tail, r.args.Generated); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
	}
	if d.do == runEverywhere {
		if err := ps.s.every.everyBound(portal, pl); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
	}
	return false, nil
}

// useOrRefuse makes the lane's backend the one at hand, or refuses the Bind.
func (ps *portals) useOrRefuse(lane *pool.Lane) error {
	if err := ps.s.held.useLane(lane); err != nil {
		return ps.s.lost.refuseBoundRead(err)
	}
	return nil
}

// routing reports whether extended messages must be routed statement by statement, as in a
// database with declared tables.
func (ps *portals) routing() bool {
	ps.s.route.relies.begin()
	ps.s.route.touch.begin()
	return ps.s.route.refresh() || ps.s.pipe.kept.waits() || ps.s.pipe.calls
}

// endTransaction waits for the end of a block inside a pipeline.
func (ps *portals) endTransaction() error {
	ps.s.pipe.unsent.Grow()
	ps.s.pipe.unsent.B = wire.AppendEmpty(ps.s.pipe.unsent.B, wire.Sync)
	ps.s.pipe.ops.push(op{kind: opSync, injected: true, settles: true})
	return ps.s.pipe.exchange()
}
