package vindex

import (
	"fmt"
	"math/bits"

	"weft/datum"
)

// LookupTable returns the vindex by which the entries of a lookup table are
// themselves spread: the hash of the values they are found by.
func LookupTable(columns []Column, buckets int) (Computed, error) {
	d := Declaration{Kind: "hash", Columns: columns, Buckets: buckets}
	if len(columns) > 1 {
		d.Kind = "composite"
		d.Params = Params{"bits": shares(len(columns), buckets)}
	}
	v, err := New(d)
	if err != nil {
		return nil, err
	}
	c, ok := v.(Computed)
	if !ok {
		return nil, fmt.Errorf("vindex %s cannot be computed", d.Kind)
	}
	return c, nil
}

// shares gives each of the columns but the last some bits of a bucket's number.
func shares(columns, buckets int) []any {
	n := bits.Len(uint(buckets)) - 1
	var out []any
	for i := columns; i > 1; i-- {
		take := max(1, (n+1)/2)
		out = append(out, take)
		n -= take
	}
	return out
}

// LookupType returns the name of the type that a lookup table keeps values of
// a key type in: equal values of all types of a family are one value there.
func LookupType(t datum.Type) string {
	switch t {
	case datum.Int2, datum.Int4, datum.Int8:
		return "int8"
	case datum.Text, datum.Varchar:
		return "text"
	case datum.Bpchar:
		return "bpchar"
	}
	return t.String()
}

// EntryType returns the type in which the entries of a lookup that is derived from an index have the values of an item. The texts of two
// boolean values are equal if the values are.
func EntryType(t datum.Type) datum.Type {
	if t == datum.Bool {
		return datum.Text
	}
	return t
}
