package datum

import "testing"

// TestPlace: a value that a column is too narrow for has the key of a wider column.
func TestPlace(t *testing.T) {
	literal := func(s string) Value { return Literal([]byte(s)) }
	for _, tc := range []struct {
		c, wide Column
		v       Value
		stored  bool
	}{
		{Column{Int4, -1}, Column{Int8, -1}, literal("5000000000"), true},
		{Column{Int4, -1}, Column{Int8, -1}, literal("5000000000"), false},
		{Column{Int2, -1}, Column{Int8, -1}, Value{Type: Int4, Bytes: []byte("-40000")}, true},
		{Column{Int2, -1}, Column{Int4, -1}, Value{Type: Numeric, Bytes: []byte("39999.5")}, true},
		{Column{Varchar, 4 + 3}, Column{Varchar, -1}, literal("four"), true},
		{Column{Varchar, 4 + 3}, Column{Varchar, 4 + 3}, literal("two  "), true},
		{Column{Bpchar, 4 + 3}, Column{Bpchar, -1}, literal("four"), true},
	} {
		got, err := tc.c.Place(tc.v, tc.stored)
		want, err2 := tc.wide.placed(tc.v, tc.stored)
		if err != nil || err2 != nil || got.Compare(want) != 0 {
			t.Errorf("%s %q: %v %v, want %v %v", tc.c.Type, tc.v.Bytes, got, err, want, err2)
		}
	}
	for _, v := range []string{"9223372036854775808", "x"} {
		if k, err := (Column{Int4, -1}).Place(literal(v), true); err == nil {
			t.Errorf("%s: %v", v, k)
		}
	}
}
