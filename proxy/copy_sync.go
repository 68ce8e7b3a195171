package proxy

import (
	"weft/pool"
	"weft/wire"
)

// A client may send the Sync behind its Execute before it knows that this is a COPY, as libpq
// does. A backend that reads data ignores the Sync. A backend that fails before it reads data (a
// trigger says no, FREEZE is not possible) answers the Sync, and the session would not expect
// that answer.

// afterCopyError finds out how many of the Syncs sent ahead a backend answers after it has given
// up a COPY, and passes the answers to the client.
func (p *pipe) afterCopyError(c *pool.Conn) error {
	n, status, err := p.answeredSyncs(c)
	if err != nil || n == 0 {
		return err // the client has yet to send the Sync that ends the COPY
	}
	p.noteCopy(copyOver)
	for range n {
		p.ops.push(op{kind: opSync})
		if err := p.onReady(c, p.ops.first(), status); err != nil {
			return err
		}
	}
	return p.s.out.flushOrEnd()
}

// answeredSyncs returns how many of the Syncs that were sent before an error the backend
// answers. It sends one more Sync, in case the backend skips messages up to one, and an empty
// query, whose answer is the last.
func (p *pipe) answeredSyncs(c *pool.Conn) (n int, status byte, err error) {
	b := wire.AppendEmpty(nil, wire.Sync)
	if _, err := c.Write(wire.AppendQuery(b, "")); err != nil {
		return 0, 0, c.Lost(err)
	}
	ready, empty := 0, false
	for {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			return 0, 0, c.Lost(err)
		}
		switch typ {
		case wire.EmptyQueryResponse:
			empty = true
		case wire.ReadyForQuery:
			if ready++; len(body) == 1 {
				status = body[0]
			}
		default:
			if err := p.answer(c, &op{kind: opSync, injected: typ != wire.NoticeResponse && typ != wire.ParameterStatus}, typ, body); err != nil {
				return 0, 0, err
			}
			if p.s.out.fatal {
				return 0, 0, nil
			}
		}
		c.Consume(wire.HeaderLen + len(body))
		if empty && typ == wire.ReadyForQuery {
			return ready - 2, status, nil
		}
	}
}
