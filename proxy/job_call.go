package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/reshard"
	"weft/schema"
)

// moveCall runs the functions about jobs that carry rows, for one session.
type moveCall struct{ s *Session }

// moveBuckets starts a job that takes buckets to a shard, and returns its ID.
func (u moveCall) moveBuckets(ctx context.Context, args map[string]string) ([][]string, error) {
	var options directory.MoveOptions
	if err := moveOptions(args, &options); err != nil {
		return nil, err
	}
	for _, name := range []string{"buckets", "to"} {
		if _, given := args[name]; !given {
			return nil, pgerr.New("22004", "%s must not be null", name)
		}
	}
	return u.startMove(ctx, options, func(snap *directory.Snapshot, target []uint16) error {
		buckets, err := schema.ReadBuckets(args["buckets"], len(target))
		if err != nil {
			return err
		}
		return place(snap, target, args["to"], buckets)
	})
}

// place gives buckets of a target to a shard.
func place(snap *directory.Snapshot, target []uint16, shard string, buckets []int) error {
	to := slices.IndexFunc(snap.Shards, func(s directory.Shard) bool { return s.Name == shard })
	if to < 0 {
		return pgerr.New(pgerr.UndefinedObject, "shard %q does not exist", shard).WithHint("SELECT name FROM weft.shards lists the shards.")
	}
	if err := mayTake(&snap.Shards[to]); err != nil {
		return err
	}
	for _, b := range buckets {
		target[b] = uint16(to)
	}
	return nil
}

// startMove starts a job whose target retarget makes of the placement, and returns its ID.
func (u moveCall) startMove(ctx context.Context, options directory.MoveOptions, retarget func(snap *directory.Snapshot, target []uint16) error) ([][]string, error) {
	if err := u.s.srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	move := u.s.util.newMove(directory.MoveBuckets)
	move.Options = options
	err := u.s.srv.moving.jobs.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		target := slices.Clone(old.PlacementOf(move.Database, ""))
		if err := retarget(old, target); err != nil {
			return nil, err
		}
		return withMove(old, move, target)
	})
	if err != nil {
		return nil, err
	}
	u.s.log.Info("a move of rows begins", "job", move.ID, "database", move.Database, "user", move.User)
	return [][]string{{move.ID}}, nil
}

// mayTake refuses a shard that is to get no buckets.
func mayTake(sh *directory.Shard) error {
	if sh.State == directory.ShardActive {
		return nil
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q is %s and takes no buckets", sh.Name, sh.State)
}

// noJob refuses a job that is not there.
func noJob(id string) error {
	return pgerr.New(pgerr.UndefinedObject, "there is no job %q", id).WithHint("SELECT job, state FROM weft.moves lists the jobs.")
}

// jobOver refuses to change a job that is over, or is not there.
func (u moveCall) jobOver(ctx context.Context, id string) error {
	rec, err := u.remembered(ctx, id)
	if err != nil {
		return err
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s is over: %s", id, rec.State)
}

// remembered finds a job that is over, in what the directory or the home shard remembers.
func (u moveCall) remembered(ctx context.Context, id string) (*schema.MoveRecord, error) {
	snap, err := u.s.srv.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	if p := snap.FindPast(id); p != nil {
		return &schema.MoveRecord{ID: p.ID, Kind: string(p.Kind), User: p.User, Proxy: p.Proxy, State: string(p.State), Reason: p.Reason, Ended: p.Ended}, nil
	}
	list, err := u.s.srv.mover.Moves(ctx, snap.Home, u.s.db.Name)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(r schema.MoveRecord) bool { return r.ID == id })
	if at < 0 {
		return nil, noJob(id)
	}
	return &list[at], nil
}

// waitMove waits until a job is over.
func (u moveCall) waitMove(ctx context.Context, args map[string]string) error {
	paused := 0
	for first := true; ; first = false {
		snap, err := u.s.srv.cfg.Directory.Load(ctx)
		if err != nil {
			return err
		}
		m := snap.FindMove(args["job"])
		switch {
		case m == nil && first:
			_, err := u.remembered(ctx, args["job"]) // a job that never was is an error
			return err
		case m == nil:
			return nil
		case m.State == directory.MoveFailed:
			return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s has failed: %s", m.ID, m.Reason).
				WithHint("Go on with weft.resume_moves('%s') when the cause is gone, or end it with weft.cancel_move('%s').", m.ID, m.ID)
		case m.State != directory.MovePaused:
			paused = 0
		case paused < 20: // it may be paused only to be cancelled
			paused++
		default:
			return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s is paused", m.ID).WithDetail("%s", m.Reason).
				WithHint("Go on with weft.resume_moves('%s'), or end it with weft.cancel_move('%s').", m.ID, m.ID)
		}
		if err := nap(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// nap waits for a time.
func nap(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cancelMove ends a job between two rounds. What it has carried stays where it is. A job that cannot be
// cancelled goes on.
func (u moveCall) cancelMove(ctx context.Context, args map[string]string) error {
	if err := u.s.srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return err
	}
	id, reason := args["job"], "cancelled by "+u.s.login.user
	_, err := u.s.srv.moving.jobs.Pause(ctx, reason, func(m *directory.Move) bool { return m.ID == id })
	if err == nil {
		err = u.cancelPaused(ctx, id)
	}
	if err != nil {
		_, again := u.s.srv.moving.jobs.Resume(context.WithoutCancel(ctx), func(m *directory.Move) bool {
			return m.ID == id && m.State == directory.MovePaused && m.Reason == reason
		})
		return errors.Join(err, again)
	}
	u.s.log.Info("a move of rows was cancelled", "job", id, "user", u.s.login.user)
	return nil
}

// cancelPaused ends a job that has no round.
func (u moveCall) cancelPaused(ctx context.Context, id string) error {
	snap, err := u.s.srv.cfg.Directory.Load(ctx)
	if err != nil {
		return err
	}
	m := snap.FindMove(id)
	if m == nil {
		return u.jobOver(ctx, id)
	}
	if m.Group != "" {
		return u.turnBack(ctx, id)
	}
	state, reason := "cancelled", ""
	if m.State == directory.MoveFailed {
		state, reason = "failed", m.Reason
	}
	if m.Carries() { // the directory remembers the others
		if err := u.s.srv.mover.EndMove(ctx, snap, m, state, reason); err != nil {
			return err
		}
	}
	var bare []string
	err = u.s.srv.moving.jobs.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		if m := next.FindMove(id); m == nil || m.Round != nil && m.Carries() {
			return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s was resumed or ended meanwhile", id)
		}
		next.Conclude(id, directory.MoveState(state), time.Now())
		bare = reshard.Bare(next)
		return next, nil
	})
	if err == nil && m.Kind == directory.MoveJoin && len(bare) > 0 {
		u.s.out.tell(&pgerr.Error{
			Severity: pgerr.SeverityNotice, Code: "00000", Message: "shards that have joined hold no buckets: " + strings.Join(bare, ", "),
			Hint: fmt.Sprintf("SELECT weft.rebalance('buckets') brings them theirs, SELECT weft.remove_shard(%s) takes one out of the cluster.", quote.Literal(bare[0])),
		})
	}
	return err
}

// turnBack makes a job that declares tables, or takes declarations back, bring the rows to where they were.
func (u moveCall) turnBack(ctx context.Context, id string) error {
	err := u.s.srv.moving.jobs.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil || m.Round != nil {
			return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s was resumed or ended meanwhile", id)
		}
		list := directory.Grouped(next, m.Database, m.Group)
		switch {
		case len(list) == 0:
			return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s has just ended", id)
		case slices.ContainsFunc(list, func(t directory.Table) bool { return t.State == directory.Declaring }):
			return nil, pgerr.New(pgerr.ObjectInUse, "the tables of job %s are just being made on the shards", id).WithHint("Cancel the statement that declares them, or try again.")
		case !m.Back && !slices.ContainsFunc(list, func(t directory.Table) bool { return t.State == directory.Undeclaring }):
			directory.TurnBack(next, m)
		}
		m.State, m.Reason = directory.MovePreparing, "cancelled by "+u.s.login.user
		return next, nil
	})
	if err == nil {
		u.s.out.tell(&pgerr.Error{
			Severity: pgerr.SeverityNotice, Code: "00000", Message: fmt.Sprintf("job %s takes the rows back to where they were", id),
			Hint: fmt.Sprintf("SELECT weft.wait_move('%s') waits until they are there.", id),
		})
	}
	return err
}

// changeMoves pauses or resumes one job, or all jobs of the database, and returns the jobs.
func (u moveCall) changeMoves(ctx context.Context, args map[string]string, change func(ctx context.Context, match func(*directory.Move) bool) ([]string, error)) ([][]string, error) {
	if err := u.s.srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	id, one := args["job"]
	if one {
		snap, err := u.s.srv.cfg.Directory.Load(ctx)
		if err != nil {
			return nil, err
		}
		if snap.FindMove(id) == nil {
			return nil, u.jobOver(ctx, id)
		}
	}
	ids, err := change(ctx, func(m *directory.Move) bool {
		return one && m.ID == id || !one && (m.Database == u.s.db.Name || !m.Carries())
	})
	rows := make([][]string, len(ids))
	for i := range ids {
		rows[i] = []string{ids[i]}
	}
	return rows, err
}

// pauseMoves pauses one job, or all jobs of the database.
func (u moveCall) pauseMoves(ctx context.Context, args map[string]string) ([][]string, error) {
	return u.changeMoves(ctx, args, func(ctx context.Context, match func(*directory.Move) bool) ([]string, error) {
		return u.s.srv.moving.jobs.Pause(ctx, "paused by "+u.s.login.user, match)
	})
}

// resumeMoves lets one job go on, or all jobs of the database.
func (u moveCall) resumeMoves(ctx context.Context, args map[string]string) ([][]string, error) {
	return u.changeMoves(ctx, args, u.s.srv.moving.jobs.Resume)
}

// setMove changes the options of a job. Its next round goes by them.
func (u moveCall) setMove(ctx context.Context, args map[string]string) error {
	if err := u.s.srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return err
	}
	id := args["job"]
	if snap, err := u.s.srv.cfg.Directory.Load(ctx); err != nil {
		return err
	} else if snap.FindMove(id) == nil {
		return u.jobOver(ctx, id)
	}
	err := u.s.srv.moving.jobs.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		m := next.FindMove(id)
		if m == nil {
			return nil, noJob(id)
		}
		return next, moveOptions(args, &m.Options)
	})
	return err
}

// undoMove starts a job that takes the buckets of another job back to where they were before it. If
// that job is not over, it is cancelled first.
func (u moveCall) undoMove(ctx context.Context, args map[string]string) ([][]string, error) {
	id := args["job"]
	if err := u.s.srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	snap, err := u.s.srv.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	var options directory.MoveOptions
	m := snap.FindMove(id)
	if m != nil && !m.Carries() || snap.FindPast(id) != nil {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "job %s changes the set of shards, and cannot be undone", id).
			WithHint("weft.remove_shard takes a shard out again, weft.add_shard takes one in, weft.cancel_move ends a job that runs.")
	}
	if m != nil {
		if m.Group != "" {
			return [][]string{{id}}, u.cancelMove(ctx, args)
		}
		options = m.Options
		options.Until = 0
		if err := u.cancelMove(ctx, args); err != nil {
			return nil, err
		}
	}
	rec, err := u.remembered(ctx, id)
	if err != nil {
		return nil, err
	}
	switch directory.MoveKind(rec.Kind) {
	case directory.MoveDeclare:
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s has declared tables", id).WithHint("SELECT weft.unshard_table('…') takes a declaration back.")
	case directory.MoveUndeclare:
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s has taken declarations back", id).WithHint("SELECT weft.shard_table('…', '…') declares a table again.")
	}
	return u.startMove(ctx, options, func(snap *directory.Snapshot, target []uint16) error {
		now := slices.Clone(target)
		for shard, list := range rec.Origin {
			n := directory.NumberingOf(snap)
			count := n.First
			if rec.Count > 0 {
				count = rec.Count
			}
			buckets, err := schema.ReadBuckets(list, len(target)-n.Count+count)
			if err != nil {
				return fmt.Errorf("where buckets were before job %s: %w", id, err)
			}
			buckets = n.Grown(buckets, count)
			if err := place(snap, target, shard, buckets); err != nil {
				return err
			}
		}
		if slices.Equal(now, target) {
			return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the buckets of job %s are where they were before it", id)
		}
		return nil
	})
}
