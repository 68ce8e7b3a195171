package plan

// Change is what DDL does to declared tables.
type Change struct {
	// Drops are declarations that go with their tables.
	Drops []Name
	// Renames are tables that are called otherwise afterwards.
	Renames []Rename
	// Columns are key columns that are called otherwise afterwards.
	Columns []ColumnRename
	// Adds are tables that have become tables of their own: partitions that were
	// detached. They stay where they are.
	Adds []Addition `json:",omitempty"`
	// Functions are functions whose declarations go with them.
	Functions []Name `json:",omitempty"`
	// Alone: cannot run inside a transaction block (CONCURRENTLY, VACUUM).
	Alone bool

	// What follows is about carrying out the command, not about what it leaves.

	// Body: the commands are in the body of DO or of a function, which every shard runs. What
	// they have done there is compared, and Drops and Renames count if they have been done.
	Body bool `json:"-"`
	// Elsewhere is what the other shards run if it is not the text itself: they
	// do not have all that it names.
	Elsewhere string `json:"-"`
	// Timed is what the other shards run if it gives rows the time of the
	// transaction, which is a hole in it.
	Timed Text `json:"-"`
	// Password: it gives roles passwords, of which all shards must keep the same form.
	Password bool `json:"-"`
	// Adopts are home tables that the other shards get before they run it.
	Adopts []Name `json:"-"`
	// Sequences are those of the home shard that the other shards get before they run it.
	Sequences []Name `json:"-"`
	// Fills are columns that the command gives values to in rows that are there, each
	// shard others: it must not find any.
	Fills []Filling `json:"-"`
	// Lookups are what becomes of lookups with it.
	Lookups []LookupChange `json:"-"`
	// Again tells how to see which shards have carried out an Alone command
	// already. Nil for one that can simply be run again.
	Again *Again `json:"-"`
}

// Filling is a column whose values each shard would make for itself. Copy: of a
// reference table, whose copies would differ; else they are numbers of one sequence.
type Filling struct {
	Table  Name
	Column string
	Copy   bool
}

// LookupChange is what a command has to do to the lookups of a table.
type LookupChange struct {
	Kind  LookupChangeKind
	Table Name
	// Part is the partition that comes or goes, Columns have other values.
	Part    Name
	Columns []string
}

// LookupChangeKind says which.
type LookupChangeKind uint8

// The kinds.
const (
	// Uniques: the table may need lookups for its unique indexes.
	Uniques LookupChangeKind = iota
	// Attached: rows of a new partition get entries.
	Attached
	// Detaching: rows of a partition that is going lose theirs.
	Detaching
	// Rewritten: all entries are made anew.
	Rewritten
)

// Addition declares a table as another one is declared.
type Addition struct{ Table, Like Name }

// Again is what an Alone command leaves on a shard.
type Again struct {
	Kind AgainKind
	// Name is that of the index or of the partition, Table that of its table.
	Name, Table Name
}

// AgainKind says what to look for.
type AgainKind uint8

// The kinds.
const (
	// CreatesIndex: a valid index of that name.
	CreatesIndex AgainKind = iota
	// DropsIndex: no index of that name.
	DropsIndex
	// Reindexes: nothing tells, but invalid leftovers of an attempt can go.
	Reindexes
	// Detaches: the table is no partition any more.
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

// Function is a call of one of weft's own functions.
type Function struct {
	// Name is weft's name for it: shard_table, reference_table, unshard_table,
	// pin, …; Citus's names have been translated.
	Name string
	// Args by parameter name.
	Args map[string]Arg
	// Column is the name of the result's column, if it returns nothing (void).
	Column string
	// Returns are the columns of the rows that it returns, all of them text.
	Returns []string
}

// Arg is one argument: a constant or a parameter.
type Arg struct {
	Null  bool
	Text  string // of a constant
	Param int    // number of the parameter, from 1; 0 for a constant
}
