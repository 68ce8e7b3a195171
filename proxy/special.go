package proxy

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// specialQuery runs a simple query that needs a look before it is sent.
func (s *Session) specialQuery(text string, f *parser.Facts, n int) error {
	s.client.Consume(wire.HeaderLen + n)
	if err := s.acquire(); err != nil {
		return s.refuseRead(err)
	}
	if err := s.drained(); err != nil { // as a simple query does
		return s.refuseRead(err)
	}
	exec := func(sql string) error {
		_, err := s.conn.Exec(sql)
		return err
	}
	if err := s.prepareToRun(text, f, exec); err != nil {
		return s.refusedHere(err)
	}
	if s.conn == nil {
		return nil // lost meanwhile: the client has been told
	}
	sent, changed, commands := s.rewrite(text, f)
	s.done.note(s, f)
	s.done.prepared = append(s.done.prepared, commands...)
	c := s.conn
	err := s.sendQuery(sent, changed)
	if err == nil && c.Shown && s.conn == c && c.Status == wire.TxIdle {
		hideOwn(c)
	}
	return err
}

// provoke is a text no backend accepts.
const provoke = "weft refuses"

// bindSpecial gets the backend ready for a statement that is about to be
// bound. What weft runs for it goes through the extended protocol too: a
// simple query would end the implicit transaction of what was sent before.
func (s *Session) bindSpecial(text string, f *parser.Facts) (ok bool, err error) {
	err = s.prepareToRun(text, f, s.inject)
	switch {
	case err == nil:
		// Getting ready may have brought an earlier message's failure to light.
		return !s.skipping && s.conn != nil, nil
	case errors.Is(err, pool.ErrLost), errors.Is(err, errEnd):
		return false, err
	}
	s.refuseMessage(err)
	return false, nil
}

// inject runs one statement of weft's own among the client's extended
// messages. If it fails, the client sees the error and skips to Sync.
func (s *Session) inject(sql string) error {
	const name = "\x01i"
	// Close first: a statement that failed half way leaves its name behind.
	b := wire.AppendClose(s.toServer.B, 'S', name)
	b = wire.AppendParse(b, name, sql, nil)
	var at int
	b, at = wire.Begin(b, wire.Bind)
	b = wire.AppendCString(wire.AppendCString(b, name), name)
	b = wire.End(append(b, 0, 0, 0, 0, 0, 0), at)
	b, at = wire.Begin(b, wire.Execute)
	b = wire.End(append(wire.AppendCString(b, name), 0, 0, 0, 0), at)
	b = wire.AppendClose(b, 'P', name)
	b = wire.AppendClose(b, 'S', name)
	s.toServer.B = b
	for _, k := range []opKind{opClose, opParse, opBind, opExecute, opClose, opClose} {
		o := op{kind: k, injected: true}
		if k == opParse {
			o.stmt = &pool.Statement{Name: name}
		}
		s.ops.push(o)
	}
	return nil
}

// parseSpecial is the same for a Parse: what the text says about sessions is
// put right before the backend sees it.
func (s *Session) parseSpecial(p wire.ParseBody, f *parser.Facts, o op) error {
	err := s.prepareExecuted(f)
	if err == nil && readsOwn(f) && s.conn != nil {
		_, err = s.srv.own(s.ctx, s.conn.Shard(), s.db.Name) // or there is nothing to parse
	}
	if err != nil {
		if errors.Is(err, pool.ErrLost) || errors.Is(err, errEnd) {
			return s.failed(err)
		}
		s.refuseMessage(err)
		return nil
	}
	if s.skipping || s.conn == nil {
		return nil
	}
	s.parsing = true
	sent, changed, commands := s.rewrite(string(p.SQL), f)
	s.parsing = false
	if len(p.Name) == 0 {
		s.unnamed.original, s.unnamed.commands, s.unnamed.meaning = "", commands, s.meaning(f)
		if f.Effects&(parser.SessionID|sqlNames) != 0 || s.readsDrawn(f) {
			s.unnamed.original = string(p.SQL)
		}
		body := append(s.unnamed.body[:0], 0)
		body = wire.AppendCString(body, sent)
		s.unnamed.body = append(body, p.OIDs...)
		s.toServer.B = wire.AppendFrame(s.toServer.B, wire.Parse, s.unnamed.body)
		o.text = changed
		s.ops.push(o)
		return nil
	}
	st := s.statements[string(p.Name)]
	st.commands, st.meaning = commands, s.meaning(f)
	if f.Effects&(parser.SessionID|sqlNames) != 0 || s.readsDrawn(f) {
		st.original = string(p.SQL)
	}
	if changed != nil {
		s.db.Forget(st.server)
		st.server = s.shared(sent, string(p.OIDs), false)
	}
	s.parseShared(st, changed)
	return nil
}

// effectWords are in texts that may change what calling something does to a
// session. To ask again after every other DDL would be slow.
var effectWords = regexp.MustCompile(`(?i)function|procedure|routine|trigger|view|rule|operator|cast|aggregate|extension|domain|` +
	`default|check|policy|set_config|advisory|setseed|currval|lastval|import`)

// prepareToRun does on the backend what a text relies on, before the text.
func (s *Session) prepareToRun(text string, f *parser.Facts, exec func(sql string) error) error {
	c := s.conn
	if c.Status != wire.TxFailed {
		if err := checkOptions(f.Options); err != nil {
			return err
		}
		if err := s.mayExecuteHere(f); err != nil {
			return err
		}
	}
	if readsOwn(f) && c.Status != wire.TxFailed {
		if err := s.showOwn(c, f, s.unsynced, exec); err != nil {
			return err
		}
	}
	if f.Effects&(parser.DDL|parser.Opaque) != 0 && effectWords.MatchString(text) {
		s.done.relearn = true
	}
	if f.Effects&parser.ReadsSequence != 0 && !s.drawnAll(text) {
		if err := s.checkSequences(c, exec); err != nil {
			return err
		}
	}
	if f.Effects&(parser.Listens|parser.Unlistens|parser.ReadsListening) != 0 && c.Status != wire.TxFailed {
		if err := s.listenHere(c, exec); err != nil {
			return err
		}
	}
	if f.Effects&(parser.CreatesDatabase|parser.DropsDatabase) != 0 {
		if err := s.beforeDatabase(text, f); err != nil {
			return err
		}
		s.done.text = text
	}
	if (s.readsPrepared(f) || s.mayExecute(text, f)) && c.Status != wire.TxFailed && !s.done.shown {
		return s.showPrepared(exec)
	}
	if s.done.shown {
		return nil // the backend holds the client's own names
	}
	if f.Effects&(parser.Prepares|parser.Executes|parser.Deallocates) != 0 && c.Status != wire.TxFailed {
		return s.prepareSQL(f, exec)
	}
	return nil
}

// rewrite puts weft's own names into a text: session IDs, prepared statements.
// commands are what the text does to prepared statements when it is executed.
func (s *Session) rewrite(text string, f *parser.Facts) (sent string, changed *edited, commands []sqlPrepared) {
	var edits parser.Edits
	if f.Effects&parser.SessionID != 0 || s.readsDrawn(f) {
		var ids []int32
		if signals(f) {
			ids = namedSessions(text)
		}
		edits = s.identityEdits(text, ids)
	}
	if f.Effects&(parser.Prepares|parser.Executes|parser.Deallocates) != 0 {
		var renames parser.Edits
		renames, commands = s.preparedEdits(text, f)
		edits = edits.With(renames...)
	}
	if f.Effects&parser.ListsObjects != 0 && s.dumps() && !s.parsing {
		if hides, err := parser.HideEdits(text, s.scanOptions()); err == nil {
			edits = edits.With(hides...)
		}
	}
	if len(edits) == 0 {
		return text, nil, commands
	}
	return edits.Apply(text), &edited{text, edits}, commands
}

// clientsWords makes an error speak of what the client knows: its own text and
// its own names.
func (s *Session) clientsWords(o *op, body []byte) []byte {
	return wire.MapError(body, func(code byte, v string) string {
		if pos, err := strconv.Atoi(v); err == nil && code == 'P' && o.text != nil {
			return strconv.Itoa(o.text.edits.ClientPosition(o.text.original, pos))
		}
		if strings.Contains(v, pool.NamePrefix[:1]) {
			if o.server != "" {
				v = strings.ReplaceAll(v, `"`+o.server+`"`, `"`+o.name+`"`)
			}
			for _, st := range s.statements {
				v = strings.ReplaceAll(v, `"`+st.server.Name+`"`, `"`+st.name+`"`)
			}
		}
		return v
	})
}

// mayAdvance reports whether a text may call nextval, however hidden.
func mayAdvance(f *parser.Facts) bool {
	const does = parser.Writes | parser.AdvancesSequence | parser.CopyIn | parser.Executes | parser.Opaque
	return f.Effects&does != 0 || len(f.Funcs) > 0 || len(f.Relations) > 0 && f.Effects&parser.DDL == 0
}

// checkSequences refuses currval and lastval when the backend holds what other
// clients' statements left there, and takes that away. From the first such call
// on sessions that write keep their backend, so it happens once at most.
func (s *Session) checkSequences(c *pool.Conn, exec func(sql string) error) error {
	s.db.ReadsSequences.Store(true)
	if c.SoleSession == s.id || c.SoleSession == 0 || c.Status == wire.TxFailed {
		return nil
	}
	if err := exec("DISCARD SEQUENCES"); err != nil {
		return err
	}
	if !s.ops.empty() {
		if err := s.flush(); err != nil || s.conn == nil || s.skipping {
			return err
		}
	}
	c.SoleSession = s.id
	if !s.advanced {
		return nil // it has none: the backend shall say so
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the last sequence values of this session are not known to weft").
		WithDetail("The session's earlier statements may have run on another connection to the shard.").
		WithHint("Run the INSERT again, or use INSERT … RETURNING. From now on sessions that write keep their connection.")
}
