package parser

import (
	"encoding/json"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// Embedded is a piece of SQL in a PL/pgSQL function.
type Embedded struct {
	// SQL is a statement; an expression stands behind a SELECT.
	SQL string
	// Target is what an assignment assigns to, as it is written; of a declaration with
	// a value the variable.
	Target string
	// Dynamic: the value of SQL is what is run.
	Dynamic bool
}

// EmbeddedSQL returns the SQL of a PL/pgSQL function, given the whole CREATE
// FUNCTION or DO statement. An error means no more than
// that pg_query cannot read it: it does not know what types are rows, for one.
func EmbeddedSQL(create string) (list []Embedded, err error) {
	var sc Scanner
	if !sc.Scan([]byte(create), Options{}) {
		return nil, errDeep
	}
	// The body is a literal of that text. No token of it is shorter than a byte.
	if len(create) > maxDepth {
		return nil, errDeep
	}
	text, err := pg_query.ParsePlPgSqlToJSON(create)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		return nil, err
	}
	collectEmbedded(tree, false, &list)
	return list, nil
}

// collectEmbedded finds expressions in what pg_query has made of a function.
func collectEmbedded(n any, dynamic bool, out *[]Embedded) {
	switch n := n.(type) {
	case []any:
		for _, x := range n {
			collectEmbedded(x, dynamic, out)
		}
	case map[string]any:
		if sql, ok := n["query"].(string); ok {
			mode, _ := n["parseMode"].(float64)
			*out = append(*out, embedded(sql, int(mode), dynamic))
			return
		}
		for name, x := range n {
			switch name {
			case "PLpgSQL_stmt_commit", "PLpgSQL_stmt_rollback":
				*out = append(*out, Embedded{SQL: strings.TrimPrefix(name, "PLpgSQL_stmt_")})
			case "PLpgSQL_var":
				first := len(*out)
				collectEmbedded(x, false, out)
				variable, _ := x.(map[string]any)
				if refname, _ := variable["refname"].(string); variable["default_val"] != nil && len(*out) == first+1 {
					(*out)[first].Target = refname
				}
			case "PLpgSQL_stmt_dynexecute", "PLpgSQL_stmt_dynfors":
				fields, _ := x.(map[string]any)
				for field, y := range fields {
					collectEmbedded(y, field == "query", out)
				}
			default:
				collectEmbedded(x, dynamic && name == "PLpgSQL_expr" || name == "dynquery", out)
			}
		}
	}
}

// embedded makes a statement of an expression. The modes are those of PostgreSQL's
// RawParseMode.
func embedded(sql string, mode int, dynamic bool) Embedded {
	switch mode {
	case 2:
		return Embedded{SQL: "SELECT " + sql, Dynamic: dynamic}
	case 3, 4, 5:
		at := strings.IndexByte(sql, '=')
		if at < 0 {
			return Embedded{SQL: sql, Dynamic: true}
		}
		target := strings.TrimSuffix(strings.TrimRight(sql[:at], " \t\r\n"), ":")
		return Embedded{SQL: "SELECT " + sql[at+1:], Target: strings.TrimSpace(target)}
	}
	return Embedded{SQL: sql, Dynamic: dynamic}
}
