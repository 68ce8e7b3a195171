package directory

import "slices"

// Pending says that a change of a database's schema is being committed. Until it
// is gone, nobody may rely on a schema read before; if its proxy dies, others
// find out how it ended, and end it on every shard.
type Pending struct {
	ID       string `json:"id"` // the key of its decision: a twopc.Name
	Proxy    string `json:"proxy"`
	Database string `json:"database"`
	// Shards are the participants beside the deciding one, which the ID names.
	Shards []string `json:"shards,omitempty"`
	// Change is what it does to the declarations, in the proxy's own form.
	Change string `json:"change,omitempty"`
	// Outcome is "committed" or "aborted" when that is known, and the
	// declarations say so, but not all shards have followed.
	Outcome string `json:"outcome,omitempty"`
}

// Changing reports whether a change of the database's schema is being committed.
func (s *Snapshot) Changing(database string) bool {
	return slices.ContainsFunc(s.Pending, func(p Pending) bool { return p.Database == database })
}

// FindPending returns a pending change, nil if it has been settled. It shares
// memory with the snapshot.
func (s *Snapshot) FindPending(id string) *Pending {
	i := slices.IndexFunc(s.Pending, func(p Pending) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Pending[i]
}

// Settle takes a pending change off the list.
func (s *Snapshot) Settle(id string) {
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return p.ID == id })
}
