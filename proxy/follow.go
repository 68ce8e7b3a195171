package proxy

import (
	"context"
	"errors"
	"strings"
	"time"

	"weft/pgerr"
	"weft/pool"
	"weft/twopc"
	"weft/wire"
)

// Once the shard whose answer the client sees has ended a transaction, the other participants
// follow, regardless of timeouts and cancel requests.

// followTimeout bounds how long a client waits for a shard to confirm what has
// been decided.
const followTimeout = 5 * time.Second

// followAll ends the transactions of the participants whose answers the client does not see, in
// the way the participant that answers the client has ended its own.
func (cm *commit) followAll(verb string) {
	a := cm.agreement
	if a != nil && a.Committing() {
		answer := twopc.Refusal
		if verb == "COMMIT" {
			answer = twopc.OK
		}
		a.Committed(answer)
		cm.s.srv.keeper.stopAt(twopc.AfterCommit)
	}
	// The client's requests to cancel come too late for what has been decided.
	main := cm.s.reach.aim(nil)
	odd := a != nil && cm.inOtherHands()
	told := false
	for i, c := range cm.s.held.parked {
		if cm.s.pipe.unsent.Grow(); cm.order(c, verb, odd) {
			if a != nil {
				if told {
					cm.s.srv.keeper.stopAt(twopc.DuringFollow)
				}
				_ = c.Conn().SetDeadline(time.Now().Add(followTimeout))
			}
			cm.s.pipe.sendTo(c, i == len(cm.s.held.parked)-1)
			told = true
		}
		cm.s.pipe.unsent.Reset()
	}
	cm.hearAll(verb, odd)
	if a != nil {
		cm.finishLate(a)
		cm.s.srv.keeper.stopAt(twopc.AfterFollow)
	}
	cm.s.reach.aim(main)
	if a != nil && !a.told {
		cm.leaveToResolver()
	}
}

// finishLate commits the parts of participants that were lost after PREPARE TRANSACTION,
// through other connections: the client must see its own writes when it hears of the commit.
// Participants that do not answer in time are noted and left to the resolver.
func (cm *commit) finishLate(a *agreement) {
	if a.Outcome() != twopc.Committed {
		return
	}
	patience := followTimeout
	if cm.s.reach.gaveUp() {
		patience = 0 // the statement's time is over already
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(cm.s.srv.ctx), patience)
	defer stop()
	for i, c := range a.conns {
		if a.Part(i) != twopc.Unclear {
			continue
		}
		d := twopc.InDoubt{Name: a.name, Shard: c.Shard(), Database: cm.s.db.Name, Owner: c.Lane().LoginRole()}
		d.Participant = c.Shard()
		err := cm.s.srv.keeper.resolver().Finish(ctx, d, twopc.Committed)
		for err != nil && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(finishPause):
				err = cm.s.srv.keeper.resolver().Finish(ctx, d, twopc.Committed)
			}
		}
		if err != nil {
			cm.s.log.Warn("a transaction is committed and not to be seen on a shard yet", "shard", c.Shard(), "gid", d.GID(), "err", err)
			a.late = append(a.late, c.Shard())
			continue
		}
		a.Confirmed(i)
	}
}

// finishPause is how long weft waits before it sends a shard the same order again.
const finishPause = 50 * time.Millisecond

// lateness is the error for a commit that the client cannot see on all shards yet; nil if it
// can.
func (a *agreement) lateness() error {
	if a == nil || len(a.late) == 0 {
		return nil
	}
	return pgerr.New(pgerr.TransactionResolutionUnknown, "the transaction is committed, but not to be seen on all shards yet").
		WithDetail("The connection to %s was lost during COMMIT, and did not come back within %s.", strings.Join(a.late, ", "), followTimeout).
		WithHint("Do not do it again: its changes appear there as soon as the shard answers.")
}

// order puts the command that ends a participant's transaction into pipe.unsent. It returns
// false if there is no such command.
func (cm *commit) order(c *pool.Conn, verb string, odd bool) bool {
	a := cm.agreement
	i := a.index(c)
	o := twopc.None
	if i >= 0 {
		o = a.Order(i)
	}
	switch {
	case o == twopc.CommitPrepared || o == twopc.RollbackPrepared:
		if odd { // in a message before it: COMMIT PREPARED must stand alone in its message
			cm.s.pipe.unsent.B = wire.AppendQuery(cm.s.pipe.unsent.B, "SET ROLE NONE; SET synchronous_commit = on")
		}
		b, at := wire.Begin(cm.s.pipe.unsent.B, wire.Query)
		b = append(append(b, o.String()...), " '"...)
		b = append(a.name.Append(b, c.Shard()), '\'', 0)
		cm.s.pipe.unsent.B = wire.End(b, at)
	case c.Status() != wire.TxIdle:
		if i >= 0 && a.Part(i) == twopc.Unclear {
			return false
		}
		cm.s.pipe.unsent.B = wire.AppendQuery(cm.s.pipe.unsent.B, verb)
	default:
		return false
	}
	return true
}

// hearAll reads the participants' answers to the end of the transaction.
func (cm *commit) hearAll(verb string, odd bool) {
	a := cm.agreement
	cm.s.held.siftParked(func(c *pool.Conn) bool {
		i := a.index(c)
		o := twopc.None
		if i >= 0 {
			o = a.Order(i)
		}
		prepared := o == twopc.CommitPrepared || o == twopc.RollbackPrepared
		if !prepared && c.Status() == wire.TxIdle {
			return true
		}
		if i >= 0 && a.Part(i) == twopc.Unclear {
			c.Discard()
			return false
		}
		err := cm.confirm(c, verb, prepared && odd)
		if a != nil {
			_ = c.Conn().SetDeadline(time.Time{})
		}
		if e := (*pgerr.Error)(nil); prepared && errors.As(err, &e) && e.Code == pgerr.UndefinedObject {
			// Another proxy took this one for dead and was faster: the transaction was prepared
			// on this very connection, so it cannot have been lost otherwise.
			err = nil
		}
		if o != twopc.None {
			a.Followed(i, answerOf(err))
		}
		switch {
		case err != nil:
			cm.s.log.Warn("a shard has not confirmed the end of a transaction", "shard", c.Shard(), "verb", verb, "err", err)
			c.Discard()
		case prepared && (odd || o == twopc.RollbackPrepared):
			// PREPARE has made settings permanent that a ROLLBACK would have undone.
			c.Discard()
		default:
			return true
		}
		return false
	})
}

// confirmTries is how often a shard is told how a transaction ends, before weft gives up.
const confirmTries = 20

// confirm reads a participant's answer to its order; the order was two commands if odd. The
// client's statement_timeout does not change what has been decided: the order is repeated.
func (cm *commit) confirm(c *pool.Conn, verb string, odd bool) error {
	for try := 1; ; try++ {
		var before error
		if odd {
			_, before = result(c)
		}
		_, err := result(c)
		if err == nil || try == confirmTries || !pool.Canceled(before) && !pool.Canceled(err) {
			return err
		}
		cm.s.pipe.unsent.Grow()
		if !cm.order(c, verb, odd) {
			return nil // the transaction has ended despite the error
		}
		cm.s.pipe.sendTo(c, true)
	}
}
