package proxy

import (
	"errors"
	"strings"
	"unicode/utf8"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// A text of several statements is one transaction, and so is a command that
// goes to every shard. Where one backend cannot run it as a whole, weft opens
// the transaction itself, runs the parts where they belong, and ends it.

// consumed stands for the length of a message that the client's buffer has let
// go of.
const consumed = -wire.HeaderLen

// inOwnBlock runs something in a transaction of weft's own, or in the client's
// if it has one. run tells the client what there is to tell but that weft is
// ready again. An error of run ends the session.
func (s *Session) inOwnBlock(run func() error) error {
	own := !s.block.open
	if own {
		s.block.start("BEGIN")
	}
	s.quiet, s.quietFailed = true, false
	err := run()
	s.quiet = false
	if err != nil {
		return err
	}
	if own {
		if err := s.endOwn(); err != nil {
			return err
		}
	}
	s.tellReady()
	return nil
}

// endOwn ends a transaction that weft opened: it commits unless something in
// it has failed.
func (s *Session) endOwn() error {
	s.lostTx, s.failedHere, s.lostCause = false, false, nil // the client is in no block
	if !s.block.open || !s.ends() {
		s.block = block{}
		return nil
	}
	c := s.conn
	if err := s.sent(); err != nil {
		if errors.Is(err, errTold) {
			return nil
		}
		return err
	}
	s.block.tag = "COMMIT"
	if s.quietFailed || c.Status == wire.TxFailed {
		s.block.tag = "ROLLBACK"
	} else if err := s.agree(); err != nil {
		if errors.Is(err, errTold) {
			return nil
		}
		return s.disagree(err)
	}
	if _, err := c.Exec(s.block.tag); err != nil {
		if errors.Is(err, pool.ErrLost) {
			if s.block.tag == "COMMIT" {
				s.drop()
				if err = s.lostCommit(err); err == nil {
					s.abandon()
					return nil
				}
			}
			s.forsake()
			s.lostTx = false
			return s.refuse(err)
		}
		s.block.tag, s.quietFailed = "ROLLBACK", true
		s.tell(pgerr.From(err))
	}
	s.committing = s.block.tag == "COMMIT"
	if err := s.afterBlock(c); err != nil {
		return s.failed(err)
	}
	return nil
}

// opensOnly reports whether a text does nothing but open a block of a certain kind.
func (s *Session) opensOnly(text []byte) bool {
	tree, err := parser.ParseTree(string(text), s.scanOptions())
	return err == nil && tree.OpensOnly()
}

// seriesQuery runs the statements of a text one by one. It reports false if
// the text is not one that can be taken apart.
func (s *Session) seriesQuery(text []byte, f *parser.Facts, n int) (ok bool, err error) {
	if f.Statements < 2 || f.Effects&(parser.TwoPhase|parser.NonTransactional|parser.CopyIn|parser.CopyOut) != 0 {
		return false, nil
	}
	tree, err := parser.ParseTree(string(text), s.scanOptions())
	if err != nil {
		return false, nil //nolint:nilerr // the backend shall say what is wrong
	}
	opens, ends := false, false
	if f.Effects&(parser.TxBegin|parser.TxEnd) != 0 {
		if opens, ends = tree.Framed(); !opens || s.block.open {
			return false, nil
		}
	}
	var parts []string
	for i, st := range tree.Statements {
		start, end := tree.Offset(st.StmtLocation), len(text)
		if i+1 < len(tree.Statements) {
			end = tree.Offset(st.StmtLocation + st.StmtLen)
		}
		// Blanks in the place of what came before keep positions right.
		parts = append(parts, strings.Repeat(" ", utf8.RuneCount(text[:start]))+string(text[start:end]))
	}
	s.client.Consume(wire.HeaderLen + n)
	tag := ""
	if opens {
		tag = s.block.start(beginText([]byte(strings.TrimSpace(parts[0]))))
		parts = parts[1:]
	}
	if ends {
		parts = parts[:len(parts)-1]
	}
	return true, s.inOwnBlock(func() error {
		s.tellTag(tag)
		for _, part := range parts {
			if err := s.runPart([]byte(part)); err != nil {
				return err
			}
			if s.quietFailed || !s.block.open {
				return nil
			}
		}
		if !ends {
			return nil
		}
		if err := s.endOwn(); err != nil {
			return err
		}
		s.tellTag("COMMIT")
		return nil
	})
}

// runPart runs one statement of a text.
func (s *Session) runPart(text []byte) error {
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	f := s.read(r, text)
	if f.Effects&parser.Executes != 0 {
		sql, ok, err := s.executedText(text, f)
		if err != nil {
			return s.refuseRead(err)
		}
		if ok {
			return s.runPart([]byte(sql))
		}
	}
	if toAll(f) {
		if err := s.useForAll(string(text), f); err != nil {
			return s.refuseRead(err)
		}
		return s.runHere(text, f)
	}
	p, err := s.plan(r, text, nil)
	if err != nil {
		return s.refuseRead(err)
	}
	switch p.Route {
	case plan.Call:
		return s.refuseRead(pgerr.New(pgerr.ActiveSQLTransaction, "weft.%s cannot be part of a text with several statements", p.Function.Name))
	case plan.Every:
		return s.everyPart(p, string(text), f)
	}
	edits, err := s.place(r, p, text, f)
	if errors.Is(err, errMoved) {
		return s.runPart(text)
	}
	if errors.Is(err, errGather) {
		return s.gatherQuery(r, p, text, f, consumed)
	}
	if err != nil {
		return s.refuseRead(err)
	}
	if edits != nil {
		return s.sendEdited(string(text), edits, f)
	}
	return s.runHere(text, f)
}

// runHere runs a text on the backend at hand that is no longer in the client's
// buffer.
func (s *Session) runHere(text []byte, f *parser.Facts) error {
	if s.special(f) {
		return s.specialQuery(string(text), f, consumed)
	}
	return s.sendQuery(string(text), nil)
}
