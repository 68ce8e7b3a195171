package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/datum"
)

// A query that locks rows runs whole inside each shard, where it locks what it reads, or in steps
// (lock_apart.go). With LIMIT, the proxy makes sure that no shard locks rows that are not among the first:
// see plan.Gather.Peek.

// lockable reports whether each row that is to be locked is on one shard, and LIMIT is a number.
func (cm commands) lockable(sel *pg.SelectStmt) bool {
	if sel.Op != pg.SetOperation_SETOP_NONE || len(sel.DistinctClause) > 0 || sel.LimitOption == pg.LimitOption_LIMIT_OPTION_WITH_TIES {
		return false
	}
	skips := skipsLocked(sel)
	for _, n := range sel.LockingClause {
		c := n.GetLockingClause()
		if sel.LimitCount != nil && skips != (c.GetWaitPolicy() == pg.LockWaitPolicy_LockWaitSkip) {
			return false // some of a row's tables are skipped, and some are waited for
		}
		if len(cm.a.touched.reference) > 0 && !cm.locksSharded(sel, c) {
			return false
		}
	}
	return true
}

// skipsLocked reports whether a query has SKIP LOCKED.
func skipsLocked(sel *pg.SelectStmt) bool {
	return slices.ContainsFunc(sel.LockingClause, func(n *pg.Node) bool {
		return n.GetLockingClause().GetWaitPolicy() == pg.LockWaitPolicy_LockWaitSkip
	})
}

// locksSharded reports whether OF names sharded tables alone. Copies of a reference table would be
// locked one by one, so that two sessions could lock different copies.
func (cm commands) locksSharded(sel *pg.SelectStmt, c *pg.LockingClause) bool {
	if len(c.LockedRels) == 0 {
		return false
	}
	return !slices.ContainsFunc(c.LockedRels, func(n *pg.Node) bool {
		return !slices.ContainsFunc(cm.a.instances, func(x *instance) bool {
			return x.rv != nil && n.GetRangeVar().GetSchemaname() == "" && calledName(x.rv) == n.GetRangeVar().GetRelname() && standsIn(sel, x.rv)
		})
	})
}

// calledName returns the name that the query gives a table of FROM.
func calledName(rv *pg.RangeVar) string {
	if rv.Alias != nil {
		return rv.Alias.Aliasname
	}
	return rv.Relname
}

// standsIn reports whether a table is in the query's own FROM, not in a subquery's.
func standsIn(sel *pg.SelectStmt, rv *pg.RangeVar) bool {
	var in func(n *pg.Node) bool
	in = func(n *pg.Node) bool {
		j := n.GetJoinExpr()
		return n.GetRangeVar() == rv && rv != nil || j != nil && (in(j.Larg) || in(j.Rarg))
	}
	return slices.ContainsFunc(sel.FromClause, in)
}

// volatileKeys reports whether the query, run again, may have another order.
func (w *wholePiece) volatileKeys() bool {
	return slices.ContainsFunc(w.keys, func(k sortKey) bool { return w.volatileIn(k.expr) })
}

// looselyOrdered reports whether a key of the order is known to be a text whose order only PostgreSQL knows.
func (w *wholePiece) looselyOrdered() bool {
	return slices.ContainsFunc(w.keys, func(k sortKey) bool {
		l := w.block.level
		if l == nil {
			return false
		}
		c := l.column(k.expr)
		return c != nil && c.stored != nil && !c.stored.Bytewise && textTypes[datum.Type(c.stored.Base)]
	})
}

// textTypes are the types that are ordered by a collation.
var textTypes = map[datum.Type]bool{datum.Text: true, datum.Varchar: true, datum.Bpchar: true}

// orderedByRows reports whether a key of the order is a row without a type of its own, which weft can neither compare nor carry.
func (w *wholePiece) orderedByRows() bool {
	return slices.ContainsFunc(w.keys, func(k sortKey) bool { return k.expr.GetRowExpr() != nil })
}
