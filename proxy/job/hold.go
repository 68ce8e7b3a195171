package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"weft/directory"
)

// A shard joins or leaves while statements are held: fence, hold, clearedBy, the change, and lift, in
// this order.

// fence keeps proxies that are not alive out of all shards: they would go on without the shard that
// joins, or with the one that leaves.
func (r *Runner) fence(ctx context.Context, snap *directory.Snapshot) (live directory.Live, err error) {
	if live, err = r.cfg.Directory.Live(ctx); err != nil {
		return live, err
	}
	var shards []string
	for i := range snap.Shards {
		shards = append(shards, snap.Shards[i].Name)
	}
	for _, database := range snap.Databases() {
		now, err := r.cfg.Rows.Fence(ctx, database, shards, r.cfg.Directory.Live)
		if err != nil {
			return live, err
		}
		if !now.Same(live) {
			return live, errComings
		}
	}
	return live, nil
}

// errComings ends an attempt during which a proxy has come or gone.
var errComings = errors.New("a proxy has come or gone")

// hold enters a round that holds statements of all databases, if nothing else moves and check
// agrees.
func (r *Runner) hold(ctx context.Context, id string, round *directory.Round, check func(*directory.Snapshot) error) (*directory.Snapshot, error) {
	return r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil || m.State == directory.MovePaused {
			return nil, errors.New("the job has been ended")
		}
		for i := range next.Moves {
			if o := &next.Moves[i]; o.Carries() {
				return nil, fmt.Errorf("job %s carries rows of database %s", o.ID, o.Database)
			}
		}
		if err := check(old); err != nil {
			return nil, err
		}
		m.Round = round
		return next, nil
	})
}

// cleared waits until no proxy has anything in flight that the version's rounds wait for.
func (r *Runner) cleared(ctx context.Context, version int64, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.cfg.Directory.Cleared(ctx, version)
}

// clearedBy waits until all proxies that the shards let in have nothing in flight that the version's
// rounds wait for.
func (r *Runner) clearedBy(ctx context.Context, version int64, live directory.Live) error {
	for {
		if err := r.cfg.Directory.Cleared(ctx, version); err != nil {
			return err
		}
		now, err := r.cfg.Directory.Live(ctx)
		switch {
		case err != nil:
			return err
		case !now.Same(live):
			return errComings
		case now.Cleared(version):
			return nil
		}
	}
}

// lift ends the round of a job that changes the set of shards, if it is still the one of that key.
func (r *Runner) lift(ctx context.Context, id, key string) {
	_, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if !holds(old, id, key) {
			return old, nil
		}
		next := old.Clone()
		next.FindMove(id).Round = nil
		return next, nil
	})
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("statements are held for a shard that does not join", "job", id, "err", err)
	}
}

// errLifted ends an attempt whose round another proxy has ended.
var errLifted = errors.New("the hold has been lifted")

// holds reports whether the round of a job is the one of that key.
func holds(snap *directory.Snapshot, id, key string) bool {
	m := snap.FindMove(id)
	return m != nil && m.Round != nil && m.Round.Key == key
}

// unchangedSince returns an error if schemas or declarations have changed between two snapshots.
func unchangedSince(base, now *directory.Snapshot) error {
	same := slices.EqualFunc(base.Tables, now.Tables, func(x, y directory.Table) bool { return x.Equal(&y) })
	if len(now.Pending) > 0 || !maps.Equal(base.Schemas, now.Schemas) || !same || len(base.Functions) != len(now.Functions) {
		return errors.New("a schema has been changed meanwhile")
	}
	return nil
}
