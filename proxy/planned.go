package proxy

import (
	"errors"

	"weft/executor"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/planner"
	"weft/reshard"
	"weft/wire"
)

// In a database with declared tables the shard of a prepared statement is known when values
// are bound to it, not when it is parsed. So a Parse is kept until the next message: if
// that message is the Bind, both go to the same shard, and the first execution costs no
// more than on a plain server.

// planned is where a prepared statement goes.
type planned struct {
	plan     *plan.Plan
	env      planner.ID // the environment of the plan; 0: the statement must be planned again
	text     []byte     // the client's text
	read     reading    // how text was read
	oids     []byte     // the types the client declared
	literals []parser.Literal
	params   []byte // body of the ParameterDescription, once the statement has been described
	types    []byte // types of the client's own parameters, once a server has inferred them
	shape    shape
	// sealed is what shards are sent instead of a text that has passwords.
	sealed string
	// told is the result the statement had when it was gathered first.
	told []byte
	// executes, if not nil, is the statement made by SQL's PREPARE that this statement, an
	// EXECUTE, was rewritten to run.
	executes *statement
	// filled: the text that servers were given takes values that weft supplies, as the plan asked for.
	filled bool
}

// localBegin is the portal of a plain BEGIN. All sessions share it: a portal does not
// change once it is made.
var localBegin = &localPortal{text: plainBegin}

// keepParse keeps a Parse message until its shard is known.
func (ps *prepared) keepParse(body []byte) error {
	if err := ps.settleParse(); err != nil || ps.s.pipe.isSkipping() {
		return err
	}
	ps.s.pipe.kept.keep(body)
	return nil
}

// settleParse sends a Parse that has been kept, to any shard: the next message is not its
// Bind.
func (ps *prepared) settleParse() error {
	if !ps.s.pipe.kept.waits() {
		return nil
	}
	return ps.parseFor(nil)
}

// parseFor sends the Parse that has been kept. bind is the rest of the Bind message that
// follows; nil if another message follows.
func (ps *prepared) parseFor(bind []byte) error {
	ps.s.pipe.kept.take()
	p, err := wire.DecodeParse(ps.s.pipe.kept.body)
	if err != nil {
		return err
	}
	if err := ps.s.record.readAnew(p.SQL); err != nil {
		return ps.s.lost.refuseParse(p.Name, err)
	}
	r := ps.s.srv.memory.routers.Get().(*router)
	defer ps.s.srv.memory.routers.Put(r)
	f := ps.s.route.read(r, p.SQL)
	ps.s.account.bound.facts = f
	if done, err := ps.parseUnplanned(r, p, f, bind); done || err != nil {
		return err
	}
	pl, err := ps.s.route.plan(r, p.SQL, p.OIDs)
	if err != nil {
		return ps.s.lost.refuseParse(p.Name, err)
	}
	r.args.Text, r.args.Literals, r.args.Options = p.SQL, r.scan.Literals, ps.s.record.scanOptions()
	r.arrival = arrival{types: p.OIDs, fresh: true}
	d, err := ps.s.portals.chooseBind(r, pl, p.SQL, f, bind)
	if err == nil && d.do == refusePlan {
		err = pl.Refusal
	}
	if err != nil {
		return ps.s.lost.refuseParse(p.Name, ps.s.record.refusedText(p.SQL, p.OIDs, err))
	}
	if st := ps.named[string(p.Name)]; st != nil && !st.doubtful && (d.do == callFunction || d.do == takeAnswer || d.do == runProgram && !pl.Described) {
		return ps.s.lost.refuseParse(p.Name, pgerr.New(pgerr.DuplicatePreparedStatement, "prepared statement %q already exists", p.Name))
	}
	if d.do == callFunction {
		ps.parseLocal(p, ps.s.pipe.kept.body, f, pl)
		return nil
	}
	if d.do == runProgram && !pl.Described {
		ps.parseLocal(p, ps.s.pipe.kept.body, f, pl)
		ps.notePlan(r, p.Name, pl)
		return nil
	}
	if d.do == runProgram {
		d.lane = ps.s.lane
	}
	if d.do == takeAnswer {
		ps.parseLocal(p, ps.s.pipe.kept.body, f, pl) // a server has accepted the text for another session
		ps.notePlan(r, p.Name, pl)
		ps.s.pipe.kept.place(d.lane, false)
		return nil
	}
	lane, gathered := d.lane, d.do == gatherShards
	if gathered {
		if pl, err = ps.s.gather.gatheredPlan(r, pl, p.SQL, p.OIDs); err != nil {
			return ps.s.lost.refuseParse(p.Name, ps.s.record.refusedText(p.SQL, p.OIDs, err))
		}
		if bind != nil && pl.Generate != nil && pl.Route == plan.Keyed {
			ps.s.drawn.keepFresh(r.args.Generated)
		}
		if st := ps.named[string(p.Name)]; isKnown(pl) && (st == nil || st.doubtful) {
			if pl.Copy() != nil {
				if err := undetermined(p.OIDs); err != nil {
					return ps.s.lost.refuseParse(p.Name, err)
				}
			}
			ps.parseLocal(p, ps.s.pipe.kept.body, f, pl) // a server has accepted the text before
			ps.notePlan(r, p.Name, pl)
			return nil
		}
		lane = ps.s.lane
	}
	err = ps.s.tx.snapshotsFor(f) // a server takes a snapshot to parse
	if err == nil {
		err = ps.s.held.useLane(lane)
	}
	if err != nil {
		return ps.s.lost.refuseParse(p.Name, err)
	}
	if bind != nil && pl.Route == plan.Keyed && pl.Generate == nil && !gathered {
		ps.s.pipe.kept.place(lane, d.do == runFree)
	}
	if bind == nil || gathered {
		ps.s.route.touch.expect(reshard.Touch{}) // nothing is executed yet
	}
	if err := ps.s.route.stillTrue(); err != nil && !errors.Is(err, errMoved) {
		return ps.s.lost.refuseParse(p.Name, err)
	} else if err != nil {
		ps.s.pipe.kept.keepAgain()
		return ps.parseFor(bind)
	}
	return ps.parsePlanned(r, p, f, pl, bind != nil)
}

// parsePlanned parses the statement that has been kept on the backend at hand. bound: its
// Bind follows.
func (ps *prepared) parsePlanned(r *router, p wire.ParseBody, f *parser.Facts, pl *plan.Plan, bound bool) (err error) {
	body := ps.s.pipe.kept.body
	var changed *edited
	ps.s.drawn.dropFresh()
	if pl.Generate != nil && pl.Route != plan.Gathered {
		if bound {
			ps.s.drawn.keepFresh(r.args.Generated)
		}
		if body, changed, err = ps.s.drawn.generatedParse(r, pl, p); err != nil {
			return ps.s.lost.refuseParse(p.Name, err)
		}
		if p, err = wire.DecodeParse(body); err != nil {
			return err
		}
	}
	sealed, err := ps.s.util.sealParse(pl, &p, &body)
	if err != nil {
		return ps.s.lost.refuseParse(p.Name, err)
	}
	if sealed != nil {
		changed = sealed
	}
	before := ps.named[string(p.Name)]
	if err := ps.s.parseHere(p, body, f, changed); err != nil || ps.s.pipe.isSkipping() || ps.s.held.conn == nil {
		return err
	}
	if ps.isTaken(before) {
		return nil
	}
	ps.notePlan(r, p.Name, pl)
	if _, dst := ps.parsed(p.Name); dst != nil {
		if sealed != nil {
			dst.sealed = string(p.SQL)
		}
		dst.filled = pl.Generate != nil && pl.Route != plan.Gathered
	}
	return nil
}

// fit gives a named statement the text that its plan needs on the servers. Tables may have been declared since the
// statement was parsed, or declarations taken back: then its plan supplies values that the parsed text does not
// take, or the other way round.
func (st *statement) fit(ps *prepared, r *router) error {
	if st == nil || st.server.ViaSQL {
		return nil
	}
	pl := &st.planned
	switch {
	case pl.plan.Generate == nil:
		st.unfill(ps)
		return nil
	case st.server.SQL != string(pl.text):
		return nil
	}
	ps.s.route.read(r, pl.text)
	edits, err := executor.ParamEdits(pl.plan.Generate, pl.text, r.scan.Literals, len(pl.plan.Params))
	if err != nil {
		return err
	}
	st.server, pl.filled = ps.shared(edits.Apply(string(pl.text)), string(pl.oids), false), true
	return nil
}

// unfill gives a statement the client's own text again.
func (st *statement) unfill(ps *prepared) {
	st.server, st.planned.filled = ps.shared(string(st.planned.text), string(st.planned.oids), false), false
}

// parseUnplanned parses statements that need no plan: in a failed transaction, about the
// client's block, or an EXECUTE by name. done is false for all others.
func (ps *prepared) parseUnplanned(r *router, p wire.ParseBody, f *parser.Facts, bind []byte) (done bool, err error) {
	if ps.s.lost.is() {
		ps.s.lost.parseInLostTx(p, ps.s.pipe.kept.body, f)
		return true, nil
	}
	if ps.s.held.conn != nil && ps.s.held.conn.Status() == wire.TxFailed {
		before := ps.named[string(p.Name)]
		if err := ps.s.parseHere(p, ps.s.pipe.kept.body, f, nil); err != nil || ps.s.pipe.isSkipping() || ps.s.held.conn == nil {
			return true, err
		}
		if !ps.isTaken(before) {
			ps.notePlan(r, p.Name, nil)
		}
		return true, nil
	}
	if ofBlock(f) && ps.named[string(p.Name)] == nil && isCommand(f, p.SQL) {
		if err := undetermined(p.OIDs); err != nil {
			return true, ps.s.lost.refuseParse(p.Name, err)
		}
		ps.parseLocal(p, ps.s.pipe.kept.body, f, nil)
		return true, nil
	}
	if f.Effects&parser.Executes != 0 {
		x, err := ps.execution(p.SQL, f)
		var sql string
		if x != nil && err == nil {
			sql, err = x.parsed()
		}
		if err != nil {
			return true, ps.s.lost.refuseParse(p.Name, err)
		}
		if x != nil {
			return true, ps.parseExecuted(p, sql, x.st, bind)
		}
	}
	if err := ps.s.route.knowOwn(f); err != nil {
		return true, ps.s.lost.refuseParse(p.Name, err)
	}
	return false, nil
}

// isTaken reports whether the name of a Parse belongs to the statement before: then the
// server refuses the Parse, and that statement stays as it was.
func (ps *prepared) isTaken(before *statement) bool {
	return before != nil && ps.named[before.name] == before
}

// ofBlock reports whether a statement is about the client's block, or one that it has prepared, or for
// all participants of the block: no server needs to parse it.
func ofBlock(f *parser.Facts) bool { return opensBlock(f) || endsTx(f) || toAll(f) || fulfils(f) }

// isKnown reports whether a server has accepted the text of a plan for several shards.
func isKnown(p *plan.Plan) bool {
	switch w := p.Across.(type) {
	case *plan.Gather:
		return w.Known.Load() != nil
	case *plan.Write:
		return w.Known.Load() != nil
	case *plan.Copy:
		return true // a server checks COPY when it is executed
	case *plan.Locked: // its text is described each time
	case *plan.Postponed, nil: // gatheredPlan has planned a way
	}
	return false
}

// notePlan keeps the plan with its statement.
func (ps *prepared) notePlan(r *router, name []byte, pl *plan.Plan) {
	p, err := wire.DecodeParse(ps.s.pipe.kept.body)
	if err != nil {
		return
	}
	dst := &ps.unnamed.planned
	if len(name) > 0 {
		st := ps.named[string(name)]
		if st == nil {
			return
		}
		dst = &st.planned
	}
	dst.plan, dst.env, dst.params, dst.shape, dst.told, dst.executes = pl, ps.s.route.envID(), nil, unseen, nil, nil
	dst.sealed, dst.types, dst.filled = "", nil, false
	if pl == nil {
		dst.env = 0
	}
	dst.text, dst.read = append(dst.text[:0], p.SQL...), ps.s.record.readsNow()
	dst.oids = append(dst.oids[:0], p.OIDs...)
	dst.literals = append(dst.literals[:0], r.scan.Literals...)
}

// parseLocal makes a statement that weft executes itself, or whose backend is chosen when
// the statement is bound.
func (ps *prepared) parseLocal(p wire.ParseBody, body []byte, f *parser.Facts, pl *plan.Plan) {
	o := op{kind: opLocal, answer: wire.ParseComplete}
	if len(p.Name) == 0 {
		o.prev = ps.replaceUnnamed(body, f)
		ps.unnamed.planned.plan, ps.unnamed.planned.read = pl, ps.s.record.readsNow()
		ps.unnamed.planned.text = append(ps.unnamed.planned.text[:0], p.SQL...)
		ps.unnamed.planned.oids = append(ps.unnamed.planned.oids[:0], p.OIDs...)
	} else {
		st := &statement{name: string(p.Name), facts: f, server: ps.shared(string(p.SQL), string(p.OIDs), false)}
		st.planned.plan, st.planned.read = pl, ps.s.record.readsNow()
		st.planned.text = []byte(string(p.SQL))
		st.planned.oids = []byte(string(p.OIDs))
		ps.add(st)
		ps.s.pipe.noteParsed(st)
		o.client = st
	}
	ps.s.pipe.ops.push(o)
}

// parsed returns the client's statement of that name, nil if there is none.
func (ps *prepared) parsed(name []byte) (*parser.Facts, *planned) {
	if len(name) > 0 {
		if st := ps.named[string(name)]; st != nil {
			return st.facts, &st.planned
		}
		return nil, nil
	}
	if !ps.unnamed.valid {
		return nil, nil
	}
	return ps.unnamed.facts, &ps.unnamed.planned
}

// hiddenParams is how many parameters of a statement weft has added.
func (ps *prepared) hiddenParams(name []byte) int {
	if _, st := ps.parsed(name); st != nil && st.plan != nil && st.plan.Generate != nil && st.plan.Route != plan.Gathered {
		return len(st.plan.Generate.Values)
	}
	return 0
}

// described returns the statement that the answer to a Describe is noted in.
func (ps *prepared) described(name []byte) *planned {
	_, st := ps.parsed(name)
	return st
}
