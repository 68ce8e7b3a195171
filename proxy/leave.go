package proxy

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

// leaveAttempts is how often a shard that is to leave waits for all transactions to end, holding
// new ones for up to shardHold.
const leaveAttempts = 5

// confirmPatience is how long decisions may take to be confirmed by all shards.
const confirmPatience = 15 * time.Second

// setShardState says what a shard may be given.
func (u *utility) setShardState(ctx context.Context, args map[string]string) error {
	srv := u.s.srv
	if err := srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return err
	}
	state := directory.ShardState(args["state"])
	switch state {
	case "active":
		state = directory.ShardActive
	case directory.ShardDraining, directory.ShardReadOnly:
	default:
		return pgerr.New(pgerr.InvalidParameterValue, "%q is no state of a shard", args["state"]).WithHint("The states are 'active', 'draining' and 'read_only'.")
	}
	if args["shard"] == srv.cfg.Snapshot().Home && state == directory.ShardReadOnly {
		return pgerr.New(pgerr.FeatureNotSupported, "the home shard cannot be made read only: weft keeps sequences and decisions there").
			WithHint("To keep clients from writing, use ALTER DATABASE … SET default_transaction_read_only = on.")
	}
	snap, err := srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		return next, reshard.SetState(next, args["shard"], state)
	})
	if err != nil {
		return err
	}
	return srv.keeper.spreadVersion(ctx, snap.Version)
}

// drainShard starts the jobs that take all buckets off a shard, one for each database that has
// some, and returns their IDs.
func (u *utility) drainShard(ctx context.Context, args map[string]string) ([][]string, error) {
	srv := u.s.srv
	if err := srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	name, err := shardNamed(srv.cfg.Snapshot(), args)
	if err != nil {
		return nil, err
	}
	var options directory.MoveOptions
	if err := moveOptions(args, &options); err != nil {
		return nil, err
	}
	var ids []string
	_, err = srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		if err := reshard.SetState(next, name, directory.ShardDraining); err != nil {
			return nil, err
		}
		var err error
		ids, err = reshard.Drain(next, name, directory.Move{User: u.s.login.user, Proxy: srv.cfg.Proxy, Options: options})
		return next, err
	})
	out := make([][]string, len(ids))
	for i := range ids {
		out[i] = []string{ids[i]}
	}
	return out, err
}

// shardNamed returns the shard that a call names, or, as in Citus, the one of a host and port.
func shardNamed(snap *directory.Snapshot, args map[string]string) (string, error) {
	name := args["name"]
	if host, citus := args["host"]; citus {
		for i := range snap.Shards {
			if slices.Contains(snap.Shards[i].Hosts, host+":"+args["port"]) {
				return snap.Shards[i].Name, nil
			}
		}
		return "", pgerr.New(pgerr.UndefinedObject, "no shard is at %s:%s", host, args["port"])
	}
	if _, ok := snap.Shard(name); !ok {
		return "", reshard.NoShard(name)
	}
	return name, nil
}

// removeShard takes a shard without buckets out of the cluster. Its tables are left as they are.
func (u *utility) removeShard(ctx context.Context, args map[string]string) error {
	srv := u.s.srv
	if err := srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return err
	}
	name, err := shardNamed(srv.cfg.Snapshot(), args)
	if err != nil {
		return err
	}
	move := u.newMove(directory.MoveLeave)
	move.Database, move.Shard = "", name
	done := srv.moving.jobs.reserve(move.ID)
	defer done()
	snap, err := srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
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
	j := &srv.moving.jobs
	if err = srv.keeper.spreadVersion(ctx, snap.Version); err == nil {
		err = j.unconfirmed(ctx, snap, name)
	}
	if err == nil {
		for range leaveAttempts {
			err = j.leave(ctx, &move)
			var later *laterError
			if !errors.As(err, &later) || !sleep(ctx, 200*time.Millisecond) {
				break
			}
		}
	}
	if err == nil {
		return nil
	}
	if ended := j.endMove(context.WithoutCancel(ctx), move.ID, directory.MoveCancelled); ended != nil {
		srv.log.Warn("the job of a shard that stays is left", "shard", name, "err", ended)
	}
	var later *laterError
	if errors.As(err, &later) {
		return pgerr.New(pgerr.ObjectInUse, "shard %q cannot leave now: %s", name, later.reason).
			WithHint("Transactions that are open keep it: weft.sessions lists them. Try again when they have ended.")
	}
	return err
}

// leaveLater is how long a shard that is to leave waits at most until it is tried again.
const leaveLater = 30 * time.Second

// retire runs the job that takes all buckets off a shard and then the shard out of the cluster.
func (j *jobs) retire(ctx context.Context, id string) error {
	for wait := 200 * time.Millisecond; ; {
		snap, m, err := j.own(ctx, id)
		if err != nil || m == nil || m.State == directory.MovePaused {
			return err
		}
		if _, there := snap.Shard(m.Shard); !there {
			return j.endMove(ctx, id, directory.MoveDone)
		}
		drained, err := j.drainFirst(ctx, m)
		if err == nil && drained {
			if err = j.unconfirmed(ctx, snap, m.Shard); err == nil {
				err = j.leave(ctx, m)
			}
			if err == nil {
				return nil
			}
			err = passing(err)
		}
		var later *laterError
		switch {
		case ctx.Err() != nil:
			return err
		case errors.As(err, &later):
			j.s.log.Info("a shard leaves later", "shard", m.Shard, "job", id, "reason", later.reason)
			wait = min(2*wait, leaveLater) // others are held meanwhile
		case err != nil:
			return j.failMove(ctx, id, err)
		}
		if !sleep(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// drainFirst starts jobs that take the buckets off a shard where there are none yet, and reports
// whether no bucket is left and no job carries rows.
func (j *jobs) drainFirst(ctx context.Context, m *directory.Move) (drained bool, err error) {
	err = j.update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
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
func (j *jobs) leave(parent context.Context, m *directory.Move) error {
	ctx, cancel := context.WithTimeout(parent, shardHold)
	defer cancel()
	key := "leave " + reshard.NewJobID()
	live, err := j.fence(ctx, j.s.cfg.Snapshot())
	if err != nil {
		return &laterError{reason: err}
	}
	held, err := j.hold(ctx, m.ID, &directory.Round{Key: key, Phase: directory.HoldAll, Pause: shardHold}, func(now *directory.Snapshot) error {
		if len(now.Pending) > 0 {
			return errors.New("a schema is being changed")
		}
		return nil
	})
	if err == nil {
		defer j.lift(context.WithoutCancel(parent), m.ID, key)
		j.stopAt("leave-held")
		err = j.clearedBy(ctx, held.Version, live)
	}
	if err != nil {
		return &laterError{reason: err}
	}
	if err := j.unneeded(ctx, held, m.Shard); err != nil {
		return err
	}
	next, err := j.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		own := old.FindMove(m.ID)
		if own == nil || own.Round == nil || own.Round.Key != key {
			return nil, errors.New("the hold has been lifted")
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
	j.stopAt("leave-entered")
	return j.s.keeper.spreadVersion(parent, next.Version)
}

// unneeded refuses a shard that a transaction of several shards still needs: one is prepared
// there, or one is prepared elsewhere and decided there.
func (j *jobs) unneeded(ctx context.Context, snap *directory.Snapshot, name string) error {
	for i := range snap.Shards {
		shard := snap.Shards[i].Name
		c, err := j.s.dialService(ctx, shard, "postgres")
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
func (j *jobs) unconfirmed(ctx context.Context, snap *directory.Snapshot, name string) error {
	var databases []string
	for i := range snap.Tables {
		if d := snap.Tables[i].Database; !slices.Contains(databases, d) {
			databases = append(databases, d)
		}
	}
	for _, database := range databases {
		if _, err := j.s.keeper.own(ctx, name, database); err != nil {
			return err
		}
		for began := time.Now(); ; {
			c, err := j.s.dialService(ctx, name, database)
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
			if !sleep(ctx, 200*time.Millisecond) {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
