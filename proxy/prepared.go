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

// prepared is the client's prepared statements.
type prepared struct {
	s *Session

	named   map[string]*statement
	bytes   int // the memory that named takes
	unnamed unnamed
	// lastBound is the statement that the unnamed portal was made from; nil for the unnamed
	// statement.
	lastBound *statement
	// parse is the part of the settings that matters to Parse, computed from parseFrom, see
	// parseSettings.
	parse     *pool.Settings
	parseFrom *pool.Settings
}

// add makes a statement known under its name.
func (ps *prepared) add(st *statement) {
	if ps.named == nil {
		ps.named = map[string]*statement{}
	}
	ps.named[st.name] = st
}

// putBack brings back a statement that takeOut has taken out.
func (ps *prepared) putBack(st *statement) {
	ps.add(st)
	ps.bytes += len(st.server.SQL)
}

// restoreUnnamed brings back the unnamed statement that replaceUnnamed returned.
func (ps *prepared) restoreUnnamed(prev *unnamed) { ps.unnamed = *prev }

// noteBound notes which statement the unnamed portal is made from: the unnamed one if name is empty.
func (ps *prepared) noteBound(name []byte) {
	ps.lastBound = nil
	if len(name) > 0 {
		ps.lastBound = ps.named[string(name)]
	}
}

// unnamedTag identifies this version of this session's unnamed statement among all that
// backends may hold.
func (ps *prepared) unnamedTag() uint64 { return uint64(ps.s.id)<<32 | uint64(ps.unnamed.version) }

// replaceUnnamed makes a Parse message the unnamed statement. It returns the unnamed
// statement before if that may have to come back, because an earlier message that is not
// answered yet may fail.
func (ps *prepared) replaceUnnamed(body []byte, facts *parser.Facts) *unnamed {
	if !ps.s.pipe.ops.mayFail() {
		ps.unnamed.set(body, facts)
		return nil
	}
	prev := ps.unnamed
	ps.unnamed.body, ps.unnamed.planned = nil, planned{} // prev keeps the memory
	ps.unnamed.set(body, facts)
	return &prev
}

// set makes a Parse message the unnamed statement.
func (u *unnamed) set(body []byte, facts *parser.Facts) {
	if cap(u.body) > 64<<10 && len(body) < 4<<10 {
		u.body = nil
	}
	u.body = append(u.body[:0], body...)
	u.facts, u.valid, u.original, u.commands = facts, true, "", nil
	u.planned.plan, u.planned.params, u.planned.types, u.planned.text = nil, nil, nil, u.planned.text[:0]
	u.version++
}

// knowText gives a statement its text to plan it by, if it was parsed when the database had no declared
// tables: nobody needed the text then. st is nil for the unnamed statement.
func (pl *planned) knowText(ps *prepared, st *statement) {
	if pl.plan != nil || len(pl.text) > 0 {
		return
	}
	if st == nil {
		p, err := wire.DecodeParse(ps.unnamed.body)
		if err != nil {
			return
		}
		pl.text, pl.oids = append(pl.text[:0], p.SQL...), append(pl.oids[:0], p.OIDs...)
	} else if !st.server.ViaSQL {
		pl.text, pl.oids = []byte(st.server.SQL), []byte(st.server.OIDs)
	}
	r := ps.s.srv.memory.routers.Get().(*router)
	defer ps.s.srv.memory.routers.Put(r)
	ps.s.route.read(r, pl.text)
	pl.literals, pl.read = append(pl.literals[:0], r.scan.Literals...), ps.s.record.readsNow()
}

// settleNames waits for SQL that has been sent and may change which statement a name means.
func (ps *prepared) settleNames() error {
	if ps.s.pipe.ops.empty() || len(ps.s.record.done.prepared) == 0 && ps.s.record.done.bits&(parser.DiscardAll|parser.Opaque) == 0 {
		return nil
	}
	if err := ps.s.flush(); err != nil || ps.s.held.conn == nil {
		return err
	}
	ps.s.pipe.unsent.Grow()
	return nil
}

// maxStatementBytes bounds the texts of the statements one client prepares.
const maxStatementBytes = 64 << 20

// parseNamed prepares a statement under the client's name.
func (ps *prepared) parseNamed(p wire.ParseBody, facts *parser.Facts, changed *edited) error {
	name := string(p.Name)
	if err := ps.settleNames(); err != nil || ps.s.held.conn == nil || ps.s.pipe.isSkipping() {
		return err
	}
	if st := ps.named[name]; st != nil && st.doubtful {
		ps.forgetStatement(st)
	} else if st != nil {
		return ps.parseDuplicate(name, p)
	}
	if ps.bytes+len(p.SQL) > maxStatementBytes {
		ps.s.lost.refuseMessage(pgerr.New(pgerr.ConfigurationLimitExceeded, "the prepared statements of this session are over %d MiB", maxStatementBytes>>20).
			WithHint("Close statements that are not used any more."))
		return nil
	}
	ps.bytes += len(p.SQL)
	st := &statement{
		name: name, facts: facts,
		server: ps.shared(string(p.SQL), string(p.OIDs), false),
	}
	ps.add(st)
	ps.s.pipe.noteParsed(st)
	if ps.s.record.special(facts) {
		return ps.s.record.parseSpecial(p, facts, op{})
	}
	ps.parseShared(st, changed)
	return nil
}

// parseShared answers the Parse of a statement; changed says how the text for the backend
// differs from the client's.
func (ps *prepared) parseShared(st *statement, changed *edited) {
	switch {
	case ps.s.record.done.shown:
		ps.showParsed(st, op{kind: opParse, client: st, text: changed})
	case !ps.s.held.conn.Prepared(st.server):
		ps.prepare(st.server, op{kind: opParse, client: st, text: changed})
		ps.s.pipe.learnTypes(st)
	case ps.s.held.conn.Status() == wire.TxFailed:
		// Only the backend knows what may be parsed now; but it has this text already,
		// under a name that other sessions use.
		const name = "\x01f"
		ps.s.pipe.unsent.B = wire.AppendParse(ps.s.pipe.unsent.B, name, st.server.SQL, ps.s.held.oidsHere([]byte(st.server.OIDs)))
		ps.s.pipe.unsent.B = wire.AppendClose(ps.s.pipe.unsent.B, 'S', name)
		ps.s.pipe.ops.push(op{kind: opParse, stmt: &pool.Statement{Name: name}, client: st, text: changed})
		ps.s.pipe.ops.push(op{kind: opClose, injected: true})
	default:
		ps.s.pipe.ops.push(op{kind: opLocal, answer: wire.ParseComplete, client: st})
	}
}

// learnTypes asks the backend that has just been sent a statement's first Parse for the
// types of the parameters, unless the client has declared all of them: another backend that
// parses the text later must not infer other types. The client does not see the answer.
func (p *pipe) learnTypes(st *statement) {
	if st.server.Types.Load() != nil || allDeclared(st.server.SQL, st.server.OIDs) {
		return
	}
	p.unsent.B = wire.AppendDescribe(p.unsent.B, 'S', st.server.Name)
	p.ops.push(op{kind: opDescribeStatement, injected: true, client: st, server: st.server.Name})
}

// allDeclared reports whether a Parse declares the types of all parameters. A $1 inside a
// string counts as a parameter.
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

// shared returns the statement that sessions with the same settings share for a text. In a
// transaction that may have changed settings, the statement is not shared.
func (ps *prepared) shared(sql, oids string, viaSQL bool) *pool.Statement {
	if ps.s.record.done.bits&(parser.ChangesSettings|parser.ChangesAllSettings|parser.Opaque|parser.DiscardAll) != 0 {
		return ps.s.db.Private(sql, oids, viaSQL, ps.parseSettings())
	}
	return ps.s.db.Statement(ps.s.lane.Key(), sql, oids, viaSQL, ps.parseSettings())
}

// parseSettings are the settings that may change the meaning of a text.
func (ps *prepared) parseSettings() *pool.Settings {
	if ps.parseFrom != ps.s.record.settings {
		ps.parseFrom, ps.parse = ps.s.record.settings, ps.s.record.settings.Without("application_name")
		for _, e := range ps.s.record.settings.All() {
			if strings.Contains(e.Name, ".") { // the application's own parameters
				ps.parse = ps.parse.Without(e.Name)
			}
		}
	}
	return ps.parse
}

// prepare sends a Parse for a shared statement and notes the expected answer as o.
func (ps *prepared) prepare(st *pool.Statement, o op) {
	if name, ok := ps.s.held.conn.Evict(); ok {
		ps.s.pipe.unsent.B = wire.AppendClose(ps.s.pipe.unsent.B, 'S', name)
		ps.s.pipe.ops.push(op{kind: opClose, injected: true, sure: o.sure, stmt: &pool.Statement{Name: name}})
		ps.s.held.conn.Unprepare(name)
	}
	ps.s.pipe.unsent.B = wire.AppendParse(ps.s.pipe.unsent.B, st.Name, st.SQL, ps.s.held.oidsHere(st.ParseTypes()))
	o.stmt = st
	ps.s.pipe.ops.push(o)
	ps.s.held.conn.MarkPrepared(st)
}

// ensurePrepared makes sure that the backend knows the statement; exec runs an SQL command
// on the backend.
func (ps *prepared) ensurePrepared(st *pool.Statement, exec func(sql string) error) error {
	if ps.s.held.conn.Prepared(st) {
		return nil
	}
	if st.ViaSQL {
		if err := exec(st.SQL); err != nil {
			return err
		}
		if !ps.s.pipe.ops.empty() { // the PREPARE was injected and may still fail
			ps.s.pipe.ops.lastExecute().stmt = st
		}
		ps.s.held.conn.MarkPrepared(st)
	} else if err := ps.prepareAsBefore(st); err != nil {
		return err
	}
	if st.Generation == ps.s.db.Generation.Load() || st.Description.Load() == nil || fetches(st.SQL) {
		return nil
	}
	return ps.checkResult(st)
}

// prepareAsBefore sends a Parse under the settings that the statement was first prepared
// with.
func (ps *prepared) prepareAsBefore(st *pool.Statement) error {
	ps.s.pipe.unsent.Grow()
	now := ps.parseSettings()
	switch {
	case ps.s.record.done.bits&(parser.ChangesSettings|parser.ChangesAllSettings|parser.Opaque) != 0:
		now = st.Settings // the transaction has changed settings: leave them
	case ps.s.held.conn.Status() == wire.TxFailed && ps.s.facts([]byte(st.SQL)).Effects&(parser.TxEnd|parser.Savepoint) != 0:
		// A failed transaction takes no SET, and the text means the same under any settings.
		now = st.Settings
	}
	for _, sql := range now.Steps(st.Settings) {
		if err := ps.s.pipe.inject(sql); err != nil {
			return err
		}
	}
	ps.prepare(st, op{kind: opParse, injected: true})
	for _, sql := range st.Settings.Steps(now) {
		if err := ps.s.pipe.inject(sql); err != nil {
			return err
		}
	}
	return nil
}

// fetches reports whether a statement is FETCH, whose result is that of the cursor that has
// the name when it runs.
func fetches(sql string) bool {
	const fetch = "fetch"
	sql = strings.TrimLeft(sql, " \t\r\n")
	return len(sql) > len(fetch) && strings.EqualFold(sql[:len(fetch)], fetch) && (sql[len(fetch)] <= ' ' || sql[len(fetch)] == '"')
}

// checkResult makes sure that a statement that is prepared again after a change of the
// schema still has the result that the client was told.
func (ps *prepared) checkResult(st *pool.Statement) error {
	var got description
	ps.s.pipe.unsent.Grow()
	ps.s.pipe.unsent.B = wire.AppendDescribe(ps.s.pipe.unsent.B, 'S', st.Name)
	ps.s.pipe.ops.push(op{kind: opDescribeStatement, injected: true, described: &got})
	if err := ps.s.flush(); err != nil || ps.s.held.conn == nil || ps.s.pipe.isSkipping() {
		return err
	}
	if bytes.Equal(got.columns, *st.Description.Load()) {
		return nil
	}
	ps.s.held.conn.Unprepare(st.Name)
	ps.s.pipe.unsent.Grow()
	ps.s.pipe.unsent.B = wire.AppendClose(ps.s.pipe.unsent.B, 'S', st.Name)
	ps.s.pipe.ops.push(op{kind: opClose, injected: true})
	return resultChanged{resultHasChanged(), got.params}
}

// resultHasChanged is PostgreSQL's error for a prepared statement whose result has changed.
func resultHasChanged() *pgerr.Error {
	e := pgerr.New(pgerr.FeatureNotSupported, "cached plan must not change result type")
	e.File, e.Routine = "plancache.c", "RevalidateCachedQuery"
	return e
}

// description is the answer to a Describe of a statement.
type description struct {
	params  []byte // body of the ParameterDescription
	columns []byte // shape of the RowDescription
}

// resultChanged is the error of a statement whose result is not what the client was told. A
// Describe still answers with the parameters first.
type resultChanged struct {
	err    *pgerr.Error
	params []byte
}

func (e resultChanged) Error() string { return e.err.Error() }
func (e resultChanged) Unwrap() error { return e.err }

// reparseUnnamed prepares the client's unnamed statement on the backend at hand.
func (ps *prepared) reparseUnnamed() error {
	p, err := wire.DecodeParse(ps.unnamed.body)
	if err != nil {
		return err
	}
	ps.s.pipe.ops.push(op{kind: opParse, injected: true, unnamedBy: ps.s.held.conn.UnnamedBy()})
	ps.s.held.conn.ParsedUnnamed(ps.unnamedTag())
	types := p.OIDs
	if ps.unnamed.planned.params != nil {
		types = ps.unnamed.planned.params // the types that the client was told
	}
	ps.s.pipe.unsent.B = wire.AppendParse(ps.s.pipe.unsent.B, "", string(p.SQL), ps.s.held.oidsHere(types))
	return nil
}

// parseDuplicate lets the backend report that a name is taken: weft first makes a statement
// of that name there, so that the backend's transaction fails with the error.
func (ps *prepared) parseDuplicate(name string, p wire.ParseBody) error {
	if !ps.s.record.done.own[name] {
		ps.s.pipe.closeStray(name) // left by an earlier parseDuplicate
		ps.s.pipe.unsent.B = wire.AppendParse(ps.s.pipe.unsent.B, name, "", nil)
		ps.s.pipe.ops.push(op{kind: opParse, injected: true, stmt: &pool.Statement{Name: name}})
		ps.s.record.done.stray = append(ps.s.record.done.stray, name)
	}
	ps.s.pipe.unsent.B = wire.AppendParse(ps.s.pipe.unsent.B, name, string(p.SQL), ps.s.held.oidsHere(p.OIDs))
	ps.s.pipe.ops.push(op{kind: opParse, stmt: &pool.Statement{Name: name}})
	return nil
}

// closeStray removes a statement that weft has made under a client's name.
func (p *pipe) closeStray(name string) {
	p.unsent.B = wire.AppendClose(p.unsent.B, 'S', name)
	p.ops.push(op{kind: opClose, injected: true})
}

// takeOut takes a statement out of the session; it may come back.
func (ps *prepared) takeOut(st *statement) {
	if ps.named[st.name] == st {
		delete(ps.named, st.name)
		delete(ps.s.record.done.own, st.name)
		ps.bytes -= min(ps.bytes, len(st.server.SQL))
	}
}

// forgetStatement takes a statement out of the session for good.
func (ps *prepared) forgetStatement(st *statement) {
	ps.takeOut(st)
	ps.s.db.Forget(st.server)
}

// forgetStatements takes all statements out of the session for good.
func (ps *prepared) forgetStatements() {
	for _, st := range ps.named {
		ps.s.db.Forget(st.server)
	}
	ps.named, ps.bytes = nil, 0
	clear(ps.s.record.done.own)
}

// onDescribed keeps what the client has been told about the result of a statement.
func (ps *prepared) onDescribed(o *op, typ byte, body []byte) {
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

// readsPrepared reports whether a text reads pg_prepared_statements, by itself or by
// executing a statement that does.
func (ps *prepared) readsPrepared(f *parser.Facts) bool {
	for _, p := range f.Prepared {
		if st := ps.named[p.Name]; p.Kind == parser.Execute && st != nil && st.facts.Effects&parser.ReadsPrepared != 0 {
			return true
		}
	}
	return f.Effects&parser.ReadsPrepared != 0
}

// mayExecute reports whether a text may execute, out of weft's sight, a statement that the
// client has prepared with SQL: it runs texts that are put together at run time, and
// contains the word execute, the name of such a statement, or a parameter.
func (ps *prepared) mayExecute(text string, f *parser.Facts) bool {
	if !ps.preparedViaSQL() || !ps.runsTexts(f) {
		return false
	}
	low := strings.ToLower(text)
	if strings.Contains(low, "execute") || strings.Contains(low, "$") {
		return true
	}
	for name, st := range ps.named {
		if st.server.ViaSQL && strings.Contains(low, strings.ToLower(name)) {
			return true
		}
	}
	return false
}

// runsTexts reports whether a text, or the statement that it executes by name, may run
// other texts.
func (ps *prepared) runsTexts(f *parser.Facts) bool {
	if f.Effects&parser.Opaque != 0 {
		return true
	}
	if f.Statements != 1 || len(f.Prepared) != 1 || f.Prepared[0].Kind != parser.Execute {
		return ps.s.record.touches(f) != catalog.Untouched
	}
	st := ps.named[f.Prepared[0].Name]
	return st != nil && ps.runsTexts(st.facts)
}

// preparedViaSQL reports whether the client has prepared anything with SQL.
func (ps *prepared) preparedViaSQL() bool {
	for _, st := range ps.named {
		if st.server.ViaSQL {
			return true
		}
	}
	return false
}

// showPrepared makes the backend hold exactly the client's prepared statements, under the
// client's names, for a text that reads pg_prepared_statements. They are removed when the
// transaction is over.
func (ps *prepared) showPrepared(exec func(sql string) error) error {
	if err := exec("DEALLOCATE ALL"); err != nil {
		return err
	}
	ps.s.held.conn.UnprepareAll()
	ps.s.record.done.shown, ps.s.record.done.own = true, map[string]bool{}
	var gone map[*statement]bool
	if ps.s.pipe.isUnsynced() && ps.s.record.done.bits&(parser.DDL|parser.Opaque|parser.Temp) == 0 && ps.s.record.pins&pinTemp == 0 && len(ps.named) > 0 {
		gone = ps.unpreparable()
	}
	for _, st := range ps.named {
		if gone[st] {
			continue
		}
		if err := ps.showStatement(st, exec); err != nil {
			return err
		}
	}
	return nil
}

// unpreparable returns the statements that can no longer be prepared. Among extended
// messages an error would cost the client the messages that follow, so another backend is
// asked, which sees what is committed and not temporary. The result is nil if that backend
// cannot be asked.
func (ps *prepared) unpreparable() map[*statement]bool {
	c, err := ps.s.held.conn.Lane().Dedicated(ps.s.srv.ctx)
	if err != nil {
		return nil
	}
	defer c.Terminate()
	if err := c.Apply(ps.s.record.settings); err != nil {
		return nil
	}
	gone := map[*statement]bool{}
	for _, st := range ps.named {
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

// showParsed sends a Parse under the client's name and notes the expected answer as o.
func (ps *prepared) showParsed(st *statement, o op) {
	ps.s.pipe.unsent.B = wire.AppendParse(ps.s.pipe.unsent.B, st.name, st.shownText(), st.server.ParseTypes())
	o.stmt, o.name = &pool.Statement{Name: st.name}, st.name
	ps.s.pipe.ops.push(o)
	ps.s.record.done.own[st.name] = true
}

// shownText is the statement's text for a backend that holds the client's names.
func (st *statement) shownText() string {
	if st.facts.Effects&sqlNames != 0 && st.facts.Effects&parser.SessionID == 0 && st.original != "" {
		return st.original
	}
	return st.server.SQL
}

// showStatement prepares one statement under the client's name. A statement that can no
// longer be prepared, because a table is gone, is left out, and must not cost the client
// its transaction.
func (ps *prepared) showStatement(st *statement, exec func(sql string) error) error {
	c := ps.s.held.conn
	if ps.s.pipe.isUnsynced() { // among extended messages there is no rolling back to a savepoint
		if st.server.ViaSQL {
			ps.s.record.done.own[st.name] = true
			return exec(st.original)
		}
		ps.s.pipe.unsent.Grow()
		ps.showParsed(st, op{kind: opParse, injected: true})
		return nil
	}
	const point = `"\x01s"`
	inBlock := c.Status() == wire.TxActive
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
	ps.s.record.done.own[st.name] = err == nil
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
