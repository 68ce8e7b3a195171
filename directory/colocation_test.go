package directory

import (
	"testing"

	"weft/datum"
)

func TestColocation(t *testing.T) {
	table := func(name, kind, lookup string, params map[string]any, types ...datum.Type) *Table {
		d := &Table{Name: name, Kind: Sharded, Vindex: Vindex{Kind: kind, Name: lookup, Params: params}}
		for _, c := range types {
			d.Columns = append(d.Columns, Column{Name: name + "_id", Type: uint32(c)})
		}
		return d
	}
	orders := table("orders", "hash", "", nil, datum.Int8)
	for name, other := range map[string]*Table{
		"items":   table("items", "hash", "", nil, datum.Int4),
		"empties": table("empties", "hash", "", map[string]any{}, datum.Int8),
	} {
		if orders.Colocation() != other.Colocation() {
			t.Errorf("%s is not with orders", name)
		}
	}
	seen := map[uint32]string{}
	for name, other := range map[string]*Table{
		"orders":    orders,
		"texts":     table("texts", "hash", "", nil, datum.Text),
		"pairs":     table("pairs", "hash", "", nil, datum.Int8, datum.Int8),
		"ordered":   table("ordered", "range", "", nil, datum.Int8),
		"looked up": table("l", "lookup", "l", nil, datum.Int8),
		"other":     table("m", "lookup", "m", nil, datum.Int8),
		"params":    table("p", "hash", "", map[string]any{"salt": 3}, datum.Int8),
	} {
		n := other.Colocation()
		if seen[n] != "" || n == 0 {
			t.Errorf("%s is with %q", name, seen[n])
		}
		seen[n] = name
	}
	if n := (&Table{Kind: Reference}).Colocation(); n != 0 {
		t.Errorf("a table without a key has %d", n)
	}
}
