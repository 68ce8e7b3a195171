package proxy

import (
	"errors"
	"io"

	"weft/finish"
	"weft/pool"
	"weft/stream"
	"weft/wire"
)

// Rows that are too many to be parameters are copied into a temporary table, on
// a backend that is no participant of the client's transaction: a transaction
// with temporary tables cannot be prepared, and one that is READ ONLY cannot make
// them. It has the client's role and settings, and comes beyond the pool's limit:
// whoever needs it holds other backends already.

// openStage begins to copy what has been collected, and what is to come.
func (s *Session) openStage(x *gathering) error {
	c, err := s.lane.Dedicated(s.ctx)
	if err != nil {
		return survivable(err)
	}
	x.stager = c
	s.mu.Lock()
	s.legs = append(s.legs, c)
	s.mu.Unlock()
	if !c.Settings.Equal(s.settings) {
		if err := c.Apply(s.settings); err != nil {
			return err
		}
	}
	if _, err := c.Exec("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"); err != nil {
		return err
	}
	for _, text := range s.block.replay {
		if s.block.sets {
			if _, err := c.Exec(text); err != nil {
				return err
			}
		}
	}
	x.stage, err = finish.OpenStage(c, x.in)
	return err
}

// endStage ends the backend apart. Its tables go with its transaction.
func (s *Session) endStage(x *gathering) {
	c := x.stager
	if c == nil {
		return
	}
	if x.stage != nil {
		_ = x.stage.Abort() // the connection is closed anyway
	}
	x.stage, x.stager = nil, nil
	s.mu.Lock()
	s.legs = s.legs[:0]
	s.mu.Unlock()
	c.Terminate()
}

// passStaged runs the remainder over what has been copied and hands the result to
// the client.
func (s *Session) passStaged(x *gathering, describe bool) error {
	defer s.endStage(x)
	s.mu.Lock()
	s.legs = append(s.legs[:0], x.stager)
	s.mu.Unlock()
	l := &leg{s: s, conn: x.stager}
	out, err := x.appendRemainder(nil, nil)
	if err != nil {
		return err
	}
	l.out = wire.AppendEmpty(appendExecute(out), wire.Sync)
	err = s.passRows(x, stream.Rows(l), describe)
	if err == nil || errors.Is(err, io.EOF) {
		l.drain()
		err = l.err
	}
	if errors.Is(err, pool.ErrLost) || l.over {
		return err
	}
	l.stop()
	return err
}
