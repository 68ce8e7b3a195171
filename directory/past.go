package directory

import (
	"slices"
	"time"
)

// keepPast is how many jobs that have changed the set of shards are remembered.
const keepPast = 50

// PastMove is a job by which a shard has joined or left, and which is over. Jobs that carry rows are
// remembered by the home shard, in the database whose rows they carry.
type PastMove struct {
	ID    string   `json:"id"`
	Kind  MoveKind `json:"kind"`
	Shard string   `json:"shard"`
	// State is what became of the job: "done", "cancelled" or "failed".
	State  MoveState `json:"state"`
	Reason string    `json:"reason,omitempty"`
	User   string    `json:"user,omitempty"`
	Proxy  string    `json:"proxy,omitempty"`
	Ended  time.Time `json:"ended"`
}

// The states of a job that is over.
const (
	MoveDone      MoveState = "done"
	MoveCancelled MoveState = "cancelled"
)

// Conclude removes a job and its target, and remembers what became of it if it has changed the set
// of shards.
func (s *Snapshot) Conclude(id string, state MoveState, now time.Time) {
	m := s.FindMove(id)
	if m == nil {
		return
	}
	if !m.Carries() {
		p := PastMove{ID: m.ID, Kind: m.Kind, Shard: m.Shard, State: state, Reason: m.Reason, User: m.User, Proxy: m.Proxy, Ended: now.UTC()}
		if state == MoveDone {
			p.Reason = ""
		}
		s.Past = append([]PastMove{p}, s.Past[:min(len(s.Past), keepPast-1)]...)
	}
	s.EndMove(id)
}

// FindPast returns a job that has changed the set of shards and is over, nil if none of that ID is
// remembered.
func (s *Snapshot) FindPast(id string) *PastMove {
	if i := slices.IndexFunc(s.Past, func(p PastMove) bool { return p.ID == id }); i >= 0 {
		return &s.Past[i]
	}
	return nil
}
