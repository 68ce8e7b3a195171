package program

import (
	"context"
	"strconv"

	"weft/pgerr"
)

// Value is a value in PostgreSQL's text format. The zero Value is NULL.
type Value struct {
	Text  string
	Valid bool
}

// text makes a Value.
func text(s string) Value { return Value{Text: s, Valid: true} }

// Column is a column of a result, as a RowDescription has it: of a domain, the type below it.
type Column struct {
	Name   string
	OID    uint32
	Typmod int32
}

// Prepared is a text that PostgreSQL has analysed.
type Prepared struct {
	SQL     string
	Types   []uint32 // of its parameters
	Columns []Column // of its rows; nil if it returns none
	// Handle is the executor's.
	Handle any
}

// Executor runs SQL for a program. Errors that a program may handle are *pgerr.Error; any other error ends the
// run. So an error that PostgreSQL would not have raised is wrapped: a program must not go on after it. An implementation
// may keep what it has prepared by text and types, but not FETCH, whose columns are those of the cursor.
type Executor interface {
	// Prepare analyses a text.
	Prepare(ctx context.Context, sql string, types []uint32) (*Prepared, error)
	// Execute runs a prepared text, and calls row with every row of the result until limit of them have come; 0 means
	// all. A row is the callee's. It returns the command tag.
	Execute(ctx context.Context, p *Prepared, args []Value, limit int, row func([]Value) error) (tag string, err error)
	// Probe analyses a text and returns the columns of its result. The transaction is as it was before, also if the
	// text is wrong. An error has the position that PostgreSQL gave.
	Probe(ctx context.Context, sql string, types []uint32) ([]Column, error)
}

// Transaction does what a program does to its transaction.
type Transaction interface {
	// Savepoint begins a subtransaction. Release and RollbackTo end the innermost one.
	Savepoint(ctx context.Context) error
	Release(ctx context.Context) error
	RollbackTo(ctx context.Context) error
	// End commits the transaction or rolls it back, and begins the next one.
	End(ctx context.Context, commit, chain bool) error
}

// Output takes what a program says and returns.
type Output interface {
	// Notice takes what RAISE says below the level of an error.
	Notice(n *pgerr.Error)
	// Row takes a row of the result. The columns are those of Result.
	Row(row []Value) error
}

// Environment is what a program runs in.
type Environment struct {
	Executor    Executor
	Transaction Transaction
	Output      Output
	// Cache keeps what was learnt about types and names. It is good for one schema, search_path and role.
	Cache *Cache
	// Atomic: the program may not end its transaction.
	Atomic bool
	// MaxBytes bounds the rows that are kept in memory for one statement; 0 means 64 MiB.
	MaxBytes int
	// Stopped returns the reason why the program must end now, or nil. It is asked often, and where PostgreSQL looks whether a
	// statement has been cancelled. Nil for never.
	Stopped func() error
	// Asserts is the setting plpgsql.check_asserts.
	Asserts bool
	// Portal is called for the name of a cursor that has none.
	Portal func() string
	// CursorsByVariable: a bound cursor is called like its variable, as up to PostgreSQL 15.
	CursorsByVariable bool
}

func itoa(n int) string { return strconv.Itoa(n) }
