package supervisor

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"weft/pgserver"
)

// findPrimary finds out which server was the primary, and makes a shard that has none.
func (s *Supervisor) findPrimary(ctx context.Context) (made bool, err error) {
	controls := map[*server]pgserver.Control{}
	for _, m := range s.servers {
		if !m.cfg.Exists() {
			continue
		}
		// Left from a run that was killed: the data must not change any more.
		if err := m.cfg.End(ctx); err != nil {
			return false, err
		}
		c, err := m.cfg.Control(ctx)
		if err != nil {
			return false, err
		}
		controls[m] = c
	}
	if len(controls) == 0 {
		first := s.servers[0].cfg
		if s.cfg.Complete {
			return false, fmt.Errorf("%s is gone: put it back, or remove %s to start with an empty cluster", first.Dir, filepath.Dir(first.Dir))
		}
		s.primary = s.servers[0]
		return true, first.Init(ctx)
	}
	if err := sameSystem(s.servers, controls); err != nil {
		return false, err
	}
	if s.primary = lastPrimary(s.servers, controls); s.primary != nil {
		return false, nil
	}
	return false, s.promoteAny(ctx)
}

// sameSystem refuses directories that are not copies of each other.
func sameSystem(servers []*server, controls map[*server]pgserver.Control) error {
	var first *server
	for _, m := range servers {
		c, ok := controls[m]
		switch {
		case !ok:
		case first == nil:
			first = m
		case c.System != controls[first].System:
			return fmt.Errorf("%s is not a copy of %s: remove the one that does not belong to the cluster", m.cfg.Dir, first.cfg.Dir)
		}
	}
	return nil
}

// lastPrimary returns the server of the highest timeline that is no standby, or nil. A
// primary that was replaced and not rewound yet has a lower one.
func lastPrimary(servers []*server, controls map[*server]pgserver.Control) *server {
	var last *server
	for _, m := range servers {
		c, ok := controls[m]
		if ok && !c.Standby && (last == nil || c.Timeline > controls[last].Timeline) {
			last = m
		}
	}
	return last
}

// promoteAny makes a primary of the standby with the longest log. The primary's directory
// is gone.
func (s *Supervisor) promoteAny(ctx context.Context) error {
	var best *server
	var most int64
	for _, m := range s.servers {
		if !m.cfg.Exists() {
			continue
		}
		srv, err := m.cfg.Start(ctx)
		if err != nil {
			return err
		}
		m.started(srv, time.Now())
		s.watch(srv)
		got, err := srv.Received(ctx)
		if err != nil {
			return err
		}
		if best == nil || got > most {
			best, most = m, got
		}
	}
	s.log.Warn("the primary's directory is gone: promoting a standby", "server", best.name())
	s.primary = best
	if err := best.srv.Promote(ctx); err != nil {
		return err
	}
	for _, m := range s.standbys() {
		if m.runs() {
			if err := m.srv.Follow(ctx, best.srv); err != nil {
				return err
			}
		}
	}
	return nil
}
