package proxy

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// unnamedTag identifies this version of the unnamed statement among all that
// backends may hold.
func (s *Session) unnamedTag() uint64 { return uint64(s.id)<<32 | uint64(s.unnamed.version) }

// replaceUnnamed makes a Parse message the unnamed statement. It returns the
// one before if that may have to come back, because something that was sent
// earlier and is not answered yet may fail.
func (s *Session) replaceUnnamed(body []byte, facts *parser.Facts) *unnamed {
	if !s.ops.mayFail() {
		s.unnamed.set(body, facts)
		return nil
	}
	prev := s.unnamed
	s.unnamed.body, s.unnamed.planned = nil, planned{} // prev has them now
	s.unnamed.set(body, facts)
	return &prev
}

// set makes a Parse message the unnamed statement.
func (u *unnamed) set(body []byte, facts *parser.Facts) {
	if cap(u.body) > 64<<10 && len(body) < 4<<10 {
		u.body = nil
	}
	u.body = append(u.body[:0], body...)
	u.facts, u.valid, u.original, u.commands = facts, true, "", nil
	u.planned.plan, u.planned.params, u.planned.types = nil, nil, nil
	u.version++
}

// settleNames waits for SQL that has been sent and may change what names mean.
func (s *Session) settleNames() error {
	if s.ops.empty() || len(s.done.prepared) == 0 && s.done.bits&(parser.DiscardAll|parser.Opaque) == 0 {
		return nil
	}
	if err := s.flush(); err != nil || s.conn == nil {
		return err
	}
	s.toServer.Grow()
	return nil
}

// maxStatementBytes bounds the texts of the statements one client prepares.
const maxStatementBytes = 64 << 20

// parseNamed prepares a statement under a name of the client's.
func (s *Session) parseNamed(p wire.ParseBody, facts *parser.Facts, changed *edited) error {
	name := string(p.Name)
	if err := s.settleNames(); err != nil || s.conn == nil || s.skipping {
		return err
	}
	if st := s.statements[name]; st != nil && st.doubtful {
		s.forgetStatement(st)
	} else if st != nil {
		return s.parseDuplicate(name, p)
	}
	if s.statementBytes+len(p.SQL) > maxStatementBytes {
		s.refuseMessage(pgerr.New(pgerr.ConfigurationLimitExceeded, "the prepared statements of this session are over %d MiB", maxStatementBytes>>20).
			WithHint("Close statements that are not used any more."))
		return nil
	}
	s.statementBytes += len(p.SQL)
	st := &statement{
		name: name, facts: facts,
		server: s.shared(string(p.SQL), string(p.OIDs), false),
	}
	if s.statements == nil {
		s.statements = map[string]*statement{}
	}
	s.statements[name] = st
	s.parsedNow = append(s.parsedNow, st)
	if s.special(facts) {
		return s.parseSpecial(p, facts, op{})
	}
	s.parseShared(st, changed)
	return nil
}

// parseShared answers the Parse of a statement whose text went to the backend
// as changed says.
func (s *Session) parseShared(st *statement, changed *edited) {
	switch {
	case s.done.shown:
		s.showParsed(st, op{kind: opParse, client: st, text: changed})
	case !s.conn.Prepared(st.server):
		s.prepare(st.server, op{kind: opParse, client: st, text: changed})
		s.learnTypes(st)
	case s.conn.Status == wire.TxFailed:
		// Only the backend knows what may be parsed now; but the name it has
		// for this text is taken, and others rely on it.
		const name = "\x01f"
		s.toServer.B = wire.AppendParse(s.toServer.B, name, st.server.SQL, s.oidsHere([]byte(st.server.OIDs)))
		s.toServer.B = wire.AppendClose(s.toServer.B, 'S', name)
		s.ops.push(op{kind: opParse, stmt: &pool.Statement{Name: name}, client: st, text: changed})
		s.ops.push(op{kind: opClose, injected: true})
	default:
		s.ops.push(op{kind: opLocal, answer: wire.ParseComplete, client: st})
	}
}

// learnTypes has the backend that has just been sent a statement's first Parse say which
// types the parameters are of, if the client has left any to it: another backend that parses the
// text later must not infer others. The client does not see it.
func (s *Session) learnTypes(st *statement) {
	if st.server.Types.Load() != nil || allDeclared(st.server.SQL, st.server.OIDs) {
		return
	}
	s.toServer.B = wire.AppendDescribe(s.toServer.B, 'S', st.server.Name)
	s.ops.push(op{kind: opDescribeStatement, injected: true, client: st, server: st.server.Name})
}

// allDeclared reports whether a Parse leaves the type of no parameter to the server. What looks
// like a parameter inside a string counts as one.
func allDeclared(sql, oids string) bool {
	types := declaredTypes([]byte(oids))
	if slices.Contains(types, 0) {
		return false
	}
	for {
		at := strings.IndexByte(sql, '$')
		if at < 0 {
			return true
		}
		sql = sql[at+1:]
		n, digits := 0, 0
		for digits < len(sql) && digits < 6 && sql[digits] >= '0' && sql[digits] <= '9' {
			n = 10*n + int(sql[digits]-'0')
			digits++
		}
		if n > len(types) {
			return false
		}
	}
}

// shared returns the statement that sessions like this one share for a text. In a transaction
// that may have changed settings none is like it.
func (s *Session) shared(sql, oids string, viaSQL bool) *pool.Statement {
	if s.done.bits&(parser.ChangesSettings|parser.ChangesAllSettings|parser.Opaque|parser.DiscardAll) != 0 {
		return s.db.Private(sql, oids, viaSQL, s.parseSettings())
	}
	return s.db.Statement(s.lane.Key(), sql, oids, viaSQL, s.parseSettings())
}

// parseSettings are the settings that a text may be read differently under.
func (s *Session) parseSettings() *pool.Settings {
	if s.parseFrom != s.settings {
		s.parseFrom, s.parse = s.settings, s.settings.Without("application_name")
		for _, e := range s.settings.All() {
			if strings.Contains(e.Name, ".") { // the application's own
				s.parse = s.parse.Without(e.Name)
			}
		}
	}
	return s.parse
}

// prepare sends a Parse for a shared statement and notes it as o.
func (s *Session) prepare(st *pool.Statement, o op) {
	if name, ok := s.conn.Evict(); ok {
		s.toServer.B = wire.AppendClose(s.toServer.B, 'S', name)
		s.ops.push(op{kind: opClose, injected: true, sure: o.sure, stmt: &pool.Statement{Name: name}})
		s.conn.Unprepare(name)
	}
	s.toServer.B = wire.AppendParse(s.toServer.B, st.Name, st.SQL, s.oidsHere(st.ParseTypes()))
	o.stmt = st
	s.ops.push(o)
	s.conn.MarkPrepared(st)
}

// ensurePrepared makes sure that the backend knows the statement; exec is how
// an SQL command can be run on it now.
func (s *Session) ensurePrepared(st *pool.Statement, exec func(sql string) error) error {
	if s.conn.Prepared(st) {
		return nil
	}
	if st.ViaSQL {
		if err := exec(st.SQL); err != nil {
			return err
		}
		if !s.ops.empty() { // injected: it may still fail
			s.ops.lastExecute().stmt = st
		}
		s.conn.MarkPrepared(st)
	} else if err := s.prepareAsBefore(st); err != nil {
		return err
	}
	if st.Generation == s.db.Generation.Load() || st.Description.Load() == nil || fetches(st.SQL) {
		return nil
	}
	return s.checkResult(st)
}

// prepareAsBefore sends a Parse that is read under the settings the statement
// was first prepared with.
func (s *Session) prepareAsBefore(st *pool.Statement) error {
	s.toServer.Grow()
	now := s.parseSettings()
	switch {
	case s.done.bits&(parser.ChangesSettings|parser.ChangesAllSettings|parser.Opaque) != 0:
		now = st.Settings // the transaction has its own: leave them
	case s.conn.Status == wire.TxFailed && s.facts([]byte(st.SQL)).Effects&(parser.TxEnd|parser.Savepoint) != 0:
		now = st.Settings // it takes no SET, and its end reads the same under any
	}
	for _, sql := range now.Steps(st.Settings) {
		if err := s.inject(sql); err != nil {
			return err
		}
	}
	s.prepare(st, op{kind: opParse, injected: true})
	for _, sql := range st.Settings.Steps(now) {
		if err := s.inject(sql); err != nil {
			return err
		}
	}
	return nil
}

// fetches reports whether a statement is FETCH, whose result is that of whatever cursor has
// the name by then.
func fetches(sql string) bool {
	const fetch = "fetch"
	sql = strings.TrimLeft(sql, " \t\r\n")
	return len(sql) > len(fetch) && strings.EqualFold(sql[:len(fetch)], fetch) && (sql[len(fetch)] <= ' ' || sql[len(fetch)] == '"')
}

// checkResult makes sure that a statement which is prepared again after the
// schema has changed still has the result its client was told of.
func (s *Session) checkResult(st *pool.Statement) error {
	var got description
	s.toServer.Grow()
	s.toServer.B = wire.AppendDescribe(s.toServer.B, 'S', st.Name)
	s.ops.push(op{kind: opDescribeStatement, injected: true, described: &got})
	if err := s.flush(); err != nil || s.conn == nil || s.skipping {
		return err
	}
	if bytes.Equal(got.columns, *st.Description.Load()) {
		return nil
	}
	s.conn.Unprepare(st.Name)
	s.toServer.Grow()
	s.toServer.B = wire.AppendClose(s.toServer.B, 'S', st.Name)
	s.ops.push(op{kind: opClose, injected: true})
	return resultChanged{resultHasChanged(), got.params}
}

// resultHasChanged is what PostgreSQL says of a prepared statement whose result
// would be another by now.
func resultHasChanged() *pgerr.Error {
	e := pgerr.New(pgerr.FeatureNotSupported, "cached plan must not change result type")
	e.File, e.Routine = "plancache.c", "RevalidateCachedQuery"
	return e
}

// description is what a Describe of a statement answers.
type description struct {
	params  []byte // body of the ParameterDescription
	columns []byte // shape of the RowDescription
}

// resultChanged is the error of a statement whose result is not what its
// client was told. A Describe still answers with the parameters first.
type resultChanged struct {
	err    *pgerr.Error
	params []byte
}

func (e resultChanged) Error() string { return e.err.Error() }
func (e resultChanged) Unwrap() error { return e.err }

// reparseUnnamed makes the client's unnamed statement on this backend too.
func (s *Session) reparseUnnamed() error {
	p, err := wire.DecodeParse(s.unnamed.body)
	if err != nil {
		return err
	}
	s.ops.push(op{kind: opParse, injected: true, unnamedBy: s.conn.UnnamedBy})
	s.conn.UnnamedBy = s.unnamedTag()
	types := p.OIDs
	if s.unnamed.planned.params != nil {
		types = s.unnamed.planned.params // as the client was told
	}
	s.toServer.B = wire.AppendParse(s.toServer.B, "", string(p.SQL), s.oidsHere(types))
	return nil
}

// parseDuplicate lets the backend find that the name is taken: it is given a
// statement of that name first, so that the error comes from where the
// transaction is.
func (s *Session) parseDuplicate(name string, p wire.ParseBody) error {
	if !s.done.own[name] {
		s.closeStray(name) // left by an earlier one
		s.toServer.B = wire.AppendParse(s.toServer.B, name, "", nil)
		s.ops.push(op{kind: opParse, injected: true, stmt: &pool.Statement{Name: name}})
		s.done.stray = append(s.done.stray, name)
	}
	s.toServer.B = wire.AppendParse(s.toServer.B, name, string(p.SQL), s.oidsHere(p.OIDs))
	s.ops.push(op{kind: opParse, stmt: &pool.Statement{Name: name}})
	return nil
}

// closeStray takes away what weft has made under a name of the client's.
func (s *Session) closeStray(name string) {
	s.toServer.B = wire.AppendClose(s.toServer.B, 'S', name)
	s.ops.push(op{kind: opClose, injected: true})
}

// takeOut takes a statement out of the session; forgetStatement also says that
// it will not come back.
func (s *Session) takeOut(st *statement) {
	if s.statements[st.name] == st {
		delete(s.statements, st.name)
		delete(s.done.own, st.name)
		s.statementBytes -= min(s.statementBytes, len(st.server.SQL))
	}
}

func (s *Session) forgetStatement(st *statement) {
	s.takeOut(st)
	s.db.Forget(st.server)
}

// forgetStatements takes all of them out.
func (s *Session) forgetStatements() {
	for _, st := range s.statements {
		s.db.Forget(st.server)
	}
	s.statements, s.statementBytes = nil, 0
	clear(s.done.own)
}

// onDescribed keeps what the client has been told about a statement's result.
func (s *Session) onDescribed(o *op, typ byte, body []byte) {
	columns := []byte{}
	if typ == wire.RowDescription {
		columns = wire.ResultShape(body)
	}
	if o.described != nil {
		o.described.columns = columns
	}
	if o.client != nil && o.client.server.Description.Load() == nil {
		o.client.server.Description.CompareAndSwap(nil, &columns)
	}
}

// readsPrepared reports whether the text looks at pg_prepared_statements, by
// itself or by executing a statement that does.
func (s *Session) readsPrepared(f *parser.Facts) bool {
	for _, p := range f.Prepared {
		if st := s.statements[p.Name]; p.Kind == parser.Execute && st != nil && st.facts.Effects&parser.ReadsPrepared != 0 {
			return true
		}
	}
	return f.Effects&parser.ReadsPrepared != 0
}

// mayExecute reports whether the text may execute, out of weft's sight, what
// the client has prepared with SQL: it runs texts that are put together at run
// time, and says the word or one of the names, or leaves both to a parameter.
func (s *Session) mayExecute(text string, f *parser.Facts) bool {
	if !s.preparedViaSQL() || !s.runsTexts(f) {
		return false
	}
	low := strings.ToLower(text)
	if strings.Contains(low, "execute") || strings.Contains(low, "$") {
		return true
	}
	for name, st := range s.statements {
		if st.server.ViaSQL && strings.Contains(low, strings.ToLower(name)) {
			return true
		}
	}
	return false
}

// runsTexts reports whether a text, or what it executes by name, may run others.
func (s *Session) runsTexts(f *parser.Facts) bool {
	if f.Effects&parser.Opaque != 0 {
		return true
	}
	if f.Statements != 1 || len(f.Prepared) != 1 || f.Prepared[0].Kind != parser.Execute {
		return s.touches(f) != catalog.Untouched
	}
	st := s.statements[f.Prepared[0].Name]
	return st != nil && s.runsTexts(st.facts)
}

// preparedViaSQL reports whether the client has prepared anything with SQL.
func (s *Session) preparedViaSQL() bool {
	for _, st := range s.statements {
		if st.server.ViaSQL {
			return true
		}
	}
	return false
}

// showPrepared makes the backend hold just what the client has prepared, under
// the client's names, for a text that looks at pg_prepared_statements. All of
// it goes away again when the transaction is over.
func (s *Session) showPrepared(exec func(sql string) error) error {
	if err := exec("DEALLOCATE ALL"); err != nil {
		return err
	}
	s.conn.UnprepareAll()
	s.done.shown, s.done.own = true, map[string]bool{}
	var gone map[*statement]bool
	if s.unsynced && s.done.bits&(parser.DDL|parser.Opaque|parser.Temp) == 0 && s.pins&pinTemp == 0 && len(s.statements) > 0 {
		gone = s.unpreparable()
	}
	for _, st := range s.statements {
		if gone[st] {
			continue
		}
		if err := s.showStatement(st, exec); err != nil {
			return err
		}
	}
	return nil
}

// unpreparable returns the statements that cannot be prepared any more. Among extended messages
// an error would cost the client those that follow, so a backend apart is asked, which sees what is
// committed and not temporary. If it cannot be, nobody knows.
func (s *Session) unpreparable() map[*statement]bool {
	c, err := s.conn.Lane().Dedicated(s.ctx)
	if err != nil {
		return nil
	}
	defer c.Terminate()
	if err := c.Apply(s.settings); err != nil {
		return nil
	}
	gone := map[*statement]bool{}
	for _, st := range s.statements {
		if st.server.ViaSQL {
			_, err = c.Exec(st.original)
		} else {
			err = c.Prepare(st.name, st.shownText(), st.server.ParseTypes())
		}
		if errors.Is(err, pool.ErrLost) {
			return nil
		}
		gone[st] = err != nil
	}
	return gone
}

// showParsed sends a Parse under the client's name and notes it as o.
func (s *Session) showParsed(st *statement, o op) {
	s.toServer.B = wire.AppendParse(s.toServer.B, st.name, st.shownText(), st.server.ParseTypes())
	o.stmt, o.name = &pool.Statement{Name: st.name}, st.name
	s.ops.push(o)
	s.done.own[st.name] = true
}

// shownText is the text as it reads where the backend holds the client's names.
func (st *statement) shownText() string {
	if st.facts.Effects&sqlNames != 0 && st.facts.Effects&parser.SessionID == 0 && st.original != "" {
		return st.original
	}
	return st.server.SQL
}

// showStatement prepares one statement under the client's name. One that
// cannot be prepared any more, because a table is gone, is left out, which
// must not cost the client its transaction.
func (s *Session) showStatement(st *statement, exec func(sql string) error) error {
	c := s.conn
	if s.unsynced { // among extended messages there is no way back
		if st.server.ViaSQL {
			s.done.own[st.name] = true
			return exec(st.original)
		}
		s.toServer.Grow()
		s.showParsed(st, op{kind: opParse, injected: true})
		return nil
	}
	const point = `"\x01s"`
	inBlock := c.Status == wire.TxActive
	if inBlock {
		if err := exec("SAVEPOINT " + point); err != nil {
			return err
		}
	}
	var err error
	if st.server.ViaSQL {
		err = exec(st.original)
	} else {
		err = c.Prepare(st.name, st.shownText(), st.server.ParseTypes())
	}
	if errors.Is(err, pool.ErrLost) {
		return err
	}
	s.done.own[st.name] = err == nil
	if !inBlock {
		return nil
	}
	if err != nil {
		if err := exec("ROLLBACK TO " + point); err != nil {
			return err
		}
	}
	return exec("RELEASE " + point)
}
