package proxy

// stays is how long bound portals are there.
type stays struct {
	tx *transaction
	// unexecuted: the unnamed portal, on the backend at hand, waits for its Execute. waiting are the named portals that do, or that have
	// been executed for some of their rows.
	unexecuted bool
	waiting    map[string]struct{}
	// born says how many commands for all participants the block had when a portal was bound, for portals that a ROLLBACK TO may take
	// away: see isGone.
	born map[string]int
}

// forget forgets all portals.
func (st *stays) forget() {
	st.unexecuted = false
	clear(st.waiting)
	clear(st.born)
}

// noteWaiting notes that a portal has been bound on the backend at hand.
func (st *stays) noteWaiting(portal []byte) {
	if len(portal) == 0 {
		st.unexecuted = true
		return
	}
	if st.waiting == nil {
		st.waiting = map[string]struct{}{}
	}
	st.waiting[string(portal)] = struct{}{}
}

// noteExecuted notes that an Execute has been sent.
func (st *stays) noteExecuted(portal []byte, r *run) {
	switch {
	case r.limit > 0 && r.facts != nil && r.facts.Reads: // the portal may have more rows
	case len(portal) == 0:
		st.unexecuted = false
	default:
		delete(st.waiting, string(portal))
	}
}

// waits reports whether a portal on the backend at hand waits to be executed, or executed further.
func (st *stays) waits() bool { return st.unexecuted || len(st.waiting) > 0 }

// noteBorn notes when a portal has been bound.
func (st *stays) noteBorn(portal []byte) {
	n := len(st.tx.replay)
	switch {
	case n == 0:
		delete(st.born, string(portal))
		return
	case st.born == nil:
		st.born = map[string]int{}
	}
	st.born[string(portal)] = n
}

// isGone reports whether a ROLLBACK TO has taken a portal away.
func (st *stays) isGone(portal []byte) bool {
	at, ok := st.born[string(portal)]
	return ok && st.tx.undone(at)
}
