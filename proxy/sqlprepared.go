package proxy

import (
	"slices"
	"strconv"

	"weft/parser"
	"weft/quote"
	"weft/wire"
)

// SQL's PREPARE, EXECUTE and DEALLOCATE share their names with the protocol's prepared
// statements. On the backends statements have weft's names, so the names in the text are
// replaced.

// sqlPrepared is a PREPARE or DEALLOCATE whose command tag is awaited.
type sqlPrepared struct {
	kind parser.PreparedKind
	stmt *statement // the statement that a PREPARE makes
	name string
}

// dummyName names a statement that weft makes for the i-th command of a text, only to be
// deallocated.
func dummyName(i int) string { return "\x01d" + strconv.Itoa(i) }

// prepareSQL gets the backend ready for the text: a statement that is executed must be
// there, a name that is prepared again must be taken, and a statement that is deallocated
// must not be the one that other sessions use.
func (ps *prepared) prepareSQL(f *parser.Facts, exec func(sql string) error) error {
	made, gone := map[string]bool{}, map[string]bool{}
	for i, p := range f.Prepared {
		st := ps.named[p.Name]
		if gone[p.Name] || gone[""] {
			st = nil
		}
		var err error
		switch {
		case p.Kind == parser.DeallocateAll:
			gone[""] = true
			clear(made)
		case p.Kind == parser.Deallocate && (st != nil || made[p.Name]):
			gone[p.Name] = true
			delete(made, p.Name)
			err = exec("PREPARE " + quote.Ident(dummyName(i)) + " AS SELECT 1")
			ps.s.record.done.stray = append(ps.s.record.done.stray, dummyName(i))
		case p.Kind == parser.Prepare && st == nil:
			made[p.Name] = true
		case st == nil && !made[p.Name] && slices.Contains(ps.s.record.done.stray, p.Name): // weft has made one on the backend
			err = exec("DEALLOCATE " + quote.Ident(p.Name))
			ps.s.record.done.stray = slices.DeleteFunc(ps.s.record.done.stray, func(n string) bool { return n == p.Name })
		case st == nil || made[p.Name]:
		case p.Kind == parser.Execute:
			err = ps.ensurePrepared(st.server, exec)
		case p.Kind == parser.Prepare && slices.Contains(ps.s.record.done.stray, p.Name): // weft has made it already
		case p.Kind == parser.Prepare: // the name is taken: the backend says so
			err = exec("PREPARE " + quote.Ident(p.Name) + " AS SELECT 1")
			ps.s.record.done.stray = append(ps.s.record.done.stray, p.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// preparedEdits puts the backend's names into the text and returns the commands that the
// command tags will confirm.
func (ps *prepared) preparedEdits(text string, f *parser.Facts) (edits parser.Edits, commands []sqlPrepared) {
	made, gone := map[string]*statement{}, map[string]bool{}
	rename := func(p parser.Prepared, name string) {
		if ps.s.record.done.shown {
			return // the backend holds the client's own names
		}
		edits = append(edits, parser.Edit{Start: p.NameStart, End: p.NameEnd, New: quote.Ident(name)})
	}
	for i, p := range f.Prepared {
		st := ps.named[p.Name]
		if gone[p.Name] || gone[""] {
			st = nil
		}
		if st == nil {
			st = made[p.Name]
		}
		switch p.Kind {
		case parser.Prepare:
			if st != nil {
				commands = append(commands, sqlPrepared{kind: p.Kind, name: p.Name})
				continue
			}
			st = &statement{name: p.Name, facts: p.Body, original: text, planned: planned{read: ps.s.record.readsNow()}}
			if f.Statements > 1 {
				st.original = "PREPARE " + text[p.NameStart:p.BodyEnd]
			}
			st.server = ps.shared(text[p.NameEnd:p.BodyEnd], "", true)
			made[p.Name] = st
			if !ps.s.record.done.shown && ps.s.held.conn.Prepared(st.server) {
				// Another client has made the statement here already: let the backend judge
				// the command under a name that is removed again.
				rename(p, dummyName(i))
				ps.s.record.done.stray = append(ps.s.record.done.stray, dummyName(i))
			} else {
				rename(p, st.server.Name)
			}
			commands = append(commands, sqlPrepared{kind: p.Kind, name: p.Name, stmt: st})
		case parser.Execute:
			if st != nil {
				rename(p, st.server.Name)
				ps.s.record.done.note(ps.s, st.facts)
			}
		case parser.Deallocate:
			if st != nil {
				rename(p, dummyName(i))
				gone[p.Name] = true
				delete(made, p.Name)
			}
			commands = append(commands, sqlPrepared{kind: p.Kind, name: p.Name})
		case parser.DeallocateAll:
			gone[""] = true
			clear(made)
			commands = append(commands, sqlPrepared{kind: p.Kind})
		}
	}
	return edits, commands
}

// sqlNames marks texts that name prepared statements.
const sqlNames = parser.Prepares | parser.Executes | parser.Deallocates

// meaning says which statements the names in a text stand for now.
func (ps *prepared) meaning(f *parser.Facts) string {
	if f.Effects&sqlNames == 0 {
		return ""
	}
	b := []byte{'-'}
	if ps.s.record.done.shown {
		b[0] = '+'
	}
	for _, p := range f.Prepared {
		if st := ps.named[p.Name]; st != nil {
			b = append(b, st.server.Name...)
		}
		b = append(b, 0)
	}
	return string(b)
}

// renewNamed rewrites the text of a named statement if the names in the text have come to
// mean something else since it was parsed.
func (ps *prepared) renewNamed(st *statement) error {
	if st.facts.Effects&sqlNames == 0 || st.server.ViaSQL || ps.s.held.conn.Status() == wire.TxFailed {
		return nil
	}
	now := ps.meaning(st.facts)
	if now == st.meaning {
		return nil
	}
	sent, _, commands := ps.s.record.rewrite(st.original, st.facts, true)
	st.commands, st.meaning = commands, now
	if ps.s.record.done.own[st.name] {
		return nil // the backend has it, with the client's names in its text
	}
	old := st.server
	st.server = ps.shared(sent, old.OIDs, false)
	ps.s.db.Forget(old)
	return ps.prepareExecuted(st.facts)
}

// renewUnnamed is renewNamed for the unnamed statement.
func (ps *prepared) renewUnnamed() error {
	u := &ps.unnamed
	if u.facts.Effects&sqlNames == 0 || ps.s.held.conn.Status() == wire.TxFailed {
		return nil
	}
	now := ps.meaning(u.facts)
	if now == u.meaning {
		return nil
	}
	p, err := wire.DecodeParse(u.body)
	if err != nil {
		return err
	}
	oids := append([]byte{}, p.OIDs...)
	sent, _, commands := ps.s.record.rewrite(u.original, u.facts, true)
	u.body = append(wire.AppendCString([]byte{0}, sent), oids...)
	u.commands, u.meaning = commands, now
	u.version++
	return ps.prepareExecuted(u.facts)
}

// makeRoomFor notes the commands of a text that is about to be executed. The statement that
// a PREPARE makes may be on the backend already, from an earlier execution or another
// client: it is closed, and the PREPARE makes it again.
func (ps *prepared) makeRoomFor(commands []sqlPrepared) {
	for _, p := range commands {
		if p.kind == parser.Prepare && p.stmt != nil && ps.named[p.name] == nil && ps.s.held.conn.Prepared(p.stmt.server) {
			ps.s.pipe.unsent.B = wire.AppendClose(ps.s.pipe.unsent.B, 'S', p.stmt.server.Name)
			ps.s.pipe.ops.push(op{kind: opClose, injected: true, stmt: p.stmt.server})
			ps.s.held.conn.Unprepare(p.stmt.server.Name)
		}
	}
	ps.s.record.done.prepared = append(ps.s.record.done.prepared, commands...)
}

// prepareExecuted makes sure that the backend has the statements that the text executes
// before the text is parsed: a Describe asks for their result.
func (ps *prepared) prepareExecuted(f *parser.Facts) error {
	for _, p := range f.Prepared {
		st := ps.named[p.Name]
		if p.Kind != parser.Execute || st == nil || ps.s.record.done.shown || ps.s.held.conn.Status() == wire.TxFailed {
			continue
		}
		if err := ps.ensurePrepared(st.server, ps.s.pipe.inject); err != nil {
			return err
		}
	}
	return nil
}

// onPreparedTag carries out in the session a command that the backend has confirmed.
func (ps *prepared) onPreparedTag(tag string) {
	if tag == "DEALLOCATE ALL" {
		ps.forgetStatements()
		ps.s.held.conn.UnprepareAll()
	}
	if len(ps.s.record.done.prepared) == 0 {
		return
	}
	p := ps.s.record.done.prepared[0]
	ps.s.record.done.prepared = ps.s.record.done.prepared[1:]
	switch p.kind {
	case parser.Prepare:
		if p.stmt != nil {
			if ps.named == nil {
				ps.named = map[string]*statement{}
			}
			ps.named[p.name] = p.stmt
			if ps.s.record.done.shown {
				ps.s.record.done.own[p.name] = true
				break
			}
			ps.s.held.conn.MarkPrepared(p.stmt.server)
			ps.s.record.done.describe = append(ps.s.record.done.describe, p.stmt.server)
		}
	case parser.Deallocate:
		if st := ps.named[p.name]; st != nil {
			ps.forgetStatement(st)
		}
	}
}
