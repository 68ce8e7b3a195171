package program

import (
	"context"
	"fmt"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
)

// A function in SQL is a script: statements one after the other, without variables beside the arguments. A name is a column before it is an argument.
// The rows of the last statement are the result.

// script reads the statements of a function in SQL.
func (r *reader) script(src *Source) []*Expr {
	texts := src.Statements
	if texts == nil {
		res, err := parser.Parse(src.Body)
		if err != nil {
			panic(pgerr.New(pgerr.SyntaxError, "%s", err.Error()))
		}
		for _, s := range res.Stmts {
			from, to := int(s.StmtLocation), len(src.Body)
			if s.StmtLen > 0 {
				to = from + int(s.StmtLen)
			}
			texts = append(texts, src.Body[from:to])
		}
	}
	list := make([]*Expr, len(texts))
	for i, text := range texts {
		list[i] = r.parsed(&Expr{Text: text, Mode: Statement, scope: r.scope})
	}
	return list
}

// runScript runs a function in SQL.
func (f *frame) runScript(ctx context.Context) error {
	f.null = len(f.columns) == 0 && !f.Set // the void of PL/pgSQL is a value, that of SQL is NULL
	for i, e := range f.script {
		err := f.stopped(ctx)
		if err == nil {
			err = f.scripted(ctx, e, i == len(f.script)-1)
		}
		if err != nil {
			return f.placeScript(err, i+1)
		}
	}
	return nil
}

// placeScript gives an error of a statement the line of its CONTEXT.
func (f *frame) placeScript(err error, number int) error {
	e, ok := err.(*pgerr.Error)
	if !ok {
		return err
	}
	e.Position = 0
	addContext(e, fmt.Sprintf(`SQL function "%s" statement %d`, f.Name, number))
	return &thrown{e}
}

// scripted runs a statement of a script. The last statement makes the result.
func (f *frame) scripted(ctx context.Context, e *Expr, last bool) error {
	n := e.tree.node
	if err := unscripted(n); err != nil {
		return err
	}
	p, err := f.plan(ctx, e, false)
	if err != nil {
		return err
	}
	cols := p.prepared.Columns
	if !last || len(f.columns) == 0 {
		_, _, err := f.runLimited(ctx, p.prepared, f.arguments(p), 0)
		return err
	}
	if len(cols) != len(f.columns) {
		return refuse("a function in SQL whose last statement returns a row as one value").
			WithHint("Let the statement return the columns: SELECT (x).*, or SELECT t.*.")
	}
	if f.Set {
		rows, err := f.collect(ctx, p.prepared, f.arguments(p))
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := f.deliver(ctx, cols, row); err != nil {
				return err
			}
		}
		return nil
	}
	limit := 0
	if n.GetSelectStmt() != nil {
		limit = 1
	}
	first, _, err := f.runLimited(ctx, p.prepared, f.arguments(p), limit)
	if err != nil {
		return err
	}
	if first == nil {
		f.null = true
		return nil
	}
	return f.deliver(ctx, cols, first)
}

// deliver casts a row to the columns of the result, and returns it.
func (f *frame) deliver(ctx context.Context, cols []Column, row []Value) error {
	out := make([]Value, len(row))
	for i, v := range row {
		var err error
		if out[i], err = f.env.Cache.cast(ctx, f.env.Executor, v, cols[i], f.columns[i].typ); err != nil {
			return err
		}
	}
	return f.env.Output.Row(out)
}

// unscripted returns the error of commands that a function in SQL does not run in PostgreSQL either, and of those that weft does not run there.
func unscripted(n *pg_query.Node) error {
	switch {
	case n.GetTransactionStmt() != nil:
		return native(transactionWord(n.GetTransactionStmt().Kind) + " is not allowed in an SQL function")
	case n.GetCopyStmt() != nil:
		return native("cannot COPY to/from client in an SQL function")
	case n.GetCallStmt() != nil:
		return refuse("CALL in a function in SQL").WithHint("Write the function in PL/pgSQL.")
	}
	return unsupported(n)
}

// transactionWord is what PostgreSQL calls a command that begins or ends a transaction.
func transactionWord(k pg_query.TransactionStmtKind) string {
	switch k {
	case pg_query.TransactionStmtKind_TRANS_STMT_BEGIN:
		return "BEGIN"
	case pg_query.TransactionStmtKind_TRANS_STMT_START:
		return "START TRANSACTION"
	case pg_query.TransactionStmtKind_TRANS_STMT_COMMIT:
		return "COMMIT"
	case pg_query.TransactionStmtKind_TRANS_STMT_ROLLBACK:
		return "ROLLBACK"
	case pg_query.TransactionStmtKind_TRANS_STMT_SAVEPOINT:
		return "SAVEPOINT"
	}
	return "TRANSACTION"
}
