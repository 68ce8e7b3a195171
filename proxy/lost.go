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

// endLostTx ends it for the client too. COMMIT is answered with ROLLBACK only to those
// who have heard of the failure: to others that would look like success.
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

// lostTxError is what the client is told: first how its transaction was lost,
// if it has not heard, and then that it is over.
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

// transactionFailed is PostgreSQL's answer to everything in a failed
// transaction.
func transactionFailed() *pgerr.Error {
	return pgerr.New(pgerr.InFailedSQLTransaction, "current transaction is aborted, commands ignored until end of transaction block")
}

// endsTx reports whether the text does nothing but end a transaction.
func endsTx(f *parser.Facts) bool {
	return f != nil && f.Statements == 1 && f.Effects&parser.TxEnd != 0 && f.Effects&parser.TwoPhase == 0
}

func (l *loss) failInLostTx() {
	l.s.emitLocal()
	l.s.out.tell(l.lostTxError())
	l.s.pipe.skipToSync()
}

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
		if l.s.prepared.named == nil {
			l.s.prepared.named = map[string]*statement{}
		}
		l.s.prepared.named[string(p.Name)] = &statement{
			name: string(p.Name), facts: f, server: l.s.prepared.shared(string(p.SQL), string(p.OIDs), false),
			planned: planned{oids: []byte(string(p.OIDs)), read: l.s.record.readsNow()},
		}
	}
	l.s.pipe.ops.push(op{kind: opLocal, answer: wire.ParseComplete})
}

// isEmpty reports whether a text has no statement: a failed transaction takes it.
func isEmpty(f *parser.Facts) bool { return f != nil && f.Statements == 0 && f.Err == nil }

// bindInLostTx answers a Bind. tail is what it carries beyond the names, nil if that is
// not all here.
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
		l.failInLostTx() // it may return rows
		return
	}
	l.s.emitLocal()
	l.s.out.Grow()
	if kind == 'S' {
		l.s.out.B = append(l.s.out.B, describeTypes(pl.oids)...)
	}
	l.s.out.B = wire.AppendEmpty(l.s.out.B, wire.NoData)
}

// tellInLostTx answers a message with another error than that of all in a failed
// transaction.
func (l *loss) tellInLostTx(err error) {
	l.s.emitLocal()
	l.s.out.tell(pgerr.From(err))
	l.s.pipe.skipToSync()
}

// noStatement is PostgreSQL's answer to a name that nobody has prepared.
func noStatement(name []byte) error {
	if len(name) == 0 {
		return pgerr.New(pgerr.InvalidSQLStatementName, "unnamed prepared statement does not exist")
	}
	return pgerr.New(pgerr.InvalidSQLStatementName, "prepared statement %q does not exist", name)
}

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

// onLost handles a backend that died under the session. An open transaction is
// gone with it, and the client must not go on as if it had none.
func (l *loss) onLost(err error) error {
	if l.s.out.fatal || l.s.out.rem > 0 {
		// The client has been told, or has half a row and cannot be.
		_ = l.s.out.flushClient()
		l.s.held.drop()
		return errEnd
	}
	open := l.s.held.conn != nil && l.s.held.conn.Status != wire.TxIdle || l.s.tx.open
	pinned := l.s.record.pins&^pinSessionMode != 0 && (l.s.held.conn == nil || l.s.held.conn.Lane() == l.s.lane)
	synced := l.s.pipe.pendingSync()
	if !open && !l.s.commit.underway && l.mayHaveWritten(synced) {
		err = mayBeThere(err)
	}
	cause := err
	if !l.s.commit.underway {
		err = l.s.reach.whyGivenUp(err) // nobody knows it after drop
	}
	l.s.held.drop()
	l.s.log.Warn("backend lost", "err", cause)
	if l.s.commit.underway {
		open = false // whatever it has become, it is over
		if err = l.lostCommit(err); err == nil && !pinned {
			return l.committedAfterAll(synced)
		}
		if err == nil {
			err = committedButGone()
		}
	}
	l.s.commit.underway = false
	l.s.record.done = effects{}
	if pinned {
		// Temporary tables and the like went with it.
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

// lostCommit finds out what has become of a COMMIT whose answer was lost, and makes
// the other participants follow. It returns what the client is to be told, nil
// if it was committed.
func (l *loss) lostCommit(err error) error {
	a := l.s.commit.agreement
	if a == nil || !a.Committing() {
		return unknownEnd(err)
	}
	a.Committed(twopc.Lost)
	outcome := twopc.Open
	if !l.s.reach.gaveUp() { // nobody waits any longer for a shard that stands still
		outcome = l.s.srv.keeper.arbitrate(l.s.srv.ctx, a.name, l.s.db.Name)
	}
	switch a.Arbitrated(outcome) {
	case twopc.Leave:
		l.s.log.Warn("the outcome of a transaction is not known yet", "gid", a.decision.Key)
		l.s.commit.leaveToResolver()
		return unknownEnd(err)
	case twopc.Undo:
		l.s.tx.tag = "ROLLBACK"
		l.s.commit.followAll("ROLLBACK")
		_ = l.settleWithout(twopc.Aborted)
		return pgerr.New(pgerr.ConnectionFailure, "the connection to the shard was lost during COMMIT").
			WithDetail("The transaction has been rolled back.").WithHint("Do it again.").WithCause(err)
	}
	l.s.tx.tag = "COMMIT"
	l.s.commit.followAll("COMMIT")
	if err := l.settleWithout(twopc.Committed); err != nil {
		return err
	}
	return a.lateness()
}

// settleWithout does what settle does, without the backend that could tell what has
// become of the session. It returns an error if the session cannot go on.
func (l *loss) settleWithout(o twopc.Outcome) error {
	d := l.s.record.done
	l.s.record.done = effects{}
	l.s.route.env = nil
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

// committedButGone ends a session whose state is lost with its backend.
func committedButGone() error {
	return pgerr.Fatal(pgerr.ConnectionFailure, "the connection to the shard was lost after COMMIT").
		WithDetail("The transaction is committed. What it has changed in the session is lost.")
}

// committedAfterAll tells the client so.
func (l *loss) committedAfterAll(synced bool) error {
	l.s.commit.underway = false
	l.s.tx.abandon()
	l.s.out.Grow()
	l.s.out.B = wire.AppendCommandComplete(l.s.out.B, "COMMIT")
	if synced {
		l.s.out.tellReady()
	}
	return l.s.out.flushOrEnd()
}

// mayHaveWritten reports whether what was sent to the backend at hand, outside of a
// block, may have been carried out to its end and changed something.
func (l *loss) mayHaveWritten(synced bool) bool {
	if !synced {
		return false // it is one transaction, and nobody has asked for its end
	}
	reads := func(f *parser.Facts) bool { return f != nil && f.Reads }
	if l.s.account.run.simple {
		return !reads(l.s.account.run.facts)
	}
	executes := 0
	for i := l.s.pipe.ops.head; i < len(l.s.pipe.ops.ops); i++ {
		o := &l.s.pipe.ops.ops[i]
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
func (p *pipe) pendingSync() bool {
	for i := p.ops.head; i < len(p.ops.ops); i++ {
		if o := &p.ops.ops[i]; o.ends() && !o.injected && !o.settles {
			return true
		}
	}
	return false
}
