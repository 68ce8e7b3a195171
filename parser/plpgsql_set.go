package parser

import (
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// collectSet finds the variables of a PL/pgSQL function that INTO, FOR, FETCH, GET
// DIAGNOSTICS and CALL give values to, and those that are assigned to by another name:
// an alias, or one with a label. A field of a record is record.field. datums are the
// variables of the function by their number.
func collectSet(n any, datums []any, set *[]string) {
	switch n := n.(type) {
	case []any:
		for _, x := range n {
			collectSet(x, datums, set)
		}
	case map[string]any:
		if list, ok := n["datums"].([]any); ok {
			datums = list
		}
		for name, x := range n {
			fields, _ := x.(map[string]any)
			switch name {
			case "datums":
				continue
			case "PLpgSQL_stmt_assign":
				if to := datumName(datums, fields["varno"]); to != strings.ToLower(assignedTo(fields)) {
					*set = append(*set, to)
				}
			case "PLpgSQL_stmt_foreach_a":
				*set = append(*set, datumName(datums, fields["varno"]))
			case "PLpgSQL_diag_item":
				*set = append(*set, datumName(datums, fields["target"]))
			case "PLpgSQL_stmt_call":
				collectArguments(fields, datums, set)
			case "target", "var":
				collectTarget(fields, datums, set)
			}
			collectSet(x, datums, set)
		}
	}
}

// collectTarget finds the variables of INTO and FOR.
func collectTarget(target map[string]any, datums []any, set *[]string) {
	for kind, x := range target {
		fields, _ := x.(map[string]any)
		if kind != "PLpgSQL_row" {
			name, _ := fields["refname"].(string)
			*set = append(*set, name)
			continue
		}
		list, _ := fields["fields"].([]any)
		for _, f := range list {
			if field, ok := f.(map[string]any); ok {
				*set = append(*set, datumName(datums, field["varno"]))
			}
		}
	}
}

// collectArguments takes every variable for changed that CALL is given: which
// arguments are INOUT the text does not say. An alias may mean any of them.
func collectArguments(call map[string]any, datums []any, set *[]string) {
	expr, _ := call["expr"].(map[string]any)
	fields, _ := expr["PLpgSQL_expr"].(map[string]any)
	sql, _ := fields["query"].(string)
	tree, err := Parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		collectAll(datums, set)
		return
	}
	for _, arg := range tree.Stmts[0].Stmt.GetCallStmt().GetFunccall().GetArgs() {
		if named := arg.GetNamedArgExpr(); named != nil {
			arg = named.Arg
		}
		names := columnNames(arg.GetColumnRef())
		if len(names) == 0 {
			continue
		}
		if name := strings.Join(names, "."); knownDatum(datums, name) {
			*set = append(*set, name)
		} else {
			collectAll(datums, set)
		}
	}
}

func columnNames(c *pg_query.ColumnRef) []string {
	var names []string
	for _, f := range c.GetFields() {
		names = append(names, f.GetString_().GetSval())
	}
	return names
}

// collectAll takes all variables for changed.
func collectAll(datums []any, set *[]string) {
	for i := range datums {
		*set = append(*set, datumName(datums, float64(i)))
	}
}

// knownDatum reports whether a name is that of a variable, and not an alias of one.
func knownDatum(datums []any, name string) bool {
	record, _, _ := strings.Cut(name, ".")
	for i := range datums {
		if n := datumName(datums, float64(i)); n == name || n == record {
			return true
		}
	}
	return false
}

// datumName is the name that a variable was declared by. The tree leaves number 0 out.
func datumName(datums []any, number any) string {
	at, _ := number.(float64)
	if int(at) >= len(datums) {
		return ""
	}
	kinds, _ := datums[int(at)].(map[string]any)
	for kind, x := range kinds {
		fields, _ := x.(map[string]any)
		if kind == "PLpgSQL_recfield" {
			field, _ := fields["fieldname"].(string)
			return datumName(datums, fields["recparentno"]) + "." + field
		}
		name, _ := fields["refname"].(string)
		return name
	}
	return ""
}

// assignedTo is the target of an assignment as it is written.
func assignedTo(assign map[string]any) string {
	expr, _ := assign["expr"].(map[string]any)
	fields, _ := expr["PLpgSQL_expr"].(map[string]any)
	sql, _ := fields["query"].(string)
	return embedded(sql, 3, false).Target
}
