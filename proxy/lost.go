package proxy

import (
	"errors"

	"weft/parser"
	"weft/pgerr"
	"weft/twopc"
	"weft/wire"
)

// When a backend dies its transaction is gone, but the client believes that the transaction is
// open. Going on in autocommit would commit half of the client's work, so the session behaves
// as in a failed transaction, without a backend, until the client ends the transaction.

// queryInLostTx answers as PostgreSQL does in a failed transaction: only a command that ends
// the transaction is accepted, and no backend is told of it.
func (l *loss) queryInLostTx(text []byte, facts *parser.Facts, n int) error {
	commit := endsTx(facts) && commits(string(text))
	l.s.client.Consume(wire.HeaderLen + n)
	switch {
	case facts.Statements == 0 && facts.Err == nil:
		l.s.out.Grow()
		l.s.out.B = wire.AppendEmpty(l.s.out.B, wire.EmptyQueryResponse)
	case endsTx(facts):
		l.endLostTx(commit)
	default:
		l.s.out.tell(l.lostTxError())
	}
	l.s.out.tellReady()
	return nil
}

// endLostTx ends a lost transaction for the client. COMMIT is answered with ROLLBACK only if
// the client has heard of the failure; otherwise with the cause, as a mere ROLLBACK could pass
// for success.
func (l *loss) endLostTx(commit bool) (told bool) {
	cause := l.end()
	if commit && cause != nil {
		l.s.out.tell(cause)
		return true
	}
	l.s.out.Grow()
	l.s.out.B = wire.AppendCommandComplete(l.s.out.B, "ROLLBACK")
	return false
}

// lostTxError is the error for the client: first how its transaction was lost, if it has not
// heard, then that the transaction has failed.
func (l *loss) lostTxError() *pgerr.Error {
	if e := l.takeCause(); e != nil {
		return e
	}
	e := transactionFailed()
	if l.state == backendGone {
		e.Detail = "The connection to the shard was lost during the transaction."
	}
	return e
}

// transactionFailed is PostgreSQL's error for every command in a failed transaction.
func transactionFailed() *pgerr.Error {
	return pgerr.New(pgerr.InFailedSQLTransaction, "current transaction is aborted, commands ignored until end of transaction block")
}

// endsTx reports whether the text does nothing but end a transaction.
func endsTx(f *parser.Facts) bool {
	return f != nil && f.Statements == 1 && f.Effects&parser.TxEnd != 0
}

// failInLostTx answers an extended message with the error of a failed transaction.
func (l *loss) failInLostTx() {
	l.s.emitLocal()
	l.s.out.tell(l.lostTxError())
	l.s.pipe.skipToSync()
}

// parseInLostTx answers a Parse. Only texts that end the transaction, and empty ones, are
// accepted.
func (l *loss) parseInLostTx(p wire.ParseBody, body []byte, f *parser.Facts) {
	if !endsTx(f) && !isEmpty(f) || l.s.prepared.named[string(p.Name)] != nil {
		l.failInLostTx()
		return
	}
	if err := undetermined(p.OIDs); err != nil && !isEmpty(f) {
		l.tellInLostTx(err)
		return
	}
	if len(p.Name) == 0 {
		l.s.prepared.unnamed.set(body, f)
		l.s.prepared.unnamed.planned.oids = append(l.s.prepared.unnamed.planned.oids[:0], p.OIDs...)
	} else {
		l.s.prepared.add(&statement{
			name: string(p.Name), facts: f, server: l.s.prepared.shared(string(p.SQL), string(p.OIDs), false),
			planned: planned{oids: []byte(string(p.OIDs)), read: l.s.record.readsNow()},
		})
	}
	l.s.pipe.ops.push(op{kind: opLocal, answer: wire.ParseComplete})
}

// isEmpty reports whether a text has no statement: a failed transaction accepts such a text.
func isEmpty(f *parser.Facts) bool { return f != nil && f.Statements == 0 && f.Err == nil }

// bindInLostTx answers a Bind. tail is the part of the Bind behind the names, or nil if it has
// not all arrived.
func (l *loss) bindInLostTx(name, tail []byte) {
	f, text := l.s.prepared.unnamed.facts, ""
	if len(name) > 0 {
		f = nil
		if st := l.s.prepared.named[string(name)]; st != nil {
			f, text = st.facts, st.server.SQL
		}
	} else if !l.s.prepared.unnamed.valid {
		f = nil
	} else if p, err := wire.DecodeParse(l.s.prepared.unnamed.body); err == nil {
		text = string(p.SQL)
	}
	if f == nil {
		l.tellInLostTx(noStatement(name))
		return
	}
	_, pl := l.s.prepared.parsed(name)
	params := len(declaredTypes(pl.oids))
	if err := miscounted(tail, name, params); tail != nil && err != nil && (endsTx(f) || isEmpty(f)) {
		l.tellInLostTx(err)
		return
	}
	if !endsTx(f) || params > 0 {
		l.failInLostTx()
		return
	}
	l.bound = endsByRollback
	if commits(text) {
		l.bound = endsByCommit
	}
	l.s.pipe.ops.push(op{kind: opLocal, answer: wire.BindComplete})
}

// describeInLostTx answers a Describe: statements and portals that return no rows are
// described.
func (l *loss) describeInLostTx(kind byte, name []byte) {
	f, pl := l.s.prepared.parsed(name)
	switch {
	case kind == 'S' && pl == nil:
		l.tellInLostTx(noStatement(name))
		return
	case kind == 'P' && l.bound == endsNothing && !l.s.portals.hasPortal(name):
		l.tellInLostTx(noPortal(name))
		return
	case kind == 'S' && !ofBlock(f) && !isEmpty(f), kind == 'P' && l.bound == endsNothing:
		l.failInLostTx() // the statement may return rows
		return
	}
	l.s.emitLocal()
	l.s.out.Grow()
	if kind == 'S' {
		l.s.out.B = append(l.s.out.B, describeTypes(pl.oids)...)
	}
	l.s.out.B = wire.AppendEmpty(l.s.out.B, wire.NoData)
}

// tellInLostTx answers a message with an error other than the usual one of a failed
// transaction.
func (l *loss) tellInLostTx(err error) {
	l.s.emitLocal()
	l.s.out.tell(pgerr.From(err))
	l.s.pipe.skipToSync()
}

// noStatement is PostgreSQL's error for the name of a statement that does not exist.
func noStatement(name []byte) error {
	if len(name) == 0 {
		return pgerr.New(pgerr.InvalidSQLStatementName, "unnamed prepared statement does not exist")
	}
	return pgerr.New(pgerr.InvalidSQLStatementName, "prepared statement %q does not exist", name)
}

// executeInLostTx answers an Execute: only a portal that ends the transaction is executed.
func (l *loss) executeInLostTx(name []byte) {
	if l.bound == endsNothing && !l.s.portals.hasPortal(name) {
		l.tellInLostTx(noPortal(name))
		return
	}
	if l.bound == endsNothing {
		l.failInLostTx()
		return
	}
	l.s.emitLocal()
	commit := l.bound == endsByCommit
	l.bound = endsNothing
	if l.endLostTx(commit) {
		l.s.pipe.skipToSync()
	}
}

// onLost handles the loss of a backend under the session. An open transaction is gone with the
// backend, and the client must not go on as if it had none.
func (l *loss) onLost(err error) error {
	if !l.s.lost.retry.takes(err, true) && (l.s.out.fatal || l.s.out.rem > 0) {
		// The client has been told, or has half a row and cannot be told.
		_ = l.s.out.flushClient()
		l.s.held.drop()
		return errEnd
	}
	open := l.s.held.conn != nil && l.s.held.conn.Status() != wire.TxIdle || l.s.tx.isOpen()
	pinned := l.s.record.pins&^pinSessionMode != 0 && (l.s.held.conn == nil || l.s.held.conn.Lane() == l.s.lane)
	synced := l.s.pipe.pendingSync()
	// What was overtaken has not been sent. If nothing was sent before, nothing has been executed.
	unsent := errors.Is(err, errOvertaken) && !l.s.pipe.isAhead()
	if !open && !l.s.commit.underway && !unsent && l.mayHaveWritten(synced) {
		err = mayBeThere(err)
	}
	cause := err
	if !l.s.commit.underway {
		err = l.s.reach.whyGivenUp(err) // the reason is not known after drop
	}
	l.s.held.drop()
	l.s.log.Warn("backend lost", "err", cause)
	if l.s.commit.underway {
		open = false // the transaction is over, whatever its outcome
		if err = l.lostCommit(err); err == nil && !pinned {
			return l.committedAfterAll(synced)
		}
		if err == nil {
			err = committedButGone()
		}
	}
	l.s.commit.noteEnded()
	l.s.record.done.forget()
	if pinned {
		// Temporary tables and the like are gone with the backend.
		return pgerr.From(err)
	}
	if open {
		l.lose(nil)
	}
	l.s.tx.abandon()
	if err := l.s.out.refuse(err); err != nil {
		return err
	}
	if synced {
		l.s.out.tellReady()
		return l.s.out.flushOrEnd()
	}
	l.s.pipe.skipToSync()
	return l.s.out.flushOrEnd()
}

// lostCommit finds out the outcome of a COMMIT whose answer was lost, and makes the other
// participants follow. It returns the error for the client, nil if the transaction was
// committed.
func (l *loss) lostCommit(err error) error {
	a := l.s.commit.agreement
	switch {
	case a == nil && l.s.commit.changesNothing():
		return pgerr.New(pgerr.ConnectionFailure, "the connection to the shard was lost during COMMIT").WithDetail("The transaction had changed nothing.").WithCause(err)
	case a == nil || !a.Committing():
		return l.s.commit.unknown(err)
	}
	l.s.commit.end(a, twopc.Lost)
	switch a.Outcome() {
	case twopc.Open:
		l.s.log.Warn("the outcome of a transaction is not known yet", "gid", a.decision.Key)
		l.s.commit.leaveToResolver()
		return l.s.commit.unknown(err)
	case twopc.Aborted:
		l.s.tx.noteTag("ROLLBACK")
		_ = l.settleWithout(twopc.Aborted)
		if errors.Is(err, errOvertaken) {
			return err // no connection was lost, and the error says to do it again
		}
		what := "COMMIT"
		if l.s.commit.pledging {
			what = "PREPARE TRANSACTION"
		}
		return pgerr.New(pgerr.ConnectionFailure, "the connection to the shard was lost during %s", what).
			WithDetail("The transaction has been rolled back.").WithHint("Do it again.").WithCause(err)
	}
	l.s.tx.noteTag("COMMIT")
	if err := l.settleWithout(twopc.Committed); err != nil {
		return err
	}
	return a.lateness()
}

// settleWithout is settle without the backend, which could have told the session's state. It
// returns an error if the session cannot go on.
func (l *loss) settleWithout(o twopc.Outcome) error {
	d := l.s.record.done.take()
	l.s.route.forgetNames()
	if d.schema {
		l.s.db.Generation.Add(1)
	}
	if (d.schema || d.resequence) && l.s.route.hasTables {
		l.s.commit.publishEnd(&d, o)
	}
	l.s.commit.leaveToResolver()
	if o == twopc.Committed && d.bits&uncertain != 0 {
		return committedButGone()
	}
	return nil
}

// committedButGone is the error that ends a session whose state is lost with its backend.
func committedButGone() error {
	return pgerr.Fatal(pgerr.ConnectionFailure, "the connection to the shard was lost after COMMIT").
		WithDetail("The transaction is committed. What it has changed in the session is lost.")
}

// committedAfterAll tells the client that the transaction is committed.
func (l *loss) committedAfterAll(synced bool) error {
	l.s.commit.noteEnded()
	l.s.tx.abandon()
	l.s.out.Grow()
	l.s.out.B = wire.AppendCommandComplete(l.s.out.B, "COMMIT")
	if synced {
		l.s.out.tellReady()
	}
	return l.s.out.flushOrEnd()
}

// mayHaveWritten reports whether statements sent to the backend at hand, outside of a block,
// may have been carried out to their end and changed something.
func (l *loss) mayHaveWritten(synced bool) bool {
	if !synced {
		return false // the messages are one transaction, and no Sync has been sent to end it
	}
	reads := func(f *parser.Facts) bool { return f != nil && f.Reads }
	if l.s.account.run.simple {
		return !reads(l.s.account.run.facts)
	}
	executes, void := 0, false
	for i := len(l.s.pipe.ops.ops) - 1; i >= l.s.pipe.ops.head; i-- {
		switch o := &l.s.pipe.ops.ops[i]; {
		case o.kind == opSync:
			void = o.void
		case o.kind != opExecute:
		case !reads(o.run.facts):
			return true
		default:
			executes++
		}
	}
	// Statements before the first Sync have been answered, but the end of their transaction has not.
	return l.retry.wrote || executes == 0 && !void
}

// mayBeThere is the error for a lost backend that may have carried out a write.
func mayBeThere(err error) error {
	return pgerr.New(pgerr.TransactionResolutionUnknown, "%s", pgerr.From(err).Message).
		WithDetail("The statement may or may not have been executed.").
		WithHint("Look whether its changes are there before doing it again.").WithCause(err)
}

// pendingSync reports whether the client is owed a ReadyForQuery.
func (p *pipe) pendingSync() bool {
	for i := p.ops.head; i < len(p.ops.ops); i++ {
		if o := &p.ops.ops[i]; o.ends() && !o.injected && !o.settles {
			return true
		}
	}
	return false
}
