package proxy

import (
	"errors"
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
// error anywhere keeps all of it from running. Then it is run statement by statement: each
// is planned in its turn and takes the way that it would take alone. PostgreSQL runs the
// statements in one transaction, its implicit block, unless they say otherwise: BEGIN makes
// that block the client's, COMMIT and ROLLBACK end it, and the statement after them begins
// another. The first error ends the text and, with it, the implicit block. weft opens a
// block of its own for the implicit block. A text whose statements all go to one shard, and
// change nothing that later statements are planned by, is passed on as it is.

// script is a text of several statements under way.
type script struct {
	s *Session

	state scriptState
	// offset is how many characters of the text come before the statement that runs.
	offset int
	kept   *keptTag
	// read is how the text was read; it holds for all statements of the text.
	read reading
	// due is what the client is told of the last statement once that statement is
	// committed.
	due []byte
}

// passesWhole are the effects that the statements of a text may have if one backend is to
// run all of them: none of these effects changes what a later statement means.
const passesWhole = parser.Writes | parser.ReadsSequence | parser.AdvancesSequence | parser.ReadsSetting | parser.ListsObjects |
	parser.SessionID | parser.ReadsPrepared | parser.ReadsListening

// severalQuery runs a text of several statements; n is the length of the message's body.
func (k *script) severalQuery(r *router, text []byte, f *parser.Facts, n int) error {
	whole := f.Effects&^passesWhole == 0 && !k.s.record.suspicious(f) && !k.s.lost.is() && (k.s.held.conn == nil || k.s.held.conn.Status() != wire.TxFailed) &&
		len(k.s.tx.cursors) == 0 && k.s.record.pins&pinHoldCursor == 0 && (!k.s.record.inEffect.certain || k.s.tx.isOpen())
	tries := f.Effects&parser.Temp != 0 && !k.s.lost.is()
	if whole || tries {
		if done, err := k.wholeQuery(r, text, f, n, whole); done {
			return err
		}
	}
	text = slices.Clone(text)
	k.s.client.Consume(wire.HeaderLen + n)
	return k.runScript(text)
}

// wholeQuery runs a text as a whole if one shard can, or if the text is an attempt (see
// attemptQuery). It reports false if the text has to be taken apart.
func (k *script) wholeQuery(r *router, text []byte, f *parser.Facts, n int, whole bool) (done bool, err error) {
	if k.s.route.knowOwn(f) != nil {
		return false, nil
	}
	p, err := k.s.route.plan(r, text, nil)
	if err != nil {
		return false, nil // the statement itself will meet the error again
	}
	if !whole {
		a, ok := parser.ReadAttempt(string(text), k.s.record.scanOptions())
		if !ok || p.Route != plan.Refused {
			return false, nil
		}
		return true, k.s.gather.attemptQuery(a, n)
	}
	// Values drawn for the whole text would be drawn again for its statements.
	if len(p.Params) > 0 || p.Generate != nil {
		return false, nil
	}
	r.takeQuery(text, k.s.record.scanOptions())
	r.beginRules(k.s.srv.keeper.throttles.Table(), k.s.srv.keeper.queues.Table())
	d, err := k.s.route.choose(r, p, text, f, asQuery)
	if err == nil && !d.do.onOne() {
		return false, nil
	}
	if err == nil {
		if err := k.s.route.outset.depart(r, p, f, d); err != nil {
			return true, k.s.route.refuseQuery(err, n)
		}
	}
	var edits parser.Edits
	if err == nil {
		edits, err = k.s.route.place(r, d, p, text, f)
	}
	switch {
	case errors.Is(err, errTold), errors.Is(err, errEnd), errors.Is(err, pool.ErrLost):
		return true, k.s.route.refuseQuery(err, n)
	case err != nil:
		return false, nil
	}
	return true, k.s.route.runPlaced(text, edits, f, n)
}

// runInBlock is runScript for a text that begins in an open block, which becomes the text's own.
func (k *script) runInBlock(text []byte) error { return k.begin(scriptBeginsInBlock, text) }

// runScript runs the statements of a text one by one.
func (k *script) runScript(text []byte) error { return k.begin(scriptBegins, text) }

// begin runs the statements of a text, which begins as e says.
func (k *script) begin(e scriptEvent, text []byte) error {
	k.note(e)
	k.read = k.s.record.readsNow()
	err := k.takeApart(text)
	*k = script{s: k.s, state: k.state.after(scriptEnds)}
	if err != nil {
		return err
	}
	k.s.out.tellReady()
	return nil
}

// takeApart runs the statements of a text. A text that cannot be read fails like one whose first
// statement fails: a block that is the text's own ends.
func (k *script) takeApart(text []byte) error {
	tree, err := parser.ParseTree(string(text), k.s.record.scanOptions())
	if err == nil {
		return k.runStatements(text, tree.Split(len(text)))
	}
	err = k.s.lost.refuseStatement(pgerr.New(pgerr.FeatureNotSupported, "a text of several statements cannot be taken apart: %s", err.Error()).
		WithHint("Send the statements one by one."))
	if err != nil {
		return err
	}
	return k.endScript()
}

// runStatements runs the statements of a text, which are at parts.
func (k *script) runStatements(text []byte, parts []parser.Span) error {
	sc, counted := k, 0
	for i, part := range parts {
		if !k.s.tx.isOpen() && !k.s.lost.is() {
			if k.s.held.conn != nil { // see bindBegin
				if err := k.s.held.park(); err != nil {
					return k.s.lost.refuseRead(err)
				}
			}
			k.s.tx.start(plainBegin)
			sc.note(scriptOpens)
		}
		if sc.ownsBlock() && i == len(parts)-1 {
			sc.kept = &keptTag{rem: k.s.out.Len()} // messages that wait already pass
		}
		sc.offset += k.s.out.characters(text[counted:part.Start])
		counted = part.Start
		if err := k.runScripted(text[part.Start:part.End]); err != nil {
			return err
		}
		if sc.hasFailed() {
			break
		}
	}
	return k.endScript()
}

// characters is how many characters a text has in the client's encoding.
func (o *answers) characters(text []byte) int {
	if o.reported["client_encoding"] == "UTF8" {
		return utf8.RuneCount(text)
	}
	return len(text)
}

// runScripted runs one statement of a text.
func (k *script) runScripted(text []byte) error {
	r := k.s.srv.memory.routers.Get().(*router)
	defer k.s.srv.memory.routers.Put(r)
	if depends(text, k.read, k.s.record.readsNow()) {
		return k.s.lost.refuseStatement(pgerr.New(pgerr.FeatureNotSupported, "a backslash or a character that is not ASCII cannot follow a change of standard_conforming_strings or client_encoding in one text").
			WithHint("Send the statements one by one."))
	}
	f := k.s.route.read(r, text)
	if k.ownsBlock() && pipeOnly(f) {
		return k.controlOwn(text, f)
	}
	return k.s.route.statementQuery(r, text, f, consumed)
}

// controlOwn runs a statement about transactions while the open block is the text's own.
func (k *script) controlOwn(text []byte, f *parser.Facts) error {
	switch chained := f.Effects&parser.TxBegin != 0; {
	case opensBlock(f):
		return k.takeOver(text, f)
	case pledges(f):
		return k.s.lost.refuseStatement(pledgeOutside())
	case endsTx(f) && !chained:
		k.warnNoBlock()
		tag := "COMMIT"
		if !commits(string(text)) {
			tag = "ROLLBACK"
		}
		k.note(scriptYields)
		if _, err := k.s.tx.endOwn(tag == "ROLLBACK"); err != nil || k.hasFailed() {
			return err
		}
		k.s.copy.tellTag(tag)
		return nil
	default:
		return k.s.lost.refuseStatement(outsideBlock(commandOf(string(text), chained)))
	}
}

// warnNoBlock warns of a COMMIT or ROLLBACK without a BEGIN, as PostgreSQL does.
func (k *script) warnNoBlock() {
	warning := pgerr.New(noTransaction, "there is no transaction in progress")
	warning.Severity = pgerr.SeverityWarning
	k.s.out.tell(warning)
}

// takeOver makes the text's own block the client's, by the client's BEGIN. Modes that the
// BEGIN names are set on the participants that have joined already.
func (k *script) takeOver(text []byte, f *parser.Facts) error {
	tag := beginTag(string(text))
	switch joined := k.s.held.participant() >= 0 || k.s.held.conn != nil && k.s.held.conn.Status() != wire.TxIdle; {
	case !joined:
		k.s.tx.start(beginText(text))
	case joinable(text) != nil:
		w := words(string(text))[1:]
		if len(w) > 0 && (w[0] == "transaction" || w[0] == "work") {
			w = w[1:]
		}
		sql := "SET TRANSACTION " + strings.Join(w, " ")
		err := k.s.portals.useForAll(sql, f)
		if err == nil {
			err = k.s.tx.quiesce()
		}
		if err == nil {
			_, err = k.s.held.conn.Exec(sql)
			k.s.tx.tried(err == nil)
		}
		if err != nil {
			return k.s.lost.refuseRead(err)
		}
	}
	k.note(scriptYields)
	k.s.copy.tellTag(tag)
	return nil
}

// endScript ends the block that the text has left open as its own. The tag of the last
// statement is told after the commit, or replaced by the error of the commit.
func (k *script) endScript() error {
	sc := k
	sc.offset = 0
	if sc.kept != nil {
		k.s.out.B = sc.kept.take(k.s.out.B)
	}
	kept := sc.kept
	if sc.kept = nil; kept != nil {
		sc.due = kept.rest(true)
	}
	if sc.ownsBlock() {
		sc.note(scriptYields)
		if _, err := k.s.tx.endOwn(sc.hasFailed()); err != nil {
			return err
		}
		if k.s.drawn.loans != nil {
			k.s.drawn.returnLoans()
		}
	}
	if sc.hasFailed() && sc.due != nil {
		sc.due = kept.rest(false)
	}
	k.tellDue()
	return nil
}

// tellDue tells the client of the last statement of a text once it is committed.
func (k *script) tellDue() {
	if len(k.due) > 0 {
		k.s.out.Grow()
		k.s.out.B = append(k.s.out.B, k.due...)
		k.due = nil
	}
}

// placed returns the body of an error with a position that counts from the beginning of the
// text.
func (sc *script) placed(body []byte) []byte {
	return wire.MapError(body, func(code byte, v string) string {
		if pos, err := strconv.Atoi(v); err == nil && code == 'P' {
			return strconv.Itoa(pos + sc.offset)
		}
		return v
	})
}
