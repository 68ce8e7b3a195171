package directory

import "slices"

// States that a shard is shown to be in. They follow from the rest of the snapshot and are never
// stored.
const (
	// ShardEmpty says that a shard that is being drained, or has the weight 0, holds no buckets.
	ShardEmpty ShardState = "empty"
	// ShardJoining says that a job makes the server ready. It is not one of the shards yet.
	ShardJoining ShardState = "joining"
	// ShardLeaving says that a job takes the shard out of the cluster.
	ShardLeaving ShardState = "leaving"
)

// StateOf tells how a shard is, also one that has not joined yet.
func (s *Snapshot) StateOf(name string) ShardState {
	i := s.shardIndex(name)
	switch {
	case i < 0:
		return ShardJoining
	case slices.ContainsFunc(s.Moves, func(m Move) bool { return m.Kind == MoveLeave && m.Shard == name }):
		return ShardLeaving
	case s.Shards[i].State == ShardReadOnly:
		return ShardReadOnly
	case s.Shards[i].State != ShardDraining && s.Shards[i].Weight > 0:
		return ShardActive
	case s.holds(i):
		return s.Shards[i].State
	}
	return ShardEmpty
}

// holds reports whether a shard has a bucket in any database.
func (s *Snapshot) holds(shard int) bool {
	if s.bucketsOn(s.Placement, shard) > 0 {
		return true
	}
	for _, p := range s.Placements {
		if s.bucketsOn(p, shard) > 0 {
			return true
		}
	}
	return false
}
