package proxy

import (
	"weft/parser"
	"weft/pgerr"
	"weft/twopc"
	"weft/wire"
)

// When a backend dies its transaction is gone, but the client believes to be
// inside it. Going on in autocommit would commit half of what it meant, so the
// session behaves as in a failed transaction, with no backend, until the
// client ends it.

// queryInLostTx answers as PostgreSQL does in a failed transaction: only its
// end is let through, and there is no backend to be told.
func (s *Session) queryInLostTx(text []byte, facts *parser.Facts, n int) error {
	commit, noSavepoint := endsTx(facts) && commits(string(text)), s.noSavepoint(text, facts)
	s.client.Consume(wire.HeaderLen + n)
	switch {
	case facts.Statements == 0 && facts.Err == nil:
		s.toClient.Grow()
		s.toClient.B = wire.AppendEmpty(s.toClient.B, wire.EmptyQueryResponse)
	case endsTx(facts):
		s.endLostTx(commit)
	case noSavepoint != nil:
		s.tell(noSavepoint)
	default:
		s.tell(s.lostTxError())
	}
	s.tellReady()
	return nil
}

// noSavepoint is the answer to a ROLLBACK TO in a transaction that has failed before any
// shard took part: there is no savepoint. Nil for others.
func (s *Session) noSavepoint(text []byte, f *parser.Facts) *pgerr.Error {
	if !s.failedHere || !rollsBackTo(text, f) {
		return nil
	}
	w := words(string(text))
	return pgerr.New("3B001", "savepoint %q does not exist", unquote(w[len(w)-1]))
}

// endLostTx ends it for the client too. COMMIT is answered with ROLLBACK only to those
// who have heard of the failure: to others that would look like success.
func (s *Session) endLostTx(commit bool) (told bool) {
	cause := s.lostCause
	s.lostTx, s.failedHere, s.lostCause = false, false, nil
	if commit && cause != nil {
		s.tell(cause)
		return true
	}
	s.toClient.Grow()
	s.toClient.B = wire.AppendCommandComplete(s.toClient.B, "ROLLBACK")
	return false
}

// lostTxError is what the client is told: first how its transaction was lost,
// if it has not heard, and then that it is over.
func (s *Session) lostTxError() *pgerr.Error {
	if e := s.lostCause; e != nil {
		s.lostCause = nil
		return e
	}
	e := transactionFailed()
	if !s.failedHere {
		e.Detail = "The connection to the shard was lost during the transaction."
	}
	return e
}

// transactionFailed is PostgreSQL's answer to everything in a failed
// transaction.
func transactionFailed() *pgerr.Error {
	return pgerr.New(pgerr.InFailedSQLTransaction, "current transaction is aborted, commands ignored until end of transaction block")
}

// endsTx reports whether the text does nothing but end a transaction.
func endsTx(f *parser.Facts) bool {
	return f != nil && f.Statements == 1 && f.Effects&parser.TxEnd != 0 && f.Effects&parser.TwoPhase == 0
}

func (s *Session) failInLostTx() {
	s.emitLocal()
	s.tell(s.lostTxError())
	s.skipping = true
}

func (s *Session) parseInLostTx(p wire.ParseBody, body []byte, f *parser.Facts) {
	if !endsTx(f) && !isEmpty(f) && s.noSavepoint(p.SQL, f) == nil || s.statements[string(p.Name)] != nil {
		s.failInLostTx()
		return
	}
	if err := undetermined(p.OIDs); err != nil && !isEmpty(f) {
		s.tellInLostTx(err)
		return
	}
	if len(p.Name) == 0 {
		s.unnamed.set(body, f)
		s.unnamed.planned.oids = append(s.unnamed.planned.oids[:0], p.OIDs...)
	} else {
		if s.statements == nil {
			s.statements = map[string]*statement{}
		}
		s.statements[string(p.Name)] = &statement{
			name: string(p.Name), facts: f, server: s.shared(string(p.SQL), string(p.OIDs), false),
			planned: planned{oids: []byte(string(p.OIDs)), read: s.readsNow()},
		}
	}
	s.ops.push(op{kind: opLocal, answer: wire.ParseComplete})
}

// isEmpty reports whether a text has no statement: a failed transaction takes it.
func isEmpty(f *parser.Facts) bool { return f != nil && f.Statements == 0 && f.Err == nil }

// bindInLostTx answers a Bind. tail is what it carries beyond the names, nil if that is
// not all here.
func (s *Session) bindInLostTx(name, tail []byte) {
	f, text := s.unnamed.facts, ""
	if len(name) > 0 {
		f = nil
		if st := s.statements[string(name)]; st != nil {
			f, text = st.facts, st.server.SQL
		}
	} else if !s.unnamed.valid {
		f = nil
	} else if p, err := wire.DecodeParse(s.unnamed.body); err == nil {
		text = string(p.SQL)
	}
	if f == nil {
		s.tellInLostTx(noStatement(name))
		return
	}
	_, pl := s.parsed(name)
	params := len(declaredTypes(pl.oids))
	missing := s.noSavepoint([]byte(text), f)
	if err := miscounted(tail, name, params); tail != nil && err != nil && (endsTx(f) || isEmpty(f) || missing != nil) {
		s.tellInLostTx(err)
		return
	}
	if !endsTx(f) && missing == nil || params > 0 {
		s.failInLostTx()
		return
	}
	s.endsLostTx, s.commitsLostTx, s.missesInLostTx = true, commits(text), missing
	s.ops.push(op{kind: opLocal, answer: wire.BindComplete})
}

func (s *Session) describeInLostTx(kind byte, name []byte) {
	f, pl := s.parsed(name)
	switch {
	case kind == 'S' && pl == nil:
		s.tellInLostTx(noStatement(name))
		return
	case kind == 'P' && !s.endsLostTx && !s.hasPortal(name):
		s.tellInLostTx(noPortal(name))
		return
	case kind == 'S' && !ofBlock(f) && !isEmpty(f), kind == 'P' && !s.endsLostTx:
		s.failInLostTx() // it may return rows
		return
	}
	s.emitLocal()
	s.toClient.Grow()
	if kind == 'S' {
		s.toClient.B = append(s.toClient.B, describeTypes(pl.oids)...)
	}
	s.toClient.B = wire.AppendEmpty(s.toClient.B, wire.NoData)
}

// tellInLostTx answers a message with another error than that of all in a failed
// transaction.
func (s *Session) tellInLostTx(err error) {
	s.emitLocal()
	s.tell(pgerr.From(err))
	s.skipping = true
}

// noStatement is PostgreSQL's answer to a name that nobody has prepared.
func noStatement(name []byte) error {
	if len(name) == 0 {
		return pgerr.New(pgerr.InvalidSQLStatementName, "unnamed prepared statement does not exist")
	}
	return pgerr.New(pgerr.InvalidSQLStatementName, "prepared statement %q does not exist", name)
}

func (s *Session) executeInLostTx(name []byte) {
	if !s.endsLostTx && !s.hasPortal(name) {
		s.tellInLostTx(noPortal(name))
		return
	}
	if !s.endsLostTx {
		s.failInLostTx()
		return
	}
	s.emitLocal()
	s.endsLostTx = false
	if e := s.missesInLostTx; e != nil {
		s.tellInLostTx(e)
		return
	}
	if s.endLostTx(s.commitsLostTx) {
		s.skipping = true
	}
}

// lost handles a backend that died under the session. An open transaction is
// gone with it, and the client must not go on as if it had none.
func (s *Session) lost(err error) error {
	if s.fatal || s.rem > 0 {
		// The client has been told, or has half a row and cannot be.
		_ = s.flushClient()
		s.drop()
		return errEnd
	}
	open := s.conn != nil && s.conn.Status != wire.TxIdle || s.block.open
	pinned := s.pins&^pinSessionMode != 0 && (s.conn == nil || s.conn.Lane() == s.lane)
	synced := s.pendingSync()
	if !open && !s.committing && s.mayHaveWritten(synced) {
		err = mayBeThere(err)
	}
	cause := err
	if !s.committing {
		err = s.whyGivenUp(err) // nobody knows it after drop
	}
	s.drop()
	s.log.Warn("backend lost", "err", cause)
	if s.committing {
		open = false // whatever it has become, it is over
		if err = s.lostCommit(err); err == nil && !pinned {
			return s.committedAfterAll(synced)
		}
		if err == nil {
			err = committedButGone()
		}
	}
	s.committing = false
	s.done = effects{}
	if pinned {
		// Temporary tables and the like went with it.
		return pgerr.From(err)
	}
	s.lostTx = s.lostTx || open
	s.abandon()
	if err := s.refuse(err); err != nil {
		return err
	}
	if synced {
		s.tellReady()
		return s.flushOrEnd()
	}
	s.skipping = true
	return s.flushOrEnd()
}

// lostCommit finds out what has become of a COMMIT whose answer was lost, and makes
// the other participants follow. It returns what the client is to be told, nil
// if it was committed.
func (s *Session) lostCommit(err error) error {
	a := s.agreement
	if a == nil || !a.Committing() {
		return unknownEnd(err)
	}
	a.Committed(twopc.Lost)
	outcome := twopc.Open
	if !s.gaveUp() { // nobody waits any longer for a shard that stands still
		outcome = s.srv.arbitrate(s.ctx, a.name, s.db.Name)
	}
	switch a.Arbitrated(outcome) {
	case twopc.Leave:
		s.log.Warn("the outcome of a transaction is not known yet", "gid", a.decision.Key)
		s.letGoOf()
		return unknownEnd(err)
	case twopc.Undo:
		s.block.tag = "ROLLBACK"
		s.followAll("ROLLBACK")
		_ = s.settleWithout(twopc.Aborted)
		return pgerr.New(pgerr.ConnectionFailure, "the connection to the shard was lost during COMMIT").
			WithDetail("The transaction has been rolled back.").WithHint("Do it again.").WithCause(err)
	}
	s.block.tag = "COMMIT"
	s.followAll("COMMIT")
	if err := s.settleWithout(twopc.Committed); err != nil {
		return err
	}
	return a.lateness()
}

// settleWithout does what settle does, without the backend that could tell what has
// become of the session. It returns an error if the session cannot go on.
func (s *Session) settleWithout(o twopc.Outcome) error {
	d := s.done
	s.done = effects{}
	s.env = nil
	if d.schema {
		s.db.Generation.Add(1)
	}
	if (d.schema || d.resequence) && s.hasTables {
		s.publishEnd(&d, o)
	}
	s.letGoOf()
	if o == twopc.Committed && d.bits&uncertain != 0 {
		return committedButGone()
	}
	return nil
}

// committedButGone ends a session whose state is lost with its backend.
func committedButGone() error {
	return pgerr.Fatal(pgerr.ConnectionFailure, "the connection to the shard was lost after COMMIT").
		WithDetail("The transaction is committed. What it has changed in the session is lost.")
}

// committedAfterAll tells the client so.
func (s *Session) committedAfterAll(synced bool) error {
	s.committing = false
	s.abandon()
	s.toClient.Grow()
	s.toClient.B = wire.AppendCommandComplete(s.toClient.B, "COMMIT")
	if synced {
		s.tellReady()
	}
	return s.flushOrEnd()
}

// mayHaveWritten reports whether what was sent to the backend at hand, outside of a
// block, may have been carried out to its end and changed something.
func (s *Session) mayHaveWritten(synced bool) bool {
	if !synced {
		return false // it is one transaction, and nobody has asked for its end
	}
	reads := func(f *parser.Facts) bool { return f != nil && f.Reads }
	if s.run.simple {
		return !reads(s.run.facts)
	}
	executes := 0
	for i := s.ops.head; i < len(s.ops.ops); i++ {
		o := &s.ops.ops[i]
		if o.kind != opExecute {
			continue
		}
		if executes++; !reads(o.run.facts) {
			return true
		}
	}
	return executes == 0 // it has been answered, and its end has not
}

// mayBeThere is the error of a backend that was lost while it may have written.
func mayBeThere(err error) error {
	return pgerr.New(pgerr.TransactionResolutionUnknown, "%s", pgerr.From(err).Message).
		WithDetail("The statement may or may not have been executed.").
		WithHint("Look whether its changes are there before doing it again.").WithCause(err)
}

// pendingSync reports whether the client is owed a ReadyForQuery.
func (s *Session) pendingSync() bool {
	for i := s.ops.head; i < len(s.ops.ops); i++ {
		if o := &s.ops.ops[i]; o.ends() && !o.injected && !o.settles {
			return true
		}
	}
	return false
}
