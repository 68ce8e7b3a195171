package supervisor

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// errOrdered is why a server has ended that was to end.
var errOrdered = errors.New("killed by order")

// replace makes another server the primary, now that the primary's process has ended, or
// starts the primary again where no other has all that was acknowledged.
func (s *Supervisor) replace(ctx context.Context) {
	old, began := s.primary, time.Now()
	if old.srv != nil && old.due.IsZero() {
		s.log.Error("primary died", "server", old.name(), "addr", old.srv.Addr(), "err", cmp.Or(old.srv.Err(), errOrdered))
	}
	s.hangUp()
	old.frozen = false
	// The postmaster may be dead and its children still write.
	if err := old.cfg.End(ctx); err != nil {
		s.log.Error("the dead primary's processes do not end", "err", err, "next_try_in", old.delay(began))
		return
	}
	for {
		next := s.candidate(ctx)
		switch {
		case next == nil && old.due.IsZero() && old.hasty(began):
			s.log.Error("primary died soon after its start", "server", old.name(), "restart_in", old.delay(began))
			return
		case next == nil:
			s.restart(ctx)
			return
		}
		if s.promote(ctx, next) {
			s.log.Warn("standby promoted", "server", next.name(), "addr", next.srv.Addr(), "took", time.Since(began).Round(time.Millisecond))
			return
		}
		if s.primary != old || ctx.Err() != nil {
			return
		}
	}
}

// restart starts the primary again.
func (s *Supervisor) restart(ctx context.Context) {
	m := s.primary
	if m.due.IsZero() && len(s.servers) > 1 {
		s.log.Warn("no standby has every acknowledged commit: starting the primary again", "server", m.name())
	}
	s.quorum = newQuorum()
	err := s.startPrimary(ctx)
	switch {
	case err == nil:
		m.pause = max(m.pause, firstPause)
		s.log.Warn("shard server runs again", "server", m.name(), "pid", m.srv.PID())
		m.due = time.Time{}
	case ctx.Err() == nil:
		s.log.Error("shard server does not start", "server", m.name(), "err", err, "next_try_in", m.delay(time.Now()))
	}
}

// candidate returns the standby with the longest log out of those that may be promoted,
// or nil.
func (s *Supervisor) candidate(ctx context.Context) *server {
	ctx, cancel := context.WithTimeout(ctx, candidateLimit)
	defer cancel()
	var best *server
	var most int64
	for _, m := range s.standbys() {
		if !s.mayReplace(m) {
			continue
		}
		got, err := m.srv.Received(ctx)
		if err != nil {
			s.log.Error("standby does not say how much it has", "server", m.name(), "err", err)
			continue
		}
		if best == nil || got > most {
			best, most = m, got
		}
	}
	return best
}

// promote makes a standby the primary and lets the others follow it. The old primary is
// dead. After a promotion that failed half way the server is the primary, but does not
// run: false is returned, and the next look starts it.
func (s *Supervisor) promote(ctx context.Context, next *server) bool {
	err := next.srv.Promote(ctx)
	if err != nil {
		s.log.Error("promotion failed", "server", next.name(), "err", err)
		next.srv.Kill()
		if err := next.cfg.End(ctx); err != nil {
			s.log.Error("processes do not end", "server", next.name(), "err", err)
		}
		if next.cfg.IsStandby() {
			s.quorum.drop(next.name()) // not the next candidate again
			return false
		}
	}
	s.primary = next
	s.quorum = newQuorum()
	next.due, next.pause = time.Time{}, 0
	for _, m := range s.standbys() {
		m.due, m.pause = time.Time{}, 0
		if err == nil && m.runs() && !m.repairing {
			if err := m.srv.Follow(ctx, next.srv); err != nil {
				s.log.Error("standby does not follow the new primary", "server", m.name(), "err", err)
				m.strays = true
			}
		}
	}
	return err == nil
}
