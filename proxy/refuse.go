package proxy

import (
	"errors"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// Refusing a statement must leave the client's transaction as an error of the
// server's own would: failed, on every shard that takes part.

// refuseBoundRead refuses an extended message for an error of whatever kind.
func (s *Session) refuseBoundRead(err error) error {
	switch {
	case errors.Is(err, errTold):
		return nil
	case errors.Is(err, errEnd):
		return err
	case errors.Is(err, pool.ErrLost):
		s.forsake()
		s.emitLocal()
		s.skipping = true
		return s.refuse(err)
	}
	return s.refuseBound(err)
}

// refuseParse refuses a statement that a client prepares. The unnamed statement before it is
// gone, as PostgreSQL drops it before it parses; unless an earlier message of the pipeline fails.
func (s *Session) refuseParse(name []byte, err error) error {
	if len(name) > 0 || errors.Is(err, errTold) || errors.Is(err, errEnd) {
		return s.refuseBoundRead(err)
	}
	prev, sent := s.unnamed, s.ops.len()
	s.unnamed.body, s.unnamed.planned, s.unnamed.valid = nil, planned{}, false // prev has them now
	err = s.refuseBoundRead(err)
	if n := s.ops.len(); n > sent {
		s.ops.ops[len(s.ops.ops)-1].prev = &prev
	}
	return err
}

// refuseRead does the same for a simple query.
func (s *Session) refuseRead(err error) error {
	switch {
	case errors.Is(err, errTold):
		s.skipping = false
		s.tellReady()
		return nil
	case errors.Is(err, errEnd):
		return err
	case errors.Is(err, pool.ErrLost):
		s.forsake()
		return s.refused(err)
	}
	return s.refuseStatement(err)
}

// forsake gives up the transaction after one of its backends was lost while
// weft talked to it itself. Which one does not matter: all are closed.
func (s *Session) forsake() {
	open := s.block.open
	if s.conn != nil && (open || s.conn.Status != wire.TxIdle || !s.ops.empty()) {
		s.drop()
	}
	s.abandon()
	s.lostTx = s.lostTx || open
}

// refuseStatement answers a simple query with an error of weft's own. An open
// transaction fails with it.
func (s *Session) refuseStatement(err error) error {
	if !s.atParticipant() {
		return s.refused(err)
	}
	return s.refusedHere(err)
}

// refuseBound does the same among extended messages.
func (s *Session) refuseBound(err error) error {
	if s.atParticipant() {
		s.toServer.Grow()
		s.unsynced = true
		s.refuseMessage(err)
		return nil
	}
	s.emitLocal()
	s.skipping = true
	return s.refuse(err)
}

// atParticipant makes sure that the backend at hand is one whose transaction
// can be made to fail. If there is none, the block fails in weft.
func (s *Session) atParticipant() bool {
	if s.conn != nil && (s.conn.Status != wire.TxIdle || !s.block.open) {
		return true
	}
	if !s.block.open {
		return false
	}
	if i := s.participant(); i >= 0 {
		if s.conn != nil {
			s.parked = append(s.parked, s.letGo())
		}
		s.unpark(i)
		return true
	}
	s.block = block{}
	s.lostTx, s.failedHere = true, true
	return false
}

// refusedHere refuses a statement after a backend has been involved. An open
// transaction fails with it, as it would by an error of the backend's own.
func (s *Session) refusedHere(err error) error {
	if errors.Is(err, pool.ErrLost) {
		s.ops.push(op{kind: opQuery})
		return s.lost(err)
	}
	if s.conn.Status == wire.TxIdle {
		return s.refused(err)
	}
	s.toServer.Grow()
	s.toServer.B = wire.AppendQuery(s.toServer.B, provoke)
	s.ops.push(op{kind: opQuery, err: pgerr.From(s.whyGivenUp(err)), quiet: s.quiet})
	return s.exchange()
}

// refuseMessage does the same among extended messages: what was sent before is
// answered, what follows is skipped.
func (s *Session) refuseMessage(err error) {
	s.toServer.Grow()
	s.toServer.B = wire.AppendParse(s.toServer.B, "", provoke, nil)
	// The client is told after a later message, which forgets why a backend was given up.
	s.ops.push(op{kind: opParse, injected: true, err: pgerr.From(s.whyGivenUp(err)), unnamedBy: s.conn.UnnamedBy})
	s.conn.UnnamedBy = 0
}
