package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
)

// An aggregate belongs to the innermost query whose columns its arguments name,
// and that need not be the one in which it is written:
//
//	SELECT (SELECT max(o.x)) FROM o    -- one row: the maximum of all rows of o
//
// The query around is grouped then, though no aggregate stands in its own
// expressions.

// owned marks the levels around l that a call in l may be an aggregate of. Whether
// a name in a subquery among the arguments is that subquery's own is not looked
// into: then a level too many is marked, and its query taken for a grouped one.
func (l *level) owned(call any) {
	if l.parent == nil {
		return
	}
	var may []*level
	var inmost *level // the call belongs to no level outside of this one
	var visit func(n any, direct bool)
	visit = func(n any, direct bool) {
		parser.Walk(n, func(m any) bool {
			switch m := m.(type) {
			case *pg.SubLink:
				visit(m.Testexpr, direct)
				visit(m.Subselect, false)
				return false
			case *pg.ColumnRef:
				at, certain := l.naming(m)
				if direct && certain && (inmost == nil || at[0].inside(inmost)) {
					inmost = at[0]
				}
				may = append(may, at...)
				return false
			}
			return true
		})
	}
	visit(call, true)
	for at := l; at != nil; at = at.parent {
		at.aggregated = at.aggregated || at != l && slices.Contains(may, at)
		if at == inmost {
			return
		}
	}
}

// inside reports whether l is a level within other.
func (l *level) inside(other *level) bool {
	for at := l.parent; at != nil; at = at.parent {
		if at == other {
			return true
		}
	}
	return false
}

// naming lists the levels, from l outwards, whose column or row a name may mean. certain is set if
// the list has one level and the name means it.
func (l *level) naming(ref *pg.ColumnRef) (at []*level, certain bool) {
	names := nameList(ref.Fields)
	if len(names) == 0 {
		return []*level{l}, true // count(*) as an argument
	}
	if len(names) == len(ref.Fields) {
		for x := l; x != nil; x = x.parent {
			c, known := x.lookup(names)
			switch {
			case c != nil:
				return append(at, x), len(at) == 0
			case known:
				at = append(at, x)
			}
		}
	}
	for x := l; x != nil; x = x.parent {
		it, ambiguous := x.item(names)
		switch {
		case it != nil:
			return append(at, x), len(at) == 0
		case ambiguous:
			at = append(at, x)
		}
	}
	return at, false
}
