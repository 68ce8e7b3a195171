package catalog

import (
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// WholeIndex is the SQL condition that index i of pg_index has all rows with values in
// its columns: the index has no predicate, or the predicate only says IS NOT NULL of some
// of these columns. The condition reads the stored tree of the predicate, because asking
// for the predicate's text may lock the table.
const WholeIndex = `(i.indpred IS NULL OR i.indpred::pg_catalog.text ~ '^([{]BOOLEXPR :boolop and :args [(])?([{]NULLTEST :arg [{]VAR [^{}]*[}] :nulltesttype 1 :argisrow false[^{}]*[}] ?)+([)] :location -?[0-9]+[}])?$'
  AND NOT EXISTS (SELECT FROM pg_catalog.regexp_matches(i.indpred::pg_catalog.text, ':varattno ([0-9]+)', 'g') m
    WHERE m[1]::pg_catalog.int2 <> ALL ((pg_catalog.string_to_array(i.indkey::pg_catalog.text, ' ')::pg_catalog.int2[])[1:i.indnkeyatts])))`

// LookupIndex is the SQL condition that lookup k makes index i unique over all shards.
// A lookup without columns is derived from an index, and stands for the indexes with the shape of that index.
const LookupIndex = `k.single AND i.indrelid = k.owner AND i.indisunique AND i.indimmediate AND CASE WHEN pg_catalog.cardinality(k.columns) > 0
  THEN ` + WholeIndex + ` AND i.indexprs IS NULL AND NOT ` + nullsIndex + `
    AND i.indnkeyatts = pg_catalog.cardinality(k.columns) AND k.columns OPERATOR(pg_catalog.<@) (pg_catalog.string_to_array(i.indkey::pg_catalog.text, ' ')::pg_catalog.int2[])[1:i.indnkeyatts]
  ELSE pg_catalog.to_jsonb(k) ->> 'shape' = ` + IndexShape + ` END`

// WholePredicate reports whether an index on columns with this predicate, as a CREATE
// INDEX has it, fulfils WholeIndex. A nil predicate is none.
func WholePredicate(n *pg_query.Node, columns []string) bool {
	switch v := n.GetNode().(type) {
	case nil:
		return true
	case *pg_query.Node_BoolExpr:
		return v.BoolExpr.Boolop == pg_query.BoolExprType_AND_EXPR &&
			!slices.ContainsFunc(v.BoolExpr.Args, func(a *pg_query.Node) bool { return !WholePredicate(a, columns) })
	case *pg_query.Node_NullTest:
		ref := v.NullTest.Arg.GetColumnRef()
		names := stringsOf(ref.GetFields())
		return v.NullTest.Nulltesttype == pg_query.NullTestType_IS_NOT_NULL && len(names) == 1 && slices.Contains(columns, names[0])
	}
	return false
}
