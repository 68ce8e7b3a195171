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
func (rc *record) specialQuery(text string, f *parser.Facts, n int) error {
	rc.s.client.Consume(wire.HeaderLen + n)
	if err := rc.s.held.acquire(); err != nil {
		return rc.s.lost.refuseRead(err)
	}
	if err := rc.s.tx.quiesceAtEnd(); err != nil { // as a simple query does
		return rc.s.lost.refuseRead(err)
	}
	exec := func(sql string) error {
		_, err := rc.s.held.conn.Exec(sql)
		return err
	}
	if err := rc.prepareToRun(text, f, exec); err != nil {
		return rc.s.lost.refusedHere(err)
	}
	if rc.s.held.conn == nil {
		return nil // lost meanwhile: the client has been told
	}
	sent, changed, commands := rc.rewrite(text, f, true)
	rc.done.note(rc.s, f)
	rc.done.prepared = append(rc.done.prepared, commands...)
	c := rc.s.held.conn
	err := rc.s.sendQuery(sent, changed)
	if err == nil && c.Shown() && rc.s.held.conn == c && c.Status() == wire.TxIdle {
		hideOwn(c)
	}
	return err
}

// provoke is a text that no backend accepts.
const provoke = "weft refuses"

// bindSpecial gets the backend ready for a statement that is about to be bound. Statements
// that weft runs for that go through the extended protocol, too: a simple query would end
// the implicit transaction of earlier messages.
func (rc *record) bindSpecial(text string, f *parser.Facts) (ok bool, err error) {
	err = rc.prepareToRun(text, f, rc.s.pipe.inject)
	switch {
	case err == nil:
		// Getting ready may have brought an earlier message's failure to light.
		return !rc.s.pipe.isSkipping() && rc.s.held.conn != nil, nil
	case errors.Is(err, pool.ErrLost), errors.Is(err, errEnd):
		return false, err
	}
	rc.s.lost.refuseMessage(err)
	return false, nil
}

// inject runs a statement of weft among the client's extended messages. If the statement
// fails, the client sees the error and skips to Sync.
func (p *pipe) inject(sql string) error {
	const name = "\x01i"
	// Close first: a statement that failed half way leaves its name behind.
	b := wire.AppendClose(p.unsent.B, 'S', name)
	b = wire.AppendParse(b, name, sql, nil)
	var at int
	b, at = wire.Begin(b, wire.Bind)
	b = wire.AppendCString(wire.AppendCString(b, name), name)
	b = wire.End(append(b, 0, 0, 0, 0, 0, 0), at)
	b, at = wire.Begin(b, wire.Execute)
	b = wire.End(append(wire.AppendCString(b, name), 0, 0, 0, 0), at)
	b = wire.AppendClose(b, 'P', name)
	b = wire.AppendClose(b, 'S', name)
	p.unsent.B = b
	for _, k := range []opKind{opClose, opParse, opBind, opExecute, opClose, opClose} {
		o := op{kind: k, injected: true}
		if k == opParse {
			o.stmt = &pool.Statement{Name: name}
		}
		p.ops.push(o)
	}
	return nil
}

// parseSpecial is specialQuery for a Parse: names and session IDs in the text are replaced
// before the backend sees it.
func (rc *record) parseSpecial(p wire.ParseBody, f *parser.Facts, o op) error {
	err := rc.s.prepared.prepareExecuted(f)
	if err == nil && readsOwn(f) && rc.s.held.conn != nil {
		// Without weft's views there is nothing to parse.
		_, err = rc.s.srv.keeper.owns.Ensure(rc.s.srv.ctx, rc.s.held.conn.Shard(), rc.s.db.Name)
	}
	if err != nil {
		if errors.Is(err, pool.ErrLost) || errors.Is(err, errEnd) {
			return rc.s.pipe.failed(err)
		}
		rc.s.lost.refuseMessage(err)
		return nil
	}
	if rc.s.pipe.isSkipping() || rc.s.held.conn == nil {
		return nil
	}
	sent, changed, commands := rc.rewrite(string(p.SQL), f, false)
	if len(p.Name) == 0 {
		rc.s.prepared.unnamed.original, rc.s.prepared.unnamed.commands, rc.s.prepared.unnamed.meaning = "", commands, rc.s.prepared.meaning(f)
		if f.Effects&(parser.SessionID|sqlNames) != 0 || rc.s.route.readsDrawn(f) {
			rc.s.prepared.unnamed.original = string(p.SQL)
		}
		body := append(rc.s.prepared.unnamed.body[:0], 0)
		body = wire.AppendCString(body, sent)
		rc.s.prepared.unnamed.body = append(body, p.OIDs...)
		rc.s.pipe.unsent.B = wire.AppendFrame(rc.s.pipe.unsent.B, wire.Parse, rc.s.prepared.unnamed.body)
		o.text = changed
		rc.s.pipe.ops.push(o)
		return nil
	}
	st := rc.s.prepared.named[string(p.Name)]
	st.commands, st.meaning = commands, rc.s.prepared.meaning(f)
	if f.Effects&(parser.SessionID|sqlNames) != 0 || rc.s.route.readsDrawn(f) {
		st.original = string(p.SQL)
	}
	if changed != nil {
		rc.s.db.Forget(st.server)
		st.server = rc.s.prepared.shared(sent, string(p.OIDs), false)
	}
	rc.s.prepared.parseShared(st, changed)
	return nil
}

// effectWords occur in texts that may change what a call does to a session. Learning that
// again after every other DDL would be slow.
var effectWords = regexp.MustCompile(`(?i)function|procedure|routine|trigger|view|rule|operator|cast|aggregate|extension|domain|` +
	`default|check|policy|set_config|advisory|setseed|currval|lastval|import`)

// prepareToRun does on the backend what a text relies on, before the text is run.
func (rc *record) prepareToRun(text string, f *parser.Facts, exec func(sql string) error) error {
	c := rc.s.held.conn
	if c.Status() != wire.TxFailed {
		if err := checkOptions(f.Options); err != nil {
			return err
		}
		if err := rc.s.prepared.mayExecuteHere(f); err != nil {
			return err
		}
	}
	if readsOwn(f) && c.Status() != wire.TxFailed {
		if err := rc.s.route.showOwn(c, f, rc.s.pipe.isUnsynced(), exec); err != nil {
			return err
		}
	}
	if f.Effects&(parser.DDL|parser.Opaque) != 0 && effectWords.MatchString(text) {
		rc.done.relearn = true
	}
	if f.Effects&parser.ReadsSequence != 0 && !rc.s.drawn.drawnAll(text) {
		if err := rc.checkSequences(c, exec); err != nil {
			return err
		}
	}
	if f.Effects&(parser.Listens|parser.Unlistens|parser.ReadsListening) != 0 && c.Status() != wire.TxFailed {
		if err := rc.listenHere(c, exec); err != nil {
			return err
		}
	}
	if f.Effects&(parser.CreatesDatabase|parser.DropsDatabase) != 0 {
		if err := rc.s.util.beforeDatabase(text, f); err != nil {
			return err
		}
		rc.done.text = text
	}
	if (rc.s.prepared.readsPrepared(f) || rc.s.prepared.mayExecute(text, f)) && c.Status() != wire.TxFailed && !rc.done.shown {
		return rc.s.prepared.showPrepared(exec)
	}
	if rc.done.shown {
		return nil // the backend holds the client's own names
	}
	if f.Effects&(parser.Prepares|parser.Executes|parser.Deallocates) != 0 && c.Status() != wire.TxFailed {
		return rc.s.prepared.prepareSQL(f, exec)
	}
	return nil
}

// rewrite puts weft's own names into a text: session IDs, prepared statements. commands are
// what the text does to prepared statements when it is executed. runs: the text is about to be
// run, not only to be parsed.
func (rc *record) rewrite(text string, f *parser.Facts, runs bool) (sent string, changed *edited, commands []sqlPrepared) {
	var edits parser.Edits
	if f.Effects&parser.SessionID != 0 || rc.s.route.readsDrawn(f) {
		var ids []int32
		if signals(f) {
			ids = namedSessions(text)
		}
		edits = rc.s.drawn.identityEdits(text, ids, runs)
	}
	if f.Effects&(parser.Prepares|parser.Executes|parser.Deallocates) != 0 {
		var renames parser.Edits
		renames, commands = rc.s.prepared.preparedEdits(text, f)
		edits = edits.With(renames...)
	}
	if f.Effects&parser.ListsObjects != 0 && rc.dumps() && runs {
		if hides, err := parser.HideEdits(text, rc.scanOptions()); err == nil {
			edits = edits.With(hides...)
		}
	}
	if len(edits) == 0 {
		return text, nil, commands
	}
	return edits.Apply(text), &edited{text, edits}, commands
}

// clientsWords makes an error speak of the client's own text and names.
func (ps *prepared) clientsWords(o *op, body []byte) []byte {
	return wire.MapError(body, func(code byte, v string) string {
		if pos, err := strconv.Atoi(v); err == nil && code == 'P' && o.text != nil {
			return strconv.Itoa(o.text.edits.ClientPosition(o.text.original, pos))
		}
		if strings.Contains(v, pool.NamePrefix[:1]) {
			if o.server != "" {
				v = strings.ReplaceAll(v, `"`+o.server+`"`, `"`+o.name+`"`)
			}
			for _, st := range ps.named {
				v = strings.ReplaceAll(v, `"`+st.server.Name+`"`, `"`+st.name+`"`)
			}
		}
		return v
	})
}

// mayAdvance reports whether a text may call nextval, even in a hidden way.
func mayAdvance(f *parser.Facts) bool {
	const does = parser.Writes | parser.AdvancesSequence | parser.CopyIn | parser.Executes | parser.Opaque
	return f.Effects&does != 0 || len(f.Funcs) > 0 || len(f.Relations) > 0 && f.Effects&parser.DDL == 0
}

// checkSequences refuses currval and lastval if the backend may hold values that statements
// of other clients left there, and discards these. After the first such call sessions that
// write keep their backend, so a session is refused at most once.
func (rc *record) checkSequences(c *pool.Conn, exec func(sql string) error) error {
	rc.s.db.ReadsSequences.Store(true)
	if c.SoleSession() == rc.s.id || c.SoleSession() == 0 || c.Status() == wire.TxFailed {
		return nil
	}
	if err := exec("DISCARD SEQUENCES"); err != nil {
		return err
	}
	if !rc.s.pipe.ops.empty() {
		if err := rc.s.flush(); err != nil || rc.s.held.conn == nil || rc.s.pipe.isSkipping() {
			return err
		}
	}
	c.SequencesDiscarded()
	c.UsedBy(rc.s.id)
	if !rc.advanced {
		return nil // the session has no values: the backend says so
	}
	return unknownSequences()
}

// unknownSequences says that other sessions may have drawn on the backend.
func unknownSequences() *pgerr.Error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the last sequence values of this session are not known to weft").
		WithDetail("The session's earlier statements may have run on another connection to the shard.").
		WithHint("Run the INSERT again, or use INSERT … RETURNING. From now on sessions that write keep their connection.")
}
