package importer

import (
	"fmt"
	"slices"
	"strings"

	"weft/quote"
)

// Table is a table, of the source or of the target.
type Table struct {
	Schema, Name string
	Partitioned  bool
	Unlogged     bool
	Columns      []Column // but generated ones
	Identity     Identity
	// Mixed: partitions have another replica identity than the table.
	Mixed bool
	// Key are the columns by which a changed row is found. None: all columns are compared.
	Key         []string
	Triggers    bool // of the user's
	Rows, Bytes int64
}

// Column is a column that can be written.
type Column struct {
	Name string
	Type string // as format_type names it
	// Always: GENERATED ALWAYS AS IDENTITY. Identity: that, or BY DEFAULT.
	Identity, Always bool
}

// Identity is what the WAL says of the old version of a changed row.
type Identity byte

// The kinds of identity. NoIdentity includes a table that has the default and no primary key.
const (
	KeyIdentity   Identity = 'd'
	IndexIdentity Identity = 'i'
	FullIdentity  Identity = 'f'
	NoIdentity    Identity = 'n'
)

// name is the table's name as people and SQL write it.
func (t *Table) name() string { return Name(t.Schema, t.Name) }

// Name is what a table is called in Wish.Exclude.
func Name(schema, table string) string { return shown(schema) + "." + shown(table) }

// shown quotes a name where SQL wants it.
func shown(name string) string {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return quote.Ident(name)
		}
	}
	return name
}

// sql is its name in a statement.
func (t *Table) sql() string { return quote.Name(t.Schema, t.Name) }

// columns are the names of its columns.
func (t *Table) columns() []string {
	out := make([]string, len(t.Columns))
	for i := range t.Columns {
		out[i] = t.Columns[i].Name
	}
	return out
}

// definition describes its columns, sorted by name: two tables with equal ones can hold each other's rows.
func (t *Table) definition() string {
	out := make([]string, len(t.Columns))
	for i := range t.Columns {
		out[i] = shown(t.Columns[i].Name) + " " + t.Columns[i].Type
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// key says how changed rows are found.
func (t *Table) key() string {
	switch {
	case len(t.Key) > 0:
		return "(" + strings.Join(t.Key, ", ") + ")"
	case t.Identity == FullIdentity:
		return "all columns"
	}
	return "none"
}

// Declaration says how weft is to hold a table.
type Declaration struct {
	Schema, Name string
	Columns      []string // of the shard key
	Statement    string   // that declares it
	Says         string   // "sharded by id", for people
}

// find returns the table of a name, or nil.
func find(tables []Table, schema, name string) *Table {
	for i := range tables {
		if tables[i].Schema == schema && tables[i].Name == name {
			return &tables[i]
		}
	}
	return nil
}

// DefinitionError is a table that the source and the target define differently.
type DefinitionError struct{ Table, Source, Target string }

func (e *DefinitionError) Error() string {
	return fmt.Sprintf("table %s has changed on the source\n  source: %s\n  target: %s\nMake the same change through weft, and run weft import start again: it goes on where it has stopped.", e.Table, e.Source, e.Target)
}
