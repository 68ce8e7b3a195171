package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
)

// takeOut takes the tables that do not stay out of the statement. The remainder is the text that
// each shard runs, over the rows of pieces.
func (wr writes) takeOut(stmt *pg.Node, stays map[*pg.RangeVar]bool) (*remainder, *pgerr.Error) {
	r := wr.a.gatherer().newRemainder()
	r.stays = stays
	r.tree = r.copy(stmt)
	return r, r.takeOut(stmt)
}

func (r *remainder) takeOut(stmt *pg.Node) *pgerr.Error {
	a := r.a
	defer oneSource(r.tree)()
	if !a.tablesOnly() {
		r.nestedIn(stmt)
		r.localViews(r.tree)
	}
	r.spell(r.tree)
	if !a.tablesOnly() {
		r.islands(r.tree)
	}
	r.dependents(r.tree)
	r.mentions = mentionsOf(r.tree)
	if err := r.settleIslands(r.tree); err != nil {
		return unwritable(err)
	}
	r.replace(r.tree)
	r.pinTargets(r.tree)
	if r.catalogs {
		r.refuse("Ask the system catalogs in a statement of their own.", "system catalogs are not supported in a statement that writes on several shards")
	}
	if r.refusal != nil {
		return r.refusal
	}
	r.reduceInputs()
	return nil
}

// oneSource keeps the source of SET (a, b) = source at the first column only, so that it occurs
// once. The function that it returns puts the source back.
func oneSource(tree *pg.Node) func() {
	var lists [][]*pg.Node
	parser.Walk(tree, func(m any) bool {
		switch m := m.(type) {
		case *pg.UpdateStmt:
			lists = append(lists, m.TargetList)
		case *pg.OnConflictClause:
			lists = append(lists, m.TargetList)
		}
		return true
	})
	for _, t := range slices.Concat(lists...) {
		if m := t.GetResTarget().GetVal().GetMultiAssignRef(); m != nil && m.Colno > 1 {
			m.Source = nil
		}
	}
	return func() {
		for _, list := range lists {
			var source *pg.Node
			for _, t := range list {
				m := t.GetResTarget().GetVal().GetMultiAssignRef()
				switch {
				case m == nil:
				case m.Colno == 1:
					source = m.Source
				default:
					m.Source = source
				}
			}
		}
	}
}

// staying reports whether a relation of the tree stays.
func (r *remainder) staying(rv *pg.RangeVar) bool { return r.stays[r.tables[rv]] }

// pin gives a table that stays its schema: under the client's search_path on another server its
// name might mean another table.
func (r *remainder) pin(rv *pg.RangeVar) {
	was := r.tables[rv]
	switch {
	case r.a.notes.byNode[was] != nil && r.a.notes.byNode[was].rel != nil:
		rv.Schemaname = r.a.notes.byNode[was].rel.Schema
	case r.a.notes.views[was] != nil:
		rv.Schemaname = r.a.notes.views[was].rel.Schema
	}
}

// pinTargets gives the written tables their schemas.
func (r *remainder) pinTargets(n *pg.Node) {
	parser.Walk(n, func(m any) bool {
		var rv *pg.RangeVar
		switch m := m.(type) {
		case *pg.UpdateStmt:
			rv = m.Relation
		case *pg.DeleteStmt:
			rv = m.Relation
		case *pg.MergeStmt:
			rv = m.Relation
		case *pg.InsertStmt:
			rv = m.Relation
		default:
			return true
		}
		if rel, _ := r.a.relation(rv); rel != nil && !r.a.temporary(rv) {
			rv.Schemaname = rel.Schema
		}
		return true
	})
}

// settled reports whether all relations that a query reads stay, so that the query can stay
// unchanged.
func (r *remainder) settled(sel *pg.SelectStmt) bool {
	if r.stays == nil || sel == nil {
		return false
	}
	all := true
	parser.Walk(sel, func(m any) bool {
		if rv, ok := m.(*pg.RangeVar); ok {
			all = all && (r.stays[rv] || r.a.notes.byNode[rv] == nil && r.a.notes.views[rv] == nil)
		}
		return all
	})
	return all
}

// nestedIn is nested for a statement that changes rows. was is the tree that it was copied from.
func (r *remainder) nestedIn(was *pg.Node) {
	if r.tree.GetSelectStmt() != nil {
		r.nested(r.tree)
		return
	}
	r.once = uses(r.tree)
	with, list := withOf(r.tree)
	original, _ := withOf(was)
	var ctes []*pg.CommonTableExpr
	for _, n := range original.GetCtes() {
		if c := n.GetCommonTableExpr(); c != nil {
			ctes = append(ctes, c)
		}
	}
	for _, n := range list {
		walkQueries(n, nil, func(at site, inner *pg.SelectStmt) { r.nest(inner, at, ctes, with.GetRecursive()) })
	}
	if with == nil {
		return
	}
	holder := &pg.SelectStmt{WithClause: with}
	r.insideWith(holder, ctes, 0, with.Recursive)
	if holder.WithClause != nil {
		return
	}
	setWith(r.tree, nil)
}

// withOf returns the WITH clause of a statement and, if the statement changes rows, its
// other clauses.
func withOf(stmt *pg.Node) (*pg.WithClause, []*pg.Node) {
	var list []*pg.Node
	add := func(nodes ...*pg.Node) {
		for _, n := range nodes {
			if n != nil {
				list = append(list, n)
			}
		}
	}
	switch n := stmt.GetNode().(type) {
	case *pg.Node_UpdateStmt:
		u := n.UpdateStmt
		add(u.FromClause...)
		add(u.TargetList...)
		add(u.WhereClause)
		add(u.ReturningList...)
		return u.WithClause, list
	case *pg.Node_DeleteStmt:
		d := n.DeleteStmt
		add(d.UsingClause...)
		add(d.WhereClause)
		add(d.ReturningList...)
		return d.WithClause, list
	case *pg.Node_SelectStmt:
		return n.SelectStmt.WithClause, nil
	case *pg.Node_InsertStmt:
		i := n.InsertStmt
		add(i.SelectStmt)
		add(i.OnConflictClause.GetTargetList()...)
		add(i.OnConflictClause.GetWhereClause())
		add(i.ReturningList...)
		return i.WithClause, list
	case *pg.Node_MergeStmt:
		m := n.MergeStmt
		add(m.SourceRelation, m.JoinCondition)
		add(m.MergeWhenClauses...)
		return m.WithClause, list
	}
	return nil, nil
}
