package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/pgerr"
	"weft/plan"
)

// copied adds the step of a statement that writes a reference table.
func (s *steps) copied(stmt *pg.Node, rel *catalog.Relation) *pgerr.Error {
	c := &copier{a: s.a, rel: rel, inStep: true}
	if c.hiddenFromCopies(); s.a.refused() {
		return s.a.out.Refusal
	}
	if ins := stmt.GetInsertStmt(); ins != nil {
		filled := proto.Clone(ins).(*pg.InsertStmt)
		if s.a.clock().fillDefaults(filled) {
			stmt = &pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: filled}}
			s.a.timed = s.a.timed || s.a.clock().asksTime(stmt)
		}
	}
	w := c.plan(stmt)
	if s.a.refused() {
		return s.a.out.Refusal
	}
	if w == nil {
		return cannot("Write it in a statement of its own.", "this form of writing reference table %q is not supported beside other writes", rel.Name.Name)
	}
	s.before = append(s.before, copiesStep(c.tree, w.Verb, w.Shape.(*plan.Copies)))
	return nil
}

// lockAlike makes all steps that write reference tables lock the tables of all of them: sessions
// that lock in one order do not wait for each other crosswise.
func (s *steps) lockAlike() {
	var locks []string
	var list []*plan.Copies
	for _, b := range s.before {
		if c, ok := b.write.Shape.(*plan.Copies); ok {
			list, locks = append(list, c), append(locks, c.Locks...)
		}
	}
	slices.Sort(locks)
	locks = slices.Compact(locks)
	for _, c := range list {
		c.Locks = locks
	}
}
