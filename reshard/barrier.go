package reshard

import (
	"slices"
	"sync/atomic"

	"weft/directory"
)

// Open lets everything through every barrier. It is for one test, which shows that rows are seen
// twice then, or not at all.
var Open atomic.Bool

// Barrier is the job, and the round if there is one, that statements of a database meet. It is
// made once for each snapshot and not changed.
type Barrier struct {
	// Job is the ID of the job.
	Job string
	// Version is that of the snapshot.
	Version int64
	// Round is the round in progress, nil between rounds.
	Round *directory.Round
	// Move is the job. It is read only.
	Move *directory.Move

	bits []uint64 // buckets of the round
	// leaves says that a shard leaves: no transaction may be open then, because the numbers of
	// shards change.
	leaves bool
	// remapped is the version since which values have the buckets that they have: the notes of an
	// older transaction name others.
	remapped int64
}

// BarrierOf returns the barrier of a database, nil if no job carries its rows or changes the set of
// shards. A job that changes the set of shards and has a round concerns all databases, and goes
// before the others: they begin no rounds then.
func BarrierOf(snap *directory.Snapshot, database string) *Barrier {
	if m := snap.Holding(); m != nil {
		return &Barrier{Job: m.ID, Version: snap.Version, Round: m.Round, Move: m, leaves: m.Kind == directory.MoveLeave}
	}
	var found *directory.Move
	for i := range snap.Moves {
		if m := &snap.Moves[i]; m.Carries() && m.Database == database {
			found = m
		} else if !m.Carries() && found == nil {
			found = m
		}
	}
	if found == nil {
		return nil
	}
	b := &Barrier{Job: found.ID, Version: snap.Version, Round: found.Round, Move: found, remapped: snap.Remapped[database]}
	if found.Round != nil {
		b.bits = make([]uint64, (len(snap.Placement)+63)/64)
		for _, p := range found.Round.Pairs {
			for _, bucket := range p.Buckets {
				b.bits[bucket/64] |= 1 << (bucket % 64)
			}
		}
	}
	return b
}

// has reports whether a bucket is in the round.
func (b *Barrier) has(bucket int) bool {
	return bucket >= 0 && bucket/64 < len(b.bits) && b.bits[bucket/64]&(1<<(bucket%64)) != 0
}

// Holds reports whether a statement must wait for the round to end before it is sent.
//
//	                             writes   all   carried
//	reads buckets of the round     -       ✓      -       (they are on their new shard)
//	reads all shards               -       ✓      ✓       (the old shard has not committed)
//	writes buckets of the round    ✓       ✓      -
//	writes all shards              ✓       ✓      ✓
//	other buckets, no rows         -       -      -
//
// A transaction that has written buckets of the round already goes on: the round waits for it.
// A transaction that goes by the placement of its snapshots may read.
func (b *Barrier) Holds(n *Notes, t Touch) bool {
	if b == nil || b.Round == nil || Open.Load() {
		return false
	}
	if b.leaves {
		return n.Idle()
	}
	if t.Access == None {
		return false
	}
	met := buckets{}
	if t.All {
		met.all = true
	} else {
		met.list = t.Buckets
	}
	if !met.meets(b) {
		return false
	}
	if t.Access == Read && n.repeatable {
		return false
	}
	if b.unknown(n) || n.written.meets(b) {
		return false
	}
	switch b.Round.Phase {
	case directory.HoldWrites:
		return t.Access == Write
	case directory.Carried:
		return t.All
	}
	return true
}

// Awaits reports whether the barrier must wait for the session with these notes: before its
// job may begin a round, for a transaction whose touches are not known; in a round, for touches
// of the kind that Holds lets no other transaction begin.
func (b *Barrier) Awaits(n *Notes) bool {
	switch {
	case n.Idle() || Open.Load():
		return false
	case b.unknown(n):
		return true
	case b.Round == nil:
		return false
	case b.leaves:
		return true
	case n.written.meets(b):
		return true
	}
	return b.Round.Phase != directory.HoldWrites && !n.repeatable && n.reading.meets(b)
}

// unknown reports whether it is not known which buckets a transaction has touched.
func (b *Barrier) unknown(n *Notes) bool { return n.unnoted || n.since > 0 && n.since < b.remapped }

// Met returns a bucket of the round that a transaction with these notes has touched, -1 if it may
// have touched all.
func (b *Barrier) Met(n *Notes) int {
	for _, set := range []buckets{n.written, n.reading} {
		for _, bucket := range set.list {
			if b.has(bucket) {
				return bucket
			}
		}
	}
	return -1
}

// First returns a bucket of the round that a statement touches, -1 if the statement may touch all,
// and the shard that the bucket is on its way to.
func (b *Barrier) First(t Touch) (bucket int, to string) {
	if b.Round == nil || len(b.Round.Pairs) == 0 {
		return -1, ""
	}
	for _, bucket := range t.Buckets {
		for _, p := range b.Round.Pairs {
			if !t.All && slices.Contains(p.Buckets, bucket) {
				return bucket, p.To
			}
		}
	}
	return -1, b.Round.Pairs[0].To
}
