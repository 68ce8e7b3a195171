package vindex

import (
	"testing"

	"weft/datum"
)

// Keys have names of their own, also where all keys of a bucket have one place.
func TestNamed(t *testing.T) {
	zones := map[string]any{"zones": []any{map[string]any{"below": "100", "buckets": "0"}, map[string]any{"buckets": "1"}}}
	list := map[string]any{"zones": []any{map[string]any{"values": []any{"a", "b"}, "buckets": "0"}, map[string]any{"buckets": "1"}}}
	parts := map[string]any{"parts": []any{map[string]any{"kind": "range", "zones": zones["zones"]}, map[string]any{}}}
	for _, c := range []struct {
		kind   string
		params map[string]any
		types  []string
		a, b   []string
		counts bool
	}{
		{"hash", nil, []string{"int8"}, []string{"7"}, []string{"8"}, false},
		{"identity", nil, []string{"int8"}, []string{"7"}, []string{"8"}, true},
		{"range", zones, []string{"int8"}, []string{"7"}, []string{"8"}, true},
		{"list", list, []string{"text"}, []string{"a"}, []string{"b"}, false},
		{"composite", parts, []string{"int8", "int8"}, []string{"7", "1"}, []string{"8", "1"}, false},
		{"composite", map[string]any{"bits": "8"}, []string{"int8", "int8"}, []string{"7", "1"}, []string{"7", "2"}, false},
	} {
		t.Run(c.kind, func(t *testing.T) {
			d := Declaration{Kind: c.kind, Params: c.params, Buckets: 64}
			for i, typ := range c.types {
				d.Columns = append(d.Columns, column(string(rune('a'+i)), typ))
			}
			v, err := New(d)
			if err != nil {
				t.Fatal(err)
			}
			name := func(values []string) (ID, uint64) {
				var keys []datum.Key
				for i, text := range values {
					k, err := d.Columns[i].Store(datum.Literal([]byte(text)))
					if err != nil {
						t.Fatal(err)
					}
					keys = append(keys, k)
				}
				id, err := v.(Computed).ID(keys)
				if err != nil {
					t.Fatal(err)
				}
				return id, Named(v, id, keys)
			}
			idA, a := name(c.a)
			_, b := name(c.b)
			if a == b || Counts(v) != c.counts || c.counts && int64(b) != int64(a)+1 {
				t.Errorf("%d and %d, counts: %v", a, b, Counts(v))
			}
			if !HasZones(v) && a != uint64(idA) {
				t.Errorf("the name is %d, the place %d", a, idA)
			}
		})
	}
}
