package proxy

import (
	"context"
	"errors"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/twopc"
	"weft/wire"
)

// COMMIT PREPARED and ROLLBACK PREPARED by a client. The home shard has the transaction under the client's name and ends its part: that is the commit, or the
// rollback, of all of it. It is also the home shard that says who may do so, and what is wrong. Then the other parts are made to follow, as a resolver would.
// Whoever dies meanwhile: what is left is ended by the decision, which is as durable as the home shard's part.

// fulfils reports whether a text is COMMIT PREPARED or ROLLBACK PREPARED alone.
func fulfils(f *parser.Facts) bool {
	return f != nil && f.Statements == 1 && f.Effects&(parser.TwoPhase|parser.TxEnd) == parser.TwoPhase
}

// fulfilment ends transactions that clients have prepared.
type fulfilment struct{ s *Session }

// query answers COMMIT PREPARED or ROLLBACK PREPARED in a simple query of n bytes.
func (f fulfilment) query(text string, n int) error {
	f.s.client.Consume(wire.HeaderLen + n)
	tag, err := f.end(text)
	if err != nil {
		return f.s.lost.refuseRead(err)
	}
	f.s.out.Grow()
	f.s.out.B = wire.AppendCommandComplete(f.s.out.B, tag)
	f.s.out.tellReady()
	return nil
}

// execute executes the portal of a COMMIT PREPARED or ROLLBACK PREPARED.
func (f fulfilment) execute(lp *localPortal) error {
	if err := f.s.flush(); err != nil || f.s.pipe.isSkipping() {
		return err
	}
	tag, err := f.end(lp.text)
	if err != nil {
		return f.s.lost.refuseBoundRead(err)
	}
	f.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, tag)})
	return nil
}

// end ends a transaction that a client has prepared. It returns the command tag.
func (f fulfilment) end(text string) (tag string, err error) {
	p, err := f.s.commit.readPledge(text)
	if err != nil {
		return "", err
	}
	if f.s.tx.isOpen() || f.s.localStatus() != wire.TxIdle {
		return "", pgerr.New(pgerr.ActiveSQLTransaction, "%s cannot run inside a transaction block", p.Tag())
	}
	if twopc.Reserved(p.GID) {
		return "", reservedName(p.GID)
	}
	f.s.client.Task().Leave()
	ctx, stop := context.WithTimeout(context.WithoutCancel(f.s.srv.ctx), followTimeout)
	xid, there, err := f.s.srv.left.PledgeOf(ctx, f.s.lane.Shard().Name, f.s.db.Name, p.GID)
	stop()
	if err != nil {
		return "", err
	}
	if err := f.atHome(p, text); err != nil || !there {
		return p.Tag(), err
	}
	f.s.srv.keeper.stopAt(twopc.AfterCommit)
	return p.Tag(), f.elsewhere(p, xid)
}

// atHome ends the home shard's part.
func (f fulfilment) atHome(p parser.Pledge, text string) error {
	c, err := f.s.held.conn, error(nil)
	lent := c == nil || c.Lane() != f.s.lane || f.s.pipe.isUnsynced()
	if lent {
		if c, err = f.s.held.borrow(f.s.lane); err != nil {
			return err
		}
	}
	c.Commits()
	if err = f.s.every.execBeside(c, text); errors.Is(err, pool.ErrLost) {
		if lent {
			c.Discard()
		}
		return pgerr.New(pgerr.TransactionResolutionUnknown, "the connection to the shard was lost during %s", p.Tag()).
			WithDetail("The prepared transaction has ended, or is still prepared.").
			WithHint("Do it again: that %q does not exist means that it has ended.", p.GID).WithCause(err)
	}
	if lent {
		c.UsedBy(f.s.id)
		c.Release()
	}
	return err
}

// elsewhere makes the other shards follow.
func (f fulfilment) elsewhere(p parser.Pledge, xid uint32) error {
	o := twopc.Aborted
	if p.Verb == "COMMIT" {
		o = twopc.Committed
	}
	srv := f.s.srv
	ctx, stop := context.WithTimeout(context.WithoutCancel(srv.ctx), followTimeout)
	defer stop()
	late, err := srv.left.FollowPledge(ctx, f.s.lane.Shard().Name, f.s.db.Name, xid, o)
	if err == nil && len(late) == 0 {
		return nil
	}
	srv.log.Warn("a prepared transaction has been ended by its client, and not all shards have followed yet", "outcome", o.String(), "shards", late, "err", err)
	if o == twopc.Aborted {
		return nil // what is left keeps its locks until the resolver has ended it, and nobody can see it
	}
	told := pgerr.New(pgerr.TransactionResolutionUnknown, "the transaction is committed, but not to be seen on all shards yet").
		WithHint("Do not do it again: its changes appear there as soon as the shard answers.").WithCause(err)
	if err == nil {
		told = told.WithDetail("%s did not answer within %s.", strings.Join(late, ", "), followTimeout)
	}
	return told
}
