package plan

import "strconv"

import "sync/atomic"

// Write says how to carry out a statement that changes rows on several shards, in one
// transaction.
//
//	shards ──Read──▶ inputs ──▶ Before ──▶ more inputs ──▶ Text, on each shard it concerns
//	                                                       └─▶ one command tag, RETURNING
//
// Everything that is read on other shards is read before anything is written.
type Write struct {
	// Verb begins the command tag: INSERT, UPDATE, DELETE, MERGE.
	Verb string

	// Read is gathered first. The rows of its pieces are the inputs of Text; if Read has a
	// Remainder, the rows of the remainder are the only input. Nil for none.
	Read *Gather

	// Query is the query that Read answers, as the client wrote it, if that is not the whole
	// statement. ReadWrites says that the query may change something itself.
	Query      Text
	ReadWrites bool

	// Split, if not nil, sends each row of the last input to the shard that the row belongs on,
	// or to the home shard if Split has no table. Otherwise all rows of all inputs go to all
	// shards.
	Split *Split

	// Rows are the rows of an INSERT … VALUES, each with its own place; Text is then not used.
	// Nil for other statements.
	Rows *Rows

	// Text is what each shard runs. Inputs come as parameters, never as temporary tables: a
	// transaction that has touched a temporary table cannot be prepared.
	Text Text

	// Instances are the sharded tables in Text, which runs on every shard that may have rows of
	// one of them; with Split, on every shard that gets rows.
	Instances []Instance

	// Own says that one shard runs Text, as it would run the client's own text. ReadWrites then
	// says whether a query may change something.
	Own bool

	// Whole says that the client's own text runs on the one shard that the plan's instances lead
	// to. Text and Instances are not used.
	Whole bool

	// Conflict, for an INSERT of one row, are the lookups that may find a conflicting row: if
	// that row is on another shard, the INSERT goes there.
	Conflict []*LookupKey

	// Copies, if not nil, says that a reference table is written. Text runs on the home shard,
	// and the other shards follow.
	Copies *Copies

	// Along, if not 0, is the number (from 1) of a step on whose shards all rows of this write
	// are: shards where the step returned no rows are not visited.
	Along int

	// Home says that the write runs only on the home shard, whose table it changes.
	Home bool

	// Returns says that Text returns rows, for the client or as an input of a later step.
	Returns bool

	// Moves are the unique keys of rows that move, in the only step of Before: if a row gets the
	// key that another row had, the result depends on which row moves first.
	Moves []Move

	// Before are the steps that run first, one after the other: writes whose rows are needed
	// (WITH, a row that moves), and queries that are to be answered once (Verb is SELECT). The
	// rows of a step are the input after the pieces of Read and the steps before it. A step has
	// no Read, unless it is a query that locks rows, which has only Read and Query.
	Before []*Write

	// Known is what PostgreSQL says of the texts, set at the first execution.
	Known atomic.Pointer[Description]
}

// Move is a unique key of rows that move: the columns of the input with its old and its new
// value.
type Move struct {
	Old, New []int
}

// Copies says how the other shards repeat what the home shard has done to a reference table.
type Copies struct {
	// Locks are the tables that are locked before, qualified and quoted: on the home shard first,
	// so that all writers queue there.
	Locks []string
	// Carried is how many columns the home shard returns after the client's columns.
	Carried int
	// Text is what the other shards run, with the carried columns as their only input. If it is
	// empty they run the home shard's text.
	Text Text
	// Compare says that the other shards return the carried columns too, and that all shards must
	// return the same rows.
	Compare bool
}

// Split says on which shard a row of an input belongs.
type Split struct {
	Table *Table
	// Input is the number of the input that is split, counted from 0.
	Input int
	// Columns are the columns of the input with the key, in the order of the vindex. Where Columns
	// has -1, all rows have the value in Fixed.
	Columns []int
	Fixed   []Source

	// Exact says that the key must have the type of its column, or a type of the same kind,
	// because rows are also looked up by the key.
	Exact bool

	// Draws are values that weft supplies to each row, as the input's last columns.
	Draws []Value

	// Whole says that a shard gets all its rows in one statement, because rows may affect each
	// other (ON CONFLICT DO UPDATE, foreign keys of the table on itself, triggers). Otherwise the
	// rows go in as many statements as memory demands.
	Whole bool

	// Skips says that a row may not be inserted, and is then not returned.
	Skips bool
}

// DrawnName is the column name of the i-th of Draws, for inputs whose columns have names.
func DrawnName(i int) string { return "weft_draw_" + strconv.Itoa(i+1) }

// Rows is an INSERT … VALUES in parts: a shard gets Head, its rows with commas between, and Tail.
// If Write has no Instances, all rows belong on the home shard.
type Rows struct {
	Head, Tail Text
	Rows       []Row
	// Cells are values that may have to be known before their row is stored: keys, and values
	// that cannot be evaluated on the row's own shard.
	Cells []Cell
	// Skips says that a row may not be inserted, and is then not returned. So counting does not
	// tell which row is returned.
	Skips bool
	// Updates says that an existing row may be updated, which must not happen to it twice.
	Updates bool
	// Timed says that the statement reads the time of the transaction.
	Timed bool
}

// Row is one row of Rows.
type Row struct {
	// Text is the row in parentheses. The i-th row is stored where Instances[i] says.
	Text Text
	// Keys are the indexes in Cells of the key columns, in the order of the vindex; -1 if the
	// instance knows the value.
	Keys []int
	// Conflict are the lookups that may find a conflicting row, as in Write.
	Conflict []*LookupKey
}

// Cell is one value of a row.
type Cell struct {
	Text Text
	// As is the type to ask for the value as, if it is needed before the shard of its row is
	// known; empty for the value's own type.
	As string
	// Apart says that the value is never evaluated where the row is stored. The values of all
	// such cells are the columns of the one row of Read, in the order of the cells.
	Apart bool
	// Home says that the value is not evaluated where the row is stored, but on the home shard.
	Home bool
}
