package catalog

import (
	"regexp"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// Command reports whether a statement changes schemas, roles, rights or the server:
// it is neither a query nor about rows, a transaction or a session.
func Command(n *pg_query.Node) bool {
	switch n.GetNode().(type) {
	case nil, *pg_query.Node_SelectStmt, *pg_query.Node_InsertStmt, *pg_query.Node_UpdateStmt, *pg_query.Node_DeleteStmt, *pg_query.Node_MergeStmt,
		*pg_query.Node_CopyStmt, *pg_query.Node_TruncateStmt, *pg_query.Node_LockStmt, *pg_query.Node_CallStmt, *pg_query.Node_DoStmt,
		*pg_query.Node_TransactionStmt, *pg_query.Node_VariableSetStmt, *pg_query.Node_VariableShowStmt, *pg_query.Node_DiscardStmt,
		*pg_query.Node_ConstraintsSetStmt, *pg_query.Node_PrepareStmt, *pg_query.Node_ExecuteStmt, *pg_query.Node_DeallocateStmt,
		*pg_query.Node_ExplainStmt, *pg_query.Node_DeclareCursorStmt, *pg_query.Node_FetchStmt, *pg_query.Node_ClosePortalStmt,
		*pg_query.Node_NotifyStmt, *pg_query.Node_ListenStmt, *pg_query.Node_UnlistenStmt, *pg_query.Node_LoadStmt, *pg_query.Node_CheckPointStmt:
		return false
	}
	return true
}

// commandWord finds the words that a Command begins with, in a body without comments.
// temporaryDDL finds commands on temporary tables, which belong to a session and so
// do not count.
var (
	commandWord  = regexp.MustCompile(`(?i)\b(create|alter|drop|grant|revoke|reassign|refresh|reindex|cluster|vacuum|analyze|comment\s+on|security\s+label|import\s+foreign)\b`)
	temporaryDDL = regexp.MustCompile(`(?i)\b(create\s+((local|global)\s+)?temp(orary)?|drop\s+table\s+(if\s+exists\s+)?pg_temp)\b`)
)

// MayCommand reports whether a body that cannot be parsed may contain a Command.
func MayCommand(body string) bool {
	if !strings.Contains(body, "'") { // with strings, a comment may be part of a string
		body = comment.ReplaceAllString(body, " ")
	}
	return commandWord.MatchString(temporaryDDL.ReplaceAllString(body, " "))
}
