package server

import (
	"context"
	"log/slog"

	"weft/config"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/twopc"
)

// Resolver returns what lists and ends transactions in doubt from outside of a
// proxy, for the shards of a snapshot.
func Resolver(cfg config.Config, snap *directory.Snapshot, log *slog.Logger) (*twopc.Resolver, error) {
	shards, err := pool.New(withService(poolConfig(cfg.Pool, cfg.Auth.Users, log), cfg.Service))
	if err != nil {
		return nil, err
	}
	return &twopc.Resolver{Cluster: snap.Cluster, Log: log, Dial: func(ctx context.Context, shard, database string) (twopc.Conn, error) {
		spec, ok := snap.Shard(shard)
		if !ok {
			return nil, pgerr.New(pgerr.UndefinedObject, "there is no shard %q", shard)
		}
		lane := shards.Shard(spec).OpenLane(pool.ServiceKey(database, cfg.Service.User))
		defer lane.CloseLane()
		return lane.Dedicated(ctx)
	}}, nil
}
