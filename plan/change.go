package plan

// Change is what DDL does to declared tables.
type Change struct {
	// Drops are declarations that go with their tables.
	Drops []Name
	// Renames are tables that are called otherwise afterwards.
	Renames []Rename
	// Columns are key columns that are called otherwise afterwards.
	Columns []ColumnRename
	// Alone: cannot run inside a transaction block (CONCURRENTLY, VACUUM).
	Alone bool
}

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
	// Column is the name of the result's column.
	Column string
}

// Arg is one argument: a constant or a parameter.
type Arg struct {
	Null  bool
	Text  string // of a constant
	Param int    // number of the parameter, from 1; 0 for a constant
}
