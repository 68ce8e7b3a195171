package proxy

import (
	"maps"

	"weft/catalog"
	"weft/plan"
	"weft/pool"
)

// portals is the portals that the client has bound, by where each portal is.
type portals struct {
	s *Session

	local map[string]*localPortal // portals that weft answers itself
	lane  *pool.Lane              // where the unnamed portal is
	lanes map[string]*pool.Lane   // where the named portals are
	// rows say how binary rows of portals on other shards than the home shard are translated.
	rows map[string]*catalog.Rows
	wide wide // what their execution does on other backends
	// columns are the RowDescriptions of portals that weft answered itself.
	columns map[string][]byte
	// gathered are the cursors over rows of several shards; fetches describes the cursors
	// that portals fetch from.
	gathered  map[string]gatheredCursor
	fetches   map[string]*plan.Description
	copyNext  *boundCopy // the portal to be executed next, if it is a COPY
	executing *gathering // the portal that is being executed
	// unexecuted: the unnamed portal, on the backend at hand, waits for its Execute. waiting are the named portals that do, or that have
	// been executed for some of their rows.
	unexecuted bool
	waiting    map[string]struct{}
	controls   controls
	// born says how many commands for all participants the block had when a portal was bound, for portals that a ROLLBACK TO may take
	// away: see isGone.
	born map[string]int
}

// forgetUnnamed notes that the unnamed portal is not where it was: weft asks shards under the empty
// name.
func (ps *portals) forgetUnnamed() { ps.lane = nil }

// closeUnnamed notes that a simple query takes the unnamed portal away.
func (ps *portals) closeUnnamed() {
	ps.lane = nil
	ps.controls.forgetUnnamed()
	ps.s.account.forgetUnnamed()
	delete(ps.local, "")
	ps.wide.forget(nil)
}

// comeBack notes that a program, which has bound unnamed portals of its own, is over. The client's unnamed portal is still there if weft
// executes it.
func (ps *portals) comeBack(unnamed *localPortal) {
	ps.closeUnnamed()
	if ps.unexecuted = false; unnamed != nil {
		ps.putLocal(nil, unnamed)
	}
}

// forgetAll forgets the portals of a transaction that has ended, except cursors WITH HOLD.
func (ps *portals) forgetAll() {
	ps.unexecuted = false
	ps.lane = nil
	clear(ps.lanes)
	clear(ps.local)
	ps.s.account.forgetPortals()
	ps.wide.forgetAll()
	clear(ps.columns)
	clear(ps.fetches)
	clear(ps.rows)
	clear(ps.waiting)
	clear(ps.born)
	ps.controls.forget()
	maps.DeleteFunc(ps.gathered, func(_ string, c gatheredCursor) bool { return !c.hold })
}

// beginExecution notes that a gathered portal is being executed, until endExecution.
func (ps *portals) beginExecution(x *gathering) { ps.executing = x }

// endExecution ends what beginExecution began.
func (ps *portals) endExecution() { ps.executing = nil }

// noteWaiting notes that a portal has been bound on the backend at hand.
func (ps *portals) noteWaiting(portal []byte) {
	if len(portal) == 0 {
		ps.unexecuted = true
		return
	}
	if ps.waiting == nil {
		ps.waiting = map[string]struct{}{}
	}
	ps.waiting[string(portal)] = struct{}{}
}

// noteExecuted notes that an Execute has been sent.
func (ps *portals) noteExecuted(portal []byte, r *run) {
	switch {
	case r.limit > 0 && r.facts != nil && r.facts.Reads: // the portal may have more rows
	case len(portal) == 0:
		ps.unexecuted = false
	default:
		delete(ps.waiting, string(portal))
	}
}

// waits reports whether a portal on the backend at hand waits to be executed, or executed further.
func (ps *portals) waits() bool { return ps.unexecuted || len(ps.waiting) > 0 }

// takeCopy returns, once, the COPY that is to be executed now; nil if there is none.
func (ps *portals) takeCopy() *boundCopy {
	b := ps.copyNext
	ps.copyNext = nil
	return b
}

// forgetNamed forgets a portal that is closed, or whose name another one takes.
func (ps *portals) forgetNamed(portal []byte) {
	name := string(portal)
	delete(ps.lanes, name)
	delete(ps.columns, name)
	delete(ps.fetches, name)
	delete(ps.rows, name)
	delete(ps.waiting, name)
}

// noteBorn notes when a portal has been bound.
func (ps *portals) noteBorn(portal []byte) {
	n := len(ps.s.tx.replay)
	switch {
	case n == 0:
		delete(ps.born, string(portal))
		return
	case ps.born == nil:
		ps.born = map[string]int{}
	}
	ps.born[string(portal)] = n
}

// isGone reports whether a ROLLBACK TO has taken a portal away.
func (ps *portals) isGone(portal []byte) bool {
	at, ok := ps.born[string(portal)]
	return ok && ps.s.tx.undone(at)
}

// localOf returns a portal that weft executes itself, nil if there is none of that name.
func (ps *portals) localOf(portal []byte) *localPortal {
	lp := ps.local[string(portal)]
	if lp != nil && len(ps.born) > 0 && ps.isGone(portal) {
		delete(ps.local, string(portal))
		return nil
	}
	return lp
}
