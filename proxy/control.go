package proxy

import (
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
)

// control is a portal that begins or ends a transaction. What the portal does is decided when it is bound, by the state that the
// transaction is in then. In another state the portal is decided about anew, see executeChanged.
type control struct {
	facts *parser.Facts // nil: the portal neither begins nor ends a transaction
	at    stance
	// commits: the portal ends a transaction with a COMMIT. plain: it begins one, and names no modes.
	commits, plain bool
	// born is how many commands for all participants the block had: see stays.born.
	born int
	// ending: the outcome must be known before later messages are sent.
	ending bool
}

// text is a command that does what the portal does.
func (c *control) text() string {
	switch {
	case c.facts.Effects&parser.TxEnd == 0:
		return plainBegin
	case c.commits && c.facts.Effects&parser.TxBegin != 0:
		return "commit and chain"
	case c.commits:
		return "commit"
	case c.facts.Effects&parser.TxBegin != 0:
		return "rollback and chain"
	}
	return "rollback"
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
		at.piped, at.begun = s.implicit.isPiped(), s.portals.stays.waits() || s.held.conn != nil && s.pipe.isUnsynced()
	default:
		at.piped, at.conn = s.implicit.isPiped(), s.held.conn
	}
	return at
}

// begin notes that a portal is being bound.
func (cs *controls) begin() { cs.bound = control{} }

// note notes that the portal being bound begins or ends a transaction.
func (cs *controls) note(text []byte, f *parser.Facts) {
	cs.bound = control{facts: f, commits: f.Effects&parser.TxEnd != 0 && commits(string(text)), plain: opensBlock(f) && beginText(text) == plainBegin}
}

// ends notes that the outcome of the portal being bound must be known before later messages are sent.
func (cs *controls) ends() { cs.bound.ending = true }

// keep keeps what has been found about the portal that has just been bound.
func (cs *controls) keep(s *Session, portal []byte) {
	c := cs.bound
	if c.facts != nil {
		c.at, c.born = stanceFor(s, c.facts), len(s.tx.replay)
	}
	switch {
	case len(portal) == 0:
		cs.unnamed = c
	case c.facts != nil || c.ending:
		if cs.named == nil {
			cs.named = map[string]control{}
		}
		cs.named[string(portal)] = c
	default:
		delete(cs.named, string(portal))
	}
}

// take returns, once, what is known of a portal that is to be executed. changed: the portal begins or ends a transaction, which
// is not in the state any more in which the portal was bound. A backend that has failed says itself what becomes of its portals.
func (cs *controls) take(s *Session, portal []byte) (c control, changed bool) {
	c = cs.unnamed
	if len(portal) == 0 {
		cs.unnamed = control{}
	} else if c = cs.named[string(portal)]; c.facts != nil || c.ending {
		delete(cs.named, string(portal))
	}
	if c.facts != nil && len(s.tx.replay) > c.born && s.tx.undone(c.born) {
		return control{}, false // a ROLLBACK TO has taken the portal away
	}
	if c.facts == nil || s.lost.is() || c.at == stanceFor(s, c.facts) {
		return c, false
	}
	if s.situation() == inFailed && s.portals.laneOf(portal) == s.held.conn.Lane() {
		return c, false
	}
	return c, true
}

// forgetUnnamed forgets the unnamed portal.
func (cs *controls) forgetUnnamed() { cs.unnamed = control{} }

// forget forgets all portals.
func (cs *controls) forget() { cs.unnamed = control{}; clear(cs.named) }

// executeChanged executes a portal that begins or ends a transaction, and was bound in another state of the transaction, as if it
// were bound now. A BEGIN that would have to take over what messages without a Sync have written is refused.
func (ps *portals) executeChanged(c control, name []byte) error {
	if ps.s.pipe.ops.mayFail() {
		// If an earlier message has failed, this one is skipped.
		if err := ps.s.implicit.awaitAnswers(ps.s.flush); err != nil {
			return ps.s.lost.refuseBoundRead(err)
		}
	}
	in, ends := ps.s.situation(), endsTx(c.facts)
	lp := &localPortal{text: c.text()}
	if own := ps.local[string(name)]; own != nil {
		lp.text = own.text
	} else if pledges(c.facts) {
		in = noBlock // the name of the transaction is not known here
	}
	switch {
	case !ends && in == inBlock && c.plain:
	case ends && ps.s.implicit.isOpen():
		lp.ends, lp.how = c.facts, endsPiped
	case ends && in != noBlock:
		if err := ps.s.commit.mayChain(c.facts); err != nil {
			return ps.s.lost.refuseBoundRead(err)
		}
		lp.ends, lp.how = c.facts, endsAgreed
	default:
		return ps.s.lost.refuseBoundRead(pgerr.New(pgerr.FeatureNotSupported, "a portal that begins or ends a transaction cannot be executed after messages that have changed the transaction since it was bound").
			WithHint("Bind it when it is to be executed."))
	}
	ps.putLocal(name, lp)
	return ps.executeLocal(lp, name)
}
