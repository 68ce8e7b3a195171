package plan

import "strconv"

// Query is a query that is answered before anything is written.
type Query struct {
	// Text is the query as the client wrote it.
	Text Text
	// Gather answers the query.
	Gather *Gather
	// Writes says that the query may change something itself.
	Writes bool
}

// Statement is a text that shards run over rows that are lent to it.
type Statement struct {
	// Text is what each shard runs. Inputs come as parameters, never as temporary tables: a
	// transaction that has touched a temporary table cannot be prepared.
	Text Text

	// Read is gathered first, and the rows of its pieces are the first inputs of Text. Nil for
	// none.
	Read *Gather

	// Before are the steps that run first, one after the other: writes whose rows are needed
	// (WITH, a row that moves), and queries that are to be answered once (Verb is SELECT). The
	// rows of a step are the input after the pieces of Read and the steps before it. A step has
	// neither Read nor Before.
	Before []*Write
}

// Local runs Text on every shard that may have rows of one of Instances. All rows of all inputs
// go to all these shards.
type Local struct {
	Statement
	Instances []Instance

	// Along, if not 0, is the number (from 1) of a step on whose shards all rows of this write
	// are: shards where the step returned no rows are not visited.
	Along int
}

// AtHome runs Text on the home shard, whose table it changes.
type AtHome struct{ Statement }

// Share runs Text on every shard that gets rows of the last input: Split says which rows. All
// rows of the other inputs go to all these shards.
type Share struct {
	Statement
	Split *Split

	// Moves are the unique keys of rows that move, in the only step of Before: if a row gets the
	// key that another row had, the result depends on which row moves first.
	Moves []Move
}

// Stream is INSERT … SELECT: the rows of Query are the only input of Text, and each goes to the
// shard that it belongs on, in several statements if they are many.
type Stream struct {
	Query Query
	Split *Split
	Text  Text
}

// Own is a statement that one shard runs as it would run the client's own text, but for the time
// of the transaction.
type Own struct {
	Text Text
	// Instances are the sharded tables in Text. If there are none the home shard runs it.
	Instances []Instance
	// Writes says that Text may change something.
	Writes bool
}

// Whole is the client's own text, on the one shard that the plan's instances lead to.
type Whole struct {
	// Conflict, for an INSERT of one row, are the lookups that may find a conflicting row: if
	// that row is on another shard, the INSERT goes there.
	Conflict []*LookupKey
	// Updates says that an existing row may be updated.
	Updates bool
}

// Locking is a step that answers a query which locks rows.
type Locking struct{ Query Query }

func (s *Statement) parts(in []Instance) parts {
	return parts{text: s.Text, instances: in, lent: s.Read, steps: s.Before}
}

func (s *Local) parts() parts   { return s.Statement.parts(s.Instances) }
func (s *AtHome) parts() parts  { return s.Statement.parts(nil) }
func (s *Share) parts() parts   { return s.Statement.parts(nil) }
func (s *Stream) parts() parts  { return parts{text: s.Text, query: &s.Query} }
func (s *Rows) parts() parts    { return parts{instances: s.Instances, query: s.Query} }
func (s *Copies) parts() parts  { return s.Statement.parts(nil) }
func (s *Own) parts() parts     { return parts{text: s.Text, instances: s.Instances} }
func (s *Whole) parts() parts   { return parts{} }
func (s *Locking) parts() parts { return parts{query: &s.Query} }

// Move is a unique key of rows that move: the columns of the input with its old and its new
// value.
type Move struct {
	Old, New []int
}

// Copies is a write of a reference table: Text runs on the home shard, and the other shards
// repeat what the home shard has done.
type Copies struct {
	Statement
	// Locks are the tables that are locked before, qualified and quoted: on the home shard first,
	// so that all writers queue there.
	Locks []string
	// Carried is how many columns the home shard returns after the client's columns.
	Carried int
	// Then is what the other shards run, with the carried columns as their only input. If it is
	// empty they run Text.
	Then Text
	// Compare says that the other shards return the carried columns too, and that all shards must
	// return the same rows.
	Compare bool
}

// Split says on which shard a row of an input belongs.
type Split struct {
	// Table is the table that the rows are for. Nil for a table of the home shard.
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
type Rows struct {
	Head, Tail Text
	Rows       []Row
	// Instances say where each row is stored. If there are none, all rows belong on the home
	// shard.
	Instances []Instance
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
	// Query yields one row with the values of the cells that are Apart. Nil if there are none.
	Query *Query
}

// Row is one row of Rows.
type Row struct {
	// Text is the row in parentheses. The i-th row is stored where Instances[i] says.
	Text Text
	// Keys are the indexes in Cells of the key columns, in the order of the vindex; -1 if the
	// instance knows the value.
	Keys []int
	// Conflict are the lookups that may find a conflicting row, as in Whole.
	Conflict []*LookupKey
}

// Cell is one value of a row.
type Cell struct {
	Text Text
	// As is the type to ask for the value as, if it is needed before the shard of its row is
	// known; empty for the value's own type.
	As string
	// Apart says that the value is never evaluated where the row is stored. The values of all
	// such cells are the columns of the one row of Query, in the order of the cells.
	Apart bool
	// Home says that the value is not evaluated where the row is stored, but on the home shard.
	Home bool
}
