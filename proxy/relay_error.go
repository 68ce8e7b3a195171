package proxy

import (
	"bytes"
	"strings"

	"weft/pool"
	"weft/wire"
)

// What an error means to the ops that are due.

// answerError handles an error of the backend. It returns an error if the backend is lost, or counts as lost.
func (p *pipe) answerError(c *pool.Conn, o *op, body []byte) error {
	if a := p.s.commit.agreement; a != nil && a.Committing() {
		if e := pool.ServerError(body); e.IsFatal() {
			return c.Lost(e) // FATAL is no answer to COMMIT: the outcome is found out
		}
	}
	if err := p.s.lost.retry.evades(c, body); err != nil {
		return err
	}
	if p.s.lost.retry.dies(c, body) {
		return c.Lost(pool.ServerError(body))
	}
	if o.sure && o.kind != opQuery {
		if e := pool.ServerError(body); !e.IsFatal() {
			return e.WithCause(pool.ErrLost)
		}
	}
	if o.foreign {
		if err := p.s.gather.onForeignError(c, o, body); err != nil {
			return err
		}
	}
	if bytes.Contains(body, idConstraint) {
		body = p.s.route.strayedBody(body)
	}
	if len(p.s.drawn.lots) > 0 {
		told, err := p.s.drawn.evadesDry(c, body)
		if err != nil {
			return err
		}
		body = told
	}
	body = driftedBody(&p.s.route, c, body)
	p.onError(c, body)
	return nil
}

// onError passes an error on, its position pointing into the client's own text, and drops
// the ops that the backend will skip because of the error.
func (p *pipe) onError(c *pool.Conn, body []byte) {
	if sev, _ := wire.ErrorField(body, 'V'); sev == "FATAL" || sev == "PANIC" {
		p.s.out.noteFatal()
	}
	p.s.record.done.fail(p.s)
	p.s.out.fail()
	p.s.script.fail()
	p.s.tx.tried(false)
	o := p.ops.first()
	if o.kind == opQuery {
		c.QueryFailed()
	}
	code, _ := wire.ErrorField(body, 'C')
	p.s.tx.noteError(code)
	if v := p.s.reach.asVictim(code); v != nil {
		p.s.out.tell(v)
		body = nil
	} else if o.err != nil && !p.s.out.fatal {
		p.s.out.tell(o.err)
		body = nil
	} else if o.foreign {
		body = wire.WithoutFields(body, 'P', 'p', 'q')
	} else if o.text != nil || bytes.IndexByte(body, pool.NamePrefix[0]) >= 0 {
		body = p.s.prepared.clientsWords(o, body)
	}
	if routine, _ := wire.ErrorField(body, 'R'); routine == "RevalidateCachedQuery" {
		// The schema has changed without weft: statements prepared from now on must not be
		// taken for those prepared before.
		p.s.db.Generation.Add(1)
		if strings.HasPrefix(o.server, pool.NamePrefix) {
			// Next time, prepare the statement here again and check its result.
			c.Unprepare(o.server)
			p.s.record.done.stray = append(p.s.record.done.stray, o.server)
		}
	}
	if body != nil {
		if p.s.script.offset > 0 {
			body = p.s.script.placed(body)
		}
		p.s.out.Grow()
		p.s.out.B = wire.AppendFrame(p.s.out.B, wire.ErrorResponse, body)
	}
	skipped := p.ops.upToEnd()
	if body != nil {
		p.s.account.failedAt(c, skipped, code)
	}
	for i := len(skipped) - 1; i >= 0; i-- {
		p.undo(c, &skipped[i], i == 0)
	}
	for range skipped {
		p.ops.pop()
	}
	if p.ops.empty() || p.ops.first().injected {
		if p.s.out.fatal {
			p.endSkipping()
		} else {
			p.skipToSync() // the client has yet to send the Sync that ends the skipping
		}
	}
}

// undo takes back what was noted for an op that failed, or that the backend skips because
// an earlier op failed. The latest op goes first.
func (p *pipe) undo(c *pool.Conn, o *op, failed bool) {
	if o.prev != nil && !failed {
		p.s.prepared.restoreUnnamed(o.prev)
	}
	if o.shadow != nil {
		o.shadow.restore(&p.s.portals)
	}
	switch {
	case o.begins:
		p.s.tx.end()
	case o.kind == opParse && o.stmt != nil:
		c.Unprepare(o.stmt.Name)
		delete(p.s.record.done.own, o.name)
		if o.client != nil {
			p.s.prepared.forgetStatement(o.client)
		}
	case o.kind == opParse: // the unnamed statement
		if failed {
			c.UnnamedGone() // PostgreSQL drops the unnamed statement before it parses
			p.s.prepared.unnamed.valid = p.s.prepared.unnamed.valid && o.injected
		} else {
			c.UnnamedBack(o.unnamedBy)
		}
	case o.stalePortal:
		c.UnboundStale()
	case o.kind == opExecute && o.stmt != nil: // a PREPARE that weft has sent
		c.Unprepare(o.stmt.Name)
	case o.kind == opClose && o.stmt != nil: // a Close that weft has sent, to make room
		c.MarkPrepared(o.stmt)
	case o.kind == opClose && o.name != "": // a Close of a statement shown under the client's name
		p.s.record.done.own[o.name] = true
	case o.kind == opClose && o.unnamedBy != 0:
		c.UnnamedBack(o.unnamedBy)
	case o.kind == opLocal && o.client != nil && o.answer == wire.ParseComplete:
		p.s.prepared.forgetStatement(o.client)
	case o.kind == opLocal && o.client != nil: // a Close that did not happen
		p.s.prepared.putBack(o.client)
	}
}
