package directory

import "slices"

// Pending is a change of a database's schema that is being committed. While the entry exists, no
// proxy may rely on a schema read before; if the committing proxy dies, others find out how the
// change ended, and end it on every shard.
type Pending struct {
	ID       string `json:"id"` // key of the change's decision, a twopc.Name
	Proxy    string `json:"proxy"`
	Database string `json:"database"`
	// Shards are the participants besides the deciding one, which the ID names.
	Shards []string `json:"shards,omitempty"`
	// Change is what the change does to the declarations, in a form that only proxies read.
	Change string `json:"change,omitempty"`
	// Outcome is "committed" or "aborted" once that is known and the declarations are changed
	// accordingly, while not all shards have followed.
	Outcome string `json:"outcome,omitempty"`
}

// Changing reports whether a change of the database's schema is being committed.
func (s *Snapshot) Changing(database string) bool {
	return slices.ContainsFunc(s.Pending, func(p Pending) bool { return p.Database == database })
}

// FindPending returns a pending change, nil if it has been settled. The result shares memory with
// the snapshot.
func (s *Snapshot) FindPending(id string) *Pending {
	i := slices.IndexFunc(s.Pending, func(p Pending) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Pending[i]
}

// Announced reports whether the transaction of a decision is in the directory: a change of
// schemas, or a round of a job. Its decision must not be forgotten.
func (s *Snapshot) Announced(key string) bool {
	return s.FindPending(key) != nil || slices.ContainsFunc(s.Moves, func(m Move) bool { return m.Round != nil && m.Round.Key == key })
}

// Settle removes a pending change.
func (s *Snapshot) Settle(id string) {
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return p.ID == id })
}
