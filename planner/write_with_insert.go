package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/pgerr"
)

// insert adds the steps of an INSERT: one that yields its rows, and one that stores them.
func (s *steps) insert(ins *pg.InsertStmt, plain, names []*pg.Node) *pgerr.Error {
	to := s.a.writes().writable(ins.Relation)
	rel, t := to.rel, to.table
	ins.ReturningList = renamed(ins.ReturningList, names)
	noted, refusal := s.again(&pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: ins}})
	if refusal != nil {
		return refusal
	}
	defer func() { noted() }()
	if t == nil || t.Reference {
		node := &pg.Node{Node: &pg.Node_InsertStmt{InsertStmt: ins}}
		s.enclose(node, plain)
		ins.Relation.Schemaname = rel.Schema
		if t != nil {
			return s.copied(node, rel)
		}
		s.before = append(s.before, homeStep(node, "INSERT", len(ins.ReturningList) > 0))
		return nil
	}
	if ins.SelectStmt == nil || ins.WithClause != nil {
		return cannot("Give the values.", "this form of INSERT into %q is not supported beside other writes over several shards", rel.Name.Name)
	}
	for _, x := range s.a.instances {
		if x.stored && x.rv != nil && x.rv.Location == ins.Relation.Location {
			return cannot("Leave the shard key out of SET.", "ON CONFLICT DO UPDATE that changes a shard key is not supported over several shards")
		}
	}
	if refusal := s.values(ins, rel); refusal != nil {
		return refusal
	}
	in := s.a.gatherer().probing(s.a.client)
	in.held = s.a.held
	si := &selectInsert{a: in, stmt: ins, rel: rel, shown: to.shown, table: t, input: stepMark(len(s.before))}
	if refusal := si.look(); refusal != nil {
		return refusal
	}
	if si.opaque && si.count == 0 {
		// Only PostgreSQL knows the columns of a step's rows.
		if n := len(si.cols); len(ins.Cols) > 0 {
			si.count, si.opaque = n, false
		}
	}
	store, split, query, refusal := si.sent()
	if refusal != nil {
		return refusal
	}
	node := proto.Clone(query).(*pg.Node)
	s.enclose(node, plain)
	s.enclose(store, plain)
	s.a.timed = s.a.timed || s.a.clock().asksTime(store)
	s.r.pinTargets(store)
	s.before = append(s.before, readingStep(node))
	split.Input = len(s.before) - 1
	s.before = append(s.before, sharingStep(store, "INSERT", len(ins.ReturningList) > 0, split))
	s.a.out.Exact = s.a.out.Exact || in.out.Exact
	return nil
}

// leaveOut takes the columns out of VALUES that have DEFAULT in all rows, if others are left.
func leaveOut(ins *pg.InsertStmt, cols []*catalog.Column) {
	rows := ins.SelectStmt.GetSelectStmt().GetValuesLists()
	if len(rows) == 0 {
		return
	}
	width := len(rows[0].GetList().GetItems())
	var kept []int
	for i := range width {
		if slices.ContainsFunc(rows, func(row *pg.Node) bool {
			items := row.GetList().GetItems()
			return len(items) != width || items[i].GetSetToDefault() == nil
		}) {
			kept = append(kept, i)
		}
	}
	if len(kept) == 0 || len(kept) == width || width > len(cols) || slices.Contains(cols[:width], nil) {
		return
	}
	var list []*pg.Node
	for _, i := range kept {
		if len(ins.Cols) > 0 {
			list = append(list, ins.Cols[i])
		} else {
			list = append(list, columnTarget(cols[i].Name))
		}
	}
	ins.Cols = list
	for _, row := range rows {
		items := row.GetList().GetItems()
		var left []*pg.Node
		for _, i := range kept {
			left = append(left, items[i])
		}
		row.GetList().Items = left
	}
}

// values gives strings and NULLs in VALUES the types of their target columns, which they have in an
// INSERT; in a query by itself they would be text.
func (s *steps) values(ins *pg.InsertStmt, rel *catalog.Relation) *pgerr.Error {
	var names []string
	for _, c := range ins.Cols {
		names = append(names, c.GetResTarget().GetName())
	}
	cols := insertColumns(rel, names)
	leaveOut(ins, cols)
	if len(ins.Cols) > 0 {
		names = namesOf(ins)
		cols = insertColumns(rel, names)
	}
	for _, row := range ins.SelectStmt.GetSelectStmt().GetValuesLists() {
		items := row.GetList().GetItems()
		for i, v := range items {
			c := v.GetAConst()
			switch {
			case v.GetSetToDefault() != nil:
				return cannot("Leave the column out, or give it a value in all rows.",
					"DEFAULT in some rows of VALUES is not supported beside other writes and subqueries over several shards")
			case i < len(cols) && cols[i] != nil && c != nil && (c.Isnull || c.GetSval() != nil):
				if typ := inputType(cols[i]); typ != nil {
					items[i] = castAs(v, typ)
				}
			}
		}
	}
	return nil
}
