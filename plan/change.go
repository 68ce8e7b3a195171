package plan

// Change is what DDL does to declared tables.
type Change struct {
	// Drops are tables whose declarations go with them.
	Drops []Name
	// Renames are tables that get another name or schema.
	Renames []Rename
	// Columns are key columns that get another name.
	Columns []ColumnRename
	// Types are key columns that get another type, of values that hash alike.
	Types []ColumnType `json:",omitempty"`
	// Adds are partitions that were detached, and are tables by themselves now. Their rows stay
	// where they are.
	Adds []Addition `json:",omitempty"`
	// Declares are declarations of tables without rows, each as the directory writes it.
	Declares []string `json:",omitempty"`
	// Functions are dropped functions, whose declarations go with them.
	Functions []Name `json:",omitempty"`
	// Alone says that the command cannot run inside a transaction block (CONCURRENTLY, VACUUM).
	Alone bool

	// The fields from here on say how to carry out the command, not what it leaves.

	// Body says that the commands are in the body of DO or of a function, which every shard runs.
	// What the shards have done is compared, and Drops and Renames count only if they were done.
	Body bool `json:"-"`
	// Elsewhere is what the other shards run instead of the text, if they do not have all that
	// the text names.
	Elsewhere string `json:"-"`
	// Timed is what the other shards run instead of the text, if it gives rows the time of the
	// transaction. The time is a hole in Timed.
	Timed Text `json:"-"`
	// Password says that the command sets passwords of roles. All shards must store the same
	// verifier.
	Password bool `json:"-"`
	// Adopts are home tables that the other shards get before they run the command.
	Adopts []Name `json:"-"`
	// Sequences are sequences of the home shard that the other shards get before they run the
	// command.
	Sequences []Name `json:"-"`
	// Fills are columns that the command fills in existing rows, with values that would differ
	// between shards: the tables must have no rows, unless the values can be set right.
	Fills []Filling `json:"-"`
	// Lookups are what the command changes about lookups.
	Lookups []LookupChange `json:"-"`
	// Again tells how to see which shards have carried out an Alone command already. Nil for a
	// command that can simply be run again.
	Again *Again `json:"-"`
}

// Filling is a column whose values each shard would make for itself. Copy says that the table is a
// reference table, whose copies would differ; else the values are numbers of one sequence. Own says
// that the command makes this sequence, for the column: the numbers can be set right afterwards. Key
// are columns by which the rows of a reference table are known, if others can get the home shard's
// values afterwards.
type Filling struct {
	Table  Name
	Column string
	Copy   bool
	Own    bool
	Key    []string
}

// LookupChange is what a command has to do to the lookups of a table.
type LookupChange struct {
	Kind  LookupChangeKind
	Table Name
	// Part is the partition that comes or goes, for Attached and Detaching. Columns are those of
	// a new unique key, for Uniques, or columns that get other values, for Rewritten.
	Part    Name
	Columns []string
}

// LookupChangeKind says what has to be done to lookups.
type LookupChangeKind uint8

// The kinds.
const (
	// Uniques: the table may need lookups for its unique indexes.
	Uniques LookupChangeKind = iota
	// Attached: rows of a new partition get entries.
	Attached
	// Detaching: rows of a partition that goes lose their entries.
	Detaching
	// Rewritten: all entries are made again.
	Rewritten
)

// Addition declares Table as Like is declared.
type Addition struct{ Table, Like Name }

// Again is what an Alone command leaves on a shard.
type Again struct {
	Kind AgainKind
	// Name names the index or the partition, Table names its table.
	Name, Table Name
}

// AgainKind says what shows that a shard has carried out an Alone command.
type AgainKind uint8

// The kinds.
const (
	// CreatesIndex: there is a valid index of that name.
	CreatesIndex AgainKind = iota
	// DropsIndex: there is no index of that name.
	DropsIndex
	// Reindexes: nothing shows it, but invalid indexes that an attempt left can be dropped.
	Reindexes
	// Detaches: the table is not a partition any more.
	Detaches
)

// Name is a table's name.
type Name struct{ Schema, Table string }

// Rename gives a table another name or schema.
type Rename struct{ From, To Name }

// ColumnRename gives a key column another name.
type ColumnRename struct {
	Table    Name
	From, To string
}

// ColumnType gives a key column another type, as directory.Column has it.
type ColumnType struct {
	Table  Name
	Column string
	Type   uint32
	Name   string
	Mod    int32
}

// Function is a call of one of weft's own functions.
type Function struct {
	// Name is weft's name of the function: shard_table, reference_table, unshard_table, pin, …;
	// Citus's names have been translated.
	Name string
	// Args are the arguments by parameter name.
	Args map[string]Arg
	// Column is the name of the result's column, if the function returns nothing (void).
	Column string
	// Returns are the columns of the rows that the function returns, all of type text.
	Returns []string
}

// Arg is one argument: a constant or a parameter.
type Arg struct {
	Null  bool
	Text  string // value of a constant
	Param int    // number of the parameter, from 1; 0 for a constant
}
