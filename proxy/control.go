package proxy

import (
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
)

// control is a portal that begins or ends a transaction. What it does is decided when it is bound, by the state that the
// transaction is in then, so it cannot be executed in another.
type control struct {
	facts *parser.Facts // nil: the portal does neither
	at    stance
	// ending: the outcome must be known before later messages are sent.
	ending bool
}

// controls are the bound portals that begin or end a transaction.
type controls struct {
	unnamed control
	named   map[string]control
	bound   control // what is known of the portal that is being bound
}

// stance is the state by which a portal that begins or ends a transaction is bound.
type stance struct {
	in situation
	// piped: outside of a block, messages without a Sync have written.
	piped bool
	// begun: outside of a block, a backend has got messages without a Sync, or a portal that waits for its Execute.
	begun bool
	// conn is the backend at hand, for a portal that ends a transaction outside of a block.
	conn *pool.Conn
	// joined is how many backends the session has.
	joined int
	// agreed: the backends must agree to a COMMIT.
	agreed bool
}

// stanceFor is the state that decides about a text with these facts.
func stanceFor(s *Session, f *parser.Facts) stance {
	at := stance{in: s.situation()}
	switch {
	case at.in != noBlock:
		at.joined, at.agreed = len(s.held.parked), s.commit.ends()
		if s.held.conn != nil {
			at.joined++
		}
	case opensBlock(f):
		at.piped, at.begun = s.implicit.isPiped(), s.portals.unexecuted || s.held.conn != nil && s.pipe.isUnsynced()
	default:
		at.piped, at.conn = s.implicit.isPiped(), s.held.conn
	}
	return at
}

// begin notes that a portal is being bound, and ends that its outcome must be known before later messages are sent.
func (cs *controls) begin()               { cs.bound = control{} }
func (cs *controls) note(f *parser.Facts) { cs.bound.facts = f }
func (cs *controls) ends(f *parser.Facts) { cs.bound.facts, cs.bound.ending = f, true }

// keep keeps what has been found about the portal that has just been bound.
func (cs *controls) keep(s *Session, portal []byte) {
	c := cs.bound
	if c.facts != nil {
		c.at = stanceFor(s, c.facts)
	}
	switch {
	case len(portal) == 0:
		cs.unnamed = c
	case c.facts != nil:
		if cs.named == nil {
			cs.named = map[string]control{}
		}
		cs.named[string(portal)] = c
	default:
		delete(cs.named, string(portal))
	}
}

// take returns, once, what is known of a portal that is to be executed. It refuses one that begins or ends a transaction, if
// that is not in the state any more in which the portal was bound. A backend that has failed says itself what becomes of its
// portals.
func (cs *controls) take(s *Session, portal []byte) (control, error) {
	c := cs.unnamed
	if len(portal) == 0 {
		cs.unnamed = control{}
	} else if c = cs.named[string(portal)]; c.facts != nil {
		delete(cs.named, string(portal))
	}
	if c.facts == nil || s.lost.is() || c.at == stanceFor(s, c.facts) {
		return c, nil
	}
	if s.situation() == inFailed && s.portals.laneOf(portal) == s.held.conn.Lane() {
		return c, nil
	}
	return control{}, pgerr.New(pgerr.FeatureNotSupported, "a portal that begins or ends a transaction cannot be executed after messages that have changed the transaction since it was bound").
		WithHint("Bind it when it is to be executed.")
}

// forgetUnnamed forgets the unnamed portal, and forget all of them.
func (cs *controls) forgetUnnamed() { cs.unnamed = control{} }
func (cs *controls) forget()        { cs.unnamed = control{}; clear(cs.named) }
