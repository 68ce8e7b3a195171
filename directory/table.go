package directory

// TableKind says on which shards a declared table's rows are. A table that
// nobody declared is on the home shard alone.
type TableKind string

// The kinds of declared tables.
const (
	Sharded   TableKind = "sharded"   // each row on the shard its key names
	Reference TableKind = "reference" // every row on every shard
)

// TableState says whether a declaration is in force.
type TableState string

// The states of a declaration.
const (
	Active TableState = ""
	// Declaring: rows are on their way from the home shard. Statements that
	// name the table wait.
	Declaring TableState = "declaring"
	// Undeclaring: rows are on their way back.
	Undeclaring TableState = "undeclaring"
)

// Table declares where the rows of one table are.
type Table struct {
	Database string     `json:"database"`
	Schema   string     `json:"schema"`
	Name     string     `json:"name"`
	Kind     TableKind  `json:"kind"`
	State    TableState `json:"state,omitempty"`

	// Columns are the key columns, in the order of the vindex. Empty for a
	// reference table.
	Columns []Column `json:"columns,omitempty"`
	Vindex  Vindex   `json:"vindex,omitzero"`

	// Job tells who moves the table's rows, while State is not Active.
	Job Job `json:"job,omitzero"`

	// ForeignKeys are constraints of home tables that reference this one and
	// were taken off when its rows moved away. They come back when the home
	// table is declared too; until then neither table takes writes that could
	// break them.
	ForeignKeys []ForeignKey `json:"foreign_keys,omitempty"`
}

// Column is a key column with all a vindex wants to know of it, so that
// routing needs nothing but the snapshot.
type Column struct {
	Name string `json:"name"`
	// Type is the OID of the built-in type, below any domain.
	Type     uint32 `json:"type"`
	TypeName string `json:"type_name"`
	Mod      int32  `json:"mod"`
}

// Vindex says how a key becomes a place. Tables with equal vindexes and key
// types are colocated.
type Vindex struct {
	// Name is set for lookups: their entries are kept under it.
	Name   string         `json:"name,omitempty"`
	Kind   string         `json:"kind"`
	Params map[string]any `json:"params,omitempty"`
}

// Job identifies who is moving rows, so that others can finish or undo it when
// the owner is gone.
type Job struct {
	ID    string `json:"id"`
	Proxy string `json:"proxy"`
}

// ForeignKey is a constraint that waits for its table to be declared.
type ForeignKey struct {
	Schema     string `json:"schema"`
	Table      string `json:"table"`
	Name       string `json:"name"`
	Definition string `json:"definition"`
}
