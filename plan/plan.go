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
	// Home: the home shard.
	Home Route = iota
	// Any: no table is read or written. The backend at hand will do, else the
	// home shard.
	Any
	// AnyCopy: only reference tables are read. Any shard will do.
	AnyCopy
	// Keyed: the shards that Instances name.
	Keyed
	// Every: all shards, home first: DDL on declared tables and on what they
	// are made of.
	Every
	// Gathered: as Gather says. No shard has everything.
	Gathered
	// Call: a weft.* function, which weft runs itself.
	Call
	// Refused: Refusal says why.
	Refused
)

// Plan is what is to be done with one text, which may hold several statements.
type Plan struct {
	Route Route

	// Instances are all appearances of sharded tables, for Keyed: rows read
	// and rows stored. The text can run on one shard if all of them land there.
	Instances []Instance

	// Confined: only declarations of relations with these Names, in whatever schema, can
	// change the plan. If it is not set, any can.
	Confined bool
	Names    []string

	// Writes: it may change rows, or call something that may.
	Writes bool

	// Locks: it locks rows. Nothing of that needs to be committed.
	Locks bool

	// AtCursor: it has WHERE CURRENT OF, and may run on the shard of that cursor,
	// whatever the Route.
	AtCursor bool

	// Lookups: it may change rows of tables with lookups, which must follow before
	// the client is told that it is done. A Keyed plan then has a Write, and that
	// is carried out on one shard too.
	Lookups bool

	// Strays: it may store an id that names another bucket than its row's, in a
	// table with routed ids. A Keyed plan then has a Write, so that it can be
	// carried out again once such ids are not trusted any more.
	Strays bool

	// Looks: an instance of it, or of one of its pieces, has a Lookup.
	Looks bool

	// Generate is what weft fills into INSERTs: values of sequences that all
	// shards share. Nil for none.
	Generate *Generate

	// Change is what DDL does to declarations. Nil for none.
	Change *Change

	// Function is the call of a weft.* function, for Call.
	Function *Function

	// Gather is what is done, for Gathered; for Keyed, what is done when the
	// instances do not land on one shard: nil means Refusal.
	Gather *Gather

	// Write is what is done, for Gathered; for Keyed, what is done when the
	// instances do not land on one shard. It and Gather exclude each other.
	Write *Write

	// Copy is what is done, for a COPY that concerns several shards. It excludes
	// both.
	Copy *Copy

	// Explain: it is an EXPLAIN of a query, and this is how. A single shard is
	// sent the text as it is. Nil otherwise.
	Explain *Explain

	// Timed: it tells the time at which its transaction began. On a shard that is
	// not the first of its block that is another.
	Timed bool

	// Postponed: there may be a Gather, but it has not been made yet. Most texts
	// with a key condition never need one.
	Postponed bool

	// Refusal is what the client is told, for Refused; for Keyed, what it is
	// told when the instances do not land on one shard and there is no Gather.
	Refusal *pgerr.Error

	// Fires is what the client is told if it is to be carried out on several shards
	// and does not want that each of them runs the triggers that PostgreSQL would run once.
	// Nil if there are none.
	Fires *pgerr.Error

	// Unread: it is refused because it cannot be parsed. The home shard shall say what is
	// wrong with it.
	Unread bool

	// Waits: it is refused only because rows of a table are being moved between
	// shards; it is worth another try when that is done.
	Waits bool

	// Params are the types of $1, $2, … as the server will resolve them, 0
	// where that is not known here.
	Params []datum.Type

	// Why are lines for people: what led to the route.
	Why []string

	// Exact: the plan depends on the values of literals, and holds for this
	// very text only.
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
	// IDs are the table's routed ids. Nil for none.
	IDs *IDs
}

// IDs are ids of type int8 that name the bucket of their row in their low bits,
// from From on. Generated ones are made of a number of the column's sequence and
// Base.
type IDs struct {
	Column     string
	From, Base int64
}

// Instance is one appearance of a sharded table in a text.
type Instance struct {
	Table *Table
	Name  string // what the text calls it

	// Stored: the instance is a row being written, and its key what is stored
	// there; not a condition on rows.
	Stored bool

	// Keys has one element per key column, in the order of the vindex. Each is
	// a list of sets; the column's value is in all of them. An empty list
	// means that nothing is known.
	Keys [][]Set

	// IDs are sets that the row's routed id is in, all of them. They count where
	// the key is not known.
	IDs []Set

	// Lookup says how to find the shards of the rows where the key does not. Nil
	// for none.
	Lookup *LookupKey

	// Bounds are what else the only key column is known to be between, where
	// its vindex keeps an order.
	Bounds []Bound
}

// LookupKey is what is known of the columns of a lookup.
type LookupKey struct {
	Name string // of the lookup
	// Vindex says on which shard the entries of values are.
	Vindex vindex.Computed
	Unique bool
	// Keys are as those of an Instance, and none of them is empty.
	Keys [][]Set
	// Triggered, of a value that is claimed: a trigger may store another one.
	Triggered bool
}

// Bound is a value that a column does not go below, or not above. The value
// itself may be among the column's or not.
type Bound struct {
	Source Source
	Low    bool
}

// Set is a list of values one of which a column has. An empty Set has none:
// no row matches.
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
	// Computed is Expr's value.
	Computed
	// Constant is Text, a value that stands in the schema (a column default).
	Constant
)

// Source is one value.
type Source struct {
	Kind  SourceKind
	Index int
	// Type is what PostgreSQL takes the value for: Unknown for a bare string
	// literal; what it is cast to; of an array, the type of its elements.
	Type datum.Type
	// Negative: a minus sign stands before the number.
	Negative bool
	Expr     *Expr
	Text     string
}

// Expr is integer arithmetic on sources.
type Expr struct {
	Op          byte // '+', '-', '*'
	Left, Right Source
}
