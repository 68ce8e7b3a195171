package proxy

import (
	"bytes"
	"strings"

	"weft/pool"
	"weft/wire"
)

// What an error means to the ops that are outstanding.

// onError passes an error on, its position pointing into the client's own
// text, and drops what the backend will skip because of it.
func (s *Session) onError(c *pool.Conn, body []byte) {
	if sev, _ := wire.ErrorField(body, 'V'); sev == "FATAL" || sev == "PANIC" {
		s.fatal = true
	}
	s.done.fail(s)
	s.quietFailed = true
	s.script.failed = s.script.running
	s.block.tried(false)
	o := s.ops.first()
	if o.kind == opQuery {
		c.StalePortal = true
	}
	code, _ := wire.ErrorField(body, 'C')
	s.block.barred = s.block.barred || code == barredCode
	if v := s.asVictim(code); v != nil {
		s.tell(v)
		body = nil
	} else if o.err != nil && !s.fatal {
		s.tell(o.err)
		body = nil
	} else if o.foreign {
		body = wire.WithoutFields(body, 'P', 'p', 'q')
	} else if o.text != nil || bytes.IndexByte(body, pool.NamePrefix[0]) >= 0 {
		body = s.clientsWords(o, body)
	}
	if routine, _ := wire.ErrorField(body, 'R'); routine == "RevalidateCachedQuery" {
		// The schema has changed without weft: what is prepared from now on
		// is not to be taken for what was prepared before.
		s.db.Generation.Add(1)
		if strings.HasPrefix(o.server, pool.NamePrefix) {
			// Next time it is prepared anew here, and its result checked.
			c.Unprepare(o.server)
			s.done.stray = append(s.done.stray, o.server)
		}
	}
	if body != nil {
		if s.script.offset > 0 {
			body = s.script.placed(body)
		}
		s.toClient.Grow()
		s.toClient.B = wire.AppendFrame(s.toClient.B, wire.ErrorResponse, body)
	}
	skipped := s.ops.upToEnd()
	if body != nil {
		s.failedAt(c, skipped, code)
	}
	for i := len(skipped) - 1; i >= 0; i-- {
		s.undo(c, &skipped[i], i == 0)
	}
	for range skipped {
		s.ops.pop()
	}
	if s.ops.empty() || s.ops.first().injected {
		// The client has yet to send the Sync that ends this.
		s.skipping = !s.fatal
	}
}

// undo takes back what was noted for an op that failed, or that the backend
// skips because an earlier one did. The latest goes first.
func (s *Session) undo(c *pool.Conn, o *op, failed bool) {
	if o.prev != nil && !failed {
		s.unnamed = *o.prev
	}
	switch {
	case o.begins:
		s.block = block{}
	case o.kind == opParse && o.stmt != nil:
		c.Unprepare(o.stmt.Name)
		delete(s.done.own, o.name)
		if o.client != nil {
			s.forgetStatement(o.client)
		}
	case o.kind == opParse: // the unnamed statement
		if failed {
			c.UnnamedBy = 0 // PostgreSQL drops it before it parses
			s.unnamed.valid = s.unnamed.valid && o.injected
		} else {
			c.UnnamedBy = o.unnamedBy
		}
	case o.stalePortal:
		c.StalePortal = true
	case o.kind == opExecute && o.stmt != nil: // a PREPARE of weft's own
		c.Unprepare(o.stmt.Name)
	case o.kind == opClose && o.stmt != nil: // weft's own, to make room
		c.MarkPrepared(o.stmt)
	case o.kind == opClose && o.name != "": // of one that is shown
		s.done.own[o.name] = true
	case o.kind == opClose && o.unnamedBy != 0:
		c.UnnamedBy = o.unnamedBy
	case o.kind == opLocal && o.client != nil && o.answer == wire.ParseComplete:
		s.forgetStatement(o.client)
	case o.kind == opLocal && o.client != nil: // a Close that did not happen
		if s.statements == nil {
			s.statements = map[string]*statement{}
		}
		s.statements[o.client.name] = o.client
		s.statementBytes += len(o.client.server.SQL)
	}
}
