package directory

import "slices"

// Pending says that a change of a database's schema is being committed. Until it
// is gone, nobody may rely on a schema read before; if its proxy dies, others
// find out how it ended.
type Pending struct {
	ID       string `json:"id"`
	Proxy    string `json:"proxy"`
	Database string `json:"database"`
	// User is as whom the change was made, to ask the home shard about it.
	User string `json:"user"`
}

// Changing reports whether a change of the database's schema is being committed.
func (s *Snapshot) Changing(database string) bool {
	return slices.ContainsFunc(s.Pending, func(p Pending) bool { return p.Database == database })
}

// Settle takes a pending change off the list.
func (s *Snapshot) Settle(id string) {
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return p.ID == id })
}
