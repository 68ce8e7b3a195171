package directory

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
)

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

// InGroup returns where the buckets of a group's tables are, in a snapshot that For has made. The
// result is read only.
func (s *Snapshot) InGroup(group string) []uint16 {
	if group == "" {
		return s.Placement
	}
	if p, ok := s.groups[group]; ok {
		return p
	}
	if s.common != nil {
		return s.common
	}
	return s.Placement
}

// SameGroups reports whether all tables of a database that are or were in a group of their own are in the
// same one by two snapshots, and are Pending in both or in neither.
func (s *Snapshot) SameGroups(old *Snapshot, database string) bool {
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

// SamePlaces reports whether two snapshots that For has made for the same database have every bucket
// of every group in the same place.
func (s *Snapshot) SamePlaces(old *Snapshot) bool {
	return s.samePlacements(old, func(p, q []uint16) bool { return slices.Equal(p, q) })
}

// Left reports whether some buckets of any group, or any bucket if none are given, are elsewhere than an older snapshot says;
// For has made both for the same database. A bucket that is new has no rows that were elsewhere, or is still where they
// are: no round carries it while transactions are open that are older.
func (s *Snapshot) Left(old *Snapshot, buckets []int) bool {
	return !s.samePlacements(old, func(is, was []uint16) bool {
		left := func(b int) bool {
			return b < len(was) && was[b] != Unused && (b >= len(is) || was[b] != is[b])
		}
		if buckets != nil {
			return !slices.ContainsFunc(buckets, left)
		}
		for b := range was {
			if left(b) {
				return false
			}
		}
		return true
	})
}

// samePlacements compares the placements of all groups.
func (s *Snapshot) samePlacements(old *Snapshot, same func(p, q []uint16) bool) bool {
	if !same(s.Placement, old.Placement) {
		return false
	}
	for _, groups := range []map[string][]uint16{s.groups, old.groups} {
		for group := range groups {
			if !same(s.InGroup(group), old.InGroup(group)) {
				return false
			}
		}
	}
	return true
}

// Has reports whether a shard, by its index, has a bucket of any group, in a snapshot that For has made.
func (s *Snapshot) Has(shard, bucket int) bool {
	on := func(p []uint16) bool { return bucket < len(p) && int(p[bucket]) == shard }
	if on(s.Placement) {
		return true
	}
	for _, p := range s.groups {
		if on(p) {
			return true
		}
	}
	return false
}

// groupsOf returns the placements of a database's groups, nil if it has none.
func (s *Snapshot) groupsOf(database string) map[string][]uint16 {
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
func (s *Snapshot) AtHome() []uint16 {
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
func (s *Snapshot) Grouped(database, group string) []Table {
	var out []Table
	for _, t := range s.Declared(database) {
		if group != "" && t.Group == group {
			out = append(out, t)
		}
	}
	return out
}

// BeginDeclare enters the job that declares tables while clients use them. s must be a Clone.
func (s *Snapshot) BeginDeclare(m Move, tables []Table) {
	for _, t := range tables {
		s.PutTable(t)
	}
	s.SetPlacement(m.Database, m.Group, s.AtHome())
	s.beginGroup(m, slices.Clone(s.PlacementOf(m.Database, "")))
}

// BeginUndeclare enters the job that takes declarations of tables back while clients use them. s must
// be a Clone.
func (s *Snapshot) BeginUndeclare(m Move, tables []Table) {
	p := slices.Clone(s.PlacementOf(m.Database, ""))
	for _, t := range tables {
		t.Group = m.Group
		s.PutTable(t)
	}
	s.SetPlacement(m.Database, m.Group, p)
	s.beginGroup(m, s.AtHome())
}

func (s *Snapshot) beginGroup(m Move, target []uint16) {
	s.Moves = append(s.Moves, m)
	if s.Targets == nil {
		s.Targets = map[string][]uint16{}
	}
	s.Targets[m.ID] = target
}

// TurnBack makes a job that declares tables, or takes their declarations back, bring the rows to where they
// were before it. s must be a Clone.
func (s *Snapshot) TurnBack(m *Move) {
	m.Back = true
	if m.GoesHome() {
		s.Targets[m.ID] = s.AtHome()
	} else {
		s.Targets[m.ID] = slices.Clone(s.PlacementOf(m.Database, ""))
	}
}

// GoesHome reports whether the job ends with tables that are not declared any more.
func (m *Move) GoesHome() bool { return (m.Kind == MoveUndeclare) != m.Back }

// Merge puts the tables of a job's group into the database's common one. It reports false if the
// rows are not where the common group's are: then the job has a new target. s must be a Clone.
func (s *Snapshot) Merge(m *Move) bool {
	common := s.PlacementOf(m.Database, "")
	if !slices.Equal(common, s.PlacementOf(m.Database, m.Group)) {
		s.Targets[m.ID] = slices.Clone(common)
		return false
	}
	for _, t := range s.Grouped(m.Database, m.Group) {
		t.Group = ""
		s.PutTable(t)
	}
	s.dropGroup(m.Database, m.Group)
	return true
}

// Disband removes the declarations of a group's tables, all of whose rows are at home. s must be a
// Clone.
func (s *Snapshot) Disband(database, group string) {
	for _, t := range s.Grouped(database, group) {
		s.DropTable(t.Database, t.Schema, t.Name)
	}
	s.dropGroup(database, group)
}

func (s *Snapshot) dropGroup(database, group string) {
	delete(s.Placements, PlacementKey(database, group))
}

// Places names the places of all buckets of all groups: two snapshots that For has made for the same
// database and that have them on the same shards give the same name.
func (s *Snapshot) Places() string {
	h := fnv.New64a()
	for i := range s.Shards {
		_, _ = h.Write(append([]byte(s.Shards[i].Name), 0))
	}
	_ = binary.Write(h, binary.LittleEndian, s.Placement)
	for _, group := range slices.Sorted(maps.Keys(s.groups)) {
		_, _ = h.Write(append([]byte(group), 0))
		_ = binary.Write(h, binary.LittleEndian, s.groups[group])
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
