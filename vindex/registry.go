package vindex

import (
	"fmt"
	"slices"
	"strings"

	"weft/datum"
)

// kinds returns every kind of vindex. The number of columns a kind takes is
// checked before its constructor is called, the names of its parameters after.
// It is a function because composite looks its parts up in it.
func kinds() []kind {
	return []kind{
		{name: "composite", columns: [2]int{1, 16}, whole: newComposite},
		{name: "hash", columns: [2]int{1, 1}, whole: newHash, part: newHashPart},
		{name: "identity", columns: [2]int{1, 1}, whole: newIdentity, part: newIdentityPart},
		{name: "list", columns: [2]int{1, 1}, whole: newList, zones: newListZones},
		{name: "lookup", columns: [2]int{1, 1}, whole: newLookup},
		{name: "lookup_unique", columns: [2]int{1, 1}, whole: newLookupUnique},
		{name: "range", columns: [2]int{1, 1}, whole: newRange, zones: newRangeZones},
		{name: "reverse_bits", columns: [2]int{1, 1}, whole: newReverseBits, part: newReverseBitsPart},
		{name: "salted", columns: [2]int{2, 2}, whole: newSalted},
		{name: "time_bucket", columns: [2]int{1, 1}, part: newTimeBucketPart},
	}
}

// kind is how one kind of vindex is made: of a whole key, of one column inside a
// composite, or as the zones that lead a composite.
type kind struct {
	name    string
	columns [2]int // fewest and most
	whole   func(Declaration, *params) (Vindex, error)
	part    func(Column, *params) (function, error)
	zones   func(Column, int, *params) (zones, error)
}

// function turns one column's value into 64 bits, of which the upper ones
// matter most.
type function interface {
	of(datum.Key) (uint64, error)
	sql(column string) string // of type int8, in parentheses or a call
}

// Declaration is what a table's declaration says of its vindex.
type Declaration struct {
	Kind    string
	Columns []Column
	Params  Params
	// Buckets is the cluster's number of buckets: zones are runs of them.
	Buckets int
}

// Column is a key column.
type Column struct {
	Name string
	datum.Column
	// TypeName is what the user calls the type, for messages; for a type that
	// an extension brings it is all there is to know it by.
	TypeName string
	// Enum: pg_type.typtype is e.
	Enum bool
	// Nondeterministic: pg_collation.collisdeterministic of the column's
	// collation is false.
	Nondeterministic bool
}

// New makes the vindex that d declares. The error names the place in the
// declaration and the reason.
func New(d Declaration) (Vindex, error) {
	k, err := find(d.Kind)
	if err != nil {
		return nil, fmt.Errorf("vindex: %w", err)
	}
	v, err := k.make(d)
	if err != nil {
		return nil, fmt.Errorf("vindex %s: %w", d.Kind, err)
	}
	return v, nil
}

func (k kind) make(d Declaration) (Vindex, error) {
	if k.whole == nil {
		return nil, fmt.Errorf("only a column of a composite can be a %s: alone it would put all rows of a time into one bucket", k.name)
	}
	if n := len(d.Columns); n < k.columns[0] || n > k.columns[1] {
		want := fmt.Sprintf("%d", k.columns[0])
		if k.columns[1] > k.columns[0] {
			want = fmt.Sprintf("%d to %d", k.columns[0], k.columns[1])
		}
		return nil, fmt.Errorf("columns: want %s, got %d", want, n)
	}
	for i, c := range d.Columns {
		if err := c.check(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(d.Columns[:i], func(o Column) bool { return o.Name == c.Name }) {
			return nil, fmt.Errorf("column %q is named twice", c.Name)
		}
	}
	if _, err := Bits(d.Buckets); err != nil {
		return nil, err
	}
	d.Columns = slices.Clone(d.Columns)
	p := &params{values: d.Params}
	v, err := k.whole(d, p)
	if err == nil {
		err = p.done()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Kinds returns the names of all kinds, sorted.
func Kinds() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return names
}

func find(name string) (kind, error) {
	for _, k := range kinds() {
		if k.name == name {
			return k, nil
		}
	}
	return kind{}, fmt.Errorf("unknown kind %q; known are %s", name, strings.Join(Kinds(), ", "))
}

// typeName returns what to call the column's type.
func (c Column) typeName() string {
	if c.TypeName != "" {
		return c.TypeName
	}
	return c.Type.String()
}

// check refuses a column that cannot be a key, with the reason.
func (c Column) check() error {
	reason := "weft has no hash for this type"
	switch {
	case c.Enum:
		reason = "an enum's hash is that of an OID, which differs between shards"
	case c.Type == datum.Bool:
		reason = "two values fill two buckets at most"
	case c.Type == datum.Float4 || c.Type == datum.Float8:
		reason = "equality with a floating-point number is not exact: 9007199254740993 as a float equals two bigints"
	case strings.EqualFold(c.TypeName, "citext"):
		reason = "it ignores case, and its hash is the extension's own, which replication filters refuse"
	case c.Nondeterministic:
		reason = "its collation is nondeterministic: equal texts hash apart"
	case datum.Keyed(c.Type):
		return nil
	}
	return fmt.Errorf("column %q of type %s cannot be a shard key: %s", c.Name, c.typeName(), reason)
}
