package proxy

import (
	"errors"
	"slices"

	"weft/executor"
	"weft/parser"
	"weft/plan"
	"weft/planner"
	"weft/pool"
	"weft/wire"
)

// In a database with declared tables the shard of a prepared statement is
// known when values are bound to it, not when it is parsed. So a Parse is kept
// until the next message: if that is the Bind, both go to the same shard, and
// the first execution costs no more than on a plain server.

// planned is where a prepared statement goes.
type planned struct {
	plan     *plan.Plan
	env      planner.ID // what the plan was made under; 0 says that it must be made anew
	text     []byte     // the client's
	read     reading    // how that was read
	oids     []byte     // the types the client declared
	literals []parser.Literal
	params   []byte // its ParameterDescription's body, if it has been described
	types    []byte // the types of the client's own parameters, once a server has found them out
	shape    shape
	// sealed is what shards are sent instead of the text if that has passwords.
	sealed string
	// told is the result the statement had when it was gathered first.
	told []byte
	// executes, if not nil, is what SQL's PREPARE made and this, an EXECUTE, has become.
	executes *statement
}

// localBegin is shared by all: nothing of a portal changes once it is made.
var localBegin = &localPortal{text: plainBegin}

// keepParse keeps a Parse message until it is known where it goes.
func (s *Session) keepParse(body []byte) error {
	if err := s.settleParse(); err != nil || s.skipping {
		return err
	}
	s.pending = append(s.pending[:0], body...)
	s.hasPending = true
	return nil
}

// settleParse sends a Parse that has been kept, to whatever shard: what comes
// next is not its Bind.
func (s *Session) settleParse() error {
	if !s.hasPending {
		return nil
	}
	return s.parseFor(nil)
}

// parseFor sends the Parse that has been kept. bind is the rest of the Bind
// message that follows it, nil if another follows.
func (s *Session) parseFor(bind []byte) error {
	s.hasPending = false
	p, err := wire.DecodeParse(s.pending)
	if err != nil {
		return err
	}
	if err := s.readAnew(p.SQL); err != nil {
		return s.refuseParse(p.Name, err)
	}
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	f := s.read(r, p.SQL)
	s.bound1.facts = f
	if done, err := s.parseUnplanned(r, p, f, bind); done || err != nil {
		return err
	}
	pl, err := s.plan(r, p.SQL, p.OIDs)
	if err == nil && pl.Route == plan.Refused {
		err = s.refusedText(p.SQL, p.OIDs, pl.Refusal)
	}
	if err != nil {
		return s.refuseParse(p.Name, err)
	}
	if pl.Route == plan.Call {
		s.parseLocal(p, s.pending, f, pl)
		return nil
	}
	lane := s.lane
	switch {
	case bind == nil && (pl.Route == plan.Keyed || pl.Route == plan.AnyCopy):
		lane = s.atHand()
	case bind == nil && pl.Route == plan.Gathered:
	case pl.Route != plan.Every:
		r.args.Text, r.args.Literals, r.args.Options = p.SQL, r.scan.Literals, s.scanOptions()
		lane, err = s.laneForBind(r, pl, f, bind)
	}
	gathered := errors.Is(err, errGather)
	if err != nil && !gathered {
		return s.refuseParse(p.Name, s.refusedText(p.SQL, p.OIDs, err))
	}
	if gathered {
		if pl, err = s.gatheredPlan(r, pl, p.SQL, p.OIDs); err != nil {
			return s.refuseParse(p.Name, s.refusedText(p.SQL, p.OIDs, err))
		}
		if bind != nil && pl.Generate != nil && pl.Route == plan.Keyed {
			s.fresh = slices.Clone(r.args.Generated)
		}
		if st := s.statements[string(p.Name)]; isKnown(pl) && (st == nil || st.doubtful) {
			if pl.Copy != nil {
				if err := undetermined(p.OIDs); err != nil {
					return s.refuseParse(p.Name, err)
				}
			}
			s.parseLocal(p, s.pending, f, pl) // the server has said that it is right
			s.notePlan(r, p.Name, pl)
			return nil
		}
		lane, err = s.lane, nil
	}
	if err == nil {
		err = s.snapshotsFor(f) // a server takes one to parse
	}
	if err == nil {
		err = s.useLane(lane)
	}
	if err != nil {
		return s.refuseParse(p.Name, err)
	}
	if bind != nil && pl.Route == plan.Keyed && pl.Generate == nil && !gathered {
		s.placed, s.placedFree = lane, r.free
	}
	if s.stillTrue() != nil {
		s.placed = nil
		s.hasPending = true
		return s.parseFor(bind)
	}
	return s.parsePlanned(r, p, f, pl, bind != nil)
}

// parsePlanned parses what has been kept on the backend at hand. bound: its Bind follows.
func (s *Session) parsePlanned(r *router, p wire.ParseBody, f *parser.Facts, pl *plan.Plan, bound bool) (err error) {
	body := s.pending
	var changed *edited
	if s.fresh = nil; pl.Generate != nil && pl.Route != plan.Gathered {
		if bound {
			s.fresh = slices.Clone(r.args.Generated)
		}
		if body, changed, err = s.generatedParse(r, pl, p); err != nil {
			return s.refuseParse(p.Name, err)
		}
		if p, err = wire.DecodeParse(body); err != nil {
			return err
		}
	}
	sealed, err := s.sealParse(pl, &p, &body)
	if err != nil {
		return s.refuseParse(p.Name, err)
	}
	if sealed != nil {
		changed = sealed
	}
	before := s.statements[string(p.Name)]
	if err := s.parseHere(p, body, f, changed); err != nil || s.skipping || s.conn == nil {
		return err
	}
	if s.isTaken(before) {
		return nil
	}
	s.notePlan(r, p.Name, pl)
	if _, dst := s.parsed(p.Name); sealed != nil && dst != nil {
		dst.sealed = string(p.SQL)
	}
	return nil
}

// parseUnplanned parses what needs no plan: in a failed transaction, about the client's
// block, or a statement that is executed by name. done is false for all else.
func (s *Session) parseUnplanned(r *router, p wire.ParseBody, f *parser.Facts, bind []byte) (done bool, err error) {
	if s.lostTx {
		s.parseInLostTx(p, s.pending, f)
		return true, nil
	}
	if s.conn != nil && s.conn.Status == wire.TxFailed {
		before := s.statements[string(p.Name)]
		if err := s.parseHere(p, s.pending, f, nil); err != nil || s.skipping || s.conn == nil {
			return true, err
		}
		if !s.isTaken(before) {
			s.notePlan(r, p.Name, nil)
		}
		return true, nil
	}
	if ofBlock(f) && s.statements[string(p.Name)] == nil && isCommand(f, p.SQL) {
		if err := undetermined(p.OIDs); err != nil {
			return true, s.refuseParse(p.Name, err)
		}
		s.parseLocal(p, s.pending, f, nil)
		return true, nil
	}
	if f.Effects&parser.Executes != 0 {
		if sql, ok, err := s.executedText(p.SQL, f); err != nil {
			return true, s.refuseParse(p.Name, err)
		} else if ok {
			return true, s.parseExecuted(p, sql, s.statements[f.Prepared[0].Name], bind)
		}
	}
	if err := s.knowOwn(f); err != nil {
		return true, s.refuseParse(p.Name, err)
	}
	return false, nil
}

// isTaken reports whether a name was another statement's when it was parsed: the server
// says so in its answer, and that statement is what it was.
func (s *Session) isTaken(before *statement) bool {
	return before != nil && s.statements[before.name] == before
}

// ofBlock reports whether a statement is about the client's block, or for all
// participants of it: no server needs to parse it.
func ofBlock(f *parser.Facts) bool { return opensBlock(f) || endsTx(f) || toAll(f) }

// isKnown reports whether a server has said that the text of a plan for several
// shards is right.
func isKnown(p *plan.Plan) bool {
	if p.Copy != nil {
		return true // a server looks at COPY when it is executed
	}
	if p.Write != nil {
		return p.Write.Known.Load() != nil
	}
	return p.Gather.Known.Load() != nil
}

// laneForBind is laneFor with the values of a Bind message.
func (s *Session) laneForBind(r *router, pl *plan.Plan, f *parser.Facts, bind []byte) (*pool.Lane, error) {
	if pl.Route == plan.Keyed {
		params, ok := executor.DecodeParams(bind)
		if !ok || params.Len() != len(pl.Params) {
			return s.atHand(), nil // the backend shall say what is wrong with it
		}
		r.args.Params = params
		if pl.Generate != nil && len(s.fresh) == len(pl.Generate.Values) {
			r.args.Generated, s.fresh = append(r.args.Generated[:0], s.fresh...), nil // drawn with the Parse
		} else if pl.Generate != nil {
			if err := s.generate(r, pl); err != nil {
				return nil, err
			}
		}
	}
	return s.laneFor(r, pl, f)
}

// notePlan keeps the plan with the statement it was made for.
func (s *Session) notePlan(r *router, name []byte, pl *plan.Plan) {
	p, err := wire.DecodeParse(s.pending)
	if err != nil {
		return
	}
	dst := &s.unnamed.planned
	if len(name) > 0 {
		st := s.statements[string(name)]
		if st == nil {
			return
		}
		dst = &st.planned
	}
	dst.plan, dst.env, dst.params, dst.shape, dst.told, dst.executes = pl, s.envID(), nil, unseen, nil, nil
	dst.sealed, dst.types = "", nil
	if pl == nil {
		dst.env = 0
	}
	dst.text, dst.read = append(dst.text[:0], p.SQL...), s.readsNow()
	dst.oids = append(dst.oids[:0], p.OIDs...)
	dst.literals = append(dst.literals[:0], r.scan.Literals...)
}

// parseLocal makes a statement that weft executes itself, or whose backend is
// chosen when it is bound.
func (s *Session) parseLocal(p wire.ParseBody, body []byte, f *parser.Facts, pl *plan.Plan) {
	o := op{kind: opLocal, answer: wire.ParseComplete}
	if len(p.Name) == 0 {
		o.prev = s.replaceUnnamed(body, f)
		s.unnamed.planned.plan, s.unnamed.planned.read = pl, s.readsNow()
		s.unnamed.planned.text = append(s.unnamed.planned.text[:0], p.SQL...)
		s.unnamed.planned.oids = append(s.unnamed.planned.oids[:0], p.OIDs...)
	} else {
		st := &statement{name: string(p.Name), facts: f, server: s.shared(string(p.SQL), string(p.OIDs), false)}
		st.planned.plan, st.planned.read = pl, s.readsNow()
		st.planned.text = []byte(string(p.SQL))
		st.planned.oids = []byte(string(p.OIDs))
		if s.statements == nil {
			s.statements = map[string]*statement{}
		}
		s.statements[st.name] = st
		s.parsedNow = append(s.parsedNow, st)
		o.client = st
	}
	s.ops.push(o)
}

// routeBind finds the backend for a Bind and makes it the one at hand. done
// says that there is nothing to send: weft executes the portal itself, or the
// client has been told why it cannot be bound. tail is what the Bind carries
// beyond the names.
func (s *Session) routeBind(portal, name []byte, tail *[]byte) (done bool, err error) {
	s.placed = nil
	if len(portal) == 0 {
		delete(s.local, "")
	}
	if s.hasPending {
		p, err := wire.DecodeParse(s.pending)
		if err == nil && string(p.Name) == string(name) {
			err = s.parseFor(*tail)
		} else if err == nil {
			err = s.settleParse()
		}
		if err != nil || s.skipping {
			return true, err
		}
		if s.lostTx {
			s.bindInLostTx(name, *tail)
			return true, nil
		}
	}
	f, pl := s.unnamed.facts, &s.unnamed.planned
	if len(name) > 0 {
		st := s.statements[string(name)]
		if st == nil {
			err := s.useOrRefuse(s.atHand())
			return s.skipping, err
		}
		f, pl = st.facts, &st.planned
		if t := st.server.Types.Load(); pl.types == nil && t != nil {
			pl.types = wire.FewerParameters([]byte(*t), s.hiddenParams(name))
		}
		if st.server.ViaSQL && (s.conn == nil || s.conn.Status != wire.TxFailed) {
			switch _, yes, err := s.scattered(st); {
			case err != nil:
				return true, s.refuseBoundRead(err)
			case yes:
				return true, s.refuseBoundRead(notExecutable(st))
			}
		}
	} else if !s.unnamed.valid {
		err := s.useOrRefuse(s.atHand())
		return s.skipping, err
	}
	s.noteBound(portal, f)
	if s.conn != nil && s.conn.Status == wire.TxFailed {
		return s.bindInFailed(f, pl)
	}
	if err := s.stillExecutes(pl); err != nil {
		return true, s.refuseBoundRead(err)
	}
	if err := s.mayRead(pl.text, pl.read); err != nil {
		return true, s.refuseBoundRead(err)
	}
	if err := s.mayExecuteHere(f); err != nil {
		return true, s.refuseBoundRead(err)
	}
	if isCommand(f, pl.text) {
		if err := miscounted(*tail, name, len(declaredTypes(pl.oids))); err != nil {
			return true, s.refuseBoundRead(err)
		}
	}
	if len(portal) > 0 && s.block.savepoints() {
		delete(s.local, string(portal))
	}
	switch {
	case s.implicit && pipeOnly(f):
		return true, s.bindInPipe(portal, f, pl)
	case opensBlock(f) && !s.block.open:
		return s.bindBegin(portal, f, pl)
	case endsTx(f) && s.block.open:
		err := s.mayChain(f)
		if err == nil && s.block.decides() && commits(string(pl.text)) {
			return true, s.bindLocal(portal, &localPortal{text: string(pl.text), ends: f, agreed: true})
		}
		if err == nil {
			err = s.beforeEnds()
		}
		if err != nil {
			return true, s.refuseBoundRead(err)
		}
		if !s.ends() {
			return true, s.bindLocal(portal, &localPortal{text: string(pl.text), ends: f})
		}
		s.bindEnding(f)
		return false, nil
	case toAll(f), s.setsModes(pl.text, f):
		if err := s.bindForAll(portal, pl, f, *tail); err != nil {
			return true, s.refuseBoundRead(err)
		}
		return false, nil
	case pl.plan != nil && pl.plan.Route == plan.Call:
		return true, s.bindCall(portal, pl.plan, *tail)
	}
	return s.routePlanned(portal, name, f, pl, tail)
}

// bindBegin is routeBind for what opens a block. Messages before it without a
// Sync between are a transaction already: if they have written or set something, it
// becomes the block. Nobody can join it any more if a portal of it waits to be executed,
// or BEGIN says what it shall be.
func (s *Session) bindBegin(portal []byte, f *parser.Facts, pl *planned) (done bool, err error) {
	if s.conn != nil {
		if (s.piped || s.unexecuted) && (s.unsynced || !s.ops.empty()) {
			if s.unexecuted || joinable(pl.text) != nil {
				s.bindEnding(f)
				return false, nil
			}
			if err := s.widen(); err != nil {
				return true, s.refuseBoundRead(err)
			}
			return true, s.bindInPipe(portal, f, pl)
		}
		// Also one that the session is tied to: asked by a Sync whether it is in
		// a block, it would say no.
		if err := s.park(); err != nil {
			return true, s.refuseBoundRead(err)
		}
	}
	text := beginText(pl.text)
	lp := localBegin
	if text != plainBegin {
		lp = &localPortal{text: text}
	}
	return true, s.bindLocal(portal, lp)
}

// bindEnding notes that what is bound ends the block, or its failure: how, must
// be known before what follows can be sent.
func (s *Session) bindEnding(f *parser.Facts) {
	s.block.chain, s.ending = endsTx(f) && f.Effects&parser.TxBegin != 0, true
}

// bindInFailed is routeBind for a failed transaction: it takes no more than
// its end, or the way back to a savepoint, which is for all participants.
func (s *Session) bindInFailed(f *parser.Facts, pl *planned) (done bool, err error) {
	switch {
	case endsTx(f):
		s.bindEnding(f)
	case rollsBackTo(pl.text, f):
		if err := s.onAll(string(pl.text), f); err != nil {
			return true, s.refuseBoundRead(err)
		}
		s.bindEnding(f)
	}
	return false, nil
}

// laneAnew finds the lane for a Bind of a statement that was parsed before. Its
// plan is made anew if what it was made under is not what holds now.
func (s *Session) laneAnew(r *router, f *parser.Facts, pl *planned, tail []byte) (*pool.Lane, error) {
	env, err := s.environment()
	if err != nil {
		return nil, err
	}
	r.args.Generated = r.args.Generated[:0]
	if pl.plan == nil || pl.env == 0 || pl.env != env.ID || pl.plan.Waits {
		s.read(r, pl.text)
		if pl.types != nil {
			pl.oids = pl.types // the schema may have changed: they stay what they were
		}
		if pl.plan, err = s.plan(r, pl.text, pl.oids); err != nil {
			return nil, err
		}
		pl.env = s.envID()
	}
	s.relies.on(pl.plan)
	r.args.Text, r.args.Literals, r.args.Options = pl.text, pl.literals, s.scanOptions()
	if pl.plan.Route == plan.Every {
		return s.lane, nil
	}
	if lane, err := s.cursorLane(pl.text, pl.plan, f); lane != nil || err != nil {
		return lane, err
	}
	if lane, err := s.listingLane(f); lane != nil || err != nil {
		return lane, err
	}
	return s.laneForBind(r, pl.plan, f, tail)
}

// routePlanned is the part of routeBind for what shards execute.
func (s *Session) routePlanned(portal, name []byte, f *parser.Facts, pl *planned, tail *[]byte) (done bool, err error) {
	if err := s.needsBlock(pl.text, f); err != nil {
		return true, s.bindRefused(portal, name, pl, *tail, err)
	}
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	lane, err := s.placed, error(nil)
	if s.placed = nil; lane != nil {
		r.free = s.placedFree // found with the Parse
	} else {
		lane, err = s.laneAnew(r, f, pl, *tail)
	}
	if errors.Is(err, errGather) {
		s.read(r, pl.text)
		if pl.plan, err = s.gatheredPlan(r, pl.plan, pl.text, pl.oids); err != nil {
			pl.plan = nil
			return true, s.refuseBoundRead(err)
		}
		return true, s.bindGather(portal, name, f, pl, *tail, r.args.Generated)
	}
	if err == nil && pl.plan.Route == plan.Every {
		if err := s.mayLock(string(pl.text)); err != nil {
			return true, s.bindRefused(portal, name, pl, *tail, err)
		}
		err = s.beforeEvery(pl)
	}
	if err == nil {
		err = s.useFor(lane, pl.plan, f, r.free)
	}
	if err == nil {
		err = s.mayCloseAll(pl.text, f)
	}
	if err == nil {
		s.noteCursor(pl.text, f, false)
	}
	if err == nil {
		err = s.stillTrue()
	}
	if errors.Is(err, errMoved) {
		pl.plan = nil
		return s.routePlanned(portal, name, f, pl, tail)
	}
	if err != nil {
		return true, s.refuseBoundRead(err)
	}
	if pl.plan.Route == plan.Home || pl.plan.Route == plan.Any {
		s.noteSequences(f, pl.text)
	}
	if s.translate != nil {
		*tail = s.bindHere(pl, *tail)
	}
	if pl.plan.Generate != nil {
		if *tail, err = executor.AppendBind(nil, *tail, r.args.Generated); err != nil {
			return true, s.refuseBoundRead(err)
		}
	}
	if pl.plan.Route == plan.Every {
		if err := s.everyBound(portal, pl); err != nil {
			return true, s.refuseBoundRead(err)
		}
	}
	return false, nil
}

func (s *Session) useOrRefuse(lane *pool.Lane) error {
	if err := s.useLane(lane); err != nil {
		return s.refuseBoundRead(err)
	}
	return nil
}

// routing reports whether extended messages must be looked at by planned.go.
func (s *Session) routing() bool {
	s.relies.begin()
	return s.routed() || s.hasPending || s.calls
}

// parsed returns the client's statement of that name, nil if there is none.
func (s *Session) parsed(name []byte) (*parser.Facts, *planned) {
	if len(name) > 0 {
		if st := s.statements[string(name)]; st != nil {
			return st.facts, &st.planned
		}
		return nil, nil
	}
	if !s.unnamed.valid {
		return nil, nil
	}
	return s.unnamed.facts, &s.unnamed.planned
}

// hiddenParams is how many parameters of a statement are weft's own.
func (s *Session) hiddenParams(name []byte) int {
	if _, st := s.parsed(name); st != nil && st.plan != nil && st.plan.Generate != nil && st.plan.Route != plan.Gathered {
		return len(st.plan.Generate.Values)
	}
	return 0
}

// endTransaction waits for the end of a block inside a pipeline.
func (s *Session) endTransaction() error {
	s.toServer.Grow()
	s.toServer.B = wire.AppendEmpty(s.toServer.B, wire.Sync)
	s.ops.push(op{kind: opSync, injected: true, settles: true})
	return s.exchange()
}

// described returns where to note what a Describe tells of a statement.
func (s *Session) described(name []byte) *planned {
	_, st := s.parsed(name)
	return st
}
