package advise

import (
	"cmp"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/recording"
)

// Input is all that an advice depends on.
type Input struct {
	Database string
	// Path is the search path that names in statements are looked up by.
	Path   []string
	Schema *catalog.Schema
	// Shards is how many shards there are to be.
	Shards int
	// Statements are normalised, without two of the same ID.
	Statements []Statement
	// Transactions are a recording of the same statements, if there is one.
	Transactions []recording.Transaction
	// Tables are the statistics of tables, as far as they are known.
	Tables map[catalog.Name]TableStats
	// Declared are the tables that are declared now.
	Declared []directory.Table
}

// Statement is a normalised statement, with what it has cost.
type Statement struct {
	ID    int64
	Text  string
	Calls int64
	Time  float64 // of all calls, in milliseconds
}

// TableStats is what PostgreSQL knows of a table.
type TableStats struct {
	Rows, Bytes float64
	Columns     map[string]ColumnStats
}

// ColumnStats is what PostgreSQL knows of a column, by the columns of pg_stats.
type ColumnStats struct {
	// Distinct is the number of values; if negative, divided by the number of rows. 0: not known.
	Distinct float64
	// Common are the shares of the rows that have the most common values, the largest first.
	Common []float64
	// Null is the share of the rows without a value.
	Null float64
	// Correlation says how much the order of rows on disk is that of the values.
	Correlation float64
}

// distinct returns how many values a column has in a table of so many rows, 0 if that is not known.
func (c ColumnStats) distinct(rows float64) float64 {
	if c.Distinct < 0 {
		return -c.Distinct * rows
	}
	return c.Distinct
}

// Ref is one column of a table.
type Ref struct {
	Table  catalog.Name
	Column string
}

// compare orders columns by their names.
func (r Ref) compare(o Ref) int {
	return cmp.Or(strings.Compare(r.Table.Schema, o.Table.Schema), strings.Compare(r.Table.Name, o.Table.Name), strings.Compare(r.Column, o.Column))
}

// String returns the column as people write it.
func (r Ref) String() string { return Display(r.Table) + "." + r.Column }

// MarshalText writes the column as String does.
func (r Ref) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Display returns a table's name as people write it: without the schema if it is public.
func Display(n catalog.Name) string {
	if n.Schema == "public" {
		return n.Name
	}
	return n.Schema + "." + n.Name
}
