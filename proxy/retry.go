package proxy

import (
	"errors"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/proxy/target"
	"weft/wire"
)

// retry keeps the client's messages since the last ReadyForQuery, so that they can be handled again when a shard is lost under
// them. The client notices a pause. Messages are repeated if the client has got no byte of an answer to them and if it is certain
// that they have changed nothing: because they only read, because nothing was sent, or because the server has said that it rolled
// them back.
type retry struct {
	s *Session

	// since is how many bytes the client gets before the answers to the messages, see answers.sofar.
	since uint64
	// within says that messages have come since the last ReadyForQuery.
	within bool
	// due says that the messages are to be handled again. Until then the client is told nothing.
	due        bool
	statements uint32 // that were to be executed
	// writes says that one of the statements may change something, loose that the server may commit in the middle of one,
	// and completed that one has been completed.
	writes, loose, completed bool
	// wrote says that a statement which may change something was completed since the last Sync was answered.
	wrote bool
	tries uint8
	gone  pool.Loss // what was lost last; without a shard nobody needs to look
}

// mostRepeats is how often messages are handled again: a query that brings its server down must not do so for ever.
const mostRepeats = 3

// begin notes that the first message since the last ReadyForQuery has come.
func (r *retry) begin() {
	r.within, r.tries = true, 0
	r.forget()
	s := r.s
	if s.tx.isOpen() || s.lost.is() || s.held.conn != nil && s.held.conn.Status() != wire.TxIdle || s.record.pins&^pinSessionMode != 0 || s.srv.conf().Pool.Failover.Wait <= 0 {
		s.client.LetGo()
		return
	}
	r.since = s.out.sofar()
	s.client.Hold()
}

// end notes that the messages have been answered.
func (r *retry) end() { r.within, r.wrote = false, false }

// saw notes a statement that is about to be executed.
func (r *retry) saw(f *parser.Facts) {
	r.statements++
	r.writes = r.writes || f == nil || !f.Reads
	r.loose = r.loose || f == nil || !f.Whole
}

// complete notes that a shard has completed the statement of an op.
func (r *retry) complete(o *op) {
	r.completed = true
	if f := o.run.facts; o.kind == opExecute && (f == nil || !f.Reads) {
		r.wrote = true
	}
}

// takes reports whether the messages will be handled again, because err says that a shard was lost under them. alone says that no
// other shard was asked.
func (r *retry) takes(err error, alone bool) bool {
	switch {
	case r.due:
		return true
	case !r.within || !r.s.client.Holds() || r.s.out.passed > r.since || r.tries >= mostRepeats:
		return false
	case r.s.tx.isOpen() || r.s.lost.is() || r.s.commit.underway || r.s.script.isRunning() || r.s.reach.killed.Load() != nil:
		return false
	case r.s.account.run.simple && r.s.account.run.facts == nil:
		return false // nobody knows what the text does
	}
	loss := lossIn(err)
	if !loss.Gone || r.s.reach.whyGivenUp(err) != err {
		return false
	}
	if undone := alone && loss.Undone || loss.Unfit || errors.Is(err, errUnsent); r.writes && (!undone || r.loose || r.completed || r.statements != 1) {
		return false
	}
	if r.due, r.gone = true, loss; loss.Unfit {
		r.gone.Shard = ""
	}
	r.tries++
	return true
}

// holdsBack reports whether what waits for the client can wait longer: nothing but acknowledgements, which PostgreSQL would keep, too,
// until the client asks for them. Once the client has one, the messages cannot be repeated.
func (r *retry) holdsBack() bool {
	if !r.within || !r.s.client.Holds() || r.s.out.passed != r.since {
		return false
	}
	for b := r.s.out.B; len(b) > 0; b = b[wire.HeaderLen:] {
		if b[0] != wire.ParseComplete && b[0] != wire.BindComplete && b[0] != wire.CloseComplete {
			return false
		}
	}
	return true
}

// errUnsent marks the loss of a backend that the session was about to use for the first time.
var errUnsent = errors.New("nothing has been sent")

// rewind makes the messages the next ones to be handled. It first has the servers of the shard looked at: if it has no primary, the
// session waits where it asks for a backend.
func (r *retry) rewind() {
	s := r.s
	s.log.Info("statement repeated", "shard", r.gone.Shard, "attempt", r.tries)
	s.srv.metrics.repeated.Inc()
	if r.gone.Shard != "" {
		s.srv.keeper.seeker.Lost(s.srv.ctx, r.gone.Shard, r.gone.Generation)
	}
	s.out.cut(r.since)
	s.pipe.resume()
	s.client.Rewind()
	r.within, r.due = true, false
	r.forget()
}

// forget notes that no statement is known.
func (r *retry) forget() { r.statements, r.writes, r.loose, r.completed = 0, false, false, false }

// dies reports whether an error of a backend says that its whole server stops. The session outlives that, and loses the backend. An
// administrator who ends one backend means its client.
func (r *retry) dies(c *pool.Conn, body []byte) bool {
	if sev, _ := wire.ErrorField(body, 'V'); sev != string(pgerr.SeverityFatal) {
		return false
	}
	if code, _ := wire.ErrorField(body, 'C'); code != pgerr.AdminShutdown || r.s.srv.conf().Pool.Failover.Wait <= 0 {
		return false
	}
	if sh := c.Lane().Shard(); sh.IsStandby() {
		return r.s.srv.keeper.seeker.LostStandby(r.s.srv.ctx, c.Shard(), sh.Address())
	}
	return r.s.srv.keeper.seeker.Lost(r.s.srv.ctx, c.Shard(), c.Generation())
}

// again reports whether the messages are handled again.
func (r *retry) again() bool { return r.within && r.tries > 0 }

// evades returns the loss of a standby's backend if its error concerns standbys only, and if the messages will be handled again: the primary
// carries them out then.
func (r *retry) evades(c *pool.Conn, body []byte) error {
	if !c.Lane().Shard().IsStandby() || r.s.held.away.strict() {
		return nil
	}
	code, _ := wire.ErrorField(body, 'C')
	// PostgreSQL cancels a query that is in the way of what is replayed, and refuses to write.
	if code != pgerr.SerializationFailure && (code != pgerr.ReadOnlySQLTransaction || r.s.held.away.wish.target != target.Auto) {
		return nil
	}
	if err := c.Lost(pool.ErrUnfit); r.takes(err, true) {
		return err
	}
	return nil
}

// lookAfter has the servers of a shard looked at before the client is told that it has lost a connection to them: if the server is gone,
// what the client does next waits, instead of being sent over other connections that are about to end.
func (r *retry) lookAfter(err error) {
	if l := pool.LossIn(err); l.Gone && r.s.srv.conf().Pool.Failover.Wait > 0 && r.s.reach.whyGivenUp(err) == err {
		r.s.srv.keeper.seeker.Lost(r.s.srv.ctx, l.Shard, l.Generation)
	}
}
