package proxy

import (
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// A portal is on the backend it was bound on, and nowhere at all if weft
// executes it itself: BEGIN before any shard takes part, COMMIT of a block
// nobody has joined, weft's own functions.

// localPortal is a portal that weft executes itself.
type localPortal struct {
	plan *plan.Plan
	text string
	ends *parser.Facts // a COMMIT or ROLLBACK
	args [][]byte
	// gather is a query that several shards answer.
	gather *gathering
	// copies is a COPY that concerns several shards.
	copies *boundCopy
	// agreed: a COMMIT of what all shards have done.
	agreed bool
	// piped: a COMMIT or ROLLBACK without a BEGIN.
	piped bool
	// refusal is why it cannot be executed.
	refusal error
}

// ranLocal takes the place of a portal that has been executed and cannot be again.
var ranLocal = &localPortal{}

// bindLocal makes a portal that weft executes itself.
func (s *Session) bindLocal(portal []byte, lp *localPortal) error {
	if err := s.isBound(portal, nil); err != nil {
		return s.refuseBoundRead(err)
	}
	if s.local == nil {
		s.local = map[string]*localPortal{}
	}
	s.local[string(portal)] = lp
	if len(portal) == 0 {
		s.portalLane = nil
	}
	s.ops.push(op{kind: opLocal, answer: wire.BindComplete, bound: lp.gather})
	return nil
}

// isBound refuses to make a portal under a name that another has. Where both are on lane,
// which is nil if the new one is weft's own, the server says so.
func (s *Session) isBound(portal []byte, lane *pool.Lane) error {
	if len(portal) == 0 || s.block.savepoints() { // it may have gone with one of them
		return nil
	}
	if s.local[string(portal)] != nil || s.portals[string(portal)] != nil && s.portals[string(portal)] != lane {
		return pgerr.New(pgerr.DuplicateCursor, "cursor \"%s\" already exists", portal)
	}
	return nil
}

// noPortal refuses to execute or describe a portal that there is not.
func noPortal(name []byte) error {
	return pgerr.New(pgerr.InvalidCursorName, "portal \"%s\" does not exist", name)
}

// cannotRun refuses to execute a portal for a second time.
func cannotRun(name []byte) error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "portal \"%s\" cannot be run", name)
}

// executeLocal executes a portal of weft's own.
func (s *Session) executeLocal(lp *localPortal, name []byte) error {
	if s.ops.mayFail() {
		// What came before may have failed: then this is skipped.
		if err := s.answered(s.flush); err != nil {
			return s.refuseBoundRead(err)
		}
	}
	if s.conn != nil && s.conn.Status == wire.TxFailed && lp.ends == nil {
		s.toServer.Grow()
		s.refuseMessage(transactionFailed())
		return nil
	}
	if lp.plan == nil {
		s.local[string(name)] = ranLocal
	}
	switch {
	case lp == ranLocal:
		return s.refuseBoundRead(cannotRun(name))
	case lp.refusal != nil:
		return s.refuseBoundRead(lp.refusal)
	case lp.plan != nil:
		return s.executeCall(lp)
	case lp.piped:
		return s.executeEnd(lp)
	case lp.agreed:
		return s.executeCommit(lp)
	case lp.ends != nil:
		tag := s.endLocally([]byte(lp.text), lp.ends)
		s.forgetPortals()
		s.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, tag)})
	case s.implicit && s.block.open:
		s.implicit = false // from here on it is the client's
		s.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, beginTag(lp.text))})
	case s.block.open: // by another portal, after this one was bound
		warning := pgerr.New(pgerr.ActiveSQLTransaction, "there is already a transaction in progress")
		warning.Severity = pgerr.SeverityWarning
		s.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(wire.AppendError(nil, warning), beginTag(lp.text))})
	default:
		frame := begun
		if tag := s.block.start(lp.text); tag != "BEGIN" {
			frame = wire.AppendCommandComplete(nil, tag)
		}
		s.ops.push(op{kind: opLocal, frame: frame, begins: true})
	}
	return nil
}

// notePortal remembers where a portal is.
func (s *Session) notePortal(portal []byte, lane *pool.Lane) {
	delete(s.columns, string(portal))
	if len(portal) == 0 {
		s.portalLane = lane
		return
	}
	if s.portals == nil {
		s.portals = map[string]*pool.Lane{}
	}
	s.portals[string(portal)] = lane
}

// handOver notes that a portal of weft's own has become one of the home shard's. What it
// returns is described as before.
func (s *Session) handOver(x *gathering, name []byte) {
	delete(s.local, string(name))
	s.notePortal(name, s.lane)
	if s.columns == nil {
		s.columns = map[string][]byte{}
	}
	s.columns[string(name)] = x.describeResult(nil)
}

// usePortal goes back to the backend that has the portal.
func (s *Session) usePortal(portal []byte) error {
	lane := s.portalLane
	if len(portal) > 0 {
		lane = s.portals[string(portal)]
	}
	if lane == nil || s.conn != nil && s.conn.Lane() == lane {
		return nil
	}
	if !s.block.open && s.conn == nil {
		return nil // its transaction is over, and it with it
	}
	return s.useLane(lane)
}

func (s *Session) usePortalOrRefuse(portal []byte) error {
	if s.lostTx {
		return nil
	}
	if err := s.usePortal(portal); err != nil {
		return s.refuseBoundRead(err)
	}
	return nil
}

// executeRouted executes a portal of weft's own, or goes to the backend that
// has it.
func (s *Session) executeRouted(body []byte) (done bool, err error) {
	name, rest, ok := wire.CString(body)
	if err := s.settleParse(); err != nil || s.skipping || !ok || len(rest) != 4 {
		return err != nil || s.skipping, err // a server says what is wrong with it
	}
	if s.lostTx {
		return false, nil
	}
	if lp := s.local[string(name)]; lp != nil && lp.copies != nil {
		s.copyNext = lp.copies
		return true, nil
	} else if lp != nil && lp.gather != nil {
		return true, s.executeGather(lp.gather, body)
	} else if lp != nil {
		return true, s.executeLocal(lp, name)
	}
	if s.isNowhere(name) {
		return true, s.refuseBoundRead(noPortal(name))
	}
	if ev := s.everywhere[string(name)]; ev != nil {
		return true, s.everyExecute(body, ev)
	}
	if err = s.usePortalOrRefuse(name); err != nil || s.skipping {
		return s.skipping, err
	}
	if all, ok := s.forAll[string(name)]; ok {
		delete(s.forAll, string(name))
		s.warnNeedsBlock(all.text)
		if err := s.onAll(all.text, all.facts); err != nil {
			return true, s.refuseBoundRead(err)
		}
	}
	return false, nil
}

// hasPortal reports whether a portal of that name has been made. A name may also be that
// of a cursor.
func (s *Session) hasPortal(name []byte) bool {
	if s.local[string(name)] != nil {
		return true
	}
	if len(name) == 0 {
		return s.portalLane != nil
	}
	return s.portals[string(name)] != nil || s.block.cursors[string(name)].lane != nil
}

// isNowhere reports whether there is no portal of that name. That of an empty name may
// be weft's own on a backend; a name may be that of a cursor.
func (s *Session) isNowhere(portal []byte) bool {
	return len(portal) == 0 && s.portalLane == nil && !s.lostTx
}

// describeLocal answers a Describe of what weft executes itself.
func (s *Session) describeLocal(kind byte, name []byte) (done bool, err error) {
	if err := s.settleParse(); err != nil || s.skipping {
		return true, err
	}
	var pl *plan.Plan
	if kind == 'P' {
		lp := s.local[string(name)]
		if lp == nil && s.isNowhere(name) {
			return true, s.refuseBoundRead(noPortal(name))
		}
		if lp == nil {
			err := s.usePortalOrRefuse(name)
			frame := s.columns[string(name)]
			if err != nil || s.skipping || frame == nil || s.conn == nil || s.conn.Status == wire.TxFailed {
				return s.skipping, err
			}
			s.ops.push(op{kind: opLocal, frame: frame})
			return true, nil
		}
		if lp.gather != nil {
			return true, s.describeGathered(lp.gather)
		}
		pl = lp.plan
	} else {
		f, st := s.parsed(name)
		if st == nil || s.lostTx || !opensBlock(f) && !endsTx(f) && (st.plan == nil || st.plan.Route != plan.Call) {
			return false, nil
		}
		if s.conn != nil && s.conn.Status == wire.TxFailed {
			return false, nil
		}
		frame := describeTypes(st.oids)
		if st.plan != nil && st.plan.Route == plan.Call {
			pl = st.plan
			frame = describeParams(pl)
		}
		s.ops.push(op{kind: opLocal, frame: frame})
	}
	if pl != nil {
		s.ops.push(op{kind: opLocal, frame: describeCall(pl)})
		return true, nil
	}
	s.ops.push(op{kind: opLocal, answer: wire.NoData})
	return true, nil
}

// closeLocal closes a portal of weft's own, or goes to the backend that has it.
func (s *Session) closeLocal(kind byte, name []byte) (done bool, err error) {
	if err := s.settleParse(); err != nil || s.skipping {
		return true, err
	}
	if kind != 'P' {
		return false, nil
	}
	if s.local[string(name)] != nil {
		delete(s.local, string(name))
		s.ops.push(op{kind: opLocal, answer: wire.CloseComplete})
		return true, nil
	}
	err = s.usePortalOrRefuse(name)
	delete(s.portals, string(name))
	delete(s.columns, string(name))
	return s.skipping, err
}
