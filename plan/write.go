package plan

import "strconv"

import "sync/atomic"

// Write is how a statement is carried out that changes rows on several shards, in
// one transaction.
//
//	shards ──Read──▶ inputs ──▶ Before ──▶ more inputs ──▶ Text, on each shard it concerns
//	                                                       └─▶ one command tag, RETURNING
//
// Everything that is read elsewhere is read before anything is written.
type Write struct {
	// Verb begins the command tag: INSERT, UPDATE, DELETE, MERGE.
	Verb string

	// Read is gathered first. Its pieces' rows are the inputs of Text; if it has
	// a Remainder, the rows of that are the only input. Nil for none.
	Read *Gather

	// Query is what Read answers, as the client wrote it, where that is not the
	// whole statement. ReadWrites: it may change something itself.
	Query      Text
	ReadWrites bool

	// Split, if not nil: each row of the last input goes to the shard that it
	// belongs on, or without a table to the home shard. Otherwise all rows of all
	// inputs go to all shards.
	Split *Split

	// Rows are those of an INSERT … VALUES, each with its own place. Text is not
	// used then. Nil for other statements.
	Rows *Rows

	// Text is what each shard runs. Inputs come as parameters, never as
	// temporary tables: whoever has touched one cannot prepare.
	Text Text

	// Instances are the sharded tables in Text. It runs on every shard that one
	// of them may have rows on; with Split, where there are rows for.
	Instances []Instance

	// Own: one shard runs it, as it would run the client's own text. ReadWrites
	// tells then whether a query may change something.
	Own bool

	// Whole: the client's own text runs on the one shard that the plan's instances
	// are on. Text and Instances are not used.
	Whole bool

	// Conflict, of an INSERT of one row, are the lookups that may have a row in
	// its way: if that is on another shard, the INSERT goes there.
	Conflict []*LookupKey

	// Copies, if not nil: a reference table is written. Text runs on the home
	// shard, and the others follow it.
	Copies *Copies

	// Along, if not 0, is the number (from 1) of the step beside whose rows all
	// rows of it are: shards that gave none need not be asked.
	Along int

	// Home: it runs on the home shard alone, whose table it changes.
	Home bool

	// Returns: Text returns rows. Those are the client's, or an input of what
	// comes after it.
	Returns bool

	// Moves are the unique keys of rows that move, in the only step before: should
	// one get what another had, it depends on who goes first.
	Moves []Move

	// Before are the steps that come first, one after the other: writes whose rows
	// are needed (WITH, a row that moves), and queries that are to be answered
	// once (Verb is SELECT). The rows of the i-th are the input that comes after
	// the pieces of Read and the steps before it. A step has no Read of its own,
	// unless it is a query that locks rows: Read and Query are all it has then.
	Before []*Write

	// Known is what PostgreSQL says of the texts, asked at the first execution.
	Known atomic.Pointer[Description]
}

// Move is a unique key of rows that move: columns of the input that tell what it
// was and what it becomes.
type Move struct {
	Old, New []int
}

// Copies says how the other shards follow the home shard in what it has done to a
// reference table.
type Copies struct {
	// Locks are the tables that are locked before, qualified and quoted: on the
	// home shard first, so that all writers queue up there.
	Locks []string
	// Carried is how many columns the home shard returns after the client's.
	Carried int
	// Text is what the others run over these columns as their only input. Without
	// it they run the home shard's own text.
	Text Text
	// Compare: they return the carried columns too, and all shards must have
	// made the same rows of them.
	Compare bool
}

// Split says where a row belongs.
type Split struct {
	Table *Table
	// Input is which one is split, where there are steps before.
	Input int
	// Columns of the input are the key, in the order of the vindex. Where it is
	// -1 all rows have the value that Fixed says.
	Columns []int
	Fixed   []Source

	// Exact: the key must have the type of its column, or a type of the same kind:
	// rows are also found by it.
	Exact bool

	// Draws are values that weft supplies to each row: they are the input's last
	// columns.
	Draws []Value

	// Whole: what a shard gets, it gets in one statement, because rows of it may
	// have to do with each other (ON CONFLICT DO UPDATE, foreign keys of the
	// table on itself, triggers). Otherwise in as many as memory demands.
	Whole bool

	// Skips: a row may turn out not to be inserted, and is not returned then.
	Skips bool
}

// DrawnName is what the i-th of Draws is called where the columns of an input have names.
func DrawnName(i int) string { return "weft_draw_" + strconv.Itoa(i+1) }

// Rows is an INSERT … VALUES in parts: those of a shard are put between head and
// tail, with commas. Where Write has no Instances all rows are the home shard's.
type Rows struct {
	Head, Tail Text
	Rows       []Row
	// Cells are values that may have to be known before their row is stored:
	// keys, and what cannot be evaluated on the row's own shard.
	Cells []Cell
	// Skips: a row may turn out not to be inserted, and is not returned then. So
	// which one is returned cannot be told by counting.
	Skips bool
	// Updates: a row may be updated, which must not happen twice.
	Updates bool
	// Timed: the time of the transaction is in it.
	Timed bool
}

// Row is one row.
type Row struct {
	// Text has the row in brackets. The i-th is stored where Instances[i] says.
	Text Text
	// Keys are the cells of the key columns, in the order of the vindex; -1 if
	// the instance knows the value.
	Keys []int
	// Conflict are the lookups that may have a row in its way, as in Write.
	Conflict []*LookupKey
}

// Cell is one value of a row.
type Cell struct {
	Text Text
	// As is the type that the value is asked for as, if it is, before it is
	// known where its row is stored; empty for its own.
	As string
	// Apart: it is never evaluated where the row is stored. The values of all
	// such cells are the columns of the one row of Read, in the order of the cells.
	Apart bool
	// Home: nor is it, but the home shard is asked for it.
	Home bool
}
