package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// A query inside a statement that changes rows may lock rows, the same or others:
//
//	UPDATE jobs SET state = 'taken' WHERE id IN
//		(SELECT id FROM jobs WHERE state = 'new' ORDER BY id LIMIT 5 FOR UPDATE SKIP LOCKED)
//
// If the query names no column of the statement around it, PostgreSQL answers it once,
// and so does weft: as the first step, over all shards, like a statement of its own.
// The rows of the step then replace the query. If the query names the row that is
// changed, it can stay in the statement, provided that the rows it locks are on the
// same shard as that row.
//
// PostgreSQL asks a query for rows as they are needed, so a query whose answer turns
// out not to matter may lock no rows. In weft the query locks all rows that it yields.
// It is refused where PostgreSQL certainly does not ask for all rows (EXISTS), or does
// not ask the query at all (a WITH query that is never named).

// findLocking finds the queries of a statement that lock rows and are answered before it.
func (wr writes) findLocking(stmt *pg.Node) ([]*pg.SelectStmt, *pgerr.Error) {
	var out []*pg.SelectStmt
	var refusal *pgerr.Error
	ctes := map[string]bool{}
	exists := map[*pg.SelectStmt]bool{}
	unused := map[*pg.SelectStmt]bool{}
	named := uses(stmt)
	parser.Walk(stmt, func(m any) bool {
		if c, ok := m.(*pg.CommonTableExpr); ok {
			ctes[c.Ctename] = true
			unused[c.Ctequery.GetSelectStmt()] = named[c.Ctename] == 0
		}
		return true
	})
	parser.Walk(stmt, func(m any) bool {
		switch m := m.(type) {
		case *pg.SubLink:
			if m.SubLinkType == pg.SubLinkType_EXISTS_SUBLINK {
				exists[m.Subselect.GetSelectStmt()] = true
			}
		case *pg.SelectStmt:
			if len(m.LockingClause) == 0 || m != stmt.GetSelectStmt() && !wr.a.gatherer().closed(m) {
				return true
			}
			hint := "Lock the rows in a statement of its own."
			switch {
			case m == stmt.GetSelectStmt():
				refusal = cannot(hint, "locking rows is not supported in a statement whose WITH changes rows on several shards")
			case exists[m]:
				refusal = cannot(hint, "EXISTS of a query that locks rows is not supported in a statement that writes on several shards")
			case unused[m]:
				refusal = cannot("Leave it out.", "a WITH that locks rows and is not used is not supported over several shards")
			case locksInside(m):
				refusal = cannot(hint, "a query that locks rows inside of another is not supported over several shards")
			}
			for name := range uses(m) {
				if ctes[name] {
					refusal = cannot("Write what "+name+" stands for in its place.",
						"a query that locks rows and names a WITH is not supported in a statement that writes on several shards")
				}
			}
			out = append(out, m)
			return false
		}
		return refusal == nil
	})
	return out, refusal
}

// lockedOnly refuses queries that lock rows and are not in locking.
func lockedOnly(stmt *pg.Node, locking []*pg.SelectStmt) *pgerr.Error {
	fits := true
	parser.Walk(stmt, func(m any) bool {
		sel, ok := m.(*pg.SelectStmt)
		if ok && slices.Contains(locking, sel) {
			return false
		}
		fits = fits && (!ok || len(sel.LockingClause) == 0)
		return fits
	})
	if fits {
		return nil
	}
	return cannot("Lock the rows in a statement of its own.", "this subquery that locks rows is not supported in a statement that writes on several shards")
}

// locksInside reports whether a query inside the query locks rows.
func locksInside(sel *pg.SelectStmt) bool {
	found := false
	parser.Walk(sel, func(m any) bool {
		s, ok := m.(*pg.SelectStmt)
		found = found || ok && s != sel && len(s.LockingClause) > 0
		return !found
	})
	return found
}

// unfitLocks refuses queries that lock rows, are not answered first, and cannot stay.
func (c *changing) unfitLocks(stays map[*pg.RangeVar]bool) *pgerr.Error {
	fits := true
	parser.Walk(c.stmt, func(m any) bool {
		sel, ok := m.(*pg.SelectStmt)
		if !ok || len(sel.LockingClause) == 0 {
			return fits
		}
		if slices.Contains(c.locking, sel) {
			return false
		}
		fits = fits && !c.a.gatherer().closed(sel)
		parser.Walk(sel, func(m any) bool {
			if rv, ok := m.(*pg.RangeVar); ok {
				_, t := c.a.relation(rv)
				fits = fits && stays[rv] && (t == nil) == (c.table == nil) && (t == nil || !t.Reference)
			}
			return fits
		})
		return fits
	})
	if fits {
		return nil
	}
	return cannot("Lock the rows in a statement of its own.", "this subquery that locks rows is not supported in a statement that writes on several shards")
}

// lockSteps plans the queries that lock rows as steps, each like a statement of its own.
func (wr writes) lockSteps(locking []*pg.SelectStmt) ([]*step, *pgerr.Error) {
	timed := wr.a.timed
	defer func() { wr.a.timed = timed }()
	if wr.a.held == nil {
		wr.a.held = map[int]bool{} // a hole of the step is one of the statement
	}
	var out []*step
	for _, sel := range locking {
		q, refusal := wr.reading(proto.Clone(selectNode(sel)).(*pg.Node))
		if refusal != nil {
			return nil, refusal
		}
		if q.Writes {
			return nil, cannot("Call the function in a statement of its own.", "a query that locks rows and may change others is not supported in a statement that writes on several shards")
		}
		out = append(out, &step{write: &plan.Write{Verb: "SELECT", Returns: true, Shape: &plan.Locking{Query: *q}}})
	}
	return out, nil
}

// lend replaces queries by the rows of the first steps, which answer them.
func (r *remainder) lend(locking []*pg.SelectStmt) {
	for copied, was := range r.queries {
		if i := slices.Index(locking, was); i >= 0 {
			stepRows(copied, i)
			delete(r.queries, copied) // the query has changed
		}
	}
}

// stepRows makes a query read the rows of a step.
func stepRows(sel *pg.SelectStmt, i int) {
	rows := newSelect()
	rows.TargetList = []*pg.Node{targetOf(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")}
	rows.FromClause = []*pg.Node{rangeNode(&pg.RangeVar{
		Relname: stepMark(i), Inh: true, Relpersistence: "p", Alias: &pg.Alias{Aliasname: inputAlias}, Location: -1,
	})}
	proto.Reset(sel)
	proto.Merge(sel, rows)
}

// along returns the number, from 1, of a step such that all rows that change are on
// the shards of the rows that the step has found: other shards need not be asked. It
// returns 0 if there is no such step.
//
// The proof is a condition that must be true: the key of the changed row equals the
// key of a row of the step, by which that row was placed.
func (c *changing) along() int {
	if c.table == nil || c.a.env.Schema.CustomEquality || c.stmt.GetMergeStmt() != nil {
		return 0
	}
	for i, sel := range c.locking {
		in := c.a.gatherer().probing(c.a.text)
		bare := copySelect(sel)
		bare.LockingClause, bare.LimitCount, bare.LimitOffset, bare.SortClause = nil, nil, nil, nil
		cols, opaque := in.top().query(bare)
		if opaque {
			continue
		}
		all := true
		for k := range c.table.keys {
			all = all && slices.ContainsFunc(conjuncts(c.where()), func(n *pg.Node) bool { return c.equates(n, k, sel, cols) })
		}
		if all {
			return i + 1
		}
	}
	return 0
}

// equates reports whether a condition says that a column of the key equals the key column of a row
// that the query has found.
func (c *changing) equates(n *pg.Node, key int, sel *pg.SelectStmt, cols []output) bool {
	name := c.table.keys[key].Name
	same := func(i int) bool {
		if i < 0 || i >= len(cols) {
			return false
		}
		x := cols[i].column
		return x.instance != nil && !x.instance.stored && !x.instance.table.Reference && colocated(x.instance.table, c.table) &&
			key < len(x.instance.table.keys) && x.instance.table.keys[key].Name == x.name
	}
	if s := n.GetSubLink(); s != nil {
		return s.SubLinkType == pg.SubLinkType_ANY_SUBLINK && (len(s.OperName) == 0 || isEquality(s.OperName)) && c.isTarget(s.Testexpr, name) &&
			same(c.yields(s.Subselect.GetSelectStmt(), sel, cols))
	}
	e := n.GetAExpr()
	if e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP || !isEquality(e.Name) {
		return false
	}
	for _, sides := range [][2]*pg.Node{{e.Lexpr, e.Rexpr}, {e.Rexpr, e.Lexpr}} {
		if !c.isTarget(sides[0], name) {
			continue
		}
		if s := sides[1].GetSubLink(); s != nil && s.SubLinkType == pg.SubLinkType_EXPR_SUBLINK && same(c.yields(s.Subselect.GetSelectStmt(), sel, cols)) {
			return true
		}
		names := nameList(sides[1].GetColumnRef().GetFields())
		if len(names) == 2 && c.isSource(names[0], sel) && same(numberOf(cols, names[1])) {
			return true
		}
	}
	return false
}

// isTarget reports whether a node is the target's column of this name.
func (c *changing) isTarget(n *pg.Node, column string) bool {
	names := nameList(n.GetColumnRef().GetFields())
	switch len(names) {
	case 1:
		return names[0] == column // if another table has it too, the name is ambiguous
	case 2:
		return names[0] == c.targetName() && names[1] == column
	}
	return false
}

// yields returns which column of a locking query another query yields first: it is that query, or
// reads the WITH that has it. -1 if none.
func (c *changing) yields(of, sel *pg.SelectStmt, cols []output) int {
	if of == sel && len(cols) == 1 {
		return 0
	}
	if of == nil || of == sel || len(of.FromClause) != 1 || len(of.TargetList) != 1 || of.Op != pg.SetOperation_SETOP_NONE || of.WithClause != nil {
		return -1
	}
	rv := of.FromClause[0].GetRangeVar()
	if rv == nil || !c.isWith(rv, sel) {
		return -1
	}
	names := nameList(of.TargetList[0].GetResTarget().GetVal().GetColumnRef().GetFields())
	if len(names) == 0 || len(names) > 2 || len(names) == 2 && names[0] != calledName(rv) {
		return -1
	}
	return numberOf(cols, names[len(names)-1])
}

// isSource reports whether a name of FROM means that query.
func (c *changing) isSource(name string, sel *pg.SelectStmt) bool {
	found := false
	for _, n := range c.from {
		walkNodes(n, func(m *pg.Node) bool {
			if s := m.GetRangeSubselect(); s != nil {
				found = found || s.GetAlias().GetAliasname() == name && len(s.GetAlias().GetColnames()) == 0 && s.Subquery.GetSelectStmt() == sel
				return false
			}
			if rv := m.GetRangeVar(); rv != nil {
				found = found || calledName(rv) == name && len(rv.GetAlias().GetColnames()) == 0 && c.isWith(rv, sel)
			}
			return m.GetSubLink() == nil
		})
	}
	return found
}

// isWith reports whether a name means the locking query in WITH.
func (c *changing) isWith(rv *pg.RangeVar, sel *pg.SelectStmt) bool {
	return rv.Schemaname == "" && slices.ContainsFunc(c.with.GetCtes(), func(n *pg.Node) bool {
		e := n.GetCommonTableExpr()
		return e.Ctename == rv.Relname && len(e.Aliascolnames) == 0 && e.Ctequery.GetSelectStmt() == sel
	})
}

// numberOf returns the number of the only column of that name, or -1.
func numberOf(cols []output, name string) int {
	at := -1
	for i, o := range cols {
		if o.name != name {
			continue
		}
		if at >= 0 {
			return -1
		}
		at = i
	}
	return at
}
