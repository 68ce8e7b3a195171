package schema

import (
	"context"
	"slices"

	"weft/directory"
)

// ForgetDatabase takes back all declarations in a database that has been dropped or has just been
// made: a table of the same name in the new database is another table.
func (m *Mover) ForgetDatabase(ctx context.Context, database string) error {
	snap, err := m.cfg.Directory.Load(ctx)
	if err != nil {
		return err
	}
	gone := slices.Clone(snap.Declared(database))
	if _, vacated := snap.Vacated[database]; !vacated && len(gone) == 0 && len(snap.Placed(database)) == 0 && len(snap.Isolated[database]) == 0 && !snap.Changing(database) {
		return nil
	}
	snap, err = m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		next := s.Clone()
		next.DropDatabase(database)
		return next, nil
	})
	if err != nil {
		return err
	}
	for i := range gone {
		m.forgetEntries(ctx, &gone[i])
	}
	return m.cfg.Directory.Acknowledged(ctx, snap.Version)
}
