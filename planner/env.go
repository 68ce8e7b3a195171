package planner

import (
	"fmt"
	"math/bits"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/plan"
	"weft/vindex"
)

// Env is everything besides the text that a plan depends on.
type Env struct {
	// ID stands for all other fields in the keys of a Cache: see NewID.
	ID ID

	Database string
	// Path is the effective search path, with the implicit schemas and without the temporary one.
	Path   []string
	Schema *catalog.Schema
	Tables *Tables
	// SharedRoles is set if tables are declared in other databases, so that all shards have the
	// same roles.
	SharedRoles bool
	// Home is the name of the home shard, for messages.
	Home string
	// Role is the role that runs the texts, for policies. Nil stands for any role: all policies
	// apply.
	Role *Role
	// Temporary are the names of the session's temporary relations. They live
	// on the home shard.
	Temporary map[string]bool
	// Options are the settings under which the text is read.
	Options parser.Options

	// asked collects the relations that the plan at hand depends on; nil if that is not wanted.
	asked *asked

	// triggers counts the triggers that the planned statement runs inside of.
	triggers int

	// routines counts the routines that the planned statement is a part of, and proving are those whose statements are being planned.
	routines int
	proving  []catalog.Name

	// tablesOnly makes the planner cut queries into single tables, for tests.
	tablesOnly bool
}

// Tables are the declared tables of one database. Immutable.
type Tables struct {
	byName map[catalog.Name]*table
	// functions are the functions that run on the shard of an argument.
	functions map[catalog.Name]*placed
	// routedIDs is set if a table has routed ids.
	routedIDs bool
}

// table is a declared table.
type table struct {
	plan.Table
	keys        []directory.Column
	state       directory.TableState
	foreignKeys []directory.ForeignKey
	links       string // directory.Table.Links
	vindex      directory.Vindex
	entries     int   // how many buckets entries of lookup tables tell apart
	broken      error // why the vindex cannot be made
}

func (t *table) name() catalog.Name { return catalog.Name{Schema: t.Schema, Name: t.Name} }

// NewTables makes the vindexes of a database's declared tables. A broken declaration makes the
// statements that name its table fail, and no others.
func NewTables(snap *directory.Snapshot, database string) *Tables {
	ts := &Tables{byName: map[catalog.Name]*table{}}
	for i := range snap.Tables {
		d := &snap.Tables[i]
		if d.Database != database || d.Pending() {
			continue
		}
		t := &table{
			Table: plan.Table{Schema: d.Schema, Name: d.Name, Reference: d.Kind == directory.Reference, Lookup: d.Vindex.Name, Group: d.Group, Colocation: d.Colocation()},
			keys:  d.Columns, state: d.State, foreignKeys: d.ForeignKeys, links: d.Links, vindex: d.Vindex, entries: directory.NumberingOf(snap).First,
		}
		if d.IDs.Column != "" {
			t.IDs = &plan.IDs{Column: d.IDs.Column, From: d.IDs.From, Base: d.IDs.Base, Bits: bits.Len(uint(d.IDs.Of(snap.BucketCount))) - 1}
			ts.routedIDs = true
		}
		if !t.Reference {
			t.Vindex, t.broken = makeVindex(d, snap.BucketCount)
		}
		ts.byName[t.name()] = t
	}
	ts.place(snap, database)
	return ts
}

func makeVindex(d *directory.Table, buckets int) (vindex.Vindex, error) {
	x, err := d.NewVindex(buckets)
	if err != nil {
		return nil, fmt.Errorf("declaration of %s.%s: %w", d.Schema, d.Name, err)
	}
	return x, nil
}

// Empty reports whether nothing is declared.
func (ts *Tables) Empty() bool { return ts == nil || len(ts.byName) == 0 }

// Find returns the declared table of that name as plans have it, or nil.
func (ts *Tables) Find(schema, name string) *plan.Table {
	if t := ts.find(catalog.Name{Schema: schema, Name: name}); t != nil {
		return &t.Table
	}
	return nil
}

func (ts *Tables) find(n catalog.Name) *table {
	if ts == nil {
		return nil
	}
	return ts.byName[n]
}
