package proxy

import (
	"context"
	"slices"

	"weft/directory"
	"weft/pgerr"
	"weft/reshard"
)

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
	return srv.moving.jobs.Leave(ctx, move)
}
