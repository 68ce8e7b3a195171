package planner

import (
	"strings"

	"weft/catalog"
	"weft/pgerr"
)

// PostgreSQL checks foreign keys, and carries out their actions, when the whole statement is done.
// Steps are statements by themselves: a row that one of them deletes takes its children along, or
// is held by them, before the next step comes to these.

// foreignKeysBetween refuses parts that write two tables in the order in which a foreign key between
// them would act or fail too early.
func (s *steps) foreignKeysBetween(parts []part) *pgerr.Error {
	base := func(p part) *catalog.Relation {
		if rv := writtenBy(p.node); rv != nil {
			return s.a.writes().writable(rv).base
		}
		return nil
	}
	for i, later := range parts {
		to := base(later)
		for _, earlier := range parts[:i] {
			from := base(earlier)
			if to == nil || from == to {
				continue
			}
			for _, fk := range to.ForeignKeys {
				if fk.References == from.Name && later.node.GetInsertStmt() == nil && losesKey(earlier, fk.RefColumns) {
					return cannot("Write to "+to.Name.Name+" first, and return what "+from.Name.Name+" needs; or write two statements.",
						"foreign key %q would act on rows of %q before this statement writes them", fk.Name, to.Name.Name)
				}
			}
			for _, fk := range from.ForeignKeys {
				if fk.References == to.Name && later.node.GetInsertStmt() != nil && storesKey(earlier, fk.Columns) && !strings.Contains(fk.Definition, "INITIALLY DEFERRED") {
					return cannot("Write to "+to.Name.Name+" first; or write two statements.",
						"foreign key %q would be checked before this statement inserts into %q", fk.Name, to.Name.Name)
				}
			}
		}
	}
	return nil
}

// losesKey reports whether a part may take values of some columns away.
func losesKey(p part, columns []string) bool {
	u := p.node.GetUpdateStmt()
	return p.node.GetDeleteStmt() != nil || u != nil && setting(u.TargetList).any(columns)
}

// storesKey reports whether a part may store values in some columns.
func storesKey(p part, columns []string) bool {
	u := p.node.GetUpdateStmt()
	return p.node.GetInsertStmt() != nil || u != nil && setting(u.TargetList).any(columns)
}
