package reshard

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// What a change of the set of shards enters into the directory. Entries are all there is to a job:
// whoever can write the directory can ask for one, and any proxy runs it.

// NewJobID makes the ID of a job up.
func NewJobID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(id[:])
}

// AddJob adds a job with its target to a snapshot that is being made, and returns the job's ID.
func AddJob(next *directory.Snapshot, m directory.Move, target []uint16) string {
	m.ID, m.State = NewJobID(), directory.MovePreparing
	next.Moves = append(next.Moves, m)
	if target != nil {
		if next.Targets == nil {
			next.Targets = map[string][]uint16{}
		}
		next.Targets[m.ID] = target
	}
	return m.ID
}

// Resume lets a job go on that is paused or has failed. What was prepared is looked for again: who
// had the job may be gone.
func Resume(next *directory.Snapshot, m *directory.Move) {
	m.State, m.Reason = directory.MovePreparing, ""
	if _, joined := next.Shard(m.Shard); m.Kind == directory.MoveJoin && joined {
		m.State = directory.MoveRunning
	}
}

// NoShard is the error for a name that no shard has.
func NoShard(name string) error {
	return pgerr.New(pgerr.UndefinedObject, "shard %q does not exist", name).WithHint("SELECT name FROM weft.shards lists the shards.")
}

// busy is the error for a job that another one has to wait for.
func busy(code, message string, m *directory.Move) error {
	return pgerr.New(code, "%s", message).
		WithHint("Wait for it with weft.wait_move(%s), or end it with weft.cancel_move(%s).", quote.Literal(m.ID), quote.Literal(m.ID))
}

// Unchanging refuses to change the set of shards while a job does so.
func Unchanging(snap *directory.Snapshot) error {
	if m := snap.ChangingShards(); m != nil {
		return busy(pgerr.ObjectInUse, fmt.Sprintf("shard %q is joining or leaving already, by job %s", m.Shard, m.ID), m)
	}
	return nil
}

// Join adds the job by which a server joins as the shard that its entry describes.
func Join(next *directory.Snapshot, move directory.Move) error {
	spec := move.Join
	if _, there := next.Shard(spec.Name); there {
		return pgerr.New(pgerr.DuplicateObject, "shard %q already exists", spec.Name)
	}
	next.Moves = append(next.Moves, move)
	// The entry itself says nothing about hosts. Joining as it stands does.
	if err := WithShards(next).Validate(); err != nil {
		return pgerr.New(pgerr.InvalidParameterValue, "shard %q cannot be one of the shards: %s", spec.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return nil
}

// WithShard returns the snapshot as it is when a shard has joined.
func WithShard(snap *directory.Snapshot, spec *directory.Shard) *directory.Snapshot {
	next := snap.Clone()
	next.SetShards(append(slices.Clone(next.Shards), *spec), next.Pins)
	return next
}

// WithShards returns the snapshot as it is when all shards have joined that are to.
func WithShards(snap *directory.Snapshot) *directory.Snapshot {
	for i := range snap.Moves {
		if m := &snap.Moves[i]; m.Kind == directory.MoveJoin && m.Join != nil {
			if _, joined := snap.Shard(m.Shard); !joined {
				snap = WithShard(snap, m.Join)
			}
		}
	}
	return snap
}

// BringBuckets adds the jobs that bring a shard that has joined its buckets: exactly its quota, in
// each database. If other shards are still to join, the last of them brings all of them theirs, so
// that no row moves twice.
func BringBuckets(next *directory.Snapshot, join *directory.Move) {
	if join.Options.Stay || slices.ContainsFunc(next.Moves, func(m directory.Move) bool {
		_, joined := next.Shard(m.Shard)
		return m.Kind == directory.MoveJoin && !joined && !m.Options.Stay
	}) {
		return
	}
	Balance(next, directory.Move{Shard: join.Shard, User: join.User, Proxy: join.Proxy, Options: directory.MoveOptions{MaxPause: join.Options.MaxPause}})
}

// Bare lists the shards that could hold buckets and hold none, of any database with sharded tables, and that no job
// brings any. A shard that has joined with others is one if those others have not joined after all.
func Bare(snap *directory.Snapshot) []string {
	if len(ShardedDatabases(snap)) == 0 {
		return nil
	}
	joining := slices.ContainsFunc(snap.Moves, func(m directory.Move) bool { return m.Kind == directory.MoveJoin })
	var out []string
	for i := range snap.Shards {
		s := &snap.Shards[i]
		has := joining || s.State != directory.ShardActive || s.Weight == 0
		for _, database := range ShardedDatabases(snap) {
			has = has || CountOn(snap, snap.PlacementOf(database, ""), s.Name) > 0
		}
		for _, target := range snap.Targets {
			has = has || CountOn(snap, target, s.Name) > 0
		}
		if !has {
			out = append(out, s.Name)
		}
	}
	return out
}

// Balance adds a job for each database whose buckets are not spread by the shards' weights.
func Balance(next *directory.Snapshot, by directory.Move) {
	for _, database := range ShardedDatabases(next) {
		from := next.PlacementOf(database, "")
		if to := next.Balanced(from); !slices.Equal(from, to) {
			by.Database, by.Kind = database, directory.MoveRebalance
			AddJob(next, by, to)
		}
	}
}

// SetState gives a shard another state. Rows stay where they are.
func SetState(next *directory.Snapshot, name string, state directory.ShardState) error {
	i := slices.IndexFunc(next.Shards, func(s directory.Shard) bool { return s.Name == name })
	if i < 0 {
		return NoShard(name)
	}
	shards := slices.Clone(next.Shards)
	shards[i].State = state
	if state == directory.ShardDraining {
		if err := mayDrain(next, shards, name); err != nil {
			return err
		}
	}
	next.SetShards(shards, next.Pins)
	return nil
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

// Drain adds the jobs that take all buckets off a shard that is being drained, one for each
// database that has some, and returns their IDs.
func Drain(next *directory.Snapshot, name string, by directory.Move) ([]string, error) {
	var ids []string
	for _, database := range ShardedDatabases(next) {
		from, m := next.PlacementOf(database, ""), next.Carrying(database)
		if CountOn(next, from, name) == 0 && (m == nil || CountOn(next, next.PlacementOf(database, m.Group), name) == 0) {
			continue
		}
		if m != nil {
			return nil, busy(pgerr.ObjectNotInPrerequisiteState, fmt.Sprintf("job %s moves rows of database %q already", m.ID, database), m)
		}
		by.Database, by.Kind, by.Shard = database, directory.MoveDrain, name
		ids = append(ids, AddJob(next, by, drained(next, from, name)))
	}
	return ids, nil
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

// Retire adds the job that takes all buckets off a shard and then the shard out of the cluster.
func Retire(next *directory.Snapshot, name string, by directory.Move) error {
	if name == next.Home {
		return homeStays(name)
	}
	if err := SetState(next, name, directory.ShardDraining); err != nil {
		return err
	}
	by.Kind, by.Shard, by.Drain = directory.MoveLeave, name, true
	AddJob(next, by, nil)
	return nil
}

func homeStays(name string) error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q is the home shard, which holds the tables that are not declared", name).
		WithHint("It cannot leave. To put it on other hardware, promote a standby and name its host in cluster.yaml.")
}

// MayLeave refuses a shard that others need.
func MayLeave(snap *directory.Snapshot, name string) error {
	if _, ok := snap.Shard(name); !ok {
		return NoShard(name)
	}
	if name == snap.Home {
		return homeStays(name)
	}
	holds := func(n int, where string) error {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q holds %d buckets%s", name, n, where).
			WithHint("Take them away first: SELECT weft.drain_shard(%s).", quote.Literal(name))
	}
	for i := range snap.Tables {
		t := &snap.Tables[i]
		if t.Kind != directory.Sharded {
			continue
		}
		n := CountOn(snap, snap.PlacementOf(t.Database, t.Group), name)
		switch m := snap.FindMove(t.Group); {
		case n > 0 && t.Group != "" && m != nil:
			return busy(pgerr.ObjectInUse, fmt.Sprintf("job %s carries rows of table %q, of which shard %q holds %d buckets", m.ID, t.Name, name, n), m)
		case n > 0:
			return holds(n, fmt.Sprintf(" of database %q", t.Database))
		}
	}
	for key, p := range snap.Placements {
		if n := CountOn(snap, p, name); n > 0 {
			return holds(n, " of "+key)
		}
	}
	for i := range snap.Moves {
		m := &snap.Moves[i]
		if n := CountOn(snap, snap.Targets[m.ID], name); n > 0 {
			return pgerr.New(pgerr.ObjectInUse, "job %s brings shard %q buckets", m.ID, name)
		}
	}
	return nil
}

// ShardedDatabases lists the databases with sharded tables.
func ShardedDatabases(snap *directory.Snapshot) []string {
	var out []string
	for i := range snap.Tables {
		if t := &snap.Tables[i]; t.Kind == directory.Sharded && !slices.Contains(out, t.Database) {
			out = append(out, t.Database)
		}
	}
	return out
}

// CountOn counts the buckets that a placement has on a shard.
func CountOn(snap *directory.Snapshot, p []uint16, name string) int {
	n := 0
	for _, at := range p {
		if int(at) < len(snap.Shards) && snap.Shards[at].Name == name {
			n++
		}
	}
	return n
}
