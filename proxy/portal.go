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
}

// bindLocal makes a portal that weft executes itself.
func (s *Session) bindLocal(portal []byte, lp *localPortal) error {
	if s.local == nil {
		s.local = map[string]*localPortal{}
	}
	s.local[string(portal)] = lp
	s.ops.push(op{kind: opLocal, answer: wire.BindComplete})
	return nil
}

// executeLocal executes a portal of weft's own.
func (s *Session) executeLocal(lp *localPortal) error {
	switch {
	case lp.plan != nil:
		return s.executeCall(lp)
	case lp.piped:
		return s.executeEnd(lp)
	case lp.agreed:
		return s.executeCommit(lp)
	case lp.ends != nil:
		tag := s.endLocally([]byte(lp.text), lp.ends)
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
	if len(portal) == 0 {
		s.portalLane = lane
		return
	}
	if s.portals == nil {
		s.portals = map[string]*pool.Lane{}
	}
	s.portals[string(portal)] = lane
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
	name, _, ok := wire.CString(body)
	if err := s.settleParse(); err != nil || s.skipping || !ok {
		return err != nil || s.skipping, err
	}
	if lp := s.local[string(name)]; lp != nil && lp.copies != nil {
		s.copyNext = lp.copies
		return true, nil
	} else if lp != nil && lp.gather != nil {
		return true, s.executeGather(lp.gather, body)
	} else if lp != nil {
		return true, s.executeLocal(lp)
	}
	if ev := s.everywhere[string(name)]; ev != nil {
		return true, s.everyExecute(body, ev)
	}
	err = s.usePortalOrRefuse(name)
	return s.skipping, err
}

// describeLocal answers a Describe of what weft executes itself.
func (s *Session) describeLocal(kind byte, name []byte) (done bool, err error) {
	if err := s.settleParse(); err != nil || s.skipping {
		return true, err
	}
	var pl *plan.Plan
	if kind == 'P' {
		lp := s.local[string(name)]
		if lp == nil {
			err := s.usePortalOrRefuse(name)
			return s.skipping, err
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
		pl = st.plan
		s.ops.push(op{kind: opLocal, frame: describeParams(pl)})
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
	return s.skipping, err
}
