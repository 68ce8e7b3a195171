package proxy

import (
	"encoding/binary"
	"errors"

	"weft/heat/ferry"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// A portal is on the backend where it was bound, or on no backend if weft executes it
// itself: BEGIN before any shard takes part, COMMIT of a block that no shard has joined,
// weft's own functions.

// localPortal is a portal that weft executes itself.
type localPortal struct {
	plan *plan.Plan
	text string
	ends *parser.Facts // set for a COMMIT or ROLLBACK
	how  localEnd      // of a COMMIT or ROLLBACK
	// fulfils: the text ends a transaction that a client has prepared.
	fulfils bool
	args    [][]byte
	formats []byte // of the rows, as in a Bind
	// gather is a query that several shards answer.
	gather *gathering
	// copies is a COPY that concerns several shards.
	copies *boundCopy
	// program is PL/pgSQL that weft runs.
	program *boundProgram
	// refusal is why the portal cannot be executed.
	refusal error
	// ridden is what another session was answered, on lane's shard.
	ridden *ferry.Answer
	lane   *pool.Lane
}

// localEnd is how a COMMIT or ROLLBACK that weft executes itself ends the transaction.
type localEnd uint8

const (
	// endsUnjoined ends a block that no shard has joined.
	endsUnjoined localEnd = iota
	// endsAgreed is a COMMIT that all participants must agree to.
	endsAgreed
	// endsPiped ends a transaction without a BEGIN.
	endsPiped
)

// ranLocal takes the place of a portal that has been executed and cannot be executed again.
var ranLocal = &localPortal{}

// bindLocal makes a portal that weft executes itself.
func (ps *portals) bindLocal(portal []byte, lp *localPortal) error {
	if err := ps.isBound(portal, nil); err != nil {
		return ps.s.lost.refuseBoundRead(err)
	}
	ps.putLocal(portal, lp)
	ps.s.pipe.ops.push(op{kind: opLocal, answer: wire.BindComplete, bound: lp.gather})
	return nil
}

// putLocal notes that weft executes a portal itself.
func (ps *portals) putLocal(portal []byte, lp *localPortal) {
	if ps.local == nil {
		ps.local = map[string]*localPortal{}
	}
	ps.local[string(portal)] = lp
	ps.stays.noteBorn(portal)
	if len(portal) == 0 {
		ps.lane = nil
	}
}

// isBound refuses to make a portal under the name of another. If both are on lane, the
// server refuses the Bind itself. lane is nil if weft executes the new portal.
func (ps *portals) isBound(portal []byte, lane *pool.Lane) error {
	if len(portal) == 0 {
		return nil
	}
	if there := ps.lanes[string(portal)]; ps.localOf(portal) != nil || there != nil && there != lane && !ps.stays.isGone(portal) {
		return pgerr.New(pgerr.DuplicateCursor, "cursor \"%s\" already exists", portal)
	}
	return nil
}

// noPortal refuses to execute or describe a portal that does not exist.
func noPortal(name []byte) error {
	return pgerr.New(pgerr.InvalidCursorName, "portal \"%s\" does not exist", name)
}

// cannotRun refuses to execute a portal for a second time.
func cannotRun(name []byte) error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "portal \"%s\" cannot be run", name)
}

// executeLocal executes a portal that is not on a backend.
func (ps *portals) executeLocal(lp *localPortal, name []byte) error {
	if ps.s.pipe.ops.mayFail() {
		// If an earlier message has failed, this one is skipped.
		if err := ps.s.implicit.awaitAnswers(ps.s.flush); err != nil {
			return ps.s.lost.refuseBoundRead(err)
		}
	}
	if ps.s.held.conn != nil && ps.s.held.conn.Status() == wire.TxFailed && lp.ends == nil {
		ps.s.pipe.unsent.Grow()
		ps.s.lost.refuseMessage(transactionFailed())
		return nil
	}
	if lp.plan == nil {
		ps.local[string(name)] = ranLocal
	}
	switch {
	case lp == ranLocal:
		return ps.s.lost.refuseBoundRead(cannotRun(name))
	case lp.refusal != nil:
		return ps.s.lost.refuseBoundRead(lp.refusal)
	case lp.plan != nil:
		return ps.s.util.executeCall(lp)
	case lp.fulfils:
		return fulfilment{ps.s}.execute(lp)
	case lp.ends != nil:
		return ps.executeEnd(lp)
	case ps.s.implicit.isOpen() && ps.s.tx.isOpen():
		ps.s.implicit.claim() // from here on the block is the client's
		ps.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, beginTag(lp.text))})
	case ps.s.tx.isOpen(): // another portal has opened the block after this one was bound
		ps.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(wire.AppendError(nil, alreadyOpen()), beginTag(lp.text))})
	default:
		frame := begun
		if tag := ps.s.tx.start(lp.text); tag != "BEGIN" {
			frame = wire.AppendCommandComplete(nil, tag)
		}
		ps.s.pipe.ops.push(op{kind: opLocal, frame: frame, begins: true})
	}
	return nil
}

// executeEnd executes a COMMIT or ROLLBACK that is not on a backend.
func (ps *portals) executeEnd(lp *localPortal) error {
	switch lp.how {
	case endsPiped:
		return ps.s.implicit.executeEnd(lp)
	case endsAgreed:
		return ps.s.commit.executeCommit(lp)
	}
	tag := ps.s.tx.endLocally([]byte(lp.text), lp.ends)
	ps.forgetAll()
	ps.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, tag)})
	return nil
}

// alreadyOpen is PostgreSQL's warning for a BEGIN inside a block, sent before the BEGIN
// sets its modes.
func alreadyOpen() *pgerr.Error {
	warning := pgerr.New(pgerr.ActiveSQLTransaction, "there is already a transaction in progress")
	warning.Severity = pgerr.SeverityWarning
	return warning
}

// notePortal remembers where a portal is.
func (ps *portals) notePortal(portal []byte, lane *pool.Lane) {
	delete(ps.columns, string(portal))
	delete(ps.gathered, string(portal))
	if len(portal) == 0 {
		ps.lane = lane
		return
	}
	ps.stays.noteBorn(portal)
	if ps.lanes == nil {
		ps.lanes = map[string]*pool.Lane{}
	}
	ps.lanes[string(portal)] = lane
}

// handOver notes that a portal of weft is now a portal of the home shard. Its result is
// described as before.
func (ps *portals) handOver(x *gathering, name []byte) {
	delete(ps.local, string(name))
	ps.notePortal(name, ps.s.lane)
	if ps.columns == nil {
		ps.columns = map[string][]byte{}
	}
	ps.columns[string(name)] = x.describeResult(nil)
	if len(name) > 0 && x.d.Columns != nil {
		ps.noteGathered(string(name), gatheredCursor{known: &plan.Description{Query: x.d.Columns}})
	}
}

// laneOf returns where a portal is, nil if weft executes it itself or does not know it.
func (ps *portals) laneOf(portal []byte) *pool.Lane {
	if len(portal) == 0 {
		return ps.lane
	}
	return ps.lanes[string(portal)]
}

// usePortal makes the backend that has the portal the one at hand.
func (ps *portals) usePortal(portal []byte) error {
	lane := ps.laneOf(portal)
	if lane == nil || ps.s.held.conn != nil && ps.s.held.conn.Lane() == lane {
		return nil
	}
	if !ps.s.tx.isOpen() && ps.s.held.conn == nil {
		return nil // the portal went with its transaction
	}
	return ps.s.held.useLane(lane)
}

func (ps *portals) usePortalOrRefuse(portal []byte) error {
	if ps.s.lost.is() {
		return nil
	}
	if err := ps.usePortal(portal); err != nil {
		return ps.s.lost.refuseBoundRead(err)
	}
	return nil
}

// executeRouted executes a portal that weft executes itself, or makes the backend that has
// the portal the one at hand.
func (ps *portals) executeRouted(body []byte) (done bool, err error) {
	name, rest, ok := wire.CString(body)
	if err := ps.s.prepared.settleParse(); err != nil || ps.s.pipe.isSkipping() || !ok || len(rest) != 4 {
		return err != nil || ps.s.pipe.isSkipping(), err // a server says what is wrong with the message
	}
	if ps.s.lost.is() {
		return false, nil
	}
	if err := ps.s.implicit.inPipeline(ps.s.account.run.facts); err != nil {
		return true, ps.s.lost.refuseBoundRead(err)
	}
	if lp := ps.localOf(name); lp != nil && lp.copies != nil {
		ps.copyNext = lp.copies
		return true, nil
	} else if lp != nil && lp.gather != nil {
		return true, ps.s.gather.executeGather(lp.gather, body)
	} else if lp != nil && lp.ridden != nil {
		return true, ps.s.route.outset.executeRidden(lp)
	} else if lp != nil && lp.program != nil {
		return true, ps.s.util.programs.execute(lp.program, max(0, int(int32(binary.BigEndian.Uint32(rest)))))
	} else if lp != nil {
		return true, ps.executeLocal(lp, name)
	}
	if ps.isNowhere(name) {
		return true, ps.s.lost.refuseBoundRead(noPortal(name))
	}
	if ev := ps.wide.everywhere[string(name)]; ev != nil {
		return true, ps.s.every.everyExecute(body, ev)
	}
	if err = ps.usePortalOrRefuse(name); err != nil || ps.s.pipe.isSkipping() {
		return ps.s.pipe.isSkipping(), err
	}
	if all, ok := ps.wide.takeForAll(name); ok {
		ps.s.pipe.warnNeedsBlock(all.text)
		if err := ps.s.tx.onAll(all.text, all.facts); err != nil && !isNoSavepoint(err) {
			if opensBlock(all.facts) && ps.s.tx.isOpen() {
				ps.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendError(nil, alreadyOpen())})
			}
			return true, ps.s.lost.refuseBoundRead(err)
		}
	}
	return false, nil
}

// isNoSavepoint reports whether an error says that a savepoint does not exist. All
// participants have the same savepoints: the participant that answers the client says so,
// too.
func isNoSavepoint(err error) bool {
	const code = "3B001"
	return !errors.Is(err, pool.ErrLost) && pgerr.From(err).Code == code
}

// hasPortal reports whether there is a portal, or a cursor, of that name.
func (ps *portals) hasPortal(name []byte) bool {
	if ps.localOf(name) != nil {
		return true
	}
	if len(name) == 0 {
		return ps.lane != nil
	}
	return ps.lanes[string(name)] != nil || ps.s.tx.cursors[string(name)].lane != nil
}

// isNowhere reports whether there is certainly no portal of that name. Only the unnamed
// portal is certain: another name may be that of a cursor. The lane is checked because the
// unnamed portal of a backend may be one that weft made.
func (ps *portals) isNowhere(portal []byte) bool {
	return len(portal) == 0 && ps.lane == nil && !ps.s.lost.is()
}

// describeLocal answers a Describe of a portal or statement that weft executes itself.
func (ps *portals) describeLocal(kind byte, name []byte) (done bool, err error) {
	if err := ps.s.prepared.settleParse(); err != nil || ps.s.pipe.isSkipping() {
		return true, err
	}
	var pl *plan.Plan
	if kind == 'P' {
		lp := ps.localOf(name)
		if lp == nil && ps.isNowhere(name) {
			return true, ps.s.lost.refuseBoundRead(noPortal(name))
		}
		if lp == nil {
			err := ps.usePortalOrRefuse(name)
			frame := ps.columns[string(name)]
			if err != nil || ps.s.pipe.isSkipping() || frame == nil || ps.s.held.conn == nil || ps.s.held.conn.Status() == wire.TxFailed {
				return ps.s.pipe.isSkipping(), err
			}
			ps.s.pipe.ops.push(op{kind: opLocal, frame: frame})
			return true, nil
		}
		if lp.gather != nil {
			return true, ps.s.gather.describeGathered(lp.gather)
		}
		if lp.ridden != nil {
			ps.s.pipe.ops.push(op{kind: opLocal, frame: lp.ridden.Description})
			return true, nil
		}
		if lp.program != nil && (lp.program.plan.Described || lp.program.plan.Locked() != nil) {
			return true, ps.s.util.programs.describe(lp.program)
		}
		if pl = lp.plan; pl != nil {
			ps.s.pipe.ops.push(op{kind: opLocal, frame: describeCall(pl, lp.formats)})
			return true, nil
		}
	} else {
		if err := ps.s.prepared.settleNames(); err != nil || ps.s.pipe.isSkipping() {
			return true, err
		}
		f, st := ps.s.prepared.parsed(name)
		if st == nil || ps.s.lost.is() || !opensBlock(f) && !endsTx(f) && !fulfils(f) && !isLocal(st.plan) {
			return false, nil
		}
		if ps.s.held.conn != nil && ps.s.held.conn.Status() == wire.TxFailed {
			return false, nil
		}
		frame := describeTypes(st.oids)
		if st.plan != nil && st.plan.Route == plan.Call {
			pl = st.plan
			frame = describeParams(pl)
		}
		ps.s.pipe.ops.push(op{kind: opLocal, frame: frame})
	}
	if pl != nil {
		ps.s.pipe.ops.push(op{kind: opLocal, frame: describeCall(pl, allAreText)})
		return true, nil
	}
	ps.s.pipe.ops.push(op{kind: opLocal, answer: wire.NoData})
	return true, nil
}

// isLocal reports whether weft describes the statements of a plan itself.
func isLocal(p *plan.Plan) bool {
	return p != nil && (p.Route == plan.Call || p.Route == plan.Program && !p.Described)
}

// closeLocal closes a portal that weft executes itself, or makes the backend that has the
// portal the one at hand.
func (ps *portals) closeLocal(kind byte, name []byte) (done bool, err error) {
	if err := ps.s.prepared.settleParse(); err != nil || ps.s.pipe.isSkipping() {
		return true, err
	}
	if kind != 'P' {
		return false, nil
	}
	ps.wide.forget(name)
	if ps.localOf(name) != nil {
		delete(ps.local, string(name))
		ps.s.pipe.ops.push(op{kind: opLocal, answer: wire.CloseComplete})
		return true, nil
	}
	err = ps.usePortalOrRefuse(name)
	delete(ps.lanes, string(name))
	delete(ps.columns, string(name))
	delete(ps.fetches, string(name))
	delete(ps.rows, string(name))
	delete(ps.stays.waiting, string(name))
	return ps.s.pipe.isSkipping(), err
}
