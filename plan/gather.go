package plan

import "sync/atomic"

// Gather says how to answer a query that no single shard can answer.
//
//	shards ──pieces──▶ Native ──▶ client
//	              └──▶ Remainder, on the home shard ──▶ client
//
// Each piece runs inside every shard it visits, and the rows of all these shards together are the
// piece's result. All pieces for a shard are one statement, and so have one snapshot. The
// remainder reads the pieces' rows and no table.
type Gather struct {
	Pieces []Piece

	// Remainder is the rest of the statement over the pieces' rows.
	Remainder Text

	// Command, if not nil, is the command around the query: DECLARE, CREATE TABLE AS. The
	// remainder is then the rest of the query.
	Command *Command

	// Lend, if not nil, are tables of the home shard that get the pieces' rows, one for each
	// piece, while the statement runs there unchanged. There is no remainder then.
	Lend []Lent

	// Native, if not nil, makes the result from the rows of the only piece without PostgreSQL, if
	// the types of its columns allow that.
	Native *Native

	// Otherwise is the same query in smaller pieces, for when the types of this Gather's columns
	// forbid it: see Piece.Forbid. It is taken too if a column is of a type that cannot be carried. Nil if
	// neither can happen.
	Otherwise *Gather

	// Probe says that views were taken apart, so that the home shard must be asked first whether
	// the client may read them.
	Probe bool

	// Own says that the remainder reads or calls something that belongs to the client's session,
	// or changes something. It must run on the client's backend on the home shard.
	Own bool

	// Locks says that the piece locks rows.
	Locks bool

	// Peek, if not empty, says that the piece locks the first rows over all shards. Peek is the
	// same query without locks, which tells how many of these rows each shard has. SkipLocked
	// says that locked rows are passed over.
	Peek       Text
	SkipLocked bool

	// Why are lines for people: what is done where, and why not in the shards.
	Why []string

	// Known is what PostgreSQL says of the texts, set at the first execution.
	Known atomic.Pointer[Description]
}

// Command is a command around a query. It runs on the client's backend on the home shard, and the
// table or cursor it makes is there.
type Command struct {
	// Text is the command with a hole for the query.
	Text Text
	// Query is the query as the client wrote it.
	Query Text
	// Keeps says that the command makes a table, whose columns have domains and collations.
	Keeps bool
}

// Lent is a table of the home shard that gets rows of the other shards for one statement.
type Lent struct {
	Table   Name
	Columns []string
}

// Where says on which shards a piece runs.
type Where uint8

// The places.
const (
	// OnShards: the shards that Instances lead to, at least one.
	OnShards Where = iota
	// OnHome: the home shard, whose tables the piece reads.
	OnHome
	// OnCopy: any one shard. The piece reads only reference tables, or no table.
	OnCopy
)

// Piece is a query that runs inside shards.
type Piece struct {
	// Text is a SELECT of at least one column.
	Text  Text
	Where Where
	// Instances are the sharded tables in the piece, which visits every shard that may have rows
	// of one of them.
	Instances []Instance
	// Name is the piece's name for people: its tables.
	Name string
	// Types and Collations hold a column's type and collation as SQL if a description of the
	// columns does not tell them: a domain, a collation of the column.
	Types, Collations []string
	// Index are columns by whose values the remainder looks up rows again and again. With many
	// rows an index on each column pays.
	Index []int
	// Reduce, if not nil, says that only those rows matter whose column has a value that another
	// piece, one without Reduce, has too.
	Reduce *Reduction
	// Forbid are types that columns must not have, because the remainder's result would lose
	// something (an average of float4 sums).
	Forbid []Forbidden
	// Elsewhere says that the piece does not run on the home shard, whose rows need not travel.
	Elsewhere bool
	// Always says that the piece must run on at least one shard, even if no row can match.
	Always bool
}

// Reduction says which rows of a piece matter.
type Reduction struct {
	Column           int // column of the reduced piece
	From, FromColumn int // the other piece and its column
}

// Forbidden is a type that a column of a piece must not have.
type Forbidden struct {
	Column int
	Type   uint32
}

// Native says what stream operators do to the rows of a piece, in this order: aggregate or make
// distinct, merge, cut, skip, stop.
type Native struct {
	// Columns is how many of the piece's leading columns are the client's. The columns after them
	// are for sorting.
	Columns int
	// Order is the order in which the shards' rows come. Its keys are among the columns after the
	// client's.
	Order []SortKey
	// Distinct says that equal rows of several shards become one.
	Distinct bool
	// Aggregate makes the client's columns from partial aggregates. Nil if the piece has the
	// client's columns themselves.
	Aggregate *Aggregate
	// Limit and Offset are applied once, to all rows. In the piece, LIMIT is their sum.
	Limit, Offset *Count
}

// SortKey is one key of an order.
type SortKey struct {
	Column           int // column of the piece
	Desc, NullsFirst bool
	// Bytes says that the collation compares bytes, if the key is text.
	Bytes bool
}

// Aggregate combines partial aggregates of shards.
type Aggregate struct {
	// Groups are the columns of the piece that rows are grouped by. If Grouped is not set, the
	// result is one row, even without input.
	Groups  []int
	Grouped bool
	// Outputs are the client's columns.
	Outputs []Output
}

// Output is a column of an aggregate.
type Output struct {
	Kind   Combine
	Column int // column of the piece: a grouping column or a partial result
	// Count is the column with the number of values, for CombineAvg.
	Count int
}

// Combine says how partial results become one result.
type Combine uint8

// The ways.
const (
	// Group is the value that all rows of the group have.
	Group Combine = iota
	// CombineCount is the sum; 0 for no input.
	CombineCount
	// CombineSum is the sum of the values that are not NULL, in the type of the partial sums.
	CombineSum
	CombineMin
	CombineMax
	// CombineAvg is the sum of Column divided by the sum of Count.
	CombineAvg
	CombineAnd
	CombineOr
	CombineBitAnd
	CombineBitOr
)

// Count is a number of rows: a constant, a literal or a parameter.
type Count struct {
	Source Source
}

// Description is what PostgreSQL says of the texts of a Gather or a Write.
type Description struct {
	// Params are the types of the parameters, Columns are the columns of the result.
	Params  []uint32
	Columns []Column
	// Pieces are the columns of each piece, Steps those of each of Write.Steps.
	Pieces, Steps [][]Column
	// Carried are the columns that the home shard returns for the other copies of
	// a reference table, StepsCarried those of each of Write.Steps.
	Carried      []Column
	StepsCarried [][]Column
	// Query are the columns of the query inside a Command, Collations are their collations, empty
	// for one that does not matter.
	Query      []Column
	Collations []string
}

// Column is a column of a RowDescription, with what is needed to name its type. OIDs are those of
// the home shard.
type Column struct {
	Name  string
	Table uint32
	Num   int16
	Type  uint32
	Size  int16
	Mod   int32
	// SQL is the type's name with its modifier, for a cast. It is empty for a type that no value
	// can be cast to, such as record.
	SQL string
	// Array is the type of arrays of this type, 0 if there is none: then values cannot be
	// elements of an array.
	Array uint32
	// Binary says that values can travel between servers in binary form; else they travel as text.
	Binary bool
}
