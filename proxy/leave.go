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
	"weft/twopc"
)

// leaveAttempts is how often a shard that is to leave waits for all transactions to end, holding
// new ones for up to shardHold.
const leaveAttempts = 5

// confirmPatience is how long decisions may take to be confirmed by all shards.
const confirmPatience = 15 * time.Second

// noShard is the error for a name that no shard has.
func noShard(name string) error {
	return pgerr.New(pgerr.UndefinedObject, "shard %q does not exist", name).WithHint("SELECT name FROM weft.shards lists the shards.")
}

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
		return withState(old, args["shard"], state)
	})
	if err != nil {
		return err
	}
	return srv.keeper.spreadVersion(ctx, snap.Version)
}

// withState returns a snapshot in which a shard has another state. Rows stay where they are.
func withState(old *directory.Snapshot, name string, state directory.ShardState) (*directory.Snapshot, error) {
	next := old.Clone()
	i := slices.IndexFunc(next.Shards, func(s directory.Shard) bool { return s.Name == name })
	if i < 0 {
		return nil, noShard(name)
	}
	shards := slices.Clone(next.Shards)
	shards[i].State = state
	if state == directory.ShardDraining {
		if err := mayDrain(next, shards, name); err != nil {
			return nil, err
		}
	}
	next.SetShards(shards, next.Pins)
	return next, nil
}

// mayDrain refuses to drain a shard whose buckets would have no place.
func mayDrain(snap *directory.Snapshot, shards []directory.Shard, name string) error {
	if slices.ContainsFunc(snap.Pins, func(p directory.Pin) bool { return p.Shard == name }) {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "buckets are pinned to shard %q", name).
			WithHint("Take the pins out of cluster.yaml and run weft apply.")
	}
	if !slices.ContainsFunc(shards, func(s directory.Shard) bool { return s.State != directory.ShardDraining && s.Weight > 0 }) {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q cannot be drained: no other shard takes its buckets", name).
			WithHint("Add a shard first, or give one a weight.")
	}
	return nil
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
	var out [][]string
	_, err = srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next, err := withState(old, name, directory.ShardDraining)
		if err != nil {
			return nil, err
		}
		out = [][]string{}
		for _, database := range shardedDatabases(next) {
			from := next.PlacementOf(database, "")
			if countOn(next, from, name) == 0 {
				continue
			}
			if m := next.Carrying(database); m != nil {
				return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s moves rows of database %q already", m.ID, database).
					WithHint("Wait for it with weft.wait_move(%s), or end it with weft.cancel_move(%s).", quote.Literal(m.ID), quote.Literal(m.ID))
			}
			id := addMove(next, directory.Move{
				Database: database, Kind: directory.MoveDrain, Shard: name, User: u.s.login.user, Proxy: srv.cfg.Proxy, Options: options,
			}, drained(next, from, name))
			out = append(out, []string{id})
		}
		return next, nil
	})
	return out, err
}

// drained returns a placement without buckets on a shard: only its buckets move.
func drained(snap *directory.Snapshot, from []uint16, name string) []uint16 {
	to, best := slices.Clone(from), snap.Balanced(from)
	for b, at := range from {
		if int(at) < len(snap.Shards) && snap.Shards[at].Name == name {
			to[b] = best[b]
		}
	}
	return to
}

// shardedDatabases lists the databases with sharded tables.
func shardedDatabases(snap *directory.Snapshot) []string {
	var out []string
	for i := range snap.Tables {
		if t := &snap.Tables[i]; t.Kind == directory.Sharded && !slices.Contains(out, t.Database) {
			out = append(out, t.Database)
		}
	}
	return out
}

// countOn counts the buckets that a placement has on a shard.
func countOn(snap *directory.Snapshot, p []uint16, name string) int {
	n := 0
	for _, at := range p {
		if int(at) < len(snap.Shards) && snap.Shards[at].Name == name {
			n++
		}
	}
	return n
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
		return "", noShard(name)
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
		if err := mayLeave(old, name); err != nil {
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
	if ended := j.endMove(context.WithoutCancel(ctx), move.ID); ended != nil {
		srv.log.Warn("the job of a shard that stays is left", "shard", name, "err", ended)
	}
	var later *laterError
	if errors.As(err, &later) {
		return pgerr.New(pgerr.ObjectInUse, "shard %q cannot leave now: %s", name, later.reason).
			WithHint("Transactions that are open keep it: weft.sessions lists them. Try again when they have ended.")
	}
	return err
}

// mayLeave refuses a shard that others need.
func mayLeave(snap *directory.Snapshot, name string) error {
	if _, ok := snap.Shard(name); !ok {
		return noShard(name)
	}
	if name == snap.Home {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q is the home shard, which holds the tables that are not declared", name).
			WithHint("It cannot leave. To put it on other hardware, promote a standby and name its host in cluster.yaml.")
	}
	holds := func(n int, where string) error {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q holds %d buckets%s", name, n, where).
			WithHint("Take them away first: SELECT weft.drain_shard(%s).", quote.Literal(name))
	}
	for _, database := range shardedDatabases(snap) {
		if n := countOn(snap, snap.PlacementOf(database, ""), name); n > 0 {
			return holds(n, fmt.Sprintf(" of database %q", database))
		}
	}
	for key, p := range snap.Placements {
		if n := countOn(snap, p, name); n > 0 {
			return holds(n, " of "+key)
		}
	}
	for i := range snap.Moves {
		m := &snap.Moves[i]
		if !m.Carries() {
			return pgerr.New(pgerr.ObjectInUse, "shard %q is joining or leaving already, by job %s", m.Shard, m.ID)
		}
		if n := countOn(snap, snap.Targets[m.ID], name); n > 0 {
			return pgerr.New(pgerr.ObjectInUse, "job %s brings shard %q buckets", m.ID, name)
		}
	}
	return nil
}

// leave removes a shard while no transaction is open.
func (j *jobs) leave(parent context.Context, m *directory.Move) error {
	ctx, cancel := context.WithTimeout(parent, shardHold)
	defer cancel()
	key := "leave " + newMoveID()
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
		next.EndMove(m.ID)
		if err := mayLeave(next, m.Shard); err != nil {
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
