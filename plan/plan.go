package plan

import (
	"weft/datum"
	"weft/pgerr"
	"weft/vindex"
)

// Route says how the shards of a text are found.
type Route uint8

// The routes.
const (
	// Home is the home shard.
	Home Route = iota
	// Any is the backend at hand, else the home shard: no table is read or written.
	Any
	// AnyCopy is any one shard: only reference tables are read.
	AnyCopy
	// Keyed is the shards that Instances lead to.
	Keyed
	// Every is all shards, the home shard first: for DDL on declared tables and the objects they
	// depend on.
	Every
	// Gathered is for a text that no shard can run alone: Across says what is done.
	Gathered
	// Call is no shard: weft runs the weft.* function itself.
	Call
	// Refused is no shard: Refusal says why.
	Refused
	// Program is no shard as such: weft runs the PL/pgSQL of the text itself, and each statement in it has a plan of its own.
	Program
)

// Plan is what is to be done with one text, which may hold several statements.
type Plan struct {
	Route Route

	// Instances are all appearances of sharded tables, for Keyed: rows read and rows stored. The
	// text can run on one shard if all instances lead to that shard.
	Instances []Instance

	// Confined says that only declarations of relations with these Names, in any schema, can
	// change the plan. If it is not set, any declaration can.
	Confined bool
	Names    []string

	// Policed says that an instance has a Policy.
	Policed bool

	// Writes says that the text may change rows, or call a function that may.
	Writes bool

	// Locks says that the text locks rows. Locks alone leave nothing to commit.
	Locks bool

	// AtCursor says that the text has WHERE CURRENT OF, and may run on the shard of that cursor,
	// whatever the Route.
	AtCursor bool

	// Lookups says that the text may change rows of tables with lookups, which must follow before
	// the client is told that the text is done. Across is
	// then a Write in a Keyed plan, which is used even on one shard.
	Lookups bool

	// Strays says that the text may store an id that names another bucket than its row's, in a
	// table with routed ids. Across is then a Write in a Keyed plan, so that the text can be
	// carried out again once such ids are not trusted any more.
	Strays bool

	// Looks says that an instance of the plan, or of one of its pieces, has a Lookup.
	Looks bool

	// Generate says which values weft supplies to INSERTs: those of sequences that all shards
	// share. Nil for none.
	Generate *Generate

	// Lots are the sequences that triggers which the text fires draw from on the shards that run it, qualified and quoted:
	// each shard must have been given a lot of values.
	Lots []string

	// HomeDraws says what a statement over several shards draws on the home shard itself. Nil for nothing.
	HomeDraws *HomeDraws

	// Change is what DDL does to declarations. Nil for none.
	Change *Change

	// Function is the call of a weft.* function, for Call.
	Function *Function

	// Described says that the text is one which the home shard can describe, for Program: a CALL or a SELECT. It is not set for DO.
	Described bool

	// Routine is the name of a routine that a Keyed text calls and does nothing else, if all its statements keep to the shard of an argument: weft
	// could run it as a Program too. Empty for other texts.
	Routine string

	// Across says what is done, for Gathered; for Keyed, what is done when the instances do not
	// lead to one shard: nil means Refusal.
	Across Way

	// Explain says how to explain, if the text is an EXPLAIN of a query. A single shard is sent
	// the text unchanged. Nil for other texts.
	Explain *Explain

	// Timed says that the text reads the time at which its transaction began. That time differs
	// on a shard that joins the block later.
	Timed bool

	// Steady says that the text only reads rows of Instances, and that all sessions of one role and with the same settings
	// which run it on one shard at the same time get the same answer: nothing in it, in views and in policies is
	// volatile, or tells of the session. What is not proved is not Steady.
	Steady bool

	// Refusal is the error for the client, for Refused; for Keyed, the error when the instances
	// do not lead to one shard and Across is nil.
	Refusal *pgerr.Error

	// Fires is the error for a client that does not accept that several shards each run the
	// triggers that PostgreSQL would run once. Nil if there are no such triggers.
	Fires *pgerr.Error

	// Unread says that the text is refused because it cannot be parsed. The home shard reports
	// what is wrong.
	Unread bool

	// Missing is the name of a relation that the text reads or writes and that does not exist. The
	// home shard reports it, unless Refusal does. Empty if there is none.
	Missing string

	// Waits says that the text is refused only because rows of a table are being moved between
	// shards; another try after that may succeed.
	Waits bool

	// Params are the types of $1, $2, … as the server will resolve them, 0 for a type that the
	// planner does not know.
	Params []datum.Type

	// Why are lines for people: what led to the route.
	Why []string

	// Exact says that the plan depends on the values of literals, and holds for this text only.
	Exact bool
}

// Table is a declared table as a plan needs it.
type Table struct {
	Schema, Name string
	Reference    bool
	// Vindex is nil for a reference table.
	Vindex vindex.Vindex
	// Lookup is the name under which a lookup vindex keeps its entries.
	Lookup string
	// Group is the group whose buckets the rows are in: see directory.Table.
	Group string
	// IDs are the table's routed ids. Nil for none.
	IDs *IDs
	// Colocation is the same for tables of a database whose rows with equal keys are on one shard.
	Colocation uint32
}

// IDs are routed ids: int8 values from From on that name the bucket of their row in their low
// bits. A generated id is made of the bucket, Base and a number of the column's sequence.
type IDs struct {
	Column     string
	From, Base int64
	Bits       int // how many of an id's low bits name the bucket
}

// Instance is one appearance of a sharded table in a text.
type Instance struct {
	Table *Table
	Name  string // the table's name or alias in the text

	// Stored says that the instance is a row being written, whose key is Keys; else Keys are
	// conditions on rows.
	Stored bool

	// Keys has one element per key column, in the order of the vindex. An element is a list of
	// sets; the column's value is in all of these sets. An empty list means that nothing is known
	// of the column.
	Keys [][]Set

	// IDs are sets which all contain the row's routed id. They are used if the key is not known.
	IDs []Set

	// Lookup says how to find the shards of the rows if the key does not tell. Nil for none.
	Lookup *LookupKey

	// Bounds are bounds on the only key column, if its vindex keeps an order.
	Bounds []Bound

	// Policy says which key row security lets pass. It is used before all else that is known of the
	// rows. Nil for none.
	Policy *Policy
}

// Policy is what row security says of the only key column of a table: the column equals a custom
// parameter of the session, in all rows that the role of the plan's environment can see or change.
type Policy struct {
	Name string // name of a policy that says so
	// Set has one Source, of kind Setting.
	Set Set
}

// LookupKey is what is known of the columns of a lookup.
type LookupKey struct {
	Name string // name of the lookup
	// Vindex says on which shard the entries of values are.
	Vindex vindex.Computed
	Unique bool
	// Keys are as in Instance, and no element is empty.
	Keys [][]Set
	// Items, for a row that claims values of a lookup which is derived from an index, are the values in the place of Keys: SQL for
	// the home shard, which yields NULL for a row that the index leaves out.
	Items []Text
	// Triggered says that a trigger may store another value than the one being claimed.
	Triggered bool
}

// Bound is a lower bound of a column if Low is set, else an upper bound. The bound itself may be
// a value of the column.
type Bound struct {
	Source Source
	Low    bool
}

// Set is a list of values; a column has one of them. An empty Set means that no row matches.
type Set []Source

// SourceKind says where a value comes from.
type SourceKind uint8

// The kinds of sources.
const (
	// Null is the key of rows whose key column IS NULL. (A comparison with
	// NULL matches nothing: an empty Set.)
	Null SourceKind = iota
	// Literal is the Index-th literal of the scan, counted from 0.
	Literal
	// Array is a literal that spells an array, '{1,2}': each element counts.
	Array
	// Param is parameter Index, counted from 0.
	Param
	// ParamArray is a parameter that holds an array: = ANY($1).
	ParamArray
	// Generated is the Index-th value that Generate supplies.
	Generated
	// Computed is Expr's value: a whole number, or a text.
	Computed
	// Constant is Text, a value that stands in the schema (a column default).
	Constant
	// Setting is the value of the custom parameter whose name is Text, in lower case.
	Setting
)

// Source is one value.
type Source struct {
	Kind  SourceKind
	Index int
	// Type is the type that PostgreSQL gives the value: Unknown for a bare string literal, the
	// target of a cast, or the type of an array's elements.
	Type datum.Type
	// Negative says that a minus sign stands before the number.
	Negative bool
	Expr     *Expr
	Text     string
}

// Expr is integer arithmetic on sources, or a text in another case.
type Expr struct {
	Op          byte // '+', '-', '*'; Lower and Upper take Left alone
	Left, Right Source
}

// Lower and Upper are the operations of an Expr that make texts.
const (
	Lower = 'l'
	Upper = 'u'
)

// Func returns the name of the function that makes a text of Left; "" for arithmetic.
func (e *Expr) Func() string {
	switch {
	case e == nil:
		return ""
	case e.Op == Lower:
		return "lower"
	case e.Op == Upper:
		return "upper"
	}
	return ""
}
