package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/datum"
	"weft/plan"
)

// nativeEnd returns how the rows of the piece become the result without PostgreSQL, or nil if they
// cannot. Whether the types of the columns allow it is decided later.
func (w *wholePiece) nativeEnd() *plan.Native {
	n := &plan.Native{Columns: len(w.out.names), Distinct: w.distinct}
	if w.distinct {
		for i, e := range w.out.exprs {
			if c, ok := w.collationOf(e, i); !ok || c.loose || len(w.keys) > 0 {
				return nil
			}
		}
	}
	var ok bool
	if n.Limit, n.Offset, ok = w.a.gatherer().counts(w.sel); !ok {
		return nil
	}
	for i, k := range w.keys {
		key := plan.SortKey{
			Column: n.Columns + i,
			Desc:   k.by.SortbyDir == pg.SortByDir_SORTBY_DESC,
			Bytes:  k.collation.bytes,
		}
		switch k.by.SortbyNulls {
		case pg.SortByNulls_SORTBY_NULLS_FIRST:
			key.NullsFirst = true
		case pg.SortByNulls_SORTBY_NULLS_LAST:
		default:
			key.NullsFirst = key.Desc
		}
		n.Order = append(n.Order, key)
	}
	return n
}

// counts returns LIMIT and OFFSET, if they are literals or parameters.
func (ga gatherer) counts(sel *pg.SelectStmt) (limit, offset *plan.Count, ok bool) {
	if sel.LimitOption == pg.LimitOption_LIMIT_OPTION_WITH_TIES {
		return nil, nil, false
	}
	if limit, ok = ga.count(sel.LimitCount); !ok {
		return nil, nil, false
	}
	offset, ok = ga.count(sel.LimitOffset)
	return limit, offset, ok
}

func (ga gatherer) count(n *pg.Node) (*plan.Count, bool) {
	if n == nil || isNull(n) {
		return nil, true
	}
	src, ok := ga.a.top().predicates().constant(n)
	if !ok {
		return nil, false
	}
	switch {
	case src.Kind == plan.Param:
		if n.GetParamRef() == nil {
			return nil, false
		}
		src.Type = datum.Int8 // the type that the server infers
	case src.Kind != plan.Literal || src.Type != datum.Int4 && src.Type != datum.Int8:
		return nil, false
	}
	return &plan.Count{Source: src}, true
}
