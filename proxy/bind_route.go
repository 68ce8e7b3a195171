package proxy

import (
	"errors"

	"weft/executor"
	"weft/parser"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

func (ps *portals) laneForBind(r *router, pl *plan.Plan, f *parser.Facts, bind []byte) (*pool.Lane, error) {
	if pl.Route == plan.Keyed {
		params, ok := executor.DecodeParams(bind)
		if !ok || params.Len() != len(pl.Params) {
			return ps.s.route.atHand(), nil // the backend says what is wrong with the Bind
		}
		r.args.Params = params
		if pl.Generate != nil {
			var kept bool
			if r.args.Generated, kept = ps.s.drawn.takeFresh(r.args.Generated[:0], len(pl.Generate.Values)); !kept {
				if err := ps.s.drawn.generate(r, pl); err != nil {
					return nil, err
				}
			}
		}
	}
	return ps.s.route.laneFor(r, pl, f)
}

func (ps *portals) routeBind(portal, name []byte, tail *[]byte) (done bool, err error) {
	ps.s.pipe.kept.bind()
	if len(portal) == 0 {
		delete(ps.local, "")
	}
	if ps.s.pipe.kept.waits() {
		p, err := wire.DecodeParse(ps.s.pipe.kept.body)
		if err == nil && string(p.Name) == string(name) {
			err = ps.s.prepared.parseFor(*tail)
		} else if err == nil {
			err = ps.s.prepared.settleParse()
		}
		if err != nil || ps.s.pipe.skipping {
			return true, err
		}
		if ps.s.lost.is() {
			ps.s.lost.bindInLostTx(name, *tail)
			return true, nil
		}
	}
	f, pl := ps.s.prepared.unnamed.facts, &ps.s.prepared.unnamed.planned
	if len(name) > 0 {
		if err := ps.s.prepared.settleNames(); err != nil || ps.s.pipe.skipping {
			return true, err
		}
		st := ps.s.prepared.named[string(name)]
		if st == nil {
			err := ps.useOrRefuse(ps.s.route.atHand())
			return ps.s.pipe.skipping, err
		}
		f, pl = st.facts, &st.planned
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
		return ps.s.pipe.skipping, err
	}
	ps.s.account.noteBound(portal, f)
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
	if len(portal) > 0 && ps.s.tx.savepoints() {
		delete(ps.local, string(portal))
	}
	switch decide(ps.s.situation(), pl.text, f) {
	case controlOwn:
		return true, ps.s.implicit.bindInPipe(portal, f, pl)
	case openBlock:
		return ps.bindBegin(portal, f, pl)
	case endBlock:
		return ps.bindEnd(portal, f, pl)
	case endNothing: // there is no block, and the backend at hand says so
		return ps.s.pipe.skipping, ps.useOrRefuse(ps.s.route.atHand())
	case runOnAll:
		if err := ps.bindForAll(portal, pl, f, *tail); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
		return false, nil
	}
	if pl.plan != nil && pl.plan.Route == plan.Call {
		return true, ps.s.util.bindCall(portal, pl.plan, *tail)
	}
	return ps.routePlanned(portal, name, f, pl, tail)
}

func (ps *portals) bindEnd(portal []byte, f *parser.Facts, pl *planned) (done bool, err error) {
	err = ps.s.commit.mayChain(f)
	if err == nil && ps.s.tx.decides() && commits(string(pl.text)) {
		return true, ps.bindLocal(portal, &localPortal{text: string(pl.text), ends: f, agreed: true})
	}
	if err == nil {
		err = ps.s.tx.beforeEnds()
	}
	if err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	if !ps.s.tx.chooseEnder() {
		return true, ps.bindLocal(portal, &localPortal{text: string(pl.text), ends: f})
	}
	ps.bindEnding(f)
	return false, nil
}

func (ps *portals) bindBegin(portal []byte, f *parser.Facts, pl *planned) (done bool, err error) {
	if ps.s.held.conn != nil {
		if (ps.s.implicit.isPiped() || ps.unexecuted) && (ps.s.pipe.unsynced || !ps.s.pipe.ops.empty()) {
			if ps.unexecuted || joinable(pl.text) != nil {
				ps.bindEnding(f)
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

func (ps *portals) bindEnding(f *parser.Facts) {
	ps.s.tx.noteChain(endsTx(f) && f.Effects&parser.TxBegin != 0)
	ps.ending = true
}

func (ps *portals) bindInFailed(portal []byte, a act, f *parser.Facts, pl *planned) {
	switch a {
	case endFailed:
		ps.bindEnding(f)
	case backTo:
		ps.noteForAll(portal, string(pl.text), f)
		ps.bindEnding(f)
	}
}

func (ps *portals) laneAnew(r *router, f *parser.Facts, pl *planned, tail []byte) (*pool.Lane, error) {
	env, err := ps.s.route.environment()
	if err != nil {
		return nil, err
	}
	r.args.Generated = r.args.Generated[:0]
	if pl.plan == nil || pl.env == 0 || pl.env != env.ID || pl.plan.Waits {
		ps.s.route.read(r, pl.text)
		if pl.types != nil {
			pl.oids = pl.types // parameters keep their types even if the schema has changed
		}
		if pl.plan, err = ps.s.route.plan(r, pl.text, pl.oids); err != nil {
			return nil, err
		}
		pl.env = ps.s.route.envID()
	}
	ps.s.route.relies.on(pl.plan)
	r.args.Text, r.args.Literals, r.args.Options = pl.text, pl.literals, ps.s.record.scanOptions()
	if pl.plan.Route == plan.Every {
		return ps.s.lane, nil
	}
	if lane, err := ps.cursorLane(pl.text, pl.plan, f); lane != nil || err != nil {
		return lane, err
	}
	if lane, err := ps.listingLane(f); lane != nil || err != nil {
		return lane, err
	}
	return ps.laneForBind(r, pl.plan, f, tail)
}

func (ps *portals) routePlanned(portal, name []byte, f *parser.Facts, pl *planned, tail *[]byte) (done bool, err error) {
	if err := ps.s.implicit.needsBlock(pl.text, f); err != nil {
		return true, ps.bindRefused(portal, name, pl, *tail, err)
	}
	r := ps.s.srv.memory.routers.Get().(*router)
	defer ps.s.srv.memory.routers.Put(r)
	lane, free := ps.s.pipe.kept.bind()
	if lane != nil {
		r.free = free // laneForBind has found it with the Parse
	} else {
		lane, err = ps.laneAnew(r, f, pl, *tail)
	}
	if errors.Is(err, errGather) {
		ps.s.route.read(r, pl.text)
		if pl.plan, err = ps.s.gather.gatheredPlan(r, pl.plan, pl.text, pl.oids); err != nil {
			pl.plan = nil
			return true, ps.s.lost.refuseBoundRead(err)
		}
		return true, ps.s.gather.bindGather(portal, name, f, pl, *tail, r.args.Generated)
	}
	if err == nil && pl.plan.Route == plan.Every {
		if err := ps.s.every.mayLock(string(pl.text)); err != nil {
			return true, ps.bindRefused(portal, name, pl, *tail, err)
		}
		err = ps.s.every.beforeEvery(pl)
	}
	if err == nil {
		err = ps.s.route.useFor(lane, pl.plan, f, r.free)
	}
	if err == nil {
		err = ps.mayCloseAll(pl.text, f)
	}
	if err == nil {
		ps.noteCursor(pl.text, f, nil)
		ps.noteFetch(portal, pl.text)
	}
	if err == nil {
		err = ps.s.route.stillTrue()
	}
	if errors.Is(err, errMoved) {
		pl.plan = nil
		return ps.routePlanned(portal, name, f, pl, tail)
	}
	if err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	if pl.plan.Route == plan.Home || pl.plan.Route == plan.Any {
		ps.s.drawn.noteSequences(f, pl.text)
	}
	if ps.s.held.translate != nil {
		*tail = ps.s.held.bindHere(pl, *tail)
	}
	if pl.plan.Generate != nil {
		if *tail, err = executor.AppendBind(nil, *tail, r.args.Generated); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
	}
	if pl.plan.Route == plan.Every {
		if err := ps.s.every.everyBound(portal, pl); err != nil {
			return true, ps.s.lost.refuseBoundRead(err)
		}
	}
	return false, nil
}

func (ps *portals) useOrRefuse(lane *pool.Lane) error {
	if err := ps.s.held.useLane(lane); err != nil {
		return ps.s.lost.refuseBoundRead(err)
	}
	return nil
}

func (ps *portals) routing() bool {
	ps.s.route.relies.begin()
	return ps.s.route.refresh() || ps.s.pipe.kept.waits() || ps.s.pipe.calls
}

func (ps *portals) endTransaction() error {
	ps.s.pipe.unsent.Grow()
	ps.s.pipe.unsent.B = wire.AppendEmpty(ps.s.pipe.unsent.B, wire.Sync)
	ps.s.pipe.ops.push(op{kind: opSync, injected: true, settles: true})
	return ps.s.pipe.exchange()
}
