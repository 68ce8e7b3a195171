package proxy

import (
	"encoding/binary"

	"weft/parser"
	"weft/wire"
)

// onQuery handles a simple query: one text, any number of statements.
func (s *Session) onQuery() error {
	body, err := s.pipe.frame()
	if e := s.pipe.refusable(err); e != nil {
		return s.afterQuery(s.lost.refuseRead(e))
	}
	if err != nil {
		return err
	}
	s.account.beginRun()
	s.account.seeParent(body)
	err = s.query(body)
	s.account.endRun()
	s.account.forgetParent()
	return err
}

// query is onQuery for a message that has arrived whole.
func (s *Session) query(body []byte) error {
	if !s.pipe.ops.empty() || s.pipe.kept.waits() {
		// Extended messages without a Sync come before the query: if they fail, the query
		// is skipped.
		s.pipe.holdFrame()
		err := s.prepared.settleParse()
		if err == nil {
			err = s.flush()
		}
		s.pipe.leaveFrame()
		if err != nil {
			return err
		}
		if s.pipe.isSkipping() {
			s.client.Consume(wire.HeaderLen + len(body))
			return s.out.flushOrEnd()
		}
	}
	text, rest, ok := wire.CString(body)
	facts := malformedText
	s.prepared.unnamed.valid = false // a simple query drops the unnamed statement
	s.route.outset.afresh()
	if s.implicit.isOpen() && (!ok || len(rest) > 0) {
		s.client.Consume(wire.HeaderLen + len(body))
		return s.afterQuery(s.implicit.refuseInPipe())
	}
	if ok && len(rest) == 0 {
		s.route.relies.begin()
		s.route.touch.begin()
		if s.route.refresh() || s.implicit.isOpen() {
			if s.implicit.isOpen() || s.held.conn != nil && s.implicit.pipedHere() {
				return s.afterQuery(s.implicit.queryInPipe(text, len(body)))
			}
			return s.afterQuery(s.route.routedQuery(text, len(body)))
		}
		facts = s.facts(text)
		s.route.reliesOnNone(facts)
		s.account.nameRun(facts, text)
		if (callsWeft(facts) || s.route.rolesOfAll(facts)) && !s.lost.is() {
			return s.afterQuery(s.route.routedQuery(text, len(body)))
		}
	}
	if s.lost.is() {
		return s.afterQuery(s.lost.queryInLostTx(text, facts, len(body)))
	}
	if err := s.route.outset.passHome(facts); err != nil {
		s.client.Consume(wire.HeaderLen + len(body))
		return s.afterQuery(s.lost.refuseRead(err))
	}
	return s.afterQuery(s.runQuery(text, facts, len(body)))
}

// runQuery runs a simple query on the backend at hand, or else on the home shard. n is the
// length of the message's body, which is still in the client's buffer.
func (s *Session) runQuery(text []byte, facts *parser.Facts, n int) error {
	if readsOption(text, facts) {
		if err := s.record.beforeShow(); err != nil {
			s.client.Consume(wire.HeaderLen + n)
			return s.lost.refuseRead(err)
		}
	}
	if s.record.special(facts) {
		return s.record.specialQuery(string(text), facts, n)
	}
	if err := s.held.acquire(); err != nil {
		s.client.Consume(wire.HeaderLen + n)
		return s.lost.refuseRead(err)
	}
	if s.record.channels != nil && facts.Effects&parser.TxBegin != 0 {
		if err := s.record.listenInBlock(); err != nil {
			s.client.Consume(wire.HeaderLen + n)
			return s.lost.refusedHere(err)
		}
	}
	s.commit.noteEnding(text, facts)
	if n == consumed {
		return s.sendQuery(string(text), nil)
	}
	s.held.conn.UnnamedGone()
	s.pipe.unsent.Grow()
	s.pipe.unsent.B = append(s.pipe.unsent.B, s.client.Buffered()[:wire.HeaderLen+n]...)
	s.pipe.ops.push(op{kind: opQuery, fetches: s.portals.fetched(text), quiet: s.out.isQuiet()})
	s.client.Consume(wire.HeaderLen + n)
	return s.pipe.exchange()
}

// malformedText stands for a message that the backend will not accept.
var malformedText = &parser.Facts{Statements: 1}

// afterQuery sends the client all answers and gives the backend back.
func (s *Session) afterQuery(err error) error {
	if err != nil {
		return err
	}
	if err := s.out.flushOrEnd(); err != nil {
		return err
	}
	s.held.release()
	s.tx.endPortals()
	if s.account.tape != nil {
		s.account.endTape()
	}
	return s.reach.checkKilled()
}

// refused answers a message whose answer ends with ReadyForQuery by an error of weft.
func (s *Session) refused(err error) error {
	if err := s.out.refuse(err); err != nil {
		return err
	}
	s.out.tellReady()
	return nil
}

// sendQuery runs a text on the session's backend in the place of the client's text; changed
// says how the two differ.
func (s *Session) sendQuery(text string, changed *edited) error {
	s.held.conn.UnnamedGone()
	s.pipe.unsent.Grow()
	s.pipe.unsent.B = wire.AppendQuery(s.pipe.unsent.B, text)
	s.pipe.ops.push(op{kind: opQuery, text: changed, fetches: s.portals.fetched([]byte(text)), quiet: s.out.isQuiet()})
	return s.pipe.exchange()
}

// onFunctionCall passes on a FunctionCall message, the oldest way to call a function.
func (s *Session) onFunctionCall() error {
	body, err := s.pipe.frame()
	if err != nil {
		return err
	}
	defer s.client.Consume(wire.HeaderLen + len(body))
	if !s.pipe.ops.empty() || s.pipe.kept.waits() {
		s.pipe.holdFrame()
		err := s.prepared.settleParse()
		if err == nil {
			err = s.flush()
		}
		s.pipe.leaveFrame()
		if err != nil || s.pipe.isSkipping() {
			return err
		}
	}
	if s.implicit.isOpen() {
		return s.afterQuery(s.implicit.refuseInPipe())
	}
	if s.lost.is() {
		s.out.tell(s.lost.lostTxError())
		s.out.tellReady()
		return s.out.flushOrEnd()
	}
	if err := s.held.useLane(s.lane); err != nil {
		return s.afterQuery(s.lost.refuseRead(err))
	}
	s.record.noteAdvance()
	s.held.away.course.Note()
	s.lost.retry.saw(nil)
	const firstUserOID = 16384
	if len(body) < 4 || binary.BigEndian.Uint32(body) >= firstUserOID || changesSession[binary.BigEndian.Uint32(body)] {
		s.record.done.add(parser.Opaque)
		s.held.conn.Stain(s.id, true)
	}
	s.pipe.unsent.Grow()
	s.pipe.unsent.B = wire.AppendFrame(s.pipe.unsent.B, wire.FunctionCall, body)
	s.pipe.ops.push(op{kind: opFunction})
	return s.afterQuery(s.pipe.exchange())
}

// changesSession lists built-in functions that change more than their transaction, by their
// OID in pg_proc, which has never changed.
var changesSession = map[uint32]bool{
	2077: true, 2078: true, // current_setting and set_config
	2880: true, 2881: true, 2882: true, 2883: true, 2884: true, 2885: true, // pg_advisory_lock family, one key
	2886: true, 2887: true, 2888: true, 2889: true, 2890: true, 2891: true, 2892: true, // two keys, unlock_all
	1599: true, // setseed
}

// unreadable stands for a text that cannot be scanned. The session is pinned, so weft need
// not know what the text does.
var unreadable = &parser.Facts{Statements: 1}

// facts returns what the text does to the session.
func (s *Session) facts(text []byte) *parser.Facts {
	if s.record.oddEncoding {
		s.record.noteAdvance() // the text may advance a sequence
		return unreadable
	}
	sc := s.srv.memory.scanners.Get().(*parser.Scanner)
	f := s.srv.memory.texts.Facts(sc, text, parser.Options{NonStandardStrings: s.record.oldStrings})
	s.srv.memory.scanners.Put(sc)
	if !s.record.advanced && f.Effects&parser.ReadsSequence == 0 && mayAdvance(f) {
		s.record.noteAdvance()
	}
	s.reach.patience.saw(f)
	return f
}

func (re *reach) checkKilled() error {
	if e := re.killed.Load(); e != nil {
		return e
	}
	return nil
}
