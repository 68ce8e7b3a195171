package proxy

import (
	"slices"
	"strconv"

	"weft/parser"
	"weft/pool"
	"weft/wire"
)

// SQL's PREPARE, EXECUTE and DEALLOCATE share their names with the protocol's
// prepared statements. On the backends they have weft's names, so the names in
// the text are replaced.

// sqlPrepared is a PREPARE or DEALLOCATE whose command tag is awaited.
type sqlPrepared struct {
	kind parser.PreparedKind
	stmt *statement // what a PREPARE makes
	name string
}

// dummyName names the i-th statement that is made to be deallocated.
func dummyName(i int) string { return "\x01d" + strconv.Itoa(i) }

// prepareSQL gets the backend ready for the text: what is executed must be
// there, what is prepared again must be taken, what is deallocated must not be
// the one others use.
func (s *Session) prepareSQL(f *parser.Facts, exec func(sql string) error) error {
	made, gone := map[string]bool{}, map[string]bool{}
	for i, p := range f.Prepared {
		st := s.statements[p.Name]
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
			err = exec("PREPARE " + pool.QuoteIdent(dummyName(i)) + " AS SELECT 1")
			s.done.stray = append(s.done.stray, dummyName(i))
		case p.Kind == parser.Prepare && st == nil:
			made[p.Name] = true
		case st == nil && !made[p.Name] && slices.Contains(s.done.stray, p.Name): // the backend has one of weft's own
			err = exec("DEALLOCATE " + pool.QuoteIdent(p.Name))
			s.done.stray = slices.DeleteFunc(s.done.stray, func(n string) bool { return n == p.Name })
		case st == nil || made[p.Name]:
		case p.Kind == parser.Execute:
			err = s.ensurePrepared(st.server, exec)
		case p.Kind == parser.Prepare && slices.Contains(s.done.stray, p.Name): // arranged already
		case p.Kind == parser.Prepare: // taken: the backend shall say so
			err = exec("PREPARE " + pool.QuoteIdent(p.Name) + " AS SELECT 1")
			s.done.stray = append(s.done.stray, p.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// preparedEdits puts the backend's names into the text and returns what the
// command tags will confirm.
func (s *Session) preparedEdits(text string, f *parser.Facts) (edits parser.Edits, commands []sqlPrepared) {
	made, gone := map[string]*statement{}, map[string]bool{}
	rename := func(p parser.Prepared, name string) {
		if s.done.shown {
			return // the backend holds the client's own names
		}
		edits = append(edits, parser.Edit{Start: p.NameStart, End: p.NameEnd, New: pool.QuoteIdent(name)})
	}
	for i, p := range f.Prepared {
		st := s.statements[p.Name]
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
			st = &statement{name: p.Name, facts: p.Body, original: text, planned: planned{read: s.readsNow()}}
			if f.Statements > 1 {
				st.original = "PREPARE " + text[p.NameStart:p.BodyEnd]
			}
			st.server = s.shared(text[p.NameEnd:p.BodyEnd], "", true)
			made[p.Name] = st
			if !s.done.shown && s.conn.Prepared(st.server) {
				// Another client has made it here already: let the backend
				// judge the command under a name that goes away again.
				rename(p, dummyName(i))
				s.done.stray = append(s.done.stray, dummyName(i))
			} else {
				rename(p, st.server.Name)
			}
			commands = append(commands, sqlPrepared{kind: p.Kind, name: p.Name, stmt: st})
		case parser.Execute:
			if st != nil {
				rename(p, st.server.Name)
				s.done.note(s, st.facts)
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

// meaning says what the names in a text stand for now.
func (s *Session) meaning(f *parser.Facts) string {
	if f.Effects&sqlNames == 0 {
		return ""
	}
	b := []byte{'-'}
	if s.done.shown {
		b[0] = '+'
	}
	for _, p := range f.Prepared {
		if st := s.statements[p.Name]; st != nil {
			b = append(b, st.server.Name...)
		}
		b = append(b, 0)
	}
	return string(b)
}

// renewNamed rewrites the text of a named statement if the names in it have
// come to mean something else since it was parsed.
func (s *Session) renewNamed(st *statement) error {
	if st.facts.Effects&sqlNames == 0 || st.server.ViaSQL || s.conn.Status == wire.TxFailed {
		return nil
	}
	now := s.meaning(st.facts)
	if now == st.meaning {
		return nil
	}
	sent, _, commands := s.rewrite(st.original, st.facts)
	st.commands, st.meaning = commands, now
	if s.done.own[st.name] {
		return nil // it is there with the client's names in it
	}
	old := st.server
	st.server = s.shared(sent, old.OIDs, false)
	s.db.Forget(old)
	return s.prepareExecuted(st.facts)
}

// renewUnnamed does the same for the unnamed one.
func (s *Session) renewUnnamed() error {
	u := &s.unnamed
	if u.facts.Effects&sqlNames == 0 || s.conn.Status == wire.TxFailed {
		return nil
	}
	now := s.meaning(u.facts)
	if now == u.meaning {
		return nil
	}
	p, err := wire.DecodeParse(u.body)
	if err != nil {
		return err
	}
	oids := append([]byte{}, p.OIDs...)
	sent, _, commands := s.rewrite(u.original, u.facts)
	u.body = append(wire.AppendCString([]byte{0}, sent), oids...)
	u.commands, u.meaning = commands, now
	u.version++
	return s.prepareExecuted(u.facts)
}

// makeRoomFor notes the commands of a text that is about to be executed. What
// a PREPARE makes may be on the backend already, from an earlier execution or
// another client: it goes, and comes back the same.
func (s *Session) makeRoomFor(commands []sqlPrepared) {
	for _, p := range commands {
		if p.kind == parser.Prepare && p.stmt != nil && s.statements[p.name] == nil && s.conn.Prepared(p.stmt.server) {
			s.toServer.B = wire.AppendClose(s.toServer.B, 'S', p.stmt.server.Name)
			s.ops.push(op{kind: opClose, injected: true, stmt: p.stmt.server})
			s.conn.Unprepare(p.stmt.server.Name)
		}
	}
	s.done.prepared = append(s.done.prepared, commands...)
}

// prepareExecuted makes sure that the backend knows what the text executes,
// before it is parsed: a Describe asks for its result.
func (s *Session) prepareExecuted(f *parser.Facts) error {
	for _, p := range f.Prepared {
		st := s.statements[p.Name]
		if p.Kind != parser.Execute || st == nil || s.done.shown || s.conn.Status == wire.TxFailed {
			continue
		}
		if err := s.ensurePrepared(st.server, s.inject); err != nil {
			return err
		}
	}
	return nil
}

// onPreparedTag carries out in the session what the backend has confirmed.
func (s *Session) onPreparedTag(tag string) {
	if tag == "DEALLOCATE ALL" {
		s.forgetStatements()
		s.conn.UnprepareAll()
	}
	if len(s.done.prepared) == 0 {
		return
	}
	p := s.done.prepared[0]
	s.done.prepared = s.done.prepared[1:]
	switch p.kind {
	case parser.Prepare:
		if p.stmt != nil {
			if s.statements == nil {
				s.statements = map[string]*statement{}
			}
			s.statements[p.name] = p.stmt
			if s.done.shown {
				s.done.own[p.name] = true
				break
			}
			s.conn.MarkPrepared(p.stmt.server)
			s.done.describe = append(s.done.describe, p.stmt.server)
		}
	case parser.Deallocate:
		if st := s.statements[p.name]; st != nil {
			s.forgetStatement(st)
		}
	}
}
