package directory

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Move is a job that carries rows to other shards: buckets of one database, round by round,
// until the database's placement is the job's target. The entry exists while the job does; the
// home shard knows the jobs that are over.
type Move struct {
	ID       string   `json:"id"`
	Database string   `json:"database"`
	Group    string   `json:"group,omitempty"` // see Table.Group
	Kind     MoveKind `json:"kind"`
	// Shard is the shard that joins, is drained or is removed, if the job is about one.
	Shard string `json:"shard,omitempty"`
	// Join describes the shard that joins.
	Join *Shard `json:"join,omitempty"`
	// Drain says of a shard that leaves that the job takes its buckets away first.
	Drain bool `json:"drain,omitempty"`
	// Back says that a job that declares tables, or takes declarations back, was cancelled, and takes the
	// rows to where they were before it.
	Back  bool      `json:"back,omitempty"`
	User  string    `json:"user,omitempty"` // who asked for the job
	Why   string    `json:"why,omitempty"`  // why weft began the job by itself
	Proxy string    `json:"proxy"`          // the proxy that runs the job
	State MoveState `json:"state"`
	// Reason says why the job is paused or has failed.
	Reason string `json:"reason,omitempty"`
	// Waits says what keeps the job from its work at present, and may pass: a shard is down.
	Waits   string      `json:"waits,omitempty"`
	Options MoveOptions `json:"options,omitzero"`
	// Then says what is declared after the job, by another one. It is never changed.
	Then *Then `json:"then,omitempty"`
	// Round is the round in progress, nil between rounds.
	Round *Round `json:"round,omitempty"`
}

// MoveKind says what a job was asked for.
type MoveKind string

// The kinds of jobs.
const (
	MoveBuckets   MoveKind = "move"
	MoveRebalance MoveKind = "rebalance"
	MoveDrain     MoveKind = "drain"
	MoveIsolate   MoveKind = "isolate"
	MoveDeclare   MoveKind = "declare"
	MoveUndeclare MoveKind = "undeclare"
	// MoveJoin and MoveLeave change the set of shards and carry no rows.
	MoveJoin  MoveKind = "join"
	MoveLeave MoveKind = "leave"
)

// MoveState says how far a job is.
type MoveState string

// The states of a job. A job that is done or cancelled has no entry.
const (
	MovePreparing MoveState = "preparing" // proxies begin to note what transactions touch
	MoveRunning   MoveState = "running"
	MovePaused    MoveState = "paused"
	MoveFinishing MoveState = "finishing" // all rows are carried
	MoveFailed    MoveState = "failed"
)

// MoveOptions bound what a job may do to others. Zero values stand for the defaults.
type MoveOptions struct {
	// MaxPause is how long a round may hold a statement before it gives way.
	MaxPause time.Duration `json:"max_pause,omitempty"`
	// Stretch lets the rounds of buckets that gave way last longer than MaxPause, twice as long after
	// every other try: rather that than never.
	Stretch bool `json:"stretch,omitempty"`
	// PauseTarget is how long a round should hold writers; it decides how many rows go at once.
	PauseTarget time.Duration `json:"pause_target,omitempty"`
	// Rate bounds the bytes per second.
	Rate int64 `json:"rate,omitempty"`
	// Duty is the largest share of time, in percent, in which anything is held.
	Duty int `json:"duty,omitempty"`
	// Verify is VerifyRows if each round compares the rows it has carried.
	Verify string `json:"verify,omitempty"`
	// Until is the percentage of buckets after which the job pauses. 0: never.
	Until int `json:"until,omitempty"`
	// AllowAsync allows shards whose standbys are all asynchronous.
	AllowAsync bool `json:"allow_async,omitempty"`
	// Stay leaves all buckets where they are when a shard has joined.
	Stay bool `json:"stay,omitempty"`
}

// VerifyRows is the value of MoveOptions.Verify that has each round compare rows, not only count
// them.
const VerifyRows = "rows"

// Phase says whom a round holds.
type Phase string

// The phases of a round.
const (
	// HoldWrites holds writes of the round's buckets, and writes over several shards.
	HoldWrites Phase = "writes"
	// HoldAll holds reads of the round's buckets and queries over several shards, too.
	HoldAll Phase = "all"
	// Carried says that the round has committed on its deciding shard and not yet on all: the
	// buckets are at their new shard, and queries over several shards wait.
	Carried Phase = "carried"
)

// Round is one attempt to carry buckets, in one transaction over several shards.
type Round struct {
	// Key names the decision of the round's transaction, a twopc.Name.
	Key   string `json:"key"`
	Phase Phase  `json:"phase"`
	Pairs []Pair `json:"pairs"`
	// Pause is how long the round may hold statements.
	Pause time.Duration `json:"pause,omitempty"`
}

// Pair is what one shard gives another in a round.
type Pair struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Buckets []int  `json:"buckets"`
}

// Carries reports whether the round takes a bucket from one shard to another.
func (r *Round) Carries(bucket int, from, to string) bool {
	return r != nil && slices.ContainsFunc(r.Pairs, func(p Pair) bool {
		return p.From == from && p.To == to && slices.Contains(p.Buckets, bucket)
	})
}

// clone makes m independent of the move it was copied from.
func (m *Move) clone() {
	if m.Join != nil {
		j := *m.Join
		j.Hosts, j.Options, j.Servers = slices.Clone(j.Hosts), maps.Clone(j.Options), maps.Clone(j.Servers)
		m.Join = &j
	}
	if m.Round == nil {
		return
	}
	r := *m.Round
	r.Pairs = slices.Clone(r.Pairs)
	for i := range r.Pairs {
		r.Pairs[i].Buckets = slices.Clone(r.Pairs[i].Buckets)
	}
	m.Round = &r
}

// FindMove returns a job, nil if there is none of that ID. The result shares memory with the
// snapshot.
func (s *Snapshot) FindMove(id string) *Move {
	i := slices.IndexFunc(s.Moves, func(m Move) bool { return m.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Moves[i]
}

// Carries reports whether the job carries rows. Others change the set of shards.
func (m *Move) Carries() bool { return m.Kind != MoveJoin && m.Kind != MoveLeave }

// Holding returns the job that changes the set of shards and holds statements meanwhile, nil if
// there is none. Jobs that carry rows begin no rounds then.
func (s *Snapshot) Holding() *Move {
	for i := range s.Moves {
		if m := &s.Moves[i]; !m.Carries() && m.Round != nil {
			return m
		}
	}
	return nil
}

// ChangingShards returns the job that changes the set of shards, nil if there is none. Others of its kind
// wait until it is over.
func (s *Snapshot) ChangingShards() *Move {
	for i := range s.Moves {
		if m := &s.Moves[i]; !m.Carries() {
			return m
		}
	}
	return nil
}

// Joining returns the job by which a shard is being made ready to join, nil if there is none. While
// other jobs carry rows, the shard is not made ready.
func (s *Snapshot) Joining() *Move {
	if m := s.ChangingShards(); m != nil && m.Kind == MoveJoin && m.State == MovePreparing && s.anyCarrying() == nil {
		return m
	}
	return nil
}

// anyCarrying returns a job that carries rows, nil if there is none.
func (s *Snapshot) anyCarrying() *Move {
	for i := range s.Moves {
		if m := &s.Moves[i]; m.Carries() {
			return m
		}
	}
	return nil
}

// Server describes the server of a shard, also of one that has not joined yet. The result is read
// only.
func (s *Snapshot) Server(shard string) (*Shard, bool) {
	if sh, ok := s.Shard(shard); ok {
		return sh, true
	}
	for i := range s.Moves {
		if m := &s.Moves[i]; m.Kind == MoveJoin && m.Shard == shard && m.Join != nil {
			return m.Join, true
		}
	}
	return nil, false
}

// Carrying returns the job that carries rows of a database, nil if there is none.
func (s *Snapshot) Carrying(database string) *Move {
	for i := range s.Moves {
		if m := &s.Moves[i]; m.Database == database && m.Carries() {
			return m
		}
	}
	return nil
}

// unsettled returns a table of a database whose declaration is being made or taken back, nil if there
// is none. Its rows go where the placement of the beginning says, so no bucket may move meanwhile.
func (s *Snapshot) unsettled(database string) *Table {
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Database == database && t.State != Active {
			return t
		}
	}
	return nil
}

// Unsettled reports whether a declaration of a table of a database is being made or taken back.
func (s *Snapshot) Unsettled(database string) bool { return s.unsettled(database) != nil }

// EndMove removes a job and its target.
func (s *Snapshot) EndMove(id string) {
	s.Moves = slices.DeleteFunc(s.Moves, func(m Move) bool { return m.ID == id })
	delete(s.Targets, id)
}

// PlacementKey is the key of Placements for the tables of a database that are in a group.
func PlacementKey(database, group string) string {
	if group == "" {
		return database
	}
	return group + "/" + database
}

// PlacementOf returns where the buckets of a group of a database's tables are. The result is
// read only.
func (s *Snapshot) PlacementOf(database, group string) []uint16 {
	if len(s.Placements) > 0 {
		if p, ok := s.Placements[PlacementKey(database, group)]; ok {
			return p
		}
	}
	if s.common != nil {
		return s.common
	}
	return s.Placement
}

// For returns the snapshot as the statements of one database see it: its Placement is where
// the buckets of that database are, InGroup tells where those of its groups are, and BucketOf knows the
// isolated values of that database.
func (s *Snapshot) For(database string) *Snapshot {
	_, placed := s.Placements[database]
	own := s.Isolated[database]
	var groups map[string][]uint16
	if len(s.Placements) > 0 {
		groups = groupsOf(s, database)
	}
	if !placed && groups == nil && s.common == nil && len(own) == 0 && len(s.own) == 0 {
		return s
	}
	c := *s
	if c.common == nil {
		c.common = s.Placement
	}
	c.Placement, c.groups, c.own = s.PlacementOf(database, ""), groups, own
	return &c
}

// PlacedAs returns the snapshot with rows where an older one says, which For returned, and without
// shards that have joined since.
func (s *Snapshot) PlacedAs(old *Snapshot) *Snapshot {
	old = grown(old, s.BucketCount)
	c := *s
	c.Shards = s.Shards[:min(len(s.Shards), len(old.Shards))]
	c.own, c.common, c.Placement, c.groups = old.own, old.common, placedAs(s.BucketCount, old.Placement, s.Placement), nil
	for group, p := range old.groups {
		if c.groups == nil {
			c.groups = map[string][]uint16{}
		}
		c.groups[group] = placedAs(s.BucketCount, p, PlacesIn(s).Of(group))
	}
	return &c
}

// placedAs returns an older placement with the buckets of pinned and isolated values that have come since.
func placedAs(buckets int, old, now []uint16) []uint16 {
	p := slices.Clone(old)
	for b := buckets; b < len(now); b++ {
		switch {
		case b >= len(p):
			p = append(p, now[b])
		case p[b] == Unused:
			p[b] = now[b]
		}
	}
	return p
}

// SetPlacement says where the buckets of a group of a database's tables are. A placement that
// is the cluster's own needs no entry.
func (s *Snapshot) SetPlacement(database, group string, p []uint16) {
	key := PlacementKey(database, group)
	if slices.Equal(p, s.Placement) {
		delete(s.Placements, key)
		return
	}
	if s.Placements == nil {
		s.Placements = map[string][]uint16{}
	}
	s.Placements[key] = p
}

// Transfer gives the buckets of a job's round to the shards they were carried to. The round is
// over if all its shards have committed; otherwise its phase is Carried.
func (s *Snapshot) Transfer(m *Move, over bool) error {
	if m.Round.Phase != Carried {
		p := slices.Clone(s.PlacementOf(m.Database, m.Group))
		for _, pair := range m.Round.Pairs {
			to := s.shardIndex(pair.To)
			if to < 0 {
				return fmt.Errorf("%s is not one of the shards", pair.To)
			}
			for _, b := range pair.Buckets {
				if s.nameOf(p, b) != pair.From {
					return fmt.Errorf("bucket %d is not on %s", b, pair.From)
				}
				p[b] = uint16(to)
			}
		}
		s.SetPlacement(m.Database, m.Group, p)
	}
	m.Round.Phase = Carried
	if over {
		m.Round = nil
	}
	return nil
}

// shardIndex returns the index of a shard, -1 if there is none of that name.
func (s *Snapshot) shardIndex(name string) int {
	return slices.IndexFunc(s.Shards, func(sh Shard) bool { return sh.Name == name })
}

// keys returns the placement keys under which the database's sharded tables are, by table.
func (s *Snapshot) placementKeys() map[string]bool {
	keys := map[string]bool{}
	for i := range s.Tables {
		if t := &s.Tables[i]; t.Kind == Sharded {
			keys[PlacementKey(t.Database, t.Group)] = true
		}
	}
	return keys
}

// keepPlaces makes the rows of declared tables stay where they are when the cluster's own
// placement has changed from that of old: SetShards only says where they ought to be.
func (s *Snapshot) keepPlaces(old *Snapshot) {
	index := make([]uint16, len(old.Shards))
	for i := range old.Shards {
		index[i] = Unused
		if at := s.shardIndex(old.Shards[i].Name); at >= 0 {
			index[i] = uint16(at)
		}
	}
	renumber := func(p []uint16) []uint16 {
		out := make([]uint16, len(p))
		for b, i := range p {
			if out[b] = Unused; int(i) < len(index) {
				out[b] = index[i]
			}
		}
		return out
	}
	was := old.Placements
	s.Placements = nil
	for key := range old.placementKeys() {
		p, ok := was[key]
		if !ok {
			p = old.Placement
		}
		if p = renumber(p); !slices.Equal(p, s.Placement) {
			if s.Placements == nil {
				s.Placements = map[string][]uint16{}
			}
			s.Placements[key] = p
		}
	}
	targets := maps.Clone(old.Targets)
	for id, p := range targets {
		targets[id] = renumber(p)
	}
	s.Targets = targets
}
