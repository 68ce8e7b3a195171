package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/reshard"
	"weft/reshard/carrier"
	"weft/twopc"
)

// How a shard joins, and what is where when the proxy that runs the job dies:
//
//	step                                      dies after it
//	1 directory: the job, with the server     another proxy goes on with 2
//	2 the server is looked at                 the same
//	3 roles, databases, tables, rows of       the same: databases that bear the comment of a
//	  reference tables are made there         shard that has not joined are made anew
//	4 directory: a round that holds writes    any proxy lifts the round when it is late; another
//	  over several shards                     proxy goes on with 2
//	5 reference tables are locked on home,    the same; the lock ends with its connection
//	  compared, made equal
//	6 directory: the shard is one of the      another proxy goes on with 7
//	  shards, without buckets; the round is
//	  over; jobs that bring it buckets
//	7 the comments go; all jobs are over      another proxy goes on with 7
//	8 directory: the job goes                 it is done
//
// Commands that change schemas wait from 1 to 6, unless their transaction has begun already. If
// one of those commits after 3, the shard is equipped again: step 6 compares the schemas' versions.

// shardHold is how long a shard that joins or leaves holds statements at first. Each attempt that
// was not long enough doubles it, up to maxShardHold.
const (
	shardHold    = 2 * time.Second
	maxShardHold = 30 * time.Second
)

// attemptPause is how long a job waits between the first two attempts to change the set of shards. Each
// pause is twice as long as the one before, up to joinLater if no statement is held meanwhile.
const (
	attemptPause = 200 * time.Millisecond
	joinLater    = 3 * time.Second
)

// clearPatience is how long the proxies are waited for before a job looks at its entry again.
const clearPatience = 10 * time.Second

// Join enters the job by which a server joins as a shard, and returns when the server has been looked
// at and all proxies know of the job. Run does the rest.
func (r *Runner) Join(ctx context.Context, move directory.Move) error {
	if done, free := r.reserve(move.ID); free { // the job is not begun before the server has been looked at
		defer done()
	}
	snap, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if err := reshard.Unchanging(old); err != nil {
			return nil, err
		}
		next := old.Clone()
		return next, reshard.Join(next, move)
	})
	if err != nil {
		return err
	}
	if err = r.cfg.Spread(ctx, snap.Version); err == nil {
		err = r.cfg.Shards.CheckJoin(ctx, snap, move.Shard)
	}
	if err != nil {
		return errors.Join(err, r.end(context.WithoutCancel(ctx), move.ID, directory.MoveCancelled))
	}
	return nil
}

// join runs the job by which a shard joins.
func (r *Runner) join(ctx context.Context, id string) error {
	for hold, wait := shardHold, attemptPause; ; {
		snap, m, err := r.own(ctx, id)
		if err != nil || m == nil || m.State == directory.MovePaused {
			return err
		}
		if m.Options.MaxPause > 0 {
			hold = m.Options.MaxPause
		}
		if _, joined := snap.Shard(m.Shard); joined {
			return r.joined(ctx, snap, m)
		}
		err = r.tryJoin(ctx, snap, m, hold)
		var later *laterError
		switch {
		case ctx.Err() != nil:
			return err
		case errors.As(err, &later):
			if later.short {
				hold = min(2*hold, maxShardHold)
			}
			r.cfg.Log.Info("a shard joins later", "shard", m.Shard, "job", id, "reason", later.reason)
			r.waits(ctx, m, later.reason)
			if !sleep(ctx, wait) {
				return context.Cause(ctx)
			}
			wait = min(2*wait, joinLater)
		case err != nil:
			return r.fail(ctx, id, err)
		}
	}
}

// laterError says that an attempt can be made again.
type laterError struct {
	reason error
	short  bool // it needed more time than it had
}

func (e *laterError) Error() string { return e.reason.Error() }
func (e *laterError) Unwrap() error { return e.reason }

// tryJoin makes the server ready and lets it join.
func (r *Runner) tryJoin(ctx context.Context, snap *directory.Snapshot, m *directory.Move, hold time.Duration) error {
	if m := snap.Joining(); m == nil {
		return &laterError{reason: errors.New("another job carries rows")}
	}
	// From now on transactions note what they touch, and commands that change schemas wait.
	if err := r.cleared(ctx, snap.Version, clearPatience); err != nil {
		return &laterError{reason: fmt.Errorf("transactions from before are open: %w", err)}
	}
	base, err := r.cfg.Directory.Load(ctx)
	if err != nil {
		return passing(err)
	}
	if len(base.Pending) > 0 {
		return &laterError{reason: errors.New("a schema is being changed")}
	}
	if err := r.cfg.Shards.CheckJoin(ctx, base, m.Shard); err != nil {
		return passing(err)
	}
	if err := r.unnamed(ctx, base, m.Shard); err != nil {
		return passing(err)
	}
	r.cfg.StopAt("join-checked")
	if err := r.cfg.Shards.EquipShard(ctx, base, m.Shard); err != nil {
		return passing(err)
	}
	r.cfg.StopAt("join-equipped")
	return r.heldJoin(ctx, base, m, hold)
}

// unnamed lets a shard join later while decisions name an earlier shard of its name: the server of the new shard would be asked about
// transactions that it never had.
func (r *Runner) unnamed(ctx context.Context, snap *directory.Snapshot, name string) error {
	var shards []string
	for i := range snap.Shards {
		shards = append(shards, snap.Shards[i].Name)
	}
	list, err := r.cfg.Left.Resolver().List(ctx, shards, snap.Databases())
	if err != nil {
		return err
	}
	for _, l := range list {
		if l.State == twopc.StateCommitted && slices.Contains(l.Participants, name) {
			return &laterError{reason: fmt.Errorf("shard %s keeps decision %s, which names an earlier shard %s", l.Shard, l.GID, name)}
		}
	}
	return nil
}

// passing marks an error that another attempt may not meet: a server or the directory is away or busy, or a
// table was dropped while the server was made ready.
func passing(err error) error {
	var e *pgerr.Error
	if carrier.MayPass(err) || errors.As(err, &e) && e.Code == pgerr.UndefinedTable {
		return &laterError{reason: err}
	}
	return err
}

// waits notes what a job that changes the set of shards waits for, for those who ask what blocks it.
func (r *Runner) waits(ctx context.Context, m *directory.Move, reason error) {
	if m.Waits == reason.Error() {
		return
	}
	_, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		now := next.FindMove(m.ID)
		if now == nil || now.Proxy != r.cfg.Proxy {
			return old, nil
		}
		now.Waits = reason.Error()
		return next, nil
	})
	if err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("what a job waits for cannot be noted", "job", m.ID, "err", err)
	}
}

// heldJoin lets the shard join while writes over several shards are held. base is the cluster by
// which the server was equipped.
func (r *Runner) heldJoin(parent context.Context, base *directory.Snapshot, m *directory.Move, hold time.Duration) error {
	ctx, cancel := context.WithTimeout(parent, hold)
	defer cancel()
	key := "join " + reshard.NewJobID()
	live, err := r.fence(ctx, base)
	if err != nil {
		return &laterError{reason: err}
	}
	held, err := r.hold(ctx, m.ID, &directory.Round{Key: key, Phase: directory.HoldWrites, Pause: hold}, func(now *directory.Snapshot) error { return unchangedSince(base, now) })
	if err == nil {
		defer r.lift(context.WithoutCancel(parent), m.ID, key)
		r.cfg.StopAt("join-held")
		err = r.clearedBy(ctx, held.Version, live)
	}
	if err != nil {
		return &laterError{reason: err, short: ctx.Err() != nil}
	}
	release, err := r.cfg.Shards.MatchReferences(ctx, base, m.Shard)
	if err != nil {
		if ctx.Err() != nil {
			return &laterError{reason: err, short: true}
		}
		return passing(err)
	}
	defer release()
	r.cfg.StopAt("join-matched")
	next, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if !holds(old, m.ID, key) {
			return nil, errLifted
		}
		if err := unchangedSince(base, old); err != nil {
			return nil, err
		}
		if !old.FindMove(m.ID).Join.Reaches(base.FindMove(m.ID).Join) {
			return nil, errors.New("the job has been given another server meanwhile")
		}
		next := reshard.WithShard(old, old.FindMove(m.ID).Join)
		own := next.FindMove(m.ID)
		own.Round, own.State, own.Waits = nil, directory.MoveRunning, ""
		reshard.BringBuckets(next, own)
		return next, nil
	})
	if err != nil {
		return &laterError{reason: err, short: ctx.Err() != nil}
	}
	r.cfg.StopAt("join-entered")
	// A session that writes a reference table meanwhile waits for its lock no longer than this.
	if err := r.cfg.Spread(parent, next.Version); err != nil {
		return &laterError{reason: err} // the shard has joined
	}
	return nil
}

// joined waits for the jobs that bring a shard its buckets, and ends the job by which it joined.
func (r *Runner) joined(ctx context.Context, snap *directory.Snapshot, m *directory.Move) error {
	if err := r.cfg.Shards.JoinShard(ctx, snap, m.Shard); err != nil {
		return err
	}
	for {
		busy := false
		for i := range snap.Moves {
			if o := &snap.Moves[i]; o.Carries() && o.Shard == m.Shard {
				busy = true
				if o.State == directory.MoveFailed {
					return r.fail(ctx, m.ID, fmt.Errorf("the shard has joined, and job %s, which brings it buckets of database %s, has failed: %s", o.ID, o.Database, o.Reason))
				}
			}
		}
		if !busy {
			return r.end(ctx, m.ID, directory.MoveDone)
		}
		if !sleep(ctx, attemptPause/2) {
			return context.Cause(ctx)
		}
		var err error
		if snap, m, err = r.own(ctx, m.ID); err != nil || m == nil {
			return err
		}
	}
}
