package plan

import "sync/atomic"

// Gather is how a query is answered that no single shard can answer.
//
//	shards ──pieces──▶ Native ──▶ client
//	              └──▶ Remainder, on the home shard ──▶ client
//
// Each piece runs inside every shard it visits, and all rows of all shards
// together are its result. All pieces for a shard are one statement, and so have
// one snapshot. The remainder reads the pieces' rows and no table.
type Gather struct {
	Pieces []Piece

	// Remainder is the rest of the statement over the pieces' rows.
	Remainder Text

	// Command, if not nil, is what the statement does with its query: DECLARE,
	// CREATE TABLE AS. The remainder is the rest of the query.
	Command *Command

	// Lend, if not nil: the pieces' rows are lent to tables of the home shard,
	// one for each piece, while the statement runs there as it is. There is no
	// remainder.
	Lend []Lent

	// Native, if not nil, makes the result from the rows of the only piece
	// without PostgreSQL, where the types of its columns allow that.
	Native *Native

	// Otherwise is the same query in smaller pieces, for when the types of this
	// one's columns forbid it: see Piece.Forbid. Nil if it cannot happen.
	Otherwise *Gather

	// Probe: views were taken apart, so whether the client may read them is to
	// be asked of the home shard first.
	Probe bool

	// Own: the remainder reads or calls something that belongs to the client's
	// session, or changes something. It must run on the client's own backend on the home
	// shard.
	Own bool

	// Locks: the piece locks rows.
	Locks bool

	// Peek, if there is one: the piece locks the first rows over all shards. This
	// is the same query without locks, which tells how many of each shard's that
	// are. SkipLocked: locked rows are passed over.
	Peek       Text
	SkipLocked bool

	// Why are lines for people: what is done where, and why not in the shards.
	Why []string

	// Known is what PostgreSQL says of the texts, asked at the first execution.
	Known atomic.Pointer[Description]
}

// Command is a command around a query. It runs on the client's own backend of the
// home shard, and what it makes is there.
type Command struct {
	// Text is the command with a hole for the query.
	Text Text
	// Query is the query as the client wrote it.
	Query Text
	// Keeps: it makes a table, whose columns have domains and collations.
	Keeps bool
}

// Lent is a table of the home shard that gets rows of the other shards for a
// while.
type Lent struct {
	Table   Name
	Columns []string
}

// Where says on which shards a piece runs.
type Where uint8

// The places.
const (
	// OnShards: those that Instances name, at least one.
	OnShards Where = iota
	// OnHome: it reads tables of the home shard.
	OnHome
	// OnCopy: it reads reference tables alone, or no table. One shard will do.
	OnCopy
)

// Piece is a query that runs inside shards.
type Piece struct {
	// Text is a SELECT of at least one column.
	Text  Text
	Where Where
	// Instances are the sharded tables in it. It visits every shard that one
	// of them may have rows on.
	Instances []Instance
	// Name is what people know it by: the tables in it.
	Name string
	// Types and Collations are what a description of the columns does not tell,
	// as SQL, where they are not empty: a domain, a column's own collation.
	Types, Collations []string
	// Index: the remainder looks for rows with a value of one of these columns,
	// again and again. With many rows an index on each pays.
	Index []int
	// Reduce, if not nil: of its rows only those matter whose column has a value
	// that another piece has too, one without Reduce.
	Reduce *Reduction
	// Forbid: the columns whose types must not be these, because what the
	// remainder makes of them would lose something (an average of float4 sums).
	Forbid []Forbidden
	// Elsewhere: it does not run on the home shard, which has its rows.
	Elsewhere bool
	// Always: it must run on one shard at least, even if no row can match.
	Always bool
}

// Reduction says which rows of a piece matter.
type Reduction struct {
	Column           int // of the piece
	From, FromColumn int // the other piece, and its column
}

// Forbidden is a type that a column of a piece must not have.
type Forbidden struct {
	Column int
	Type   uint32
}

// Native is what stream operators do to the rows of a piece, in this order:
// aggregate or make distinct, merge, cut, skip, stop.
type Native struct {
	// Columns is how many of the piece's leading columns are the client's. Those
	// after it are for sorting.
	Columns int
	// Order: the shards' rows come in this order. The keys are among the columns
	// behind the client's.
	Order []SortKey
	// Distinct: equal rows of several shards are one.
	Distinct bool
	// Aggregate makes the client's columns from partial ones. Nil if the piece
	// has them as they are.
	Aggregate *Aggregate
	// Limit and Offset are applied once. The piece has the sum pushed down.
	Limit, Offset *Count
}

// SortKey is one key of an order.
type SortKey struct {
	Column           int // of the piece
	Desc, NullsFirst bool
	// Bytes: should it be text, its collation compares bytes.
	Bytes bool
}

// Aggregate puts partial aggregates of shards together.
type Aggregate struct {
	// Groups are the columns of the piece that rows are grouped by. Without
	// Grouped there is one row, also for no input.
	Groups  []int
	Grouped bool
	// Outputs are the client's columns.
	Outputs []Output
}

// Output is a column of an aggregate.
type Output struct {
	Kind   Combine
	Column int // of the piece: a group's or a partial result
	// Count is the column with the number of values, for Avg.
	Count int
}

// Combine says how partial results become one.
type Combine uint8

// The ways.
const (
	// Group: the value the group has.
	Group Combine = iota
	// Count: the sum; 0 for nothing.
	CombineCount
	// Sum: the sum of those that are not NULL, of the partial's own type.
	CombineSum
	CombineMin
	CombineMax
	// Avg: the sum of Column divided by that of Count.
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

// Description is what PostgreSQL says of the texts of a Gather.
type Description struct {
	// Params are the types of the parameters, Columns the result's.
	Params  []uint32
	Columns []Column
	// Pieces are the columns of each piece, Steps those of what is done before a
	// Write.
	Pieces, Steps [][]Column
	// Carried are the columns that the home shard returns for the other copies of
	// a reference table.
	Carried []Column
	// Query are the columns of the query inside a Command, Collations theirs
	// where they have one that matters.
	Query      []Column
	Collations []string
}

// Column is a column as RowDescription tells it, and what is needed to name its
// type. OIDs are the home shard's.
type Column struct {
	Name  string
	Table uint32
	Num   int16
	Type  uint32
	Size  int16
	Mod   int32
	// SQL is the type's name with its modifier, for a cast. It is empty for
	// what no value can be cast to, such as record.
	SQL string
	// Array is the type of arrays of it, 0 if there is none: its values cannot
	// be elements.
	Array uint32
	// Binary: its values can travel between servers in binary; else as text.
	Binary bool
}
