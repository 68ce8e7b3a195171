package directory

import "slices"

// A table that is declared, or whose declaration is taken back, while clients use it is in a group of its
// own until its rows are where they belong:
//
//	declare     Declaring, everything at home ─▶ Active, rows are carried ─▶ in the common group
//	undeclare   Active, rows are carried ─▶ everything at home, Undeclaring ─▶ no declaration
//
// While it is Declaring or Undeclaring all its rows are at home and the other shards get or lose
// their empty tables: statements take it for a table that is not declared. Tables that foreign keys
// tie together are in one group, so their rows travel together.

// Pending reports whether the table is to statements as one that is not declared.
func (t *Table) Pending() bool { return t.Group != "" && t.State != Active }

// SameGroups reports whether all tables of a database that are or were in a group of their own are in the
// same one by two snapshots, and are Pending in both or in neither.
func SameGroups(s, old *Snapshot, database string) bool {
	group := func(list []Table, t *Table) string {
		i, ok := slices.BinarySearchFunc(list, t, func(a Table, b *Table) int { return a.compare(b.Database, b.Schema, b.Name) })
		switch {
		case !ok || list[i].Pending():
			return "none"
		case list[i].Kind != Sharded:
			return ""
		}
		return list[i].Group
	}
	a, b := s.Declared(database), old.Declared(database)
	for _, list := range [][]Table{a, b} {
		for i := range list {
			if list[i].Group != "" && group(a, &list[i]) != group(b, &list[i]) {
				return false
			}
		}
	}
	return true
}

// groupsOf returns the placements of a database's groups, nil if it has none.
func groupsOf(s *Snapshot, database string) map[string][]uint16 {
	var groups map[string][]uint16
	for _, t := range s.Declared(database) {
		if t.Group == "" {
			continue
		}
		if groups == nil {
			groups = map[string][]uint16{}
		}
		groups[t.Group] = s.PlacementOf(database, t.Group)
	}
	return groups
}

// AtHome returns the placement that has every bucket on the home shard.
func AtHome(s *Snapshot) []uint16 {
	home := uint16(s.shardIndex(s.Home))
	p := slices.Clone(s.Placement)
	for b := range p {
		if p[b] != Unused {
			p[b] = home
		}
	}
	return p
}

// Grouped returns the tables of a group. The result is read only.
func Grouped(s *Snapshot, database, group string) []Table {
	var out []Table
	for _, t := range s.Declared(database) {
		if group != "" && t.Group == group {
			out = append(out, t)
		}
	}
	return out
}

// BeginDeclare enters the job that declares tables while clients use them. s must be a Clone.
func BeginDeclare(s *Snapshot, m Move, tables []Table) {
	for _, t := range tables {
		s.PutTable(t)
	}
	s.SetPlacement(m.Database, m.Group, AtHome(s))
	beginGroup(s, m, slices.Clone(s.PlacementOf(m.Database, "")))
}

// BeginUndeclare enters the job that takes declarations of tables back while clients use them. s must
// be a Clone.
func BeginUndeclare(s *Snapshot, m Move, tables []Table) {
	p := slices.Clone(s.PlacementOf(m.Database, ""))
	for _, t := range tables {
		t.Group = m.Group
		s.PutTable(t)
	}
	s.SetPlacement(m.Database, m.Group, p)
	beginGroup(s, m, AtHome(s))
}

func beginGroup(s *Snapshot, m Move, target []uint16) {
	s.EndMove(m.ID) // of a job that follows another one
	s.Moves = append(s.Moves, m)
	if s.Targets == nil {
		s.Targets = map[string][]uint16{}
	}
	s.Targets[m.ID] = target
}

// TurnBack makes a job that declares tables, or takes their declarations back, bring the rows to where they
// were before it. s must be a Clone.
func TurnBack(s *Snapshot, m *Move) {
	m.Back = true
	if m.GoesHome() {
		s.Targets[m.ID] = AtHome(s)
	} else {
		s.Targets[m.ID] = slices.Clone(s.PlacementOf(m.Database, ""))
	}
}

// GoesHome reports whether the job ends with tables that are not declared any more.
func (m *Move) GoesHome() bool { return (m.Kind == MoveUndeclare) != m.Back }

// Arrived reports whether the rows of a job that is to end are where they can stay. Rows that go home are not if they
// have got a bucket elsewhere since: then the job has a new target. s must be a Clone.
func Arrived(s *Snapshot, m *Move) bool {
	home, list := AtHome(s), Grouped(s, m.Database, m.Group)
	if len(list) == 0 || !m.GoesHome() || list[0].Pending() || slices.Equal(home, s.PlacementOf(m.Database, m.Group)) {
		return true
	}
	s.Targets[m.ID] = home
	return false
}

// Merge puts the tables of a job's group into the database's common one. It reports false if the
// rows are not where the common group's are: then the job has a new target. s must be a Clone.
func Merge(s *Snapshot, m *Move) bool {
	common := s.PlacementOf(m.Database, "")
	if !slices.Equal(common, s.PlacementOf(m.Database, m.Group)) {
		s.Targets[m.ID] = slices.Clone(common)
		return false
	}
	for _, t := range Grouped(s, m.Database, m.Group) {
		t.Group = ""
		s.PutTable(t)
	}
	dropGroup(s, m.Database, m.Group)
	return true
}

// Disband removes the declarations of a group's tables, all of whose rows are at home. s must be a
// Clone.
func Disband(s *Snapshot, database, group string) {
	for _, t := range Grouped(s, database, group) {
		s.DropTable(t.Database, t.Schema, t.Name)
	}
	dropGroup(s, database, group)
	if _, ok := s.Targets[group]; ok {
		s.Targets[group] = slices.Clone(s.PlacementOf(database, group)) // whoever finds the job has nothing to carry
	}
}

func dropGroup(s *Snapshot, database, group string) {
	delete(s.Placements, PlacementKey(database, group))
}
