package directory

// Then describes tables that get another key: a job takes their declarations back, and another one declares them as
// Then says.
//
//	undeclare, with Then ─▶ declare, with Then and without a group ─▶ declare, with its group: as any other
//
// The second job has an entry from the moment at which the first one has none. So whichever proxy dies, another
// one goes on.
type Then struct {
	Job    string      `json:"job"`  // the ID of the second job
	User   string      `json:"user"` // who declares
	Tables []ThenTable `json:"tables"`
}

// ThenTable is the declaration of one table.
type ThenTable struct {
	Schema  string   `json:"schema"`
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Vindex  Vindex   `json:"vindex,omitzero"`
}

// Declares reports whether the job is still to declare its tables, before rows move.
func (m *Move) Declares() bool { return m.Kind == MoveDeclare && m.Then != nil && m.Group == "" }

// Succeed ends a job that has taken declarations back, and enters the one that follows it, if one does. s must be a
// Clone.
func Succeed(s *Snapshot, id string) {
	m := s.FindMove(id)
	if m == nil {
		return
	}
	next := Move{Database: m.Database, Kind: MoveDeclare, User: m.User, Proxy: m.Proxy, State: MovePreparing, Options: m.Options, Then: m.Then}
	follows := m.Kind == MoveUndeclare && m.Then != nil && !m.Back
	s.EndMove(id)
	if follows {
		next.ID = next.Then.Job
		s.Moves = append(s.Moves, next)
	}
}

// Withdraw takes back the job of tables whose declaration has come to nothing. A job that follows another one stays, and
// declares them again. s must be a Clone.
func Withdraw(s *Snapshot, id string) {
	m := s.FindMove(id)
	if m == nil || m.Then == nil {
		s.EndMove(id)
		return
	}
	m.Group, m.Round = "", nil
	delete(s.Targets, id)
}
