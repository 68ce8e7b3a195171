package proxy

import (
	"encoding/binary"

	"weft/parser"
	"weft/wire"
)

// onQuery handles a simple query: one text, any number of statements.
func (s *Session) onQuery() error {
	body, err := s.frame()
	if e := s.refusable(err); e != nil {
		return s.afterQuery(s.refuseRead(e))
	}
	if err != nil {
		return err
	}
	s.beginRun()
	s.seeParent(body)
	err = s.query(body)
	s.endRun()
	s.parent = ""
	return err
}

// query is onQuery for a message that has come whole.
func (s *Session) query(body []byte) error {
	if !s.ops.empty() || s.hasPending {
		// Extended messages without a Sync stand before it: if they fail, it
		// is skipped with them.
		s.midFrame = true
		err := s.settleParse()
		if err == nil {
			err = s.flush()
		}
		s.midFrame = false
		if err != nil {
			return err
		}
		if s.skipping {
			s.client.Consume(wire.HeaderLen + len(body))
			return s.flushOrEnd()
		}
	}
	text, rest, ok := wire.CString(body)
	facts := malformedText
	s.unnamed.valid = false // a simple query drops it
	if s.implicit && (!ok || len(rest) > 0) {
		s.client.Consume(wire.HeaderLen + len(body))
		return s.afterQuery(s.refuseInPipe())
	}
	if ok && len(rest) == 0 {
		s.relies.begin()
		if s.routed() || s.implicit {
			if s.implicit || s.conn != nil && s.pipedHere() {
				return s.afterQuery(s.queryInPipe(text, len(body)))
			}
			return s.afterQuery(s.routedQuery(text, len(body)))
		}
		facts = s.facts(text)
		s.reliesOnNone(facts)
		s.runs(facts)
		if (callsWeft(facts) || s.rolesOfAll(facts)) && !s.lostTx {
			return s.afterQuery(s.routedQuery(text, len(body)))
		}
	}
	if s.lostTx {
		return s.afterQuery(s.queryInLostTx(text, facts, len(body)))
	}
	return s.afterQuery(s.runQuery(text, facts, len(body)))
}

// runQuery runs a simple query on the backend at hand, else on the home shard.
// n is the length of the message's body, which is still in the client's buffer.
func (s *Session) runQuery(text []byte, facts *parser.Facts, n int) error {
	if readsOption(text, facts) {
		if err := s.beforeShow(); err != nil {
			s.client.Consume(wire.HeaderLen + n)
			return s.refuseRead(err)
		}
	}
	if s.special(facts) {
		return s.specialQuery(string(text), facts, n)
	}
	if err := s.acquire(); err != nil {
		s.client.Consume(wire.HeaderLen + n)
		return s.refuseRead(err)
	}
	if s.channels != nil && facts.Effects&parser.TxBegin != 0 {
		if err := s.listenInBlock(); err != nil {
			s.client.Consume(wire.HeaderLen + n)
			return s.refusedHere(err)
		}
	}
	s.noteEnding(text, facts)
	if n == consumed {
		return s.sendQuery(string(text), nil)
	}
	s.conn.UnnamedBy = 0
	s.toServer.Grow()
	s.toServer.B = append(s.toServer.B, s.client.Buffered()[:wire.HeaderLen+n]...)
	s.client.Consume(wire.HeaderLen + n)
	s.ops.push(op{kind: opQuery, quiet: s.quiet})
	return s.exchange()
}

// malformedText stands for a message that the backend will not accept.
var malformedText = &parser.Facts{Statements: 1}

// afterQuery lets the client have everything and gives the backend back.
func (s *Session) afterQuery(err error) error {
	if err != nil {
		return err
	}
	if err := s.flushOrEnd(); err != nil {
		return err
	}
	s.release()
	s.endPortals()
	return s.checkKilled()
}

// refused answers a message that ends with ReadyForQuery by an error of
// weft's own.
func (s *Session) refused(err error) error {
	if err := s.refuse(err); err != nil {
		return err
	}
	s.tellReady()
	return nil
}

// sendQuery runs a text on the session's backend in the place of the client's
// own; changed says how the two differ.
func (s *Session) sendQuery(text string, changed *edited) error {
	s.conn.UnnamedBy = 0
	s.toServer.Grow()
	s.toServer.B = wire.AppendQuery(s.toServer.B, text)
	s.ops.push(op{kind: opQuery, text: changed, quiet: s.quiet})
	return s.exchange()
}

// onFunctionCall passes a function call on: the oldest way to call one.
func (s *Session) onFunctionCall() error {
	body, err := s.frame()
	if err != nil {
		return err
	}
	defer s.client.Consume(wire.HeaderLen + len(body))
	if !s.ops.empty() || s.hasPending {
		s.midFrame = true
		err := s.settleParse()
		if err == nil {
			err = s.flush()
		}
		s.midFrame = false
		if err != nil || s.skipping {
			return err
		}
	}
	if s.implicit {
		return s.afterQuery(s.refuseInPipe())
	}
	if s.lostTx {
		s.tell(s.lostTxError())
		s.tellReady()
		return s.flushOrEnd()
	}
	if err := s.useLane(s.lane); err != nil {
		return s.afterQuery(s.refuseRead(err))
	}
	s.advanced = true
	const firstUserOID = 16384
	if len(body) < 4 || binary.BigEndian.Uint32(body) >= firstUserOID || changesSession[binary.BigEndian.Uint32(body)] {
		s.done.add(parser.Opaque)
		s.conn.Stain(s.id, true)
	}
	s.toServer.Grow()
	s.toServer.B = wire.AppendFrame(s.toServer.B, wire.FunctionCall, body)
	s.ops.push(op{kind: opFunction})
	return s.afterQuery(s.exchange())
}

// changesSession lists the built-in functions that change more than their
// transaction, by OID as pg_proc has had it since they exist.
var changesSession = map[uint32]bool{
	2077: true, 2078: true, // current_setting's sibling set_config
	2880: true, 2881: true, 2882: true, 2883: true, 2884: true, 2885: true, // pg_advisory_lock family, one key
	2886: true, 2887: true, 2888: true, 2889: true, 2890: true, 2891: true, 2892: true, // two keys, unlock_all
	1599: true, // setseed
}

// unreadable stands for a text that cannot be scanned. The session is pinned,
// so that what it does need not be known.
var unreadable = &parser.Facts{Statements: 1}

// facts returns what the text does to the session.
func (s *Session) facts(text []byte) *parser.Facts {
	if s.oddEncoding {
		s.advanced = true // for all we know
		return unreadable
	}
	sc := s.srv.scanners.Get().(*parser.Scanner)
	f := s.srv.texts.Facts(sc, text, parser.Options{NonStandardStrings: s.oldStrings})
	s.srv.scanners.Put(sc)
	s.advanced = s.advanced || f.Effects&parser.ReadsSequence == 0 && mayAdvance(f)
	s.patience.saw(f)
	return f
}

func (s *Session) checkKilled() error {
	if e := s.killed.Load(); e != nil {
		return e
	}
	return nil
}
