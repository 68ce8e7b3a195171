package proxy

import (
	"bytes"

	"weft/pool"
	"weft/wire"
)

// How answers end: a statement completes, and the backend is ready.

// onComplete notes that a statement is complete. It reports whether the client gets the
// CommandComplete as it is.
func (p *pipe) onComplete(c *pool.Conn, o *op, body []byte, visible bool) bool {
	if visible {
		p.s.lost.retry.complete(o)
		p.s.tx.tried(true)
		p.s.account.run.rows += rowsOf(body)
	}
	a := p.s.commit.agreement
	if visible && p.s.tx.isOpen() && (a != nil || len(p.s.held.parked) > 0) {
		tag, _, _ := wire.CString(body)
		p.s.tx.noteTag(string(tag))
	}
	if visible && a != nil && a.Committing() && endsWell(p.s.tx.tag) && p.s.tx.isOpen() {
		// The client is told when the other participants have followed: see conclude.
		a.tag = bytes.Clone(body)
		visible = false
	}
	if visible && p.s.record.done.watchesTags() {
		if e := p.s.record.onTag(body); e != nil {
			p.s.out.tell(e)
			visible = false
		}
	}
	if o.spread != nil {
		p.s.every.onSpread(o.spread)
		if e := o.spread.err; e != nil {
			visible = false
			p.s.out.fail()
			if o.kind == opQuery {
				p.s.out.tell(e)
			}
		} else if o.spread.follows() {
			visible, o.spread.tag = false, bytes.Clone(body)
		}
	}
	if o.copies != nil {
		p.s.out.Grow()
		p.s.out.B = o.copies.end(p.s.out.B)
		visible = false
	}
	if o.kind == opExecute {
		if o.run.began != 0 {
			p.s.account.executed(c, o, rowsOf(body), false)
		}
		p.ops.pop()
	}
	return visible
}

// onReady ends one exchange. What the transaction has changed in the session is settled
// before the client is told that the transaction is over.
func (p *pipe) onReady(c *pool.Conn, o *op, status byte) error {
	if !o.ends() {
		return c.Lost(wire.ErrMalformed)
	}
	c.Ready(status)
	if p.s.route.outset.crossing != nil && !o.injected {
		p.s.route.outset.land(status)
	}
	if o.spread != nil && o.spread.err != nil && c.Status() == wire.TxActive {
		// The client has been told of the error; its transaction must fail, too.
		_, _ = c.Exec(provoke)
	}
	if c.Untold() {
		p.s.out.catchUp(c)
	}
	if o.injected && !o.settles || o.quiet {
		p.ops.pop()
		return nil
	}
	if status == wire.TxFailed {
		if err := p.s.tx.failAll(); err != nil {
			return err
		}
	}
	if p.s.reach.interrupt.handed {
		p.s.reach.endGather()
	}
	if o.settles {
		return p.onEnded(c)
	}
	if o.kind == opSync || o.kind == opQuery {
		p.resume()
	}
	p.synced()
	if status == wire.TxIdle {
		p.s.portals.forgetAll()
	}
	if p.s.drawn.loans != nil {
		p.s.drawn.returnLoans()
	}
	if err := p.afterBlock(c); err != nil {
		return err
	}
	p.ops.pop() // not earlier: until here the client is owed an answer
	if p.s.script.isRunning() {
		return nil
	}
	p.s.out.tellParameters(c)
	p.s.out.Grow()
	p.s.out.B = wire.AppendReadyForQuery(p.s.out.B, c.Status())
	p.s.lost.retry.end()
	return nil
}

// onEnded is onReady for a Sync that weft has sent after a COMMIT or ROLLBACK.
func (p *pipe) onEnded(c *pool.Conn) error {
	if err := p.afterBlock(c); err != nil {
		return err
	}
	p.s.implicit.noteEnded(c.Status() == wire.TxIdle)
	p.ops.pop()
	return nil
}

// afterBlock settles what a transaction has changed, if the transaction is over.
func (p *pipe) afterBlock(c *pool.Conn) error {
	p.s.tx.conclude(c)
	if c.Status() == wire.TxIdle {
		// A backend that is lost from here on leaves the client in doubt: the error comes
		// in the place of the answer to COMMIT.
		if p.s.record.done.any() || c.Listening() {
			if err := p.s.record.settleAt(c); err != nil {
				return err
			}
		} else if p.s.record.done.failed {
			p.s.record.done.forget() // an error belongs to the transaction, not to the session
		}
		p.s.commit.leaveToResolver() // if settleAt has not
		if len(p.s.record.channels) > 0 {
			p.s.hub().Sync()
			p.s.record.deliver()
		}
	}
	p.s.tx.settleBlock(c)
	p.s.commit.noteEnded()
	return nil
}
