package proxy

import (
	"weft/parser"
	"weft/pool"
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

// dummyName names a statement that is made to be deallocated.
const dummyName = "\x01d"

// prepareSQL gets the backend ready for the text: what is executed must be
// there, what is prepared again must be taken, what is deallocated must not be
// the one others use.
func (s *Session) prepareSQL(text string, f *parser.Facts) error {
	c := s.conn
	made := map[string]bool{}
	for _, p := range f.Prepared {
		st := s.statements[p.Name]
		switch {
		case p.Kind == parser.Prepare && st == nil:
			made[p.Name] = true
		case st == nil || made[p.Name]:
		case p.Kind == parser.Execute:
			if !c.Prepared(st.server) {
				if err := s.prepareNow(st.server); err != nil {
					return err
				}
			}
		case p.Kind == parser.Prepare: // taken: the backend shall say so
			if _, err := c.Exec("PREPARE " + pool.QuoteIdent(p.Name) + " AS SELECT 1"); err != nil {
				return err
			}
			s.done.stray = append(s.done.stray, p.Name)
		case p.Kind == parser.Deallocate:
			if _, err := c.Exec("PREPARE " + pool.QuoteIdent(dummyName) + " AS SELECT 1"); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepareNow makes a shared statement on the backend and waits for it.
func (s *Session) prepareNow(st *pool.Statement) error {
	if st.ViaSQL {
		if _, err := s.conn.Exec(st.SQL); err != nil {
			return err
		}
		s.conn.MarkPrepared(st)
		return nil
	}
	s.toServer.Grow()
	s.prepare(st, op{kind: opParse, injected: true})
	return s.pushAll()
}

// preparedEdits puts the backend's names into the text and notes what the
// command tags will confirm.
func (s *Session) preparedEdits(text string, f *parser.Facts) parser.Edits {
	var edits parser.Edits
	made := map[string]*statement{}
	rename := func(p parser.Prepared, name string) {
		edits = append(edits, parser.Edit{Start: p.NameStart, End: p.NameEnd, New: pool.QuoteIdent(name)})
	}
	for _, p := range f.Prepared {
		st := s.statements[p.Name]
		if st == nil {
			st = made[p.Name]
		}
		switch p.Kind {
		case parser.Prepare:
			if st != nil {
				s.done.prepared = append(s.done.prepared, sqlPrepared{kind: p.Kind, name: p.Name})
				continue
			}
			st = &statement{name: p.Name, facts: p.Body}
			// The command as other backends will need it, with the name left
			// out of what tells statements apart.
			head, tail := "PREPARE ", text[p.NameEnd:p.BodyEnd]
			st.server = s.db.Statement(tail, "", true, s.parseSettings())
			if st.server.SQL == tail {
				st.server.SQL = head + pool.QuoteIdent(st.server.Name) + tail
			}
			made[p.Name] = st
			rename(p, st.server.Name)
			s.done.prepared = append(s.done.prepared, sqlPrepared{kind: p.Kind, name: p.Name, stmt: st})
		case parser.Execute:
			if st != nil {
				rename(p, st.server.Name)
				s.done.note(s, st.facts)
			}
		case parser.Deallocate:
			if st != nil {
				rename(p, dummyName)
			}
			s.done.prepared = append(s.done.prepared, sqlPrepared{kind: p.Kind, name: p.Name})
		case parser.DeallocateAll:
			s.done.prepared = append(s.done.prepared, sqlPrepared{kind: p.Kind})
		}
	}
	return edits
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
			s.conn.MarkPrepared(p.stmt.server)
		}
	case parser.Deallocate:
		if st := s.statements[p.name]; st != nil {
			s.forgetStatement(st)
		}
	}
}
