package parser

import (
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// Pledge is a command about a transaction that a client prepares under a name.
type Pledge struct {
	// Verb is PREPARE, COMMIT or ROLLBACK.
	Verb string
	GID  string
}

// Tag is the command tag of a command that has succeeded.
func (p Pledge) Tag() string {
	if p.Verb == "PREPARE" {
		return "PREPARE TRANSACTION"
	}
	return p.Verb + " PREPARED"
}

// ReadPledge reads a text that is PREPARE TRANSACTION, COMMIT PREPARED or ROLLBACK PREPARED.
func ReadPledge(text string, opt Options) (Pledge, bool) {
	tree, _, err := parse(text, opt)
	if err != nil || len(tree.Stmts) != 1 {
		return Pledge{}, false
	}
	n := tree.Stmts[0].Stmt.GetTransactionStmt()
	verb := map[pg_query.TransactionStmtKind]string{
		pg_query.TransactionStmtKind_TRANS_STMT_PREPARE:           "PREPARE",
		pg_query.TransactionStmtKind_TRANS_STMT_COMMIT_PREPARED:   "COMMIT",
		pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK_PREPARED: "ROLLBACK",
	}[n.GetKind()]
	return Pledge{verb, strings.Clone(n.GetGid())}, verb != ""
}
