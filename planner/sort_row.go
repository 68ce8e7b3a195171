package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// partRows replaces rows in ORDER BY by their columns: ORDER BY (a, b) is ORDER BY a, b. A row has
// a type without a name, which cannot be carried between shards. Rows compare NULL as the greatest
// value, whatever NULLS says, because NULLS is about the row.
func (w *wholePiece) partRows() {
	var out []*pg.Node
	parted := false
	for _, n := range w.sel.SortClause {
		by := n.GetSortBy()
		row := by.GetNode().GetRowExpr()
		if row == nil || by.SortbyDir == pg.SortByDir_SORTBY_USING || len(row.Args) == 0 || !w.mayPart(row) {
			out = append(out, n)
			continue
		}
		parted = true
		for _, arg := range row.Args {
			out = append(out, pg.MakeSortByNode(arg, by.SortbyDir, pg.SortByNulls_SORTBY_NULLS_DEFAULT, -1))
		}
	}
	if parted {
		w.sel = copySelect(w.sel)
		w.sel.SortClause = out
	}
}

// mayPart reports whether the parts of a row mean the same outside of it: by itself a number is the
// position of an output, and a name may be that of an output.
func (w *wholePiece) mayPart(row *pg.RowExpr) bool {
	return !slices.ContainsFunc(row.Args, func(arg *pg.Node) bool {
		if arg.GetAConst() != nil {
			return true
		}
		fields := arg.GetColumnRef().GetFields()
		if len(fields) > 0 && fields[len(fields)-1].GetAStar() != nil {
			return true // as many columns as the table has
		}
		names := nameList(fields)
		if len(names) != 1 {
			return false
		}
		for i, name := range w.out.names {
			if name == names[0] && (i >= len(w.out.exprs) || !w.a.gatherer().sameNode(w.out.exprs[i], arg)) {
				return true
			}
		}
		return false
	})
}
