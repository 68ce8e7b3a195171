package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/reshard"
	"weft/twopc"
)

const (
	// leaveAttempts is how often a shard that is to leave waits for all transactions to end, holding
	// new ones for up to shardHold.
	leaveAttempts = 5
	// leaveLater is how long a shard that is to leave waits at most until it is tried again.
	leaveLater = 30 * time.Second
	// confirmPatience is how long decisions may take to be confirmed by all shards.
	confirmPatience = 15 * time.Second
)

// Leave takes a shard without buckets out of the cluster, by a job that is over when Leave returns.
// The shard's tables are left as they are.
func (r *Runner) Leave(ctx context.Context, move directory.Move) error {
	if done, free := r.reserve(move.ID); free {
		defer done()
	}
	name := move.Shard
	snap, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if err := reshard.MayLeave(old, name); err != nil {
			return nil, err
		}
		if err := reshard.Unchanging(old); err != nil {
			return nil, err
		}
		next := old.Clone()
		next.Moves = append(next.Moves, move)
		return next, nil
	})
	if err != nil {
		return err
	}
	if err = r.cfg.Spread(ctx, snap.Version); err == nil {
		err = r.unconfirmed(ctx, snap, name)
	}
	var later *laterError
	if err == nil {
		for range leaveAttempts {
			if err = r.leave(ctx, &move); !errors.As(err, &later) || !sleep(ctx, attemptPause) {
				break
			}
		}
	}
	if err == nil {
		return nil
	}
	if ended := r.end(context.WithoutCancel(ctx), move.ID, directory.MoveCancelled); ended != nil {
		r.cfg.Log.Warn("the job of a shard that stays is left", "shard", name, "err", ended)
	}
	if errors.As(err, &later) {
		return pgerr.New(pgerr.ObjectInUse, "shard %q cannot leave now: %s", name, later.reason).
			WithHint("Transactions that are open keep it: weft.sessions lists them. Try again when they have ended.")
	}
	return err
}

// retire runs the job that takes all buckets off a shard and then the shard out of the cluster.
func (r *Runner) retire(ctx context.Context, id string) error {
	for wait := attemptPause; ; {
		snap, m, err := r.own(ctx, id)
		if err != nil || m == nil || m.State == directory.MovePaused {
			return err
		}
		if _, there := snap.Shard(m.Shard); !there {
			return r.end(ctx, id, directory.MoveDone)
		}
		drained, err := r.drainFirst(ctx, m)
		if err == nil && drained {
			if err = r.unconfirmed(ctx, snap, m.Shard); err == nil {
				err = r.leave(ctx, m)
			}
			if err == nil {
				return nil
			}
		}
		err = passing(err)
		var later *laterError
		switch {
		case ctx.Err() != nil:
			return err
		case errors.As(err, &later):
			r.cfg.Log.Info("a shard leaves later", "shard", m.Shard, "job", id, "reason", later.reason)
			r.waits(ctx, m, later.reason)
			wait = min(2*wait, leaveLater) // others are held meanwhile
		case err != nil:
			return r.fail(ctx, id, err)
		}
		if !sleep(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// drainFirst starts jobs that take the buckets off a shard where there are none yet, and reports
// whether no bucket is left and no job carries rows.
func (r *Runner) drainFirst(ctx context.Context, m *directory.Move) (drained bool, err error) {
	err = r.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		for i := range old.Moves {
			if o := &old.Moves[i]; o.Carries() {
				if drained = false; o.Shard == m.Shard && o.State == directory.MoveFailed {
					return nil, fmt.Errorf("job %s, which takes its buckets of database %s away, has failed: %s", o.ID, o.Database, o.Reason)
				}
				return old, nil
			}
		}
		next := old.Clone()
		if sh, _ := next.Shard(m.Shard); sh.State != directory.ShardDraining {
			return nil, fmt.Errorf("the shard is not being drained any more: weft.set_shard_state(%s, 'draining') lets it leave", quote.Literal(m.Shard))
		}
		ids, err := reshard.Drain(next, m.Shard, directory.Move{User: m.User, Proxy: m.Proxy, Options: directory.MoveOptions{MaxPause: m.Options.MaxPause}})
		if drained = len(ids) == 0; drained || err != nil {
			return old, err
		}
		return next, nil
	})
	return drained, err
}

// leave removes a shard while no transaction is open.
func (r *Runner) leave(parent context.Context, m *directory.Move) error {
	ctx, cancel := context.WithTimeout(parent, shardHold)
	defer cancel()
	key := "leave " + reshard.NewJobID()
	live, err := r.fence(ctx, r.cfg.Snapshot())
	if err != nil {
		return &laterError{reason: err}
	}
	held, err := r.hold(ctx, m.ID, &directory.Round{Key: key, Phase: directory.HoldAll, Pause: shardHold}, func(now *directory.Snapshot) error {
		if len(now.Pending) > 0 {
			return errors.New("a schema is being changed")
		}
		return nil
	})
	if err == nil {
		defer r.lift(context.WithoutCancel(parent), m.ID, key)
		r.cfg.StopAt("leave-held")
		err = r.clearedBy(ctx, held.Version, live)
	}
	if err != nil {
		return &laterError{reason: err}
	}
	if err := r.unneeded(ctx, held, m.Shard); err != nil {
		return err
	}
	next, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if !holds(old, m.ID, key) {
			return nil, errLifted
		}
		next := old.Clone()
		next.Conclude(m.ID, directory.MoveDone, time.Now())
		if err := reshard.MayLeave(next, m.Shard); err != nil {
			return nil, err
		}
		next.SetShards(slices.DeleteFunc(slices.Clone(next.Shards), func(s directory.Shard) bool { return s.Name == m.Shard }), next.Pins)
		return next, nil
	})
	if err != nil {
		if ctx.Err() != nil {
			return &laterError{reason: err}
		}
		return err
	}
	r.cfg.StopAt("leave-entered")
	return r.cfg.Spread(parent, next.Version)
}

// unneeded refuses a shard that a transaction of several shards still needs: one is prepared
// there, or one is prepared elsewhere and decided there.
func (r *Runner) unneeded(ctx context.Context, snap *directory.Snapshot, name string) error {
	for i := range snap.Shards {
		shard := snap.Shards[i].Name
		c, err := r.cfg.Dial(ctx, shard, "postgres")
		if err != nil {
			return err
		}
		rows, err := c.Exec("SELECT gid FROM pg_catalog.pg_prepared_xacts")
		c.Terminate()
		if err != nil {
			return err
		}
		for _, r := range rows {
			n, ours := twopc.ParseName(r[0])
			if ours && n.Cluster == snap.Cluster && (shard == name || n.Decider == name) {
				return &laterError{reason: fmt.Errorf("transaction %s, which is prepared on shard %s, needs it", r[0], shard)}
			}
		}
	}
	return nil
}

// unconfirmed refuses a shard that keeps decisions which some participant has not confirmed for
// long: the participant's server may be another one now, which will ask.
func (r *Runner) unconfirmed(ctx context.Context, snap *directory.Snapshot, name string) error {
	for _, database := range snap.Databases() {
		if err := r.cfg.Install(ctx, name, database); err != nil {
			return err
		}
		for began := time.Now(); ; {
			c, err := r.cfg.Dial(ctx, name, database)
			if err != nil {
				return err
			}
			rows, err := c.Exec("SELECT pg_catalog.count(*) FROM weft.decision WHERE decided < pg_catalog.clock_timestamp() - '10 s'::pg_catalog.interval")
			c.Terminate()
			if err != nil {
				return err
			}
			if rows[0][0] == "0" {
				break
			}
			if time.Since(began) > confirmPatience {
				return pgerr.New(pgerr.ObjectInUse, "shard %q keeps %s decisions about transactions of database %q that not all shards have followed", name, rows[0][0], database).
					WithHint("weft.transactions lists them. Try again when all shards answer.")
			}
			if !sleep(ctx, attemptPause) {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
