package proxy

import (
	"context"
	"time"

	"weft/directory"
	"weft/proxy/halt"
)

// newHalts returns the server's part in halts.
func newHalts(s *Server) *halt.Halts {
	cfg := halt.Config{Log: s.log, Snapshot: s.cfg.Snapshot}
	if s.cfg.Directory != nil && s.cfg.Current != nil {
		cfg.Changed = s.cfg.Current.Changed
		cfg.End = func(ctx context.Context, key string) error {
			_, err := s.cfg.Directory.Update(ctx, func(snap *directory.Snapshot) (*directory.Snapshot, error) {
				if snap == nil {
					return nil, directory.ErrNoCluster
				}
				return snap.WithoutHalt(key), nil
			})
			return err
		}
	}
	return halt.New(cfg)
}

// haltLook is how often a session that waits for the end of a halt looks whether it was ended itself.
const haltLook = 20 * time.Millisecond

// isHalted reports whether a message that has arrived must wait.
func (k *keeper) isHalted() bool {
	snap := k.s.cfg.Snapshot()
	return snap != nil && snap.Halt != nil
}

// awaitHalt waits until messages may be taken again.
func (s *Session) awaitHalt() {
	if s.srv.cfg.Current == nil {
		return // the cluster never changes
	}
	for {
		snap := s.srv.cfg.Snapshot()
		left := s.srv.keeper.halts.Left(snap.Halt, time.Now())
		if left == 0 || s.reach.killed.Load() != nil || s.srv.ctx.Err() != nil {
			return
		}
		select {
		case <-s.srv.cfg.Current.Changed():
		case <-time.After(min(left, haltLook)):
		}
	}
}
