package directory

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
	i, leaving := s.shardIndex(name), s.Leaving(name)
	switch {
	case i < 0:
		return ShardJoining
	case leaving != nil && !(leaving.Drain && s.holds(i)):
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

// Leaving returns the job by which a shard leaves, nil if there is none.
func (s *Snapshot) Leaving(name string) *Move { return s.jobOf(MoveLeave, name) }

// JoiningAs returns the job by which a shard of that name joins, nil if there is none.
func (s *Snapshot) JoiningAs(name string) *Move { return s.jobOf(MoveJoin, name) }

func (s *Snapshot) jobOf(kind MoveKind, shard string) *Move {
	for i := range s.Moves {
		if m := &s.Moves[i]; m.Kind == kind && m.Shard == shard {
			return m
		}
	}
	return nil
}
