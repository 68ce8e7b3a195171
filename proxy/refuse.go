package proxy

import (
	"errors"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// Refusing a statement must leave the client's transaction as an error of the server would:
// failed, on every shard that takes part.

// refuseBoundRead refuses an extended message for an error of any kind.
func (l *loss) refuseBoundRead(err error) error {
	switch {
	case errors.Is(err, errTold):
		return nil
	case errors.Is(err, errEnd):
		return err
	case errors.Is(err, pool.ErrLost):
		l.s.lost.retry.takes(err, false)
		l.closeAll()
		l.s.emitLocal()
		l.s.pipe.skipToSync()
		return l.s.out.refuse(err)
	}
	return l.refuseBound(err)
}

// refuseParse refuses a statement that a client prepares. The unnamed statement before it
// is gone, as PostgreSQL drops it before parsing; it stays if an earlier message of the
// pipeline fails.
func (l *loss) refuseParse(name []byte, err error) error {
	if len(name) > 0 || errors.Is(err, errTold) || errors.Is(err, errEnd) {
		return l.refuseBoundRead(err)
	}
	prev, sent := l.s.prepared.unnamed, l.s.pipe.ops.len()
	// The copy in prev keeps the memory.
	l.s.prepared.unnamed.body, l.s.prepared.unnamed.planned, l.s.prepared.unnamed.valid = nil, planned{}, false
	err = l.refuseBoundRead(err)
	if n := l.s.pipe.ops.len(); n > sent {
		l.s.pipe.ops.ops[len(l.s.pipe.ops.ops)-1].prev = &prev
	}
	return err
}

// refuseRead refuses a simple query for an error of any kind.
func (l *loss) refuseRead(err error) error {
	switch {
	case errors.Is(err, errTold):
		l.s.pipe.resume()
		l.s.out.tellReady()
		return nil
	case errors.Is(err, errEnd):
		return err
	case errors.Is(err, pool.ErrLost):
		l.s.lost.retry.takes(err, false)
		l.closeAll()
		return l.s.refused(err)
	}
	return l.refuseStatement(err)
}

// closeAll gives up the transaction after one of its backends was lost while weft talked to
// it by itself. All its backends are closed, whichever was lost.
func (l *loss) closeAll() {
	open := l.s.tx.isOpen()
	if l.s.held.conn != nil && (open || l.s.held.conn.Status() != wire.TxIdle || !l.s.pipe.ops.empty()) {
		l.s.held.drop()
	}
	l.s.tx.abandon()
	if open {
		l.lose(nil)
	}
}

// refuseStatement answers a simple query with an error of weft. An open transaction fails
// with it.
func (l *loss) refuseStatement(err error) error {
	if !l.atParticipant(err) {
		return l.s.refused(err)
	}
	return l.refusedHere(err)
}

// refuseBound answers an extended message with an error of weft. An open transaction fails
// with it.
func (l *loss) refuseBound(err error) error {
	if l.atParticipant(err) {
		l.s.pipe.unsent.Grow()
		l.s.pipe.awaitSync()
		l.refuseMessage(err)
		return nil
	}
	l.s.emitLocal()
	l.s.pipe.skipToSync()
	return l.s.out.refuse(err)
}

// atParticipant makes sure that the backend at hand is one whose transaction can be made to
// fail. If no backend takes part, the home shard joins the block: it knows how a failed
// block answers. If the home shard cannot join, the block fails in weft.
func (l *loss) atParticipant(err error) bool {
	if l.s.held.conn != nil && (l.s.held.conn.Status() != wire.TxIdle || !l.s.tx.isOpen()) {
		return true
	}
	if !l.s.tx.isOpen() {
		return false
	}
	if i := l.s.held.participant(); i >= 0 {
		l.s.held.switchTo(i)
		return true
	}
	if l.ofClient() && !isOfShard(err) && l.s.held.useLane(l.s.lane) == nil {
		return true
	}
	l.s.tx.end()
	l.fail()
	return false
}

// ofClient reports whether the open block is the client's: a block that weft opened ends
// with the statement that fails.
func (l *loss) ofClient() bool {
	return !l.s.implicit.isOpen() && !l.s.script.ownsBlock() && !l.s.out.isQuiet()
}

// isOfShard reports whether an error says that a shard cannot be used.
func isOfShard(err error) bool {
	e := pgerr.From(err)
	return leavesDoubt(err, e) && e.Code != pgerr.FeatureNotSupported || e.Code == pgerr.QueryCanceled ||
		e.Code == pgerr.ConfigurationLimitExceeded || e.Code == pgerr.InsufficientResources
}

// refusedHere refuses a simple query after a backend has been involved. An open transaction
// fails with it, as it would by an error of the backend.
func (l *loss) refusedHere(err error) error {
	if errors.Is(err, pool.ErrLost) {
		l.s.pipe.ops.push(op{kind: opQuery})
		return l.onLost(err)
	}
	if l.s.held.conn.Status() == wire.TxIdle {
		return l.s.refused(err)
	}
	l.s.pipe.unsent.Grow()
	l.s.pipe.unsent.B = wire.AppendQuery(l.s.pipe.unsent.B, provoke)
	l.s.pipe.ops.push(op{kind: opQuery, err: pgerr.From(l.s.reach.whyGivenUp(err)), quiet: l.s.out.isQuiet()})
	return l.s.pipe.exchange()
}

// refuseMessage refuses an extended message after a backend has been involved: earlier
// messages are answered, later ones skipped.
func (l *loss) refuseMessage(err error) {
	l.s.pipe.unsent.Grow()
	l.s.pipe.unsent.B = wire.AppendParse(l.s.pipe.unsent.B, "", provoke, nil)
	// The client is told after a later message, when the session has forgotten why a
	// backend was given up.
	l.s.pipe.ops.push(op{kind: opParse, injected: true, err: pgerr.From(l.s.reach.whyGivenUp(err)), unnamedBy: l.s.held.conn.UnnamedBy()})
	l.s.held.conn.UnnamedGone()
}
