package proxy

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// A text of several statements in one simple Query is parsed as a whole, so that a syntax
// error anywhere keeps all of it from running, and then run statement by statement: each is
// planned at its turn and goes the way that it would go alone. PostgreSQL runs them in one
// transaction, its implicit block, unless they say otherwise: BEGIN makes that block the
// client's, COMMIT and ROLLBACK end it, and the statement after them begins another. The
// first error ends the text and, with it, the implicit block. weft opens a block for it as
// it does for other transactions of its own. A text whose statements all go to one shard,
// and change nothing that the later ones are planned by, is passed on as it is.

// script is such a text under way.
type script struct {
	running bool
	// own: the open block is the text's, not the client's.
	own    bool
	failed bool
	// offset is how many characters of the text stand before the statement that runs.
	offset int
	// told are the parameters that have changed since the text began, as the client knew
	// them: PostgreSQL reports them with ReadyForQuery.
	told map[string]string
	kept *keptTag
	// read is how the text was read, which holds for all of it.
	read reading
	// due is what the client is told of the last statement as soon as that is committed.
	due []byte
}

// passesWhole are the effects that the statements of a text may have if one backend is to
// run all of them: none changes what a later statement means.
const passesWhole = parser.Writes | parser.ReadsSequence | parser.AdvancesSequence | parser.ReadsSetting | parser.ListsObjects |
	parser.SessionID | parser.ReadsPrepared | parser.ReadsListening

// severalQuery runs a text of several statements; n is the length of the message's body.
func (s *Session) severalQuery(r *router, text []byte, f *parser.Facts, n int) error {
	whole := f.Effects&^passesWhole == 0 && !s.suspicious(f) && !s.lostTx && (s.conn == nil || s.conn.Status != wire.TxFailed) &&
		len(s.block.cursors) == 0 && s.pins&pinHoldCursor == 0
	tries := f.Effects&parser.Temp != 0 && !s.lostTx
	if whole || tries {
		if done, err := s.wholeQuery(r, text, f, n, whole); done {
			return err
		}
	}
	text = slices.Clone(text)
	s.client.Consume(wire.HeaderLen + n)
	return s.runScript(text)
}

// wholeQuery runs a text as a whole if one shard can, or if it is one that weft runs in
// another way. It reports false if the text has to be taken apart.
func (s *Session) wholeQuery(r *router, text []byte, f *parser.Facts, n int, whole bool) (done bool, err error) {
	if s.knowOwn(f) != nil {
		return false, nil
	}
	p, err := s.plan(r, text, nil)
	if err != nil {
		return false, nil // the statement itself meets the error again
	}
	if !whole {
		a, ok := parser.ReadAttempt(string(text), s.scanOptions())
		if !ok || p.Route != plan.Refused {
			return false, nil
		}
		return true, s.attemptQuery(a, n)
	}
	switch p.Route {
	case plan.Home, plan.Any, plan.AnyCopy, plan.Keyed:
	default:
		return false, nil
	}
	if len(p.Params) > 0 || p.Generate != nil { // what is drawn for a whole text is drawn again for its statements
		return false, nil
	}
	edits, err := s.place(r, p, text, f)
	switch {
	case errors.Is(err, errTold), errors.Is(err, errEnd), errors.Is(err, pool.ErrLost):
		return true, s.refuseQuery(err, n)
	case err != nil:
		return false, nil
	}
	return true, s.runPlaced(text, edits, f, n)
}

// runScript runs the statements of a text one by one.
func (s *Session) runScript(text []byte) error {
	tree, err := parser.ParseTree(string(text), s.scanOptions())
	if err != nil {
		return s.refuseRead(pgerr.New(pgerr.FeatureNotSupported, "a text of several statements cannot be taken apart: %s", err.Error()).
			WithHint("Send the statements one by one."))
	}
	s.script.running, s.script.read = true, s.readsNow()
	err = s.runStatements(text, tree.Split(len(text)))
	sc := s.script
	s.script = script{}
	if err != nil {
		return err
	}
	s.reportChanged(sc.told)
	s.tellReady()
	return nil
}

// runStatements runs the statements of a text, which are at parts.
func (s *Session) runStatements(text []byte, parts []parser.Span) error {
	sc, counted := &s.script, 0
	for i, part := range parts {
		if !s.block.open && !s.lostTx {
			if s.conn != nil { // see bindBegin
				if err := s.park(); err != nil {
					return s.refuseRead(err)
				}
			}
			s.block.start(plainBegin)
			sc.own = true
		}
		if sc.own && i == len(parts)-1 {
			sc.kept = &keptTag{rem: s.toClient.Len()} // what waits passes
		}
		sc.offset += s.characters(text[counted:part.Start])
		counted = part.Start
		s.quietFailed = false
		if err := s.runScripted(text[part.Start:part.End]); err != nil {
			return err
		}
		if sc.failed {
			break
		}
	}
	return s.endScript()
}

// characters is how many characters of the client's a text has.
func (s *Session) characters(text []byte) int {
	if s.reported["client_encoding"] == "UTF8" {
		return utf8.RuneCount(text)
	}
	return len(text)
}

// runScripted runs one statement of a text.
func (s *Session) runScripted(text []byte) error {
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	if depends(text, s.script.read, s.readsNow()) {
		return s.refuseStatement(pgerr.New(pgerr.FeatureNotSupported, "a backslash or a character that is not ASCII cannot follow a change of standard_conforming_strings or client_encoding in one text").
			WithHint("Send the statements one by one."))
	}
	f := s.read(r, text)
	if s.script.own && pipeOnly(f) {
		return s.controlOwn(text, f)
	}
	return s.statementQuery(r, text, f, consumed)
}

// controlOwn runs what a text says about transactions while the open block is its own.
func (s *Session) controlOwn(text []byte, f *parser.Facts) error {
	switch chained := f.Effects&parser.TxBegin != 0; {
	case opensBlock(f):
		return s.takeOver(text, f)
	case endsTx(f) && !chained:
		s.warnNoBlock()
		tag := "COMMIT"
		if !commits(string(text)) {
			tag = "ROLLBACK"
		}
		s.script.own, s.quietFailed = false, tag == "ROLLBACK"
		if err := s.endOwn(); err != nil || s.script.failed {
			return err
		}
		s.quietFailed = false
		s.tellTag(tag)
		return nil
	default:
		return s.refuseStatement(outsideBlock(commandOf(string(text), chained)))
	}
}

// warnNoBlock is what PostgreSQL says to a COMMIT or ROLLBACK without a BEGIN.
func (s *Session) warnNoBlock() {
	warning := pgerr.New(noTransaction, "there is no transaction in progress")
	warning.Severity = pgerr.SeverityWarning
	s.tell(warning)
}

// takeOver makes a block of weft's own the client's, by the client's BEGIN. Modes that it
// names are set where the block has begun already.
func (s *Session) takeOver(text []byte, f *parser.Facts) error {
	tag := beginTag(string(text))
	switch joined := s.participant() >= 0 || s.conn != nil && s.conn.Status != wire.TxIdle; {
	case !joined:
		s.block.start(beginText(text))
	case joinable(text) != nil:
		w := words(string(text))[1:]
		if len(w) > 0 && (w[0] == "transaction" || w[0] == "work") {
			w = w[1:]
		}
		sql := "SET TRANSACTION " + strings.Join(w, " ")
		err := s.useForAll(sql, f)
		if err == nil {
			err = s.sent()
		}
		if err == nil {
			_, err = s.conn.Exec(sql)
			s.block.tried(err == nil)
		}
		if err != nil {
			return s.refuseRead(err)
		}
	}
	s.script.own = false
	s.tellTag(tag)
	return nil
}

// endScript ends what the text has left open of its own. The tag of the last statement
// follows the commit, and gives way to its failure.
func (s *Session) endScript() error {
	sc := &s.script
	sc.offset = 0
	if sc.kept != nil {
		s.toClient.B = sc.kept.take(s.toClient.B)
	}
	kept := sc.kept
	if sc.kept = nil; kept != nil {
		sc.due = kept.rest(true)
	}
	if sc.own {
		sc.own, s.quietFailed = false, sc.failed
		if err := s.endOwn(); err != nil {
			return err
		}
		if s.loans != nil {
			s.returnLoans()
		}
	}
	if sc.failed && sc.due != nil {
		sc.due = kept.rest(false)
	}
	s.tellDue()
	return nil
}

// tellDue tells the client of the last statement of a text, which is committed.
func (s *Session) tellDue() {
	if len(s.script.due) > 0 {
		s.toClient.Grow()
		s.toClient.B = append(s.toClient.B, s.script.due...)
		s.script.due = nil
	}
}

// reportChanged tells the client the parameters that a text has changed.
func (s *Session) reportChanged(told map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(told)) {
		if value := s.reported[name]; value != told[name] {
			s.toClient.Grow()
			s.toClient.B = wire.AppendParameterStatus(s.toClient.B, name, value)
		}
	}
}

// placed returns the body of an error whose position counts from the beginning of the text.
func (sc *script) placed(body []byte) []byte {
	return wire.MapError(body, func(code byte, v string) string {
		if pos, err := strconv.Atoi(v); err == nil && code == 'P' {
			return strconv.Itoa(pos + sc.offset)
		}
		return v
	})
}

// keepsReport notes that a parameter has changed while a text runs. It reports whether the
// client is told at its end.
func (sc *script) keepsReport(name, before string) bool {
	if !sc.running {
		return false
	}
	if sc.told == nil {
		sc.told = map[string]string{}
	}
	if _, ok := sc.told[name]; !ok {
		sc.told[name] = before
	}
	return true
}
