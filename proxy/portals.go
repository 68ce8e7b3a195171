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
	stays     stays
	controls  controls
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

// forgetAll forgets the portals of a transaction that has ended, except cursors WITH HOLD.
func (ps *portals) forgetAll() {
	ps.lane = nil
	clear(ps.lanes)
	clear(ps.local)
	ps.s.account.forgetPortals()
	ps.wide.forgetAll()
	clear(ps.columns)
	clear(ps.fetches)
	clear(ps.rows)
	ps.stays.forget()
	ps.controls.forget()
	maps.DeleteFunc(ps.gathered, func(_ string, c gatheredCursor) bool { return !c.hold })
}

// beginExecution notes that a gathered portal is being executed, until endExecution.
func (ps *portals) beginExecution(x *gathering) { ps.executing = x }

// endExecution ends what beginExecution began.
func (ps *portals) endExecution() { ps.executing = nil }

// takeCopy returns, once, the COPY that is to be executed now; nil if there is none.
func (ps *portals) takeCopy() *boundCopy {
	b := ps.copyNext
	ps.copyNext = nil
	return b
}

// localOf returns a portal that weft executes itself, nil if there is none of that name.
func (ps *portals) localOf(portal []byte) *localPortal {
	lp := ps.local[string(portal)]
	if lp != nil && len(ps.stays.born) > 0 && ps.stays.isGone(portal) {
		delete(ps.local, string(portal))
		return nil
	}
	return lp
}
