package parser

import (
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// onlyReads reports whether statements change nothing, as far as their text tells:
// queries that call no function but some of PostgreSQL's own.
func onlyReads(tree *pg_query.ParseResult, funcs []string) bool {
	for _, raw := range tree.Stmts {
		switch n := raw.Stmt.GetNode().(type) {
		case *pg_query.Node_VariableShowStmt:
		case *pg_query.Node_SelectStmt:
			if !selects(n.SelectStmt) {
				return false
			}
		default:
			return false
		}
	}
	return !slices.ContainsFunc(funcs, func(f string) bool { return !harmless[f] })
}

// whole reports whether PostgreSQL carries out a statement in one transaction: a procedure, say, may commit in between.
func whole(n *pg_query.Node) bool {
	switch n.GetNode().(type) {
	case *pg_query.Node_SelectStmt, *pg_query.Node_InsertStmt, *pg_query.Node_UpdateStmt, *pg_query.Node_DeleteStmt, *pg_query.Node_MergeStmt:
		return true
	}
	return false
}

// selects reports whether a query neither makes a table nor has a WITH that writes,
// which PostgreSQL allows at the top alone.
func selects(q *pg_query.SelectStmt) bool {
	if q == nil {
		return true
	}
	if q.IntoClause != nil || !selects(q.Larg) || !selects(q.Rarg) {
		return false
	}
	for _, cte := range q.GetWithClause().GetCtes() {
		if cte.GetCommonTableExpr().GetCtequery().GetSelectStmt() == nil {
			return false
		}
	}
	return true
}

// harmless are functions of PostgreSQL's own that change nothing. Others may: a user's
// function of any name.
var harmless = set(
	"abs", "age", "array_agg", "array_length", "avg", "bit_and", "bit_or", "bool_and", "bool_or", "btrim", "cardinality", "ceil",
	"ceiling", "char_length", "concat", "concat_ws", "count", "current_database", "current_schema", "current_setting", "date_part", "date_trunc",
	"dense_rank", "every", "extract", "first_value", "floor", "format", "generate_series", "inet_server_addr", "inet_server_port", "initcap", "json_agg", "json_build_object",
	"json_object_agg", "jsonb_agg", "jsonb_build_object", "jsonb_object_agg", "lag", "last_value", "lead", "left", "length", "lower", "lpad", "ltrim",
	"max", "md5", "min", "mod", "now", "ntile", "octet_length", "percentile_cont", "percentile_disc", "pg_backend_pid", "pg_is_in_recovery", "pg_last_wal_replay_lsn", "pg_sleep", "pg_typeof", "position",
	"power", "rank", "regexp_replace", "repeat", "replace", "right", "round", "row_number", "row_to_json", "rpad", "rtrim", "sign", "split_part", "sqrt",
	"stddev", "string_agg", "strpos", "substr", "substring", "sum", "to_char", "to_date", "to_json", "to_jsonb", "to_number", "to_timestamp", "trunc",
	"unnest", "upper", "variance", "version",
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
