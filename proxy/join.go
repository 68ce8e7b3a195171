package proxy

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// addShard starts the job by which a server joins as a shard, and returns its ID.
func (u *utility) addShard(ctx context.Context, args map[string]string) ([][]string, error) {
	srv := u.s.srv
	if err := srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	move := u.newMove(directory.MoveJoin)
	move.Database = ""
	spec, err := shardSpec(srv.cfg.Snapshot(), args)
	if err != nil {
		return nil, err
	}
	move.Shard, move.Join = spec.Name, spec
	if err := moveOptions(args, &move.Options); err != nil {
		return nil, err
	}
	move.Options.Stay = args["rebalance"] == "false"
	if err := srv.moving.jobs.Join(ctx, move); err != nil {
		return nil, err
	}
	return [][]string{{move.ID}}, nil
}

// shardSpec reads the arguments of add_shard. Options of the connection are those of the home
// shard.
func shardSpec(snap *directory.Snapshot, args map[string]string) (*directory.Shard, error) {
	spec := &directory.Shard{Name: args["name"], Weight: 1, Options: maps.Clone(snap.HomeShard().Options)}
	for _, h := range strings.Split(args["hosts"], ",") {
		spec.Hosts = append(spec.Hosts, strings.TrimSpace(h))
	}
	if host, citus := args["host"]; citus {
		spec.Hosts = []string{host + ":" + args["port"]}
		for i := len(snap.Shards); spec.Name == ""; i++ {
			name := fmt.Sprintf("shard-%d", i)
			if _, taken := snap.Shard(name); !taken {
				spec.Name = name
			}
		}
	}
	if text := args["weight"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 1000 {
			return nil, pgerr.New(pgerr.InvalidParameterValue, "weight %q is not a number from 0 to 1000", text)
		}
		spec.Weight = n
	}
	if v, given := args["rebalance"]; given && v != "true" && v != "false" {
		return nil, pgerr.New(pgerr.InvalidParameterValue, "rebalance %q is not true or false", v)
	}
	return spec, nil
}

// awaitShards makes a command that changes schemas wait while a shard is being made ready: the
// shard would have to be made ready again. A transaction that is open already does not wait.
func (cm *commit) awaitShards() error {
	if snap := cm.s.srv.cfg.Snapshot(); snap == nil || snap.Joining() == nil || cm.s.tx.isOpen() {
		return nil
	}
	cm.s.client.Task().Leave()
	for began := time.Now(); time.Since(began) < changeTimeout; {
		if cm.s.srv.cfg.Snapshot().Joining() == nil {
			return nil
		}
		select {
		case <-cm.s.reach.cancelled:
			return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
		case <-cm.s.srv.ctx.Done():
			return pgerr.New(pgerr.AdminShutdown, "weft is shutting down")
		case <-time.After(10 * time.Millisecond):
		}
	}
	m := cm.s.srv.cfg.Snapshot().Joining()
	if m == nil {
		return nil
	}
	return pgerr.New(pgerr.ObjectInUse, "schemas cannot be changed while shard %q joins", m.Shard).
		WithHint("Wait for it with weft.wait_move(%s), or end it with weft.cancel_move(%s).", quote.Literal(m.ID), quote.Literal(m.ID))
}
