package parser

import pg_query "github.com/pganalyze/pg_query_go/v6"

// Parse is pg_query.Parse made safe: a text whose tree could be too deep for pg_query is refused instead of ending the
// process. It reads text as if standard_conforming_strings were on. Positions in the tree are offsets in text.
func Parse(text string) (*pg_query.ParseResult, error) {
	tree, _, err := parse(text, Options{})
	return tree, err
}

// Walk visits a message of a parse tree and, where visit returns true, everything below it, in the order of the fields.
func Walk(message any, visit func(message any) bool) { walk(message, visit) }

// ErrDeep is the error of a text that is not parsed because its tree could be too deep. The server may well accept it.
var ErrDeep = errDeep

// Tree is a parsed text, under whatever settings it was read.
type Tree struct {
	Statements []*pg_query.RawStmt

	edits Edits
}

// ParseTree is Parse for a text that is read under opt.
func ParseTree(text string, opt Options) (*Tree, error) {
	tree, edits, err := parse(text, opt)
	if err != nil {
		return nil, err
	}
	return &Tree{Statements: tree.Stmts, edits: edits}, nil
}

// Offset returns where in the text that was parsed a location of the tree is, in bytes. (With
// standard_conforming_strings off, pg_query has read an edited text.)
func (t *Tree) Offset(location int32) int {
	if len(t.edits) == 0 {
		return int(location)
	}
	return t.edits.clientOffset(int(location))
}

// Framed reports whether a text begins by opening a block, and whether it ends with its COMMIT. Both
// are false if it says anything else about transactions: then one backend has to run it.
func (t *Tree) Framed() (opens, ends bool) {
	last := len(t.Statements) - 1
	for i, st := range t.Statements {
		tx := st.Stmt.GetTransactionStmt()
		if tx == nil {
			continue
		}
		switch tx.Kind {
		case pg_query.TransactionStmtKind_TRANS_STMT_SAVEPOINT, pg_query.TransactionStmtKind_TRANS_STMT_RELEASE, pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
		case pg_query.TransactionStmtKind_TRANS_STMT_BEGIN, pg_query.TransactionStmtKind_TRANS_STMT_START:
			if i > 0 {
				return false, false
			}
			opens = true
		case pg_query.TransactionStmtKind_TRANS_STMT_COMMIT:
			if i < last || tx.Chain {
				return false, false
			}
			ends = true
		default:
			return false, false
		}
	}
	return opens, opens && ends
}

// OpensOnly reports whether a text opens a block and says nothing but how it is to be: BEGIN; SET TRANSACTION …
func (t *Tree) OpensOnly() bool {
	for i, st := range t.Statements {
		if i == 0 {
			tx := st.Stmt.GetTransactionStmt()
			if tx == nil || tx.Kind != pg_query.TransactionStmtKind_TRANS_STMT_BEGIN && tx.Kind != pg_query.TransactionStmtKind_TRANS_STMT_START {
				return false
			}
			continue
		}
		if set := st.Stmt.GetVariableSetStmt(); set == nil || set.Kind != pg_query.VariableSetKind_VAR_SET_MULTI || set.Name != "TRANSACTION" {
			return false
		}
	}
	return len(t.Statements) > 1
}
