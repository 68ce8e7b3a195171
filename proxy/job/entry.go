package job

import (
	"context"
	"errors"
	"time"

	"weft/directory"
	"weft/reshard"
)

// Update changes the directory, and returns when this proxy has heard of the change: a client that
// asks for a job and then for weft.moves finds the job there.
func (r *Runner) Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) error {
	snap, err := r.cfg.Directory.Update(ctx, fn)
	if err == nil && snap != nil && r.cfg.Reach != nil {
		err = r.cfg.Reach(ctx, snap.Version)
	}
	return err
}

// pauseCheck is how often Pause looks whether the rounds of paused jobs are over.
const pauseCheck = 20 * time.Millisecond

// Pause pauses the jobs that carry rows and match, and waits until none of them has a round. It
// returns their IDs. A job that has failed stays as it is.
func (r *Runner) Pause(ctx context.Context, reason string, match func(*directory.Move) bool) ([]string, error) {
	for r.cfg.Directory != nil {
		var ids []string
		busy := false
		err := r.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
			next, changed := old.Clone(), false
			ids, busy = nil, false
			for i := range next.Moves {
				m := &next.Moves[i]
				if !m.Carries() || !match(m) {
					continue
				}
				ids = append(ids, m.ID)
				busy = busy || m.Round != nil
				if m.State == directory.MoveFailed || m.State == directory.MovePaused {
					continue
				}
				m.State, m.Reason, changed = directory.MovePaused, reason, true
			}
			if !changed {
				return old, nil
			}
			return next, nil
		})
		if err != nil || !busy {
			return ids, err
		}
		if !sleep(ctx, pauseCheck) {
			return nil, context.Cause(ctx)
		}
	}
	return nil, nil
}

// Resume lets jobs that match and are paused or have failed go on, and returns their IDs.
func (r *Runner) Resume(ctx context.Context, match func(*directory.Move) bool) ([]string, error) {
	var ids []string
	if r.cfg.Directory == nil {
		return nil, nil
	}
	err := r.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		ids = nil
		for i := range next.Moves {
			m := &next.Moves[i]
			if match(m) && (m.State == directory.MovePaused || m.State == directory.MoveFailed) {
				reshard.Resume(next, m)
				ids = append(ids, m.ID)
			}
		}
		if len(ids) == 0 {
			return old, nil
		}
		return next, nil
	})
	return ids, err
}

// own returns a job of this proxy, nil if it is over or another's.
func (r *Runner) own(ctx context.Context, id string) (*directory.Snapshot, *directory.Move, error) {
	snap, err := r.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	m := snap.FindMove(id)
	if m == nil || m.Proxy != r.cfg.Proxy || m.State == directory.MoveFailed {
		return snap, nil, nil
	}
	return snap, m, nil
}

// end removes the entry of a job, and remembers what became of it.
func (r *Runner) end(ctx context.Context, id string, state directory.MoveState) error {
	_, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		next.Conclude(id, state, time.Now())
		return next, nil
	})
	return err
}

// fail notes why a job cannot go on.
func (r *Runner) fail(ctx context.Context, id string, reason error) error {
	_, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil {
			return old, nil
		}
		m.State, m.Reason, m.Waits, m.Round = directory.MoveFailed, reason.Error(), "", nil
		return next, nil
	})
	return errors.Join(reason, err)
}
