package proxy

import (
	"strconv"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// specialQuery runs a simple query that needs a look before it is sent.
func (s *Session) specialQuery(text string, f *parser.Facts, n int) error {
	s.client.Consume(wire.HeaderLen + n)
	if err := s.acquire(); err != nil {
		return s.refused(err)
	}
	if err := s.prepareToRun(text, f); err != nil {
		return s.failedToPrepare(err)
	}
	edited, edits := s.rewrite(text, f)
	s.done.note(s, f)
	return s.sendQuery(edited, edits)
}

// failedToPrepare answers when weft could not get ready for a statement. If
// that has cost the backend, its transaction is lost.
func (s *Session) failedToPrepare(err error) error {
	if s.conn.Status != wire.TxIdle {
		s.drop()
		s.lostTx = true
	}
	return s.refused(err)
}

// parseSpecial is the same for a Parse: what the text says about sessions is
// put right before the backend sees it.
func (s *Session) parseSpecial(p wire.ParseBody, f *parser.Facts) error {
	edited, edits := s.rewrite(string(p.SQL), f)
	s.edits = edits
	if len(p.Name) == 0 {
		body := append(s.unnamed.body[:0], 0)
		body = wire.AppendCString(body, edited)
		s.unnamed.body = append(body, p.OIDs...)
		s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Parse, s.unnamed.body)
		s.ops.push(op{kind: opParse})
		return s.drain()
	}
	st := s.statements[string(p.Name)]
	if edits != nil {
		s.db.Forget(st.server)
		st.server = s.db.Statement(edited, string(p.OIDs), false, s.parseSettings())
	}
	if s.conn.Status != wire.TxFailed && s.conn.Prepared(st.server) {
		s.ops.push(op{kind: opLocal, answer: wire.ParseComplete, client: st})
		return nil
	}
	s.prepare(st.server, op{kind: opParse, client: st})
	return s.drain()
}

// prepareToRun does on the backend what a text relies on, before the text.
func (s *Session) prepareToRun(text string, f *parser.Facts) error {
	c := s.conn
	if f.Effects&parser.ReadsSequence != 0 {
		if err := s.checkSequences(c); err != nil {
			return err
		}
	}
	if f.Effects&(parser.Listens|parser.Unlistens|parser.ReadsListening|parser.DiscardAll) != 0 && c.Status != wire.TxFailed {
		if err := s.listenHere(c); err != nil {
			return err
		}
	}
	if f.Effects&(parser.CreatesDatabase|parser.DropsDatabase) != 0 {
		if err := s.beforeDatabase(text, f); err != nil {
			return err
		}
		s.done.text = text
	}
	if f.Effects&(parser.Prepares|parser.Executes|parser.Deallocates) != 0 && c.Status != wire.TxFailed {
		return s.prepareSQL(text, f)
	}
	return nil
}

// rewrite puts weft's own names into a text: session IDs, prepared statements.
func (s *Session) rewrite(text string, f *parser.Facts) (string, parser.Edits) {
	var edits parser.Edits
	if f.Effects&parser.SessionID != 0 {
		edits = s.identityEdits(text)
	}
	if f.Effects&(parser.Prepares|parser.Executes|parser.Deallocates) != 0 {
		edits = edits.With(s.preparedEdits(text, f)...)
	}
	if len(edits) == 0 {
		return text, nil
	}
	s.editedText = text
	return edits.Apply(text), edits
}

// mapPosition makes an error's position point into the client's own text.
func (s *Session) mapPosition(body []byte) []byte {
	return wire.MapError(body, func(code byte, v string) string {
		if pos, err := strconv.Atoi(v); err == nil && code == 'P' {
			return strconv.Itoa(s.edits.ClientPosition(s.editedText, pos))
		}
		return v
	})
}

// checkSequences refuses currval and lastval when the backend may hold what
// another client's statements left there. From the first such call on,
// sessions that write keep their backend, so it happens once at most.
func (s *Session) checkSequences(c *pool.Conn) error {
	first := !s.db.ReadsSequences.Swap(true)
	if !first || c.LastSession == s.id || c.LastSession == 0 {
		return nil
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the last sequence values of this session are not known to weft").
		WithDetail("The session's earlier statements may have run on another connection to the shard.").
		WithHint("Run the INSERT again, or use INSERT … RETURNING. From now on sessions that write keep their connection.")
}
