package proxy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/tally"
	"weft/twopc"
	"weft/wire"
)

// Once the shard whose answer the client sees has ended a transaction, the other participants
// follow, regardless of timeouts and cancel requests.

// followTimeout bounds how long a client waits for a shard to confirm what has
// been decided.
const followTimeout = 5 * time.Second

// following is the second half of an agreement: what becomes of the participants.
type following struct {
	odd   bool         // see inOtherHands
	ended time.Time    // when the deciding shard answered COMMIT, or was lost
	spent []*pool.Conn // backends that have been closed
	until time.Time    // the end of the client's patience with lost shards
	late  []string     // shards that have not followed in time

	checked bool  // recheck was called
	regret  error // why the client is not told COMMIT, although its deciding shard has answered that
}

// end ends the block on the participants, after the shard that answers the client has answered
// COMMIT or ROLLBACK: OK says that it has committed.
func (cm *commit) end(a *agreement, answer twopc.Answer) {
	cm.follow(a, func() {
		a.ended = time.Now()
		a.Ended(answer)
	})
}

// undo rolls back the block on all shards, after they could not agree.
func (cm *commit) undo(a *agreement) { cm.follow(a, a.Undo) }

func (cm *commit) follow(a *agreement, drive func()) {
	a.following = following{odd: !a.plain && cm.inOtherHands()}
	drive()
	if a.Outcome() != twopc.Open || a.Held() {
		cm.s.held.siftParked(func(c *pool.Conn) bool {
			if slices.Contains(a.spent, c) {
				return false
			}
			if i := a.index(c); i >= 0 && (a.Part(i) == twopc.Unclear || a.Held() && a.odd) {
				c.Discard()
				return false
			}
			return true
		})
	}
	a.unshield()
	switch {
	case a.plain:
		clear(a.conns) // other sessions may use the backends from here on
		a.spent = nil
	case !a.told:
		cm.leaveToResolver()
	}
}

// others returns the end of a block that needs no agreement, on the participants beside the one
// that answers the client; nil if there are none.
func (cm *commit) others() *agreement {
	if cm.plain == nil {
		cm.plain = cm.newAgreement(nil)
		cm.plain.plain = true
	}
	a := cm.plain
	a.conns = a.conns[:0]
	for _, c := range cm.s.held.parked {
		if c.Status() != wire.TxIdle {
			a.conns = append(a.conns, c)
		}
	}
	if len(a.conns) == 0 {
		return nil
	}
	a.BeginAlone(len(a.conns))
	return a
}

// Send sends a participant an order.
func (a *agreement) Send(i int, o twopc.Order, last bool) {
	if o == twopc.PrepareTransaction {
		a.sendPrepare(i, last)
		return
	}
	a.shield() // the client's requests to cancel come too late for what has been decided
	c := a.conns[i]
	a.cm.s.pipe.unsent.Grow()
	a.order(c, o)
	if !a.plain {
		_ = c.Conn().SetDeadline(time.Now().Add(followTimeout))
	}
	c.Commits()
	a.cm.s.pipe.sendTo(c, last)
}

// shield keeps cancel requests from all backends.
func (a *agreement) shield() {
	if !a.shielded {
		a.aimed, a.shielded = a.cm.s.reach.aim(nil), true
	}
}

// unshield lets cancel requests reach the backend that they reached before, if the session still holds it.
func (a *agreement) unshield() {
	if a.shielded && a.aimed == a.cm.s.held.conn {
		a.cm.s.reach.aim(a.aimed)
	}
	a.aimed, a.shielded = nil, false
}

// order puts the command that ends a participant's transaction into pipe.unsent.
func (a *agreement) order(c *pool.Conn, o twopc.Order) {
	out := &a.cm.s.pipe.unsent
	if !o.Named() {
		out.B = wire.AppendQuery(out.B, o.String())
		return
	}
	// In messages of their own: COMMIT PREPARED must stand alone in its message.
	switch {
	case a.odd:
		out.B = wire.AppendQuery(out.B, "SET ROLE NONE; SET synchronous_commit = on")
	case c.Origin().Hasty:
		out.B = wire.AppendQuery(out.B, "SET synchronous_commit = on")
	}
	b, at := wire.Begin(out.B, wire.Query)
	b = append(append(b, o.String()...), " '"...)
	b = append(a.name.Append(b, c.Shard()), '\'', 0)
	out.B = wire.End(b, at)
	if !a.odd && c.Origin().Hasty {
		out.B = wire.AppendQuery(out.B, "RESET synchronous_commit")
	}
}

// Hear reads a participant's answer to an order.
func (a *agreement) Hear(i int, o twopc.Order, last bool) twopc.Answer {
	if o == twopc.PrepareTransaction {
		return a.hearPrepare(i, last)
	}
	c := a.conns[i]
	err := a.confirm(c, o)
	if !a.plain {
		_ = c.Conn().SetDeadline(time.Time{})
	}
	if e := (*pgerr.Error)(nil); o.Named() && errors.As(err, &e) && e.Code == pgerr.UndefinedObject {
		// The transaction was prepared on this very connection, so another proxy has ended it.
		err = nil
		a.recheck(o)
	}
	if err != nil {
		a.cm.s.log.Warn("a shard has not confirmed the end of a transaction", "shard", c.Shard(), "verb", o.String(), "err", err)
	}
	// PREPARE has made settings permanent that a ROLLBACK would have undone.
	if err != nil || o.Named() && a.odd || o == twopc.RollbackPrepared {
		c.Discard()
		a.spent = append(a.spent, c)
	}
	return answerOf(err)
}

// confirmTries is how often a shard is told how a transaction ends, before weft gives up.
const confirmTries = 20

// confirm reads a participant's answer to an order. The client's statement_timeout does not change
// what has been decided: the order is repeated.
func (a *agreement) confirm(c *pool.Conn, o twopc.Order) error {
	for try := 1; ; try++ {
		var before error
		if o.Named() && (a.odd || c.Origin().Hasty) { // a command comes before the order
			_, before = result(c)
			c.Owes()
			c.Commits()
		}
		_, err := result(c)
		if o.Named() && !a.odd && c.Origin().Hasty && !errors.Is(err, pool.ErrLost) { // and one after it
			c.Owes()
			if _, after := result(c); after != nil && (err == nil || errors.Is(after, pool.ErrLost)) {
				err = after
			}
		}
		if err == nil || try == confirmTries || !pool.Canceled(before) && !pool.Canceled(err) {
			return err
		}
		if !o.Named() && c.Status() == wire.TxIdle {
			return nil // the transaction has ended despite the error
		}
		a.cm.s.pipe.unsent.Grow()
		a.order(c, o)
		c.Commits()
		a.cm.s.pipe.sendTo(c, true)
	}
}

// Finish commits the part of a participant that was lost after PREPARE TRANSACTION. A shard that
// does not answer in time is noted and left to the resolver.
func (a *agreement) Finish(i int) bool {
	cm, c := a.cm, a.conns[i]
	if a.until.IsZero() {
		a.until = time.Now()
		if !cm.s.reach.gaveUp() { // else the statement's time is over already
			a.until = a.until.Add(followTimeout)
		}
	}
	ctx, stop := context.WithDeadline(context.WithoutCancel(cm.s.srv.ctx), a.until)
	defer stop()
	d := twopc.InDoubt{Name: a.name, Shard: c.Shard(), Database: cm.s.db.Name, Owner: c.Lane().LoginRole()}
	d.Participant = c.Shard()
	d.Member = a.member(c.Shard())
	gone, err := cm.s.srv.left.Resolver().Follow(ctx, d, twopc.Committed)
	for err != nil && !errors.Is(err, twopc.ErrPartLost) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(finishPause):
			gone, err = cm.s.srv.left.Resolver().Follow(ctx, d, twopc.Committed)
		}
	}
	switch {
	case errors.Is(err, twopc.ErrPartLost):
		a.regret = pgerr.New(pgerr.TransactionResolutionUnknown, "the transaction is committed, but shard %q may have lost its part in a failover", c.Shard()).
			WithHint("Look whether its changes are there before doing it again.").WithCause(err)
		return false
	case err == nil && gone:
		a.recheck(twopc.CommitPrepared)
	}
	if err != nil {
		cm.s.log.Warn("a transaction is committed and not to be seen on a shard yet", "shard", c.Shard(), "gid", d.GID(), "err", err)
		if !c.Lane().Shard().Sought() { // else the transaction is ended before a session reads there
			a.late = append(a.late, c.Shard())
		}
	}
	return err == nil
}

// member returns a participant as the decision lists it.
func (a *agreement) member(shard string) twopc.Member {
	for _, m := range a.decision.Members {
		if m.Shard == shard {
			return m
		}
	}
	return twopc.Member{}
}

// recheck finds out how the transaction ended after another process has ended a prepared part of it. It was committed, unless the deciding shard has lost
// the commit in a failover.
func (a *agreement) recheck(o twopc.Order) {
	if o != twopc.CommitPrepared || a.checked {
		return
	}
	a.checked = true
	s := a.cm.s
	ctx, stop := context.WithTimeout(context.WithoutCancel(s.srv.ctx), followTimeout)
	defer stop()
	outcome, err := s.srv.left.Resolver().Recheck(ctx, s.db.Name, a.name, time.Duration(tally.Now()-a.began))
	switch outcome {
	case twopc.Aborted:
		a.regret = pgerr.New(pgerr.ConnectionFailure, "the transaction was rolled back in a failover").
			WithDetail("The new primary of shard %s does not have its commit.", a.name.Decider).WithHint("Do it again.")
	case twopc.Open:
		a.regret = unknownEnd(err)
	}
}

// finishPause is how long weft waits before it sends a shard the same order again.
const finishPause = 50 * time.Millisecond

// lateness is the error for a commit that the client cannot see on all shards yet, or that was lost; nil if it
// can.
func (a *agreement) lateness() error {
	if a.regret != nil {
		return a.regret
	}
	if len(a.late) == 0 {
		return nil
	}
	return pgerr.New(pgerr.TransactionResolutionUnknown, "the transaction is committed, but not to be seen on all shards yet").
		WithDetail("The connection to %s was lost during COMMIT, and did not come back within %s.", strings.Join(a.late, ", "), followTimeout).
		WithHint("Do not do it again: its changes appear there as soon as the shard answers.")
}

// Arbitrate asks the deciding shard how its transaction ended, after its answer to COMMIT was lost. A failover may be under way: the shard is
// asked for as long as sessions wait for a primary.
func (a *agreement) Arbitrate() twopc.Outcome {
	srv, re := a.cm.s.srv, &a.cm.s.reach
	if re.gaveUp() {
		return twopc.Open // the session has stopped waiting for a shard that hangs
	}
	ctx, stop := re.patiently(srv.ctx, max(srv.pool.Config().Failover.Wait, arbitrateTimeout))
	defer stop()
	return srv.left.Arbitrate(ctx, a.name, a.cm.s.db.Name)
}

// arbitrateTimeout is how long the outcome of a COMMIT is sought at least, also where sessions do not wait for a primary.
const arbitrateTimeout = 10 * time.Second

// patiently returns a context that ends after a time, or earlier when the client cancels its statement or statement_timeout is over. The
// function stop must be called.
func (re *reach) patiently(ctx context.Context, limit time.Duration) (_ context.Context, stop func()) {
	re.s.client.Task().Leave()
	select {
	case <-re.cancelled: // meant for an earlier statement, or known to lookAround as well
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	re.patience.queues.Add(1) // as a session that waits for a connection: see lookAround
	var wg sync.WaitGroup
	wg.Go(re.s.srv.guarded("cancel", func() {
		select {
		case <-re.cancelled:
			cancel()
		case <-ctx.Done():
		}
	}))
	return ctx, func() {
		cancel()
		wg.Wait()
		re.patience.queues.Add(1)
	}
}
