package catalog

import (
	"regexp"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// operatorNames returns the operators that an expression may use.
func operatorNames(e *pg_query.A_Expr) []string {
	name := lastName(e.Name)
	switch e.Kind {
	case pg_query.A_Expr_Kind_AEXPR_BETWEEN, pg_query.A_Expr_Kind_AEXPR_NOT_BETWEEN,
		pg_query.A_Expr_Kind_AEXPR_BETWEEN_SYM, pg_query.A_Expr_Kind_AEXPR_NOT_BETWEEN_SYM:
		return []string{"<=", ">=", "<", ">"}
	}
	return []string{name}
}

// OperatorNames returns the operators that a node of a tree may use itself, without
// the nodes below it.
func OperatorNames(m any) []string {
	switch m := m.(type) {
	case *pg_query.A_Expr:
		return operatorNames(m)
	case *pg_query.SubLink:
		if len(m.OperName) > 0 {
			return []string{lastName(m.OperName)}
		}
		return []string{"="} // IN
	case *pg_query.SortBy:
		if len(m.UseOp) > 0 {
			return []string{lastName(m.UseOp)}
		}
	case *pg_query.CaseExpr:
		if m.Arg != nil {
			return []string{"="}
		}
	case *pg_query.JoinExpr:
		if m.IsNatural || len(m.UsingClause) > 0 {
			return []string{"="}
		}
	}
	return nil
}

// operatorText matches any run of characters that may form operators.
var operatorText = regexp.MustCompile("[-+*/<>=~!@#%^&|`?]+")

// operatorsIn returns all operators that may be in a text that cannot be parsed: every
// part of a run of operator characters.
func operatorsIn(text string) []string {
	var out []string
	seen := map[string]bool{}
	for _, run := range operatorText.FindAllString(text, -1) {
		for i := range run {
			for j := i + 1; j <= len(run) && j-i < nameLength; j++ {
				if !seen[run[i:j]] && len(seen) < 10000 {
					seen[run[i:j]] = true
					out = append(out, run[i:j])
				}
			}
		}
	}
	return out
}

// changesSchema reports whether a statement changes the schema. Temporary objects do not
// count.
func changesSchema(n *pg_query.Node) bool {
	switch s := n.GetNode().(type) {
	case *pg_query.Node_SelectStmt:
		return s.SelectStmt.IntoClause != nil && !temporaryName(s.SelectStmt.IntoClause.Rel)
	case *pg_query.Node_CreateStmt:
		return !temporaryName(s.CreateStmt.Relation)
	case *pg_query.Node_CreateTableAsStmt:
		return !temporaryName(s.CreateTableAsStmt.Into.GetRel())
	case *pg_query.Node_ViewStmt:
		return !temporaryName(s.ViewStmt.View)
	case *pg_query.Node_CreateSeqStmt:
		return !temporaryName(s.CreateSeqStmt.Sequence)
	case *pg_query.Node_InsertStmt, *pg_query.Node_UpdateStmt, *pg_query.Node_DeleteStmt, *pg_query.Node_MergeStmt,
		*pg_query.Node_CallStmt, *pg_query.Node_NotifyStmt, *pg_query.Node_ListenStmt, *pg_query.Node_UnlistenStmt,
		*pg_query.Node_VariableSetStmt, *pg_query.Node_VariableShowStmt, *pg_query.Node_LockStmt, *pg_query.Node_ExplainStmt,
		*pg_query.Node_TruncateStmt, *pg_query.Node_TransactionStmt, *pg_query.Node_DeclareCursorStmt, *pg_query.Node_FetchStmt,
		*pg_query.Node_ClosePortalStmt, *pg_query.Node_PrepareStmt, *pg_query.Node_ExecuteStmt, *pg_query.Node_DeallocateStmt,
		*pg_query.Node_CopyStmt, *pg_query.Node_DoStmt, *pg_query.Node_VacuumStmt, *pg_query.Node_RefreshMatViewStmt,
		*pg_query.Node_ConstraintsSetStmt, *pg_query.Node_DiscardStmt, *pg_query.Node_CheckPointStmt, *pg_query.Node_LoadStmt,
		*pg_query.Node_ReturnStmt, *pg_query.Node_PlassignStmt:
		return false
	}
	return n.GetNode() != nil
}

// temporaryName reports whether a statement makes a relation of this name as a temporary
// relation.
func temporaryName(rv *pg_query.RangeVar) bool {
	return rv.GetRelpersistence() == "t" || strings.HasPrefix(rv.GetSchemaname(), "pg_temp")
}
