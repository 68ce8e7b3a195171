package config

import (
	"fmt"
	"slices"

	"weft/directory"
	"weft/reshard"
)

// reshape makes the change of a cluster with declared tables, whose rows are on the shards. known
// are the shards with their new hosts and weights, those that are to go included. fresh ones join by
// jobs, those that are gone leave by jobs, and other weights lead to jobs that rebalance by number of
// buckets. What a job does already is not asked for again, a job that has failed goes on, and one that waits may be
// given another server.
func reshape(next *directory.Snapshot, known, fresh []directory.Shard, gone []string, pins []directory.Pin) error {
	reweighted := slices.ContainsFunc(known, func(s directory.Shard) bool {
		was, _ := next.Shard(s.Name)
		return was.Weight != s.Weight
	})
	next.SetShards(known, pins)
	if err := conflicts(next, known, fresh, gone); err != nil {
		return err
	}
	joins := false
	for i := range fresh {
		spec := &fresh[i]
		joins = true
		m := next.JoiningAs(spec.Name)
		switch {
		case m == nil:
			if err := reshard.Join(next, directory.Move{ID: reshard.NewJobID(), Kind: directory.MoveJoin, Shard: spec.Name, Join: spec, State: directory.MovePreparing}); err != nil {
				return err
			}
		case m.State == directory.MoveFailed || m.Waits != "" && !m.Join.Reaches(spec):
			// A job that waits may wait for a server that is not where the file said.
			m.Join, m.Waits = spec, ""
			again(next, m)
		case !m.Join.Reaches(spec) || m.Join.Weight != spec.Weight:
			return fmt.Errorf("shard %s joins by job %s with other hosts, options or weight than the file has: wait until the job is over, or end it with SELECT weft.cancel_move('%s')", spec.Name, m.ID, m.ID)
		}
	}
	// After those that join: what leaves a shard goes there at once.
	for _, name := range gone {
		if m := next.Leaving(name); m != nil {
			again(next, m)
		} else if err := reshard.Retire(next, name, directory.Move{}); err != nil {
			return err
		}
	}
	if !reweighted || joins { // the last shard to join brings buckets by the new weights
		return nil
	}
	for _, database := range reshard.ShardedDatabases(next) {
		if m := next.Carrying(database); m != nil {
			return fmt.Errorf("weights cannot change while job %s moves rows of database %s: apply again when it is over", m.ID, database)
		}
	}
	reshard.Balance(next, directory.Move{})
	return nil
}

// again lets a job go on that has failed.
func again(next *directory.Snapshot, m *directory.Move) {
	if m.State == directory.MoveFailed {
		reshard.Resume(next, m)
	}
}

// conflicts refuses what contradicts a job that goes on.
func conflicts(next *directory.Snapshot, known, fresh []directory.Shard, gone []string) error {
	for i := range known {
		if m := next.Leaving(known[i].Name); m != nil && !slices.Contains(gone, known[i].Name) {
			return fmt.Errorf("shard %s leaves by job %s, and the file lists it: end the job with SELECT weft.cancel_move('%s') and call weft.set_shard_state('%s', 'active')", m.Shard, m.ID, m.ID, m.Shard)
		}
	}
	for i := range next.Moves {
		m := &next.Moves[i]
		if m.Kind != directory.MoveJoin || slices.ContainsFunc(append(slices.Clone(known), fresh...), func(s directory.Shard) bool { return s.Name == m.Shard }) {
			continue
		}
		return fmt.Errorf("shard %s joins by job %s, and the file does not list it: add it, or end the job with SELECT weft.cancel_move('%s')", m.Shard, m.ID, m.ID)
	}
	return nil
}
